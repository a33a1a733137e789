"""What the log of a sweep tells about how it was run."""

import pytest
from sweep_tools import Fast, pretend, small_spec

from jaxband import sweep
from jaxband.report import run_log


def run(directory, engine):
    sweep.run(small_spec(), directory, engine=engine, progress=False, disk=Fast())


def test_sessions_come_from_the_log(tmp_path):
    def interrupted(units):
        yield from list(pretend(units))[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, interrupted)
    (tmp_path / "units" / "notes.txt").write_text("hello")
    run(tmp_path, pretend)
    first, second = run_log.read(tmp_path)
    assert (first.wanted, first.done, first.end) == (6, 2, "stopped: KeyboardInterrupt")
    assert (second.wanted, second.done, second.end, second.rejected) == (4, 4, "done", 1)
    assert first.versions.keys() == set(run_log.VERSIONS)
    assert second.started <= second.last and second.seconds >= 0
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    (tmp_path / "log.jsonl").write_text("\n".join([*lines[:-1], "[]", "{}", '{"time": "x"}', '{"ti']))
    assert run_log.read(tmp_path)[-1].end == "killed or running"
    assert run_log.read(tmp_path / "nowhere") == []
