"""Specs: what a file says is what is run, once each; what cannot be run is refused on the line where it stands."""

import re

import pytest

import jaxband as jb
from jaxband import registry, sweep
from jaxband.sweep.spec import settings
from jaxband.sweep.spec.toml_location import line_of

TEXT = """\
name = "test"
horizon = 20
replications = 100
num_arms = 3
z_max = 6
metrics = ["total_reward"]

[problems.smooth]
family = "gp"
lengthscale = 4.0

[problems.fixed]
family = "logistic"
theta = [[1.0, 0.5, 2.0], [0.6, 0.5, 1.0], [0.5, 1.0, 3]]

[grid]
policy = ["rgp_ucb", "rgp_ts",
          "random"]
lengthscale = [2, 4.0]
depth = [1, 2]
"""
AS_PYTHON = {
    "name": "test",
    "horizon": 20,
    "replications": 100,
    "num_arms": 3,
    "z_max": 6,
    "metrics": ("total_reward",),
    "problems": {
        "smooth": {"family": "gp", "lengthscale": 4.0},
        "fixed": {"family": "logistic", "theta": [[1.0, 0.5, 2.0], [0.6, 0.5, 1.0], [0.5, 1.0, 3]]},
    },
    "grid": {"policy": ["rgp_ucb", "rgp_ts", "random"], "lengthscale": [2, 4.0], "depth": [1, 2]},
}


def read(tmp_path, text):
    (tmp_path / "spec.toml").write_text(text)
    return sweep.read_spec(tmp_path / "spec.toml")


def shown(cells, *names):
    return [tuple(cell.settings.get(name) for name in names) for cell in cells]


def test_settings_that_do_not_matter_make_no_cells(tmp_path):
    cells = read(tmp_path, TEXT).cells()
    assert len(cells) == len({cell.identity for cell in cells}) == 2 * (2 * 4 + 1)
    assert shown(cells, "policy", "problem").count(("random", "fixed")) == 1
    random = next(cell for cell in cells if cell.settings["policy"] == "random")
    assert not {"lengthscale", "depth", "alpha"} & random.settings.keys()


def test_a_file_and_the_dataclass_are_the_same_sweep(tmp_path):
    file, python = read(tmp_path, TEXT).cells(), sweep.Spec(**AS_PYTHON).cells()
    assert [cell.identity for cell in file] == [cell.identity for cell in python]


def test_defaults_are_written_out():
    cell = next(c for c in sweep.Spec(**AS_PYTHON).cells() if c.settings.get("depth") == 2)
    expected = {"planner": "exhaustive", "noise": 0.1, "policy_noise": 0.1, "seed": 0, "z_init": 0, "alpha_scale": 1.0}
    assert expected.items() <= cell.settings.items()


def test_a_setting_that_is_none_is_left_out_and_can_be_told_so():
    """A block as long as the plan, no fits: the factories' own default is None, "none" in a spec."""
    table = {"policy": "rgp_ts", "lengthscale": 2.0, "problem": "fixed", "depth": 2}
    told = {"replan_every": ["none", 1], "refit_every": "none"}
    cells = sweep.Spec(**(AS_PYTHON | {"grid": table | told})).cells()
    assert shown(cells, "replan_every", "refit_every") == [(None, None), (1, None)]
    assert not {"replan_every", "refit_every"} & cells[0].settings.keys()
    (not_told,) = sweep.Spec(**(AS_PYTHON | {"grid": table})).cells()
    assert not_told.identity == cells[0].identity


def test_a_gaussian_process_without_a_lengthscale_takes_the_cells(tmp_path):
    text = TEXT.replace("lengthscale = 4.0\n", "", 1)
    cells = [cell for cell in read(tmp_path, text).cells() if cell.settings["problem"] == "smooth"]
    assert sorted(shown(cells, "policy", "lengthscale"))[:2] == [("random", 2.0), ("random", 4.0)]
    assert len({cell.environment for cell in cells}) == 2


def test_a_parametric_policy_takes_the_family_of_the_problem_or_must_be_told():
    theta = AS_PYTHON["problems"]["fixed"]
    make = lambda problem, **grid: sweep.Spec(**(AS_PYTHON | {"problems": {"p": problem}, "grid": grid}))  # noqa: E731
    assert shown(make(theta, policy="rogue_ucb_tuned").cells(), "family") == [("logistic",)]
    assert shown(make(theta, policy="rogue_ucb_tuned", family="gamma").cells(), "family") == [("gamma",)]
    with pytest.raises(sweep.SpecError, match=r"family is missing for policy 'rogue_ucb_tuned' on problem 'p'"):
        make({"family": "gp", "lengthscale": 2.0}, policy="rogue_ucb_tuned")


def test_a_policy_with_defaults_of_its_own_keeps_them_and_can_be_told_otherwise():
    make = lambda **grid: sweep.Spec(**(AS_PYTHON | {"grid": {"lengthscale": 2.0, "problem": "fixed"} | grid}))  # noqa: E731
    cells = make(policy=["rgp_ts", "rgp_pointwise"]).cells()
    assert shown(cells, "planner", "depth", "replan_every") == [("exhaustive", 1, None), ("subset", 3, 1)]
    assert shown(make(policy="rgp_pointwise", depth=2, replan_every=2).cells(), "depth", "replan_every") == [(2, 2)]


def test_cells_can_be_listed(tmp_path):
    head = TEXT[: TEXT.index("[grid]")]
    tables = '[[cell]]\npolicy = "rgp_ts"\nlengthscale = [1, 2]\ndepth = 2\nreplan_every = [1, "none"]\n'
    tables += '[[cell]]\npolicy = "oracle"\n'
    cells = read(tmp_path, head + tables).cells()
    assert set(shown(cells, "policy", "lengthscale", "replan_every")) == {
        ("rgp_ts", 1.0, 1),
        ("rgp_ts", 1.0, None),
        ("rgp_ts", 2.0, 1),
        ("rgp_ts", 2.0, None),
        ("oracle", None, None),
    }
    with pytest.raises(sweep.SpecError, match=r"spec.toml:23: unknown setting 'dept'; did you mean 'depth'"):
        read(tmp_path, head + tables.replace('"oracle"', '"oracle"\ndept = 2'))


def test_curves_come_from_a_csv_file_and_are_kept(tmp_path):
    (tmp_path / "curves.csv").write_text("0, 0.5, 1\n0.2\n\n")
    spec = read(
        tmp_path,
        'name="t"\nreplications=1\nhorizon=2\n[problems.p]\nfamily="table"\ncsv="curves.csv"\n[grid]\npolicy="random"',
    )
    (cell,) = spec.cells()
    assert cell.problem == {"family": "table", "rows": [[0.0, 0.5, 1.0], [0.2, 0.2, 0.2]]}
    assert (cell.settings["num_arms"], cell.settings["z_max"]) == (2, 2)


REFUSALS = [
    ('"rgp_ts"', '"rgp_tz"', 17, "policy must be one of .*; got 'rgp_tz'; did you mean 'rgp_ts'?"),
    ('"random"', '"randm"', 18, "got 'randm'; did you mean 'random'?"),
    ("depth", "dept", 20, "unknown setting 'dept'; did you mean 'depth'?"),
    ("horizon", "horizn", 2, "unknown entry 'horizn'; did you mean 'horizon'?"),
    ("horizon = 20", "horizon = 0", 2, "horizon must be between 1 and 2147483647, got 0"),
    ("horizon = 20", 'horizon = "20"', 2, "horizon must be a whole number, got '20'"),
    ("replications = 100", "replications = 0", 3, "replications must be between 1"),
    ("[1, 2]", "[]", 20, "depth must list at least one value, got none"),
    ("[1, 2]", "[1, 2.5]", 20, "depth must be a whole number, got 2.5"),
    ("[2, 4.0]", "[2, -1]", 19, "lengthscale must be > 0, got -1.0"),
    ("[2, 4.0]", '["2"]', 19, "lengthscale must be a number, got '2'"),
    ("lengthscale = [2, 4.0]", "", 16, "lengthscale is missing for policy 'rgp_ucb'"),
    ("depth = [1, 2]", "replan_every = 3", 20, "replan_every must be between 1 and 1, got 3"),
    ("depth = [1, 2]", "depth = 40", 20, "depth must be between 1 and 20, got 40"),
    ("depth = [1, 2]", "budget = 9", 20, "budget is used by no policy, planner, kernel or problem here; remove it"),
    ("[1, 2]", '2\nplanner = "optimistic"\nbudget = 9', 21, "planner must plan for upper confidence bounds"),
    ("[1, 2]", "4\nrepeats = false", 20, "depth must be <= num_arms without repeats, got depth 4 and 3 arms"),
    ("[1, 2]", '1\nproblem = "smoth"', 21, "unknown problem 'smoth'; did you mean 'smooth'?"),
    ("z_max = 6", "z_max = 6\nlookahead = 13", 6, "lookahead: depth must be between 1 and 12, got 13"),
    ("z_max = 6", "z_max = 6\nlookahead = 1", 6, "lookahead must be >= 2, got 1"),
    ('["total_reward"]', '["lookahead_regret"]', 6, "metrics has 'lookahead_regret' but no lookahead is given"),
    ("[1, 2]", "1\nlookahead = 3", 21, "unknown setting 'lookahead'"),
    ("[1, 2]", '1\nfade = "yes"', 21, "fade must be true or false, got 'yes'"),
    ("[1, 2]", '1\nrefit_every = "never"', 21, 'refit_every must be a whole number or "none", got .never.'),
    ("[1, 2]", '1\nkernel = "matern32"', 21, "kernel must be one of .*; got 'matern32'; did you mean 'matern'?"),
    ("[1, 2]", "1\nz_init = 7", 21, "z_init must be <= z_max = 6, got 7"),
    ("[1, 2]", "1\nnoise = 0.0", 16, "policy_noise must be > 0, got 0.0"),
    ("logistic", "logstic", 13, "problem 'fixed': family must be one of .*; did you mean 'logistic'?"),
    ('family = "gp"', "", 8, "problem 'smooth': family is missing; it is one of gp, logistic"),
    ("theta", "theata", 14, "unknown entry of a logistic problem 'theata'; did you mean 'theta'?"),
    ("[0.5, 1.0, 3]", "[0.5, 1.0]", 14, "theta must have 3 numbers per arm, got "),
    ("num_arms = 3", "num_arms = 4", 4, "num_arms must be 3 for problem 'fixed', got 4"),
    ('["total_reward"]', '["reward"]', 6, "unknown metric 'reward'"),
    ("[problems.smooth]", "[problem.smooth]", 8, "unknown entry 'problem'; did you mean 'problems'?"),
    ('"rgp_ts"', '"RGP-TS"', 17, "got 'RGP-TS'; did you mean 'rgp_ts'?"),
    ("z_max = 6", "z_max = [6, 7]", 5, r"z_max must be one value here, got \[6, 7\]; lists go into \[grid\]"),
    ("[grid]", "[gird]", 16, "unknown entry 'gird'; did you mean 'grid'?"),
    ("[problems.smooth]", "[problems.smooth", 8, "at line 8"),
    ('"logistic"', '"table"', 14, "unknown entry of a table problem 'theta'"),
    ("theta = [[1.0, 0.5, 2.0], [0.6, 0.5, 1.0], [0.5, 1.0, 3]]", "", 13, "theta is missing"),
    ('name = "test"', 'name = ""', 1, "name must be a word"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), REFUSALS, ids=[f"{r[2]}: {r[3][:40]}" for r in REFUSALS])
def test_refusals_name_the_line_and_the_nearest_name(tmp_path, old, new, line, message):
    assert old in TEXT
    with pytest.raises(sweep.SpecError) as refusal:
        read(tmp_path, TEXT.replace(old, new, 1) if "lengthscale = [" not in old else TEXT.replace(old, new))
    text = str(refusal.value)
    assert re.search(message.replace("?", r"\?"), text), text
    assert f"spec.toml:{line}: " in text or f"at line {line}" in text, text


JUNK = ["[]", "{}", "[[]]", "[{}]", "true", '""', "-1", "1e400", "nan", "1979-05-27", "[1, [2]]", '"x"', "[[1, 2, 3]]"]


@pytest.mark.parametrize("junk", JUNK)
def test_nonsense_in_any_place_is_refused_or_understood_but_never_a_crash(tmp_path, junk):
    for key in re.findall(r"^(\w+) = ", TEXT, re.MULTILINE):
        text = re.sub(rf"^{key} = (\[[^=]*\]$|.*$)", f"{key} = {junk}", TEXT, flags=re.MULTILINE)
        try:
            read(tmp_path, text)
        except sweep.SpecError as refusal:
            assert "spec.toml" in str(refusal)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "csv cannot be read"), ("0,x", "csv must hold numbers only"), ("", "one non-empty row"), ("nan", "finite")],
)
def test_csv_refusals(tmp_path, content, message):
    if content is not None:
        (tmp_path / "c.csv").write_text(content)
    table = {"problems": {"p": {"family": "table", "csv": "c.csv"}}, "directory": tmp_path}
    with pytest.raises(sweep.SpecError, match=message):
        sweep.Spec("t", replications=1, horizon=1, grid={"policy": "random"}, **table)


@pytest.mark.parametrize("missing", ["name", "replications", "problems"])
def test_what_a_spec_must_have(tmp_path, missing):
    text = {"name": 'name = "t"\n', "replications": "replications = 1\n", "problems": '[problems.p]\nfamily = "gp"\n'}
    with pytest.raises(sweep.SpecError, match=f"{missing} is missing"):
        read(tmp_path, "".join(line for key, line in text.items() if key != missing))
    with pytest.raises(sweep.SpecError, match=r"No such file"):
        sweep.read_spec(tmp_path / "nowhere.toml")


def test_a_grid_or_cells_but_not_both():
    for both in ({"grid": {"policy": "random"}, "cell": ({"policy": "random"},)}, {"grid": None}):
        with pytest.raises(sweep.SpecError, match=r"either a \[grid\] or \[\[cell\]\] tables"):
            sweep.Spec(**(AS_PYTHON | both))


EXAMPLES = [(kind, name) for kind in ("policy", "planner", "kernel", "schedule") for name in registry.names(kind)]


@pytest.mark.parametrize(("kind", "name"), EXAMPLES, ids=[" ".join(pair) for pair in EXAMPLES])
def test_everything_that_is_registered_can_be_named_and_has_the_settings_of_its_signature(kind, name):
    entry = registry.entry(kind, name)
    user = {"planner": "oracle", "kernel": "rgp_ts", "schedule": "rgp_ucb"}.get(kind, name)
    key = "alpha" if kind == "schedule" else kind
    grid = {"policy": user, "problem": "smooth"} | registry.entry("policy", user).example | {key: name} | entry.example
    if kind == "kernel":
        grid = {k: v for k, v in grid.items() if k in ("policy", "problem", "kernel", *entry.settings)}
    (cell,) = sweep.Spec(**(AS_PYTHON | {"grid": grid})).cells()
    given = {n for n, s in entry.settings.items() if s.default is not None or n in grid}
    assert given <= cell.settings.keys(), "whatever is not None is written out"
    assert isinstance(cell.policy(), jb.Policy)
    for setting in entry.settings.values():
        assert setting.types or setting.reference or setting.choices, "annotate it, so that a spec can be checked"


def test_settings_that_a_spec_has_of_its_own_have_a_rule():
    assert {*settings.ENVIRONMENT, *settings.NUMBERS} <= settings.RULES.keys()
    entries = [entry for kind in registry.KINDS for entry in registry.entries(kind).values()]
    assert not settings.RULES.keys() & {name for entry in entries for name in entry.settings}


USUAL = ["total_reward", "expected_reward", "instantaneous_regret"]
AGAINST_BOUND = ["bound_gap", "bound_fraction"]


@pytest.mark.parametrize(
    ("asked", "metrics"),
    [
        ({}, [*USUAL, *AGAINST_BOUND]),
        ({"lookahead": 2}, [*USUAL, "lookahead_regret", *AGAINST_BOUND]),
        ({"metrics": ["bound_gap", "total_reward"]}, ["total_reward", "bound_gap"]),
    ],
)
def test_metrics_are_the_usual_ones_or_those_that_are_asked_for(asked, metrics):
    spec = sweep.Spec(**({name: value for name, value in AS_PYTHON.items() if name != "metrics"} | asked))
    assert {cell.metrics for cell in spec.cells()} == {tuple(metrics)}
    assert {cell.lookahead for cell in spec.cells()} == {asked.get("lookahead", 1)}


def test_none_is_none_also_where_the_default_is_a_number():
    """β as wide as pays, and blocks as long as the plan; not the defaults 2.3 and 1."""
    table = {"policy": "rgp_pointwise", "lengthscale": 2.0, "problem": "fixed"}
    told = sweep.Spec(**(AS_PYTHON | {"grid": table | {"beta": ["none", 2.3], "replan_every": ["none", 1]}})).cells()
    made = [cell.policy() for cell in told]
    assert [(p.beta is None, p.replan_every) for p in made] == [(True, 3), (True, 1), (False, 3), (False, 1)]
    (default,) = sweep.Spec(**(AS_PYTHON | {"grid": table})).cells()
    assert [cell.identity == default.identity for cell in told] == [False, False, False, True]
    with pytest.raises(sweep.SpecError, match=r"refit_every is used by no policy, planner, kernel or problem here"):
        sweep.Spec(**(AS_PYTHON | {"grid": {"policy": "random", "refit_every": "none"}}))


def test_lines_are_found_in_odd_files():
    text = 'a.b = 1\n# c = 2\n[ x . "y" ] # z\nc = 3\n[[cell]]\nd=1\n[[cell]]\nd=[\n 1,\n 22]\n'
    assert line_of(text, ("a", "b")) == line_of(text, ("a",)) == 1
    assert line_of(text, ("x",)) == 3
    assert line_of(text, ("x", "y", "c")) == 4
    assert line_of(text, ("cell", 1, "d")) == 8
    assert line_of(text, ("cell", 1, "d"), 22) == 10
    assert line_of(text, ("cell", 1, "e")) == 7
    assert line_of(text, ("nowhere",)) is None
