"""Policies, problems and metrics of a user's own in a sweep: found beside the spec, resumed, never mixed with others.

What must be computed is computed by the real engine, once where possible; what happens to files and identities is
tested with an engine without JAX, whose results are a function of a cell's identity.
"""

import importlib
import json
import os
import re
import shutil
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from sweep_tools import USERS, USERS_SPEC, Fast, collected, pretend, small_spec, unit_files, write_user_code

import jaxband as jb
from jaxband import cli, registry, sweep
from jaxband.sweep.engines import execute, local, ray_cluster
from jaxband.sweep.spec import user_code
from jaxband.sweep.storage.units import Unit

OTHER_CODE = "holds results of other code: that of policy 'patient', its problem or a metric was edited since"


def run(spec, out, engine=pretend):
    return sweep.run(sweep.read_spec(spec), out, engine=engine, progress=False, disk=Fast())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted sweep by the real engine: the spec and its results."""
    directory = tmp_path_factory.mktemp("own")
    spec = write_user_code(directory)
    outcome = run(spec, directory / "out", sweep.local_engine)
    assert outcome.complete and outcome.units == 15
    return spec, directory / "out"


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """The user's modules, imported by a script of the user's own."""
    write_user_code(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mine", "helper", "world", "extra"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield [importlib.import_module(name) for name in ("mine", "world", "extra")]
    for name in ("mine", "helper", "world", "extra"):
        sys.modules.pop(name, None)


@pytest.fixture
def registered():
    """`jb.register`, undone afterwards."""
    names = []

    def register(kind, factory, name):
        names.append((kind, name))
        return jb.register(kind, factory, name=name)

    yield register
    for kind, name in names:
        if name in registry.names(kind):
            registry.unregister(kind, name)


# It runs, and resumes


def test_own_policies_problems_and_metrics_give_what_monte_carlo_gives(whole, imported, registered):
    _, out = whole
    mine, world, extra = imported
    registered("metric", extra.plays_of_first, "plays_of_first")
    found = sweep.load(out)
    assert found.manifest.metrics == ("total_reward", "bound_gap", "extra:plays_of_first")
    problem = world.rising(3, 3, 0.1, 0.5)
    for threshold in (1.0, 2.0):
        place = next(i for i, cell in enumerate(found.cells) if cell.settings.get("threshold") == threshold)
        options = {"horizon": 4, "replications": 9, "upper_bound": True, "progress": False}
        result = jb.monte_carlo(mine.patient(3, threshold), problem, **options, metrics=["plays_of_first"])
        for name, metric in zip(found.manifest.metrics, ("total_reward", "bound_gap", "plays_of_first"), strict=True):
            np.testing.assert_array_equal(found.totals[place][name], result.measured()[metric], name)
        np.testing.assert_array_equal(result.plays[:, 0], found.totals[place]["extra:plays_of_first"])


def test_stopped_half_way_it_resumes_to_the_same_bytes(whole, tmp_path):
    """After a stop the files are read anew, as another process would."""
    spec, reference = whole

    def stopped(units):
        for count, done in enumerate(sweep.local_engine(units)):
            if count == 7:
                raise KeyboardInterrupt
            yield done

    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path, stopped)
    assert len(unit_files(tmp_path)) == 7
    assert run(spec, tmp_path, sweep.local_engine).done == 8
    assert unit_files(tmp_path) == unit_files(reference)
    assert collected(tmp_path) == collected(reference)


def test_a_script_and_a_file_name_the_same_sweep(imported, tmp_path):
    """A function that is handed over is the same code as the one that a spec names."""
    mine, world, _ = imported
    document = {"name": "own", "horizon": 4, "replications": 9, "num_arms": 3, "z_max": 3}
    grid = {"policy": ["patient", "round_robin"], "threshold": [1, 2], "height": 0.5}
    spec = sweep.Spec(
        **document,
        metrics=["total_reward", "bound_gap", "extra:plays_of_first"],
        policies={"patient": mine.patient},
        problems={"rising": world.rising},
        grid=grid,
        directory=tmp_path,
    )
    file = sweep.read_spec(tmp_path / "spec.toml")
    assert [cell.identity for cell in spec.cells()] == [cell.identity for cell in file.cells()]
    assert spec.cells()[0].code == user_code.from_function(mine.patient).digest


def test_results_are_read_drawn_and_reported_without_the_users_code(whole, tmp_path, monkeypatch, capsys):
    """Also where the modules are gone, by a process that never imported them."""
    out = tmp_path / "out"
    shutil.copytree(whole[1], out)
    monkeypatch.setattr(user_code, "_functions", {})
    monkeypatch.setattr(user_code, "_import", lambda *_: pytest.fail("the user's code was imported"))
    paired, metric = ["--paired", "total_reward"], ["--metric", "bound_gap"]
    for command, options in (("collect", []), ("collect", paired), ("plot", metric), ("report", [])):
        assert cli.main([command, str(out), *options]) == 0
    assert "plays_of_first" in capsys.readouterr().out
    page = (out / "report.html").read_text()
    assert "patient, threshold 2" in page and "Plays_of_first at the horizon" in page
    with pytest.raises(user_code.UserCodeError, match="was not imported; run the sweep from its spec"):
        next(cell for cell in sweep.load(out).cells if cell.code).policy()


# Code that is edited


CHANGES = {  # what is edited, and whether other policies' results change with it
    "mine": (USERS["mine.py"].replace("threshold: float = 1.0", "threshold: float = 3.0"), False),
    "helper": (USERS["helper.py"].replace(">=", ">"), False),
    "world": (USERS["world.py"].replace("linspace(0.0,", "linspace(-1.0,"), True),
    "extra": (USERS["extra.py"].replace("== 0", "== 1"), True),
}


@pytest.mark.parametrize("module", CHANGES)
def test_after_an_edit_old_results_are_set_aside_and_never_mixed(tmp_path, module):
    """Also of a module that the user's module imports. Before the sweep is run again, the old ones are shown."""
    spec, out = write_user_code(tmp_path), tmp_path / "out"
    run(spec, out)
    before, files = collected(out), unit_files(out)
    old = {cell.identity for cell in sweep.read_spec(spec).cells()}
    text, for_all = CHANGES[module]
    write_user_code(tmp_path, **{module: text})
    kept = old & {cell.identity for cell in sweep.read_spec(spec).cells()}
    assert len(kept) == (0 if for_all else 1), "another policy's cell stays as it is"
    assert collected(out) == before
    outcome = run(spec, out)
    assert outcome.complete and outcome.done == len(outcome.rejected) == (15 if for_all else 10)
    reasons = {reason.partition(": ")[2] for _, reason in outcome.rejected}
    assert OTHER_CODE in reasons and all(reason.startswith("holds results of other code") for reason in reasons)
    assert sorted(os.listdir(out / "rejected")) == sorted(name for name, _ in outcome.rejected)
    assert set(os.listdir(out / "rejected")) <= set(files)
    logged = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [e["reason"] for e in logged if e["event"] == "rejected"] == [reason for _, reason in outcome.rejected]
    run(spec, tmp_path / "fresh")
    assert collected(out) == collected(tmp_path / "fresh") != before
    assert unit_files(out) == unit_files(tmp_path / "fresh")

    write_user_code(tmp_path)  # and back again
    assert run(spec, out).done == outcome.done
    assert (collected(out), unit_files(out)) == (before, files)
    assert run(spec, out).units == 0


def test_edited_code_is_the_code_that_runs(whole, tmp_path):
    """Not what was imported before the edit, by the same process: here an arm must have rested longer."""
    spec = write_user_code(tmp_path, helper=CHANGES["helper"][0])
    run(spec, tmp_path / "out", sweep.local_engine)
    old, new = sweep.load(whole[1]), sweep.load(tmp_path / "out")
    plays = [found.totals[1]["extra:plays_of_first"].tolist() for found in (old, new)]
    assert [found.cells[1].settings["threshold"] for found in (old, new)] == [2.0, 2.0]
    assert plays == [[2.0] * 9, [3.0] * 9], "arms 0, 0, 1, 2 before; 0, 0, 0, 1 after"
    assert old.cells[-1].settings["policy"] == new.cells[-1].settings["policy"] == "round_robin"
    np.testing.assert_array_equal(old.totals[-1]["total_reward"], new.totals[-1]["total_reward"])


def test_a_damaged_file_of_edited_code_is_still_named_as_damaged(tmp_path):
    spec, out = write_user_code(tmp_path), tmp_path / "out"
    run(spec, out)
    victim = sorted((out / "units").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    write_user_code(tmp_path, world=CHANGES["world"][0])
    reasons = dict(run(spec, out).rejected)
    assert "is damaged" in reasons.pop(victim.name)
    assert all("holds results of other code" in reason for reason in reasons.values()) and len(reasons) == 14


def test_modules_of_the_same_name_in_other_directories_are_other_modules(tmp_path):
    """Also those that a module imports, and those that could not be imported before they were mended."""
    first = user_code.from_reference("mine:patient", write_user_code(tmp_path / "a").parent)
    other = write_user_code(tmp_path / "b", helper="def rested(z, threshold, otherwise):\n    return 99\n").parent
    second = user_code.from_reference("mine:patient", other)
    assert [_chosen(code) == 99 for code in (first, second)] == [False, True]
    for module in ("mine", "helper"):
        (other / f"{module}.py").write_text("def rested(:")
        with pytest.raises(user_code.UserCodeError, match=rf"importing 'mine' raised SyntaxError.*{module}.py, line 1"):
            user_code.from_reference("mine:patient", other)
        write_user_code(other)
    assert user_code.from_reference("mine:patient", other).digest == first.digest


def _chosen(code):
    policy = user_code.function_of(code.digest)(3)
    return policy.choose(None, jnp.zeros((), jnp.int32), jb.Round(0, jnp.arange(3)))[0]


def test_a_module_with_the_name_of_one_of_pythons_own_is_refused(tmp_path):
    (tmp_path / "statistics.py").write_text("def make(num_arms):\n    pass\n")
    before = sys.modules.get("statistics")
    with pytest.raises(user_code.UserCodeError, match=r"has the name of one of Python's own; rename statistics.py"):
        user_code.from_reference("statistics:make", tmp_path)
    assert sys.modules.get("statistics") is before


@pytest.mark.parametrize(
    ("imports", "seen"),
    [
        ("import deep", True),
        ("from deep import value", True),
        ("from pack import inner", True),
        ("from pack.inner import value", True),
        ("def later():\n    import deep", True),
        ("try:\n    import deep\nexcept ImportError:\n    pass", True),
        ("import json", False),
        ("text = 'import deep'", False),
    ],
)
def test_what_a_module_imports_from_its_directory_is_part_of_its_code(tmp_path, imports, seen):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text("from . import innermost\nvalue = 1\n")
    (tmp_path / "pack" / "innermost.py").write_text("import deep\n")
    (tmp_path / "main.py").write_text(f"{imports}\ndef make(num_arms):\n    pass\n")
    digests = []
    for value in (1, 2, 1):
        (tmp_path / "deep.py").write_text(f"value = {value}\n")
        digests.append(user_code.from_reference("main:make", tmp_path).digest)
    assert (digests[0] != digests[1]) == seen
    assert digests[0] == digests[2]
    assert not list(tmp_path.rglob("__pycache__")), "nothing is written beside the spec"


# Settings


def refused(tmp_path, spec, line, message, **changed):
    path = write_user_code(tmp_path, spec, **changed)
    with pytest.raises(sweep.SpecError) as refusal:
        sweep.read_spec(path)
    text = str(refusal.value)
    assert re.search(message, text), text
    assert f"spec.toml:{line}: " in text, text


def line(text, spec=USERS_SPEC):
    """The number of the line that has the text."""
    return next(n for n, written in enumerate(spec.splitlines(), start=1) if text in written)


FACTORY, PROBLEM, GRID = line('"mine:patient"'), line('"world:rising"'), line("[grid]")
THRESHOLD, HEIGHT, POLICY = line("threshold = "), line("height = "), line("policy = ")
REFUSED = [  # what is written instead of what, the line, and the message
    ("threshold = [1, 2]", "treshold = [1, 2]", THRESHOLD, "unknown setting 'treshold'; did you mean 'threshold'"),
    ("threshold = [1, 2]", 'threshold = [1, "2"]', THRESHOLD, "threshold must be a number, got '2'"),
    ("threshold = [1, 2]", "threshold = [1, true]", THRESHOLD, "threshold must be a number, got True"),
    ("threshold = [1, 2]", "threshold = [1, nan]", THRESHOLD, "threshold must be a finite number"),
    ("threshold = [1, 2]", "threshold = [1, -2]", THRESHOLD, r"threshold must be >= 0, got -2.0 \(policy 'patient'\)"),
    ("threshold = [1, 2]", "first = 1.5", THRESHOLD, 'first must be a whole number or "none", got 1.5'),
    ('["patient", "round_robin"]', '"round_robin"', THRESHOLD, "threshold is used by no policy, planner, kernel or"),
    ("height = 0.5", "", GRID, "height is missing for policy 'patient' on problem 'rising'; give it"),
    ("height = 0.5", "height = 10", HEIGHT, "problem 'rising': world:rising raised ValueError.*height must be <= 9"),
    ("height = 0.5", "height = [0.5, {}]", HEIGHT, "height must be a number, got {}"),
    ('"mine:patient"', '"mine:patient"\nthreshold = "x"', FACTORY + 1, "policy 'patient': threshold must be a number"),
    ('"mine:patient"', '"mine:patient"\nheight = 1', FACTORY + 1, "'patient': unknown setting of its factory 'height'"),
    ('"mine:patient"', '"mine:patient"\nnum_arms = 3', FACTORY + 1, "unknown setting of its factory 'num_arms'"),
    ('"mine:patient"', '"mine:patient"\nthreshold = 2', THRESHOLD + 1, "threshold is fixed to 2.0 for policy"),
    ('"world:rising"', '"world:rising"\nheight = 11', PROBLEM + 1, "height must be <= 9, got 11"),
    ('"world:rising"', '"world:rising"\nheigth = 1', PROBLEM + 1, "unknown setting of its factory 'heigth'; did you"),
    ('"world:rising"', '"world:rising"\nfamily = "gp"', PROBLEM + 1, "unknown setting of its factory 'family'"),
    ('"mine:patient"', '"nowhere:patient"', FACTORY, "policy 'patient': module 'nowhere' was found neither in"),
    ('"mine:patient"', '"mine:impatient"', FACTORY, "policy 'patient': module 'mine' has no function 'impatient'"),
    ('"mine:patient"', '"mine:Patient.nothing.more"', FACTORY, "module 'mine' has no function 'Patient.nothing.more'"),
    ('"mine:patient"', '"mine.patient"', FACTORY, """a function is named as "module:function", got 'mine.patient'"""),
    ('"mine:patient"', '"mine:"', FACTORY, "a function is named as "),
    ('"mine:patient"', "3", FACTORY, 'a function is needed, or its name as "module:function", got 3'),
    ('factory = "mine:patient"', "", FACTORY - 1, 'policy .patient.: factory is missing; it is "module:function"'),
    ('factory = "world:rising"', "", PROBLEM - 1, "problem 'rising': family is missing; .*or give a factory"),
    ("[policies.patient]", "[policies.oracle]", FACTORY, "the name is taken by a policy of the library"),
    ('"world:rising"', '"world:sinking"', PROBLEM, "problem 'rising': module 'world' has no function 'sinking'"),
    ('"extra:plays_of_first"', '"extra:plays"', 7, "metric 'extra:plays': module 'extra' has no function 'plays'"),
    ('"extra:plays_of_first"', '"ekstra:plays"', 7, "metric 'ekstra:plays': module 'ekstra' was found neither"),
    ("num_arms = 3", "num_arms = 0", 5, "num_arms must be >= 1, got 0"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), REFUSED, ids=[f"{r[1]}: {r[3][:30]}" for r in REFUSED])
def test_a_bad_setting_or_reference_is_refused_on_its_line(tmp_path, old, new, line, message):
    assert USERS_SPEC.count(old) == 1
    refused(tmp_path, USERS_SPEC.replace(old, new), line, message)


BROKEN = [  # a module, what is written instead of what in it, the line of the spec, and the message
    ("mine", "import jaxband as jb", "1 / 0", FACTORY, r"'mine' raised ZeroDivisionError \(mine.py, line 4\)"),
    ("mine", "import jaxband as jb", "jb =", FACTORY, r"'mine' raised SyntaxError: .*\(mine.py, line 4\)"),
    ("mine", "from helper", "from helpers", FACTORY, "module 'mine': No module named 'helpers'"),
    ("mine", "if threshold < 0", "if {}['x'] < 0", POLICY, r"policy 'patient' raised KeyError \(mine.py, line"),
    ("mine", "return Patient(num_arms, threshold)", "return 3", POLICY, "patient must return a jaxband.Policy, got 3"),
    ("mine", "return Patient(num_arms,", "return Patient(4,", POLICY, "policy has num_arms 4 but the problem has 3"),
    ("mine", '@jb.pytree_dataclass(static=("num_arms",))', "@__import__('dataclasses').dataclass", POLICY, "no pytree"),
    ("mine", "def patient(num_arms,", "def patient(num_arms, seed, kind,", GRID, "kind is missing for policy"),
    (
        "world",
        "return jb.Problem(",
        "return (lambda *_, **__: 'no')(",
        PROBLEM,
        "world:rising raised TypeError: curves",
    ),
    ("world", "(num_arms, z_max + 1)", "(num_arms, z_max + 2)", 6, "z_max must be that of the problem, got 3.*makes 4"),
    ("world", "height: float", "height: jb.kernels.Kernel", PROBLEM, "must take numbers and texts, got a kernel"),
    ("world", "noise=noise)", "noise=noise, available=jnp.ones(num_arms))", 7, "metrics must be without bound_gap"),
    ("world", "noise=noise)", "noise=noise, plays=2)", POLICY, "policy has plays None but the problem has 2"),
]


@pytest.mark.parametrize(("module", "old", "new", "line", "message"), BROKEN, ids=[f"{b[2]}" for b in BROKEN])
def test_a_module_that_cannot_be_used_is_refused_on_its_line(tmp_path, module, old, new, line, message):
    text = USERS[f"{module}.py"]
    assert old in text
    if "z_max + 2" in new:
        text = text.replace("linspace(0.0, 1.0, z_max + 1)", "linspace(0.0, 1.0, z_max + 2)")
    refused(tmp_path, USERS_SPEC, line, message, **{module: text.replace(old, new)})


JUNK = ["[]", "{}", "[[]]", "[{}]", "true", '""', "-1", "1e400", "nan", "1979-05-27", "[1, [2]]", '"x"', "[[1, 2, 3]]"]


@pytest.mark.parametrize("junk", JUNK)
def test_nonsense_in_any_place_is_refused_or_understood_but_never_a_crash(tmp_path, junk):
    """Also for settings without any annotation, and beside a factory."""
    module = USERS["mine.py"].replace("threshold: float = 1.0, first: int | None = 0", "threshold=1.0, other=None")
    text = USERS_SPEC.replace('"mine:patient"', '"mine:patient"\nother = 3').replace(
        "threshold = [1, 2]", "threshold = 1"
    )
    for key in re.findall(r"^(\w+) = ", text, re.MULTILINE):
        try:
            path = write_user_code(tmp_path, re.sub(rf"^{key} = .*$", f"{key} = {junk}", text, flags=re.M), mine=module)
            assert all(cell.identity for cell in sweep.read_spec(path).cells())
        except sweep.SpecError as refusal:
            assert "spec.toml" in str(refusal)


@pytest.mark.parametrize("given", ["threshold = -1", "threshold = -1\nfirst = 3"])
def test_a_fixed_setting_that_the_factory_refuses_is_refused_where_it_is_fixed(tmp_path, given):
    spec = USERS_SPEC.replace('"mine:patient"', f'"mine:patient"\n{given}').replace("threshold = [1, 2]\n", "")
    refused(tmp_path, spec, FACTORY + 1, r"threshold must be >= 0, got -1.0 \(policy 'patient'\)")


def test_settings_of_own_factories_can_be_fixed_gridded_and_none(tmp_path):
    """A policy's setting fixed in its table, a problem's too; another in the grid; None where the default is not."""
    fixed = USERS_SPEC.replace('"mine:patient"', '"mine:patient"\nthreshold = 2').replace("threshold = [1, 2]", "")
    fixed = fixed.replace('"world:rising"', '"world:rising"\nheight = 0.25').replace("height = 0.5", "")
    spec = write_user_code(tmp_path, fixed + 'first = ["none", 1]\nnoise = [0.1, 0.2]\n')
    own = [cell for cell in sweep.read_spec(spec).cells() if cell.code]
    told = [(cell.settings["first"], cell.settings["threshold"], cell.settings["noise"]) for cell in own]
    assert sorted(told, key=str) == [("none", 2.0, 0.1), ("none", 2.0, 0.2), (1, 2.0, 0.1), (1, 2.0, 0.2)]
    assert all("height" not in cell.settings and cell.problem["fixed"] == {"height": 0.25} for cell in own)
    assert len({cell.environment for cell in own}) == 2
    assert {float(cell.policy().threshold) for cell in own} == {2.0}
    job = execute.prepare(own[0])
    assert float(job.problem.curves.args[0]) == 0.25 and float(job.problem.noise) == np.float32(0.1)
    run(spec, tmp_path / "out")
    rows = sweep.load(tmp_path / "out").paired("total_reward")
    assert {row["first"] for row in rows} == {"patient first=1", "patient first=none"}


def test_what_a_problem_takes_from_the_grid_tells_environments_apart(tmp_path):
    spec = write_user_code(tmp_path, USERS_SPEC.replace("height = 0.5", "height = [0.5, 1.5]"))
    run(spec, tmp_path / "out")
    found = sweep.load(tmp_path / "out")
    assert len({cell.environment for cell in found.cells}) == 2 and len(found.cells) == 6
    rows = found.paired("total_reward")
    assert sorted(row["height"] for row in rows) == [0.5] * 3 + [1.5] * 3
    assert cli.main(["report", str(tmp_path / "out")]) == 0
    assert "height 1.5" in (tmp_path / "out" / "report.html").read_text()


def test_lists_and_texts_reach_a_factory_and_can_be_read_back(tmp_path):
    """Also two policies with different lists: they are told apart wherever results are shown."""
    module = USERS["mine.py"].replace("first: int | None = 0", '*, weights: list, kind: str = "a"')
    module = module.replace("return Patient(num_arms, threshold)", "return Patient(num_arms, sum(weights) + len(kind))")
    other = '[policies.other]\nfactory = "mine:patient"\nweights = [2]\nkind = "abc"\n'
    text = USERS_SPEC.replace('"mine:patient"', f'"mine:patient"\nweights = [1, 2.5]\n{other}')
    spec = write_user_code(tmp_path, text.replace('["patient",', '["patient", "other",'), mine=module)
    cells = [cell for cell in sweep.read_spec(spec).cells() if cell.code]
    assert {cell.settings["policy"]: float(cell.policy().threshold) for cell in cells} == {"patient": 4.5, "other": 5.0}
    run(spec, tmp_path / "out")
    found = sweep.load(tmp_path / "out")
    assert found.axes()["weights"] == [[1, 2.5], [2]]
    assert len(found.rows()) == 5 * 3 and cli.main(["report", str(tmp_path / "out")]) == 0
    pytest.importorskip("xarray", reason="pip install 'jaxband[results]'")
    assert found.to_xarray().total_reward.sel(weights="[2]", policy="other", kind="abc").notnull().all()


# Functions that cannot be found again


def make_policy(num_arms):
    """At the top of a file: its results can be told from those of other code."""
    return jb.policies.round_robin(num_arms)


def closure(arms):
    def make(num_arms):
        return jb.policies.round_robin(arms)

    return make


def from_a_prompt():
    names = {"jb": jb}
    exec("def make(num_arms):\n    return jb.policies.round_robin(num_arms)", names)
    return names["make"]


@pytest.mark.parametrize(
    "function",
    [closure(2), lambda num_arms: jb.policies.round_robin(num_arms), from_a_prompt()],
    ids=["closure", "lambda", "prompt"],
)
def test_functions_without_a_file_of_their_own_make_cells_but_no_sweep(tmp_path, function, registered):
    spec = small_spec(policies={"mine": function}, grid={"policy": ["mine", "random"]})
    assert [cell.settings["policy"] for cell in spec.cells()] == ["mine", "random"]
    message = "policy 'mine' is made by a closure, a lambda or a function without a file; define it at the top of"
    with pytest.raises(sweep.SpecError, match=message):
        sweep.run(spec, tmp_path / "out", engine=pretend)
    assert not (tmp_path / "out").exists()
    with pytest.raises(sweep.SpecError, match="problem 'p': factory must be defined at the top of a file"):
        small_spec(problems={"p": function}, num_arms=2, z_max=2)
    registered("metric", function, "of_a_prompt")
    spec = small_spec(metrics=["total_reward", "of_a_prompt"])
    with pytest.raises(sweep.SpecError, match="metric 'of_a_prompt' is made by a closure"):
        sweep.run(spec, tmp_path / "out", engine=pretend)


def test_a_function_at_the_top_of_a_file_makes_a_sweep(tmp_path):
    spec = small_spec(policies={"mine": make_policy}, grid={"policy": ["mine", "round_robin"]})
    sweep.run(spec, tmp_path, engine=pretend, progress=False, disk=Fast())
    assert not sweep.load(tmp_path).missing
    with pytest.raises(sweep.SpecError, match=r"policy 'mine': a function is needed|a function is named as"):
        small_spec(policies={"mine": {"factory": 3}}, grid={"policy": "mine"})


# What is registered


def first_plays(curves, rounds):
    return rounds.arms == 0


def always(num_arms, arm: int):
    return jb.policies.from_functions(_nothing, _choose[arm], _keep, num_arms, name=f"always({arm})")


def _nothing(key):
    return ()


def _keep(state, round, arm, reward):
    return state


def _first(key, state, round):
    return 0, state


def _second(key, state, round):
    return 1, state


_choose = {0: _first, 1: _second}


def test_what_is_registered_can_be_named_in_specs(tmp_path, registered):
    """A policy and a metric, from Python and from a file, with the real engine; gone when they are unregistered."""
    registered("policy", always, "always")
    registered("metric", first_plays, "first_plays")
    spec = small_spec(grid={"policy": "always", "arm": [0, 1]}, metrics=["total_reward", "first_plays"])
    text = 'name = "small"\nreplications = 7\nhorizon = 5\nreplications_per_unit = 3\n'
    text += 'metrics = ["total_reward", "first_plays"]\n[problems.p]\nfamily = "table"\n'
    text += 'rows = [[0.0, 0.6, 1.0], [0.3, 0.4, 0.5]]\n[grid]\npolicy = "always"\narm = [0, 1]\n'
    (tmp_path / "spec.toml").write_text(text)
    file = sweep.read_spec(tmp_path / "spec.toml")
    assert [cell.identity for cell in file.cells()] == [cell.identity for cell in spec.cells()]
    assert all(cell.code for cell in file.cells()) and all(cell.metric_code for cell in file.cells())
    sweep.run(spec, tmp_path / "out", progress=False, disk=Fast())
    found = sweep.load(tmp_path / "out")
    assert [arrays["first_plays"].tolist() for arrays in found.totals] == [[5.0] * 7, [0.0] * 7]
    registry.unregister("policy", "always")
    with pytest.raises(sweep.SpecError, match=r"spec.toml:10: policy must be one of .*; got 'always'"):
        sweep.read_spec(tmp_path / "spec.toml")
    assert len(sweep.load(tmp_path / "out").rows()) == 4, "results can be read all the same"


def test_workers_need_no_registration(tmp_path, registered, monkeypatch):
    """What a cell is made of travels as code: policy and metric that only the sweep's own process has registered."""
    registered("policy", always, "always")
    registered("metric", first_plays, "first_plays")
    grid = {"policy": "always", "arm": 1}
    (cell,) = small_spec(grid=grid, metrics=["total_reward", "first_plays"]).cells()
    codes = ray_cluster._codes_of([Unit(cell, 0, 3)])
    assert {code.reference.partition(":")[2] for code in codes} == {"always", "first_plays"}
    with monkeypatch.context() as patch:
        for name in ("test_sweep_user_code", "sweep_tools"):  # which are imported anew, from what was sent
            patch.setitem(sys.modules, name, sys.modules.get(name))
        for kind in ("policy", "metric"):
            patch.setattr(registry, "_entries", registry._entries | {kind: dict(registry._entries[kind])})
        registry.unregister("policy", "always")
        registry.unregister("metric", "first_plays")
        patch.setattr(user_code, "_functions", {})
        execute.prepare.cache_clear()
        for code in codes:
            user_code.receive(code)
        job = execute.prepare(cell)
        assert job.policy.title() == "always(1)"
        assert [metric.name for metric in job.layout.metrics] == ["total_reward", "first_plays"]
    execute.prepare.cache_clear()


def test_other_sources_than_were_sent_are_refused(tmp_path):
    write_user_code(tmp_path)
    code = user_code.from_reference("mine:patient", tmp_path)
    sent = code._replace(reference="json:dumps", installed=True)
    with pytest.raises(user_code.UserCodeError, match="json:dumps is other code on this node; install the same on all"):
        user_code.receive(sent)


# Code that fails while it runs


FAILING = [  # a module, what is written instead of what, and what is said
    (
        "mine",
        "return rested(round.z, self.threshold, state), state",
        "raise RuntimeError('no idea')",
        r"Patient.choose raised RuntimeError \(mine.py, line 17\): no idea",
    ),
    (
        "mine",
        "return rested(round.z, self.threshold, state), state",
        "return jnp.where(round.t == 2, 7, 0), state",
        r"Patient chose arm 7 in replication 0, round 2; choose must return an arm in 0..2",
    ),
    (
        "mine",
        "return arm\n",
        "return arm.astype(float)\n",
        "Patient.update must leave state as it is, int32",
    ),
]


@pytest.mark.parametrize(("module", "old", "new", "message"), FAILING, ids=[f[2] for f in FAILING])
def test_a_policy_that_fails_is_3_what_is_done_is_kept_and_mended_it_completes(
    whole, tmp_path, capsys, monkeypatch, module, old, new, message
):
    """The cells of the library's policy come first here, so that there is something to keep."""
    order = local.sorted_for_compilation
    monkeypatch.setattr(local, "sorted_for_compilation", lambda units: sorted(order(units), key=_own_last))
    text = USERS[f"{module}.py"]
    assert old in text
    spec, out = str(write_user_code(tmp_path, **{module: text.replace(old, new)})), tmp_path / "out"
    assert cli.main(["sweep", spec, "--out", str(out)]) == 3
    error = capsys.readouterr().err
    assert re.search(f"cell with policy 'patient' on problem 'rising': {message}", error), error
    assert f"{out} is incomplete; mend it, run the same command to resume" in error
    kept = set(unit_files(out))
    assert kept and kept <= set(unit_files(whole[1]))
    assert sweep.load(out).missing == 27 - sum(len(arrays["total_reward"]) for arrays in sweep.load(out).totals)
    assert json.loads((out / "log.jsonl").read_text().splitlines()[-1])["event"] == "stopped"
    assert cli.main(["collect", str(out)]) == 3
    write_user_code(tmp_path)
    assert cli.main(["sweep", spec, "--out", str(out)]) == 0
    assert f"done: {15 - len(kept)} of {15 - len(kept)} missing units" in capsys.readouterr().err
    assert unit_files(out) == unit_files(whole[1])
    assert collected(out) == collected(whole[1])
    assert not (out / "rejected").exists()


def _own_last(unit):
    return unit.cell.code is not None


BROKEN_AT_RUN_TIME = {
    "world": ("height * shape", "height * shape[: int(height)]", r"world:rising raised \w+ \(world.py, line 10\)"),
    "extra": ("rounds.arms == 0", "rounds.nothing", r"metric 'extra:plays_of_first' raised AttributeError \(extra.py"),
}


@pytest.mark.parametrize("module", BROKEN_AT_RUN_TIME)
def test_a_problem_or_metric_that_fails_is_3_and_names_the_cell(tmp_path, capsys, module):
    old, new, message = BROKEN_AT_RUN_TIME[module]
    text = USERS[f"{module}.py"].replace(old, new)
    spec = str(write_user_code(tmp_path, USERS_SPEC.replace("height = 0.5", "height = 3.5"), **{module: text}))
    assert cli.main(["sweep", spec, "--out", str(tmp_path / "out")]) == 3
    error = capsys.readouterr().err
    assert re.search(rf"cell with policy '\w+' on problem 'rising': {message}", error), error


def test_a_bad_module_or_setting_is_2_with_the_line(tmp_path, capsys):
    spec = str(write_user_code(tmp_path, mine="1 / 0"))
    assert cli.main(["sweep", spec, "--out", str(tmp_path / "out")]) == 2
    said = f"spec.toml:{FACTORY}: policy 'patient': importing 'mine' raised ZeroDivisionError (mine.py, line 1)"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_edits_are_told_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jaxband.sweep.commands.local_engine", pretend)
    spec, out = str(write_user_code(tmp_path)), str(tmp_path / "out")
    assert cli.main(["sweep", spec, "--out", out]) == 0
    write_user_code(tmp_path, helper=CHANGES["helper"][0])
    capsys.readouterr()
    assert cli.main(["sweep", spec, "--out", out, "--dry-run"]) == 0
    assert "3 cells, 10 units to run" in capsys.readouterr().out
    assert cli.main(["sweep", spec, "--out", out]) == 0
    assert capsys.readouterr().err.count(f"{OTHER_CODE}\n") == 10
