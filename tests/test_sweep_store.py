"""A results directory survives everything: crashes, full disks, damaged files, other sweeps, changed specs.

Here an engine without JAX stands in for the real one; what is tested is what happens to the files.
"""

import json
import os
import resource

import pytest
from sweep_tools import CURVES, Counting, Crash, Fast, collected, pretend, small_spec, temporaries, unit_files

from jaxband import cli, sweep
from jaxband.sweep.spec import cells
from jaxband.sweep.storage.filesystem import TEMPORARY, FileSystem


def run(directory, disk=None, spec=None, engine=pretend):
    return sweep.run(spec or small_spec(), directory, engine=engine, progress=False, disk=disk or Fast())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted sweep."""
    directory = tmp_path_factory.mktemp("whole")
    disk = Counting()
    outcome = run(directory, disk)
    assert outcome.complete and outcome.units == 6
    return directory, disk.log


def assert_same(directory, whole):
    """Nothing lost, nothing doubled, nothing left behind."""
    assert collected(directory) == collected(whole)
    assert unit_files(directory) == unit_files(whole)
    assert (directory / "spec.json").read_bytes() == (whole / "spec.json").read_bytes()
    assert not temporaries(directory)
    assert not (directory / "rejected").exists()
    assert [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines() if line[-1:] == "}"]


@pytest.mark.parametrize("when", ["before", "middle", "after"])
def test_a_crash_at_any_file_operation_costs_nothing_but_time(tmp_path, whole, when):
    reference, operations = whole
    assert {"create", "write", "sync", "rename", "sync_directory", "append", "lock"} <= set(operations)
    for at in range(len(operations)):
        directory, disk = tmp_path / str(at), Counting(at, when)
        with pytest.raises(Crash):
            run(directory, disk)
        disk.power_out()
        run(directory)
        assert_same(directory, reference)


def test_crashes_while_resuming_cost_nothing_either(tmp_path, whole):
    """A second crash, at any operation of the run that cleans up after the first."""
    reference, operations = whole
    first = operations.index("rename", operations.index("append"))  # a result file is about to get its name
    for at in range(len(operations)):
        directory = tmp_path / str(at)
        for crash in (first, at):
            disk = Counting(crash)
            try:
                run(directory, disk)
            except Crash:
                disk.power_out()
        run(directory)
        assert_same(directory, reference)


def test_temporary_files_of_a_crash_are_removed(tmp_path, whole):
    """Also those that the next run would not write again, because its units are others."""
    disk = Counting(whole[1].index("rename", whole[1].index("append")))
    with pytest.raises(Crash):
        run(tmp_path, disk)
    disk.power_out()
    (tmp_path / f"{TEMPORARY}spec.json").write_text("{")
    assert len(temporaries(tmp_path)) == 2
    run(tmp_path, spec=small_spec(replications_per_unit=7))
    assert not temporaries(tmp_path)
    assert collected(tmp_path) == collected(whole[0])


def test_a_line_of_the_log_that_does_not_fit_is_an_error(tmp_path):
    """The system writes what fits and says so; with a limit on the size of files, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            FileSystem().append(tmp_path / "log.jsonl", b"x" * 150)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_second_run_computes_nothing(tmp_path):
    run(tmp_path)

    def engine(units):
        raise AssertionError("nothing was left to do")

    assert run(tmp_path, engine=engine).units == 0


def test_replications_and_cells_can_be_added(tmp_path):
    run(tmp_path / "grown")
    before = set(unit_files(tmp_path / "grown"))
    asked = []

    def engine(units):
        asked.extend((unit.cell.settings["policy"], unit.start, unit.stop) for unit in units)
        return pretend(units)

    larger = small_spec(replications=10, grid={"policy": ["random", "round_robin", "ucb_z"]})
    run(tmp_path / "grown", spec=larger, engine=engine)
    assert before < set(unit_files(tmp_path / "grown"))
    assert sorted(asked) == sorted(
        [("random", 7, 9), ("random", 9, 10), ("round_robin", 7, 9), ("round_robin", 9, 10)]
        + [("ucb_z", 0, 3), ("ucb_z", 3, 6), ("ucb_z", 6, 9), ("ucb_z", 9, 10)]
    )
    run(tmp_path / "at once", spec=larger)
    assert collected(tmp_path / "grown") == collected(tmp_path / "at once")


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"horizon": 6}, "horizon is 5 there, 6 here"),
        ({"seed": 1}, "seed is 0 there, 1 here"),
        ({"name": "other"}, "name is 'small' there, 'other' here"),
        ({"replications": 6}, "replications is 7 there, 6 here"),
        ({"metrics": ["total_reward"]}, "metrics is"),
        ({"trajectories": 3}, "trajectories is 512 there, 3 here"),
        ({"lookahead": 2, "metrics": ["total_reward"]}, "metrics is .*lookahead is 1 there, 2 here"),
        ({"grid": {"policy": ["random"]}}, 'policy is "random", "round_robin" there, "random" here'),
        ({"problems": {"p": {"family": "table", "rows": [*CURVES[:1], [0.3, 0.4, 0.6]]}}}, "problem 'p' is defined"),
    ],
)
def test_changing_the_spec_is_refused_with_the_difference(tmp_path, changes, difference):
    run(tmp_path)
    before = collected(tmp_path)
    with pytest.raises(sweep.SpecError, match=difference):
        run(tmp_path, spec=small_spec(**changes))
    assert collected(tmp_path) == before


def test_the_size_of_units_may_change(tmp_path, whole):
    def interrupted(units):
        yield from list(pretend(units))[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, engine=interrupted)
    run(tmp_path, spec=small_spec(replications_per_unit=2))
    assert collected(tmp_path) == collected(whole[0])
    events = [json.loads(line)["event"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert events == ["start", "unit", "unit", "stopped", "start", *["unit"] * 5, "done"]


def test_damaged_files_are_set_aside_reported_and_computed_again(tmp_path, whole):
    run(tmp_path)
    flipped, cut, *_ = unit_files(tmp_path)
    content = bytearray((tmp_path / "units" / flipped).read_bytes())
    content[-3] ^= 1
    (tmp_path / "units" / flipped).write_bytes(content)
    os.truncate(tmp_path / "units" / cut, 100)
    (tmp_path / "units" / "notes.txt").write_text("hello")
    (tmp_path / "units" / "directory").mkdir()
    found = sweep.load(tmp_path)
    assert len(found.rejected) == 4 and found.missing > 0
    outcome = run(tmp_path)
    strange = {flipped, cut, "notes.txt", "directory"}
    assert {name for name, _ in outcome.rejected} == set(os.listdir(tmp_path / "rejected")) == strange
    assert outcome.units == outcome.done == 2
    assert collected(tmp_path) == collected(whole[0])
    assert unit_files(tmp_path) == unit_files(whole[0])


def test_results_of_other_sweeps_and_doubles_are_not_mixed_in(tmp_path, whole):
    run(tmp_path / "other", spec=small_spec(seed=1))
    run(tmp_path / "sizes", spec=small_spec(replications_per_unit=4))
    run(tmp_path / "here")
    for source in ("other", "sizes"):
        for name in unit_files(tmp_path / source):
            os.replace(tmp_path / source / "units" / name, tmp_path / "here" / "units" / name)
    before = collected(whole[0])
    outcome = run(tmp_path / "here")
    assert any("belongs to another sweep" in reason for _, reason in outcome.rejected)
    assert any("holds too" in reason for _, reason in outcome.rejected)
    assert collected(tmp_path / "here") == before


def test_a_damaged_spec_is_set_aside_and_written_again(tmp_path, whole):
    run(tmp_path)
    content = (tmp_path / "spec.json").read_bytes()
    (tmp_path / "spec.json").write_bytes(content.replace(b"small", b"smell"))
    with pytest.raises(ValueError, match=r"spec.json is damaged"):
        sweep.load(tmp_path)
    outcome = run(tmp_path)
    assert [name for name, _ in outcome.rejected] == ["spec.json"] and outcome.units == 0
    assert collected(tmp_path) == collected(whole[0])


def test_a_directory_of_another_version_is_refused_and_left_as_it_is(tmp_path):
    """Its results may be hours of work: nothing is set aside, nothing computed again."""
    run(tmp_path)
    document = json.loads((tmp_path / "spec.json").read_bytes())
    del document["sha256"]
    document["schema"] = cells.SCHEMA - 1
    old = cells.canonical_json(document | {"sha256": cells.digest(document)}).encode()
    (tmp_path / "spec.json").write_bytes(old)
    before = unit_files(tmp_path)
    for work in (lambda: run(tmp_path), lambda: sweep.load(tmp_path)):
        with pytest.raises(
            sweep.SpecError, match=r"another version of jaxband \(schema 3; this one has 4\).*directory"
        ):
            work()
    assert (tmp_path / "spec.json").read_bytes() == old and unit_files(tmp_path) == before
    assert not (tmp_path / "rejected").exists()


OLD_SPEC = """\
{"cells":[{"horizon":5,"lookahead":1,"noise":0.1,"num_arms":2,"policy":"round_robin","problem":"p","seed":0,\
"z_init":0,"z_max":2}],"metrics":["total_reward"],"name":"small","problems":{"p":{"family":"table",\
"rows":[[0.0,0.6,1.0],[0.3,0.4,0.5]]}},"replications":2,"schema":2,\
"sha256":"e6e7e34fc7dd3eeb88837f189a8cb79e7375a5f18b580bac0569f8cac1a7b861","trajectories":0}
"""


@pytest.mark.parametrize("command", ["sweep", "collect", "plot", "report"])
def test_a_directory_of_schema_2_is_refused_with_a_sentence(tmp_path, capsys, command):
    """As it was really written, before policies, problems and metrics could be a user's own."""
    out = tmp_path / "out"
    (out / "units").mkdir(parents=True)
    (out / "spec.json").write_text(OLD_SPEC)
    (out / "units" / "0.unit").write_bytes(b"jaxband unit 2\n")
    spec = 'name="small"\nreplications=2\nhorizon=5\nmetrics=["total_reward"]\ntrajectories=0\n'
    spec += 'grid={policy="round_robin"}\nproblems.p={family="table",rows=[[0.0,0.6,1.0],[0.3,0.4,0.5]]}\n'
    (tmp_path / "spec.toml").write_text(spec)
    options = [str(tmp_path / "spec.toml"), "--out", str(out)] if command == "sweep" else [str(out)]
    assert cli.main([command, *options]) == 2
    sentence = (
        "the directory was written by another version of jaxband (schema 2; this one has 4): use that version, or"
    )
    assert sentence in capsys.readouterr().err
    assert (out / "spec.json").read_text() == OLD_SPEC and unit_files(out) == ["0.unit"]
    assert not (out / "rejected").exists()


def test_the_second_of_two_sweeps_says_who_has_the_directory(tmp_path, whole):
    def engine(units):
        with pytest.raises(sweep.DirectoryBusyError, match=f"being written by process {os.getpid()} on "):
            run(tmp_path)
        return pretend(units)

    run(tmp_path, engine=engine)
    assert_same(tmp_path, whole[0])


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(sweep.SpecError, match=r"is not a sweep directory \(it contains 'thesis.tex'\)"):
        run(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(sweep.SpecError, match=r"it has no spec.json"):
        sweep.load(tmp_path)


def test_an_engine_that_gives_up_leaves_the_sweep_incomplete(tmp_path):
    outcome = run(tmp_path, engine=lambda units: list(pretend(units))[:-1])
    assert not outcome.complete and outcome.done == 5
    assert sweep.load(tmp_path).missing == 1
