"""`jaxband sweep` and `jaxband collect`: what is printed, what is written, and the exit codes scripts rely on."""

import csv
import errno
import functools
import io
import json
import os
import re
import sys

import pytest
from sweep_tools import OPERATIONS, Counting, Fast, collected, pretend, pretended, temporaries, unit_files

from jaxband import cli, sweep
from jaxband.sweep import commands, tables
from jaxband.sweep.storage import filesystem
from jaxband.sweep.storage.units import Unit

SPEC = """\
name = "cli"
horizon = 5
replications = 7
replications_per_unit = 3

[problems.p]
family = "table"
rows = [[0.0, 0.6, 1.0], [0.3, 0.4, 0.5]]

[grid]
policy = ["random", "round_robin"]
noise = [0.2, 0.1]
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A file, and an engine without JAX."""
    monkeypatch.setattr(commands, "local_engine", pretend)
    for name in ("sync", "sync_directory"):
        monkeypatch.setattr(filesystem.FileSystem, name, getattr(Fast, name))
    (tmp_path / "spec.toml").write_text(SPEC)
    return str(tmp_path / "spec.toml")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_sweep_and_collect(tmp_path, spec, capsys):
    out = str(tmp_path / "out")
    assert cli.main(["sweep", spec, "--out", out]) == 0
    assert "done: 12 of 12 missing units" in capsys.readouterr().err
    assert cli.main(["sweep", spec, "--out", out]) == 0
    assert "done: 0 of 0 missing units" in capsys.readouterr().err
    assert cli.main(["collect", out]) == 0
    printed = capsys.readouterr().out
    rows = rows_of(printed)
    assert len(rows) == 4 * 5
    assert [(r["policy"], r["noise"]) for r in rows[::5]] == [
        ("random", "0.1"),
        ("random", "0.2"),
        ("round_robin", "0.1"),
        ("round_robin", "0.2"),
    ]
    assert {r["replications"] for r in rows} == {"7"}
    cell = next(c for c in sweep.read_spec(spec).cells() if c.settings["noise"] == 0.1)
    whole = pretended(Unit(cell, 0, 7), "total_reward")
    assert float(rows[0]["mean"]) == whole.mean()
    assert cli.main(["collect", out, "--csv", str(tmp_path / "table.csv")]) == 0
    assert (tmp_path / "table.csv").read_text() == printed
    events = [json.loads(line)["event"] for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert events == ["start", *["unit"] * 12, "done", "start", "done"]


def test_parquet_has_the_same_rows(tmp_path, spec):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'jaxband[results]'")
    cli.main(["sweep", spec, "--out", str(tmp_path / "out")])
    assert cli.main(["collect", str(tmp_path / "out"), "--parquet", str(tmp_path / "t.parquet")]) == 0
    assert parquet.read_table(tmp_path / "t.parquet").to_pylist() == sweep.load(tmp_path / "out").rows()


def test_paired_differences(tmp_path, spec, capsys):
    cli.main(["sweep", spec, "--out", str(tmp_path / "out")])
    assert cli.main(["collect", str(tmp_path / "out"), "--paired", "total_reward", "--against", "random"]) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [(r["noise"], r["first"], r["second"]) for r in rows] == [
        ("0.1", "round_robin", "random"),
        ("0.2", "round_robin", "random"),
    ]
    assert all(float(r["low"]) < float(r["difference"]) < float(r["high"]) for r in rows)


def test_dry_run_says_what_would_be_run_and_writes_nothing(tmp_path, spec, capsys):
    out = tmp_path / "out"
    assert cli.main(["sweep", spec, "--out", str(out), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "4 cells, 12 units to run, 2 compilations; about " in printed
    assert "table of costs" in printed
    assert printed.count("round_robin") == 2
    assert not out.exists()
    cli.main(["sweep", spec, "--out", str(out)])
    capsys.readouterr()
    assert cli.main(["sweep", spec, "--out", str(out), "--dry-run"]) == 0
    assert "4 cells, 0 units to run, 0 compilations" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"random"', '"rnadom"', "spec.toml:11: policy must be one of .* did you mean 'random'?"),
        ("horizon = 5", "horizon = 0", "spec.toml:2: horizon must be between 1 and 2147483647, got 0"),
        ("[grid]", "[grid", "spec.toml: .*line 10"),
    ],
)
def test_a_bad_spec_is_2(tmp_path, spec, capsys, old, new, message):
    (tmp_path / "spec.toml").write_text(SPEC.replace(old, new))
    assert cli.main(["sweep", spec, "--out", str(tmp_path / "out")]) == 2
    assert re.search(message.replace("?", r"\?"), capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_arguments_that_make_no_sense_are_2(tmp_path, spec, capsys):
    assert cli.main(["sweep", spec]) == 2
    assert "--out DIR is missing" in capsys.readouterr().err
    assert cli.main(["sweep", spec, "--out", str(tmp_path / "o"), "--address", "auto"]) == 2
    assert "needs --engine ray" in capsys.readouterr().err
    assert cli.main(["collect", str(tmp_path)]) == 2
    assert "no spec.json" in capsys.readouterr().err
    assert cli.main(["sweep", spec, "--out", spec]) == 2
    assert "Not a directory" in capsys.readouterr().err
    cli.main(["sweep", spec, "--out", str(tmp_path / "o")])
    assert cli.main(["collect", str(tmp_path / "o"), "--paired", "reward"]) == 2
    assert "unknown metric 'reward'" in capsys.readouterr().err
    assert cli.main(["collect", str(tmp_path / "o"), "--against", "random"]) == 2
    assert cli.main(["collect", str(tmp_path / "o"), "--paired", "total_reward", "--against", "randm"]) == 2
    assert "did you mean 'random'" in capsys.readouterr().err


def test_a_changed_spec_is_2_with_the_difference(tmp_path, spec, capsys):
    cli.main(["sweep", spec, "--out", str(tmp_path / "out")])
    (tmp_path / "spec.toml").write_text(SPEC.replace("horizon = 5", "horizon = 6"))
    assert cli.main(["sweep", spec, "--out", str(tmp_path / "out")]) == 2
    assert "horizon is 5 there, 6 here" in capsys.readouterr().err


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_an_error_at_any_file_operation_is_3_and_can_be_resumed(tmp_path, spec, capsys, monkeypatch, code):
    """A clear message, nothing left behind, and the same bytes in the end."""
    (tmp_path / "spec.toml").write_text(SPEC.replace("per_unit = 3", "per_unit = 4").replace("[0.2, 0.1]", "0.1"))

    def sweep_on(out, disk=None):
        monkeypatch.setattr(commands, "run", functools.partial(sweep.run, disk=disk or Fast()))
        return cli.main(["sweep", spec, "--out", str(out)])

    whole = Counting()
    assert sweep_on(tmp_path / "whole", whole) == 0
    assert set(whole.log) >= set(OPERATIONS) - {"remove"}
    for at, operation in enumerate(whole.log):
        out, disk = tmp_path / str(at), Counting(at, error=OSError(code, os.strerror(code)))
        capsys.readouterr()
        assert sweep_on(out, disk) == 3
        error = capsys.readouterr().err
        assert os.strerror(code) in error and f"{out} is incomplete; run the same command" in error
        disk.power_out()
        if operation in ("write", "sync", "close", "rename"):
            assert not temporaries(out), "an error is no crash: it is cleaned up after"
        assert sweep_on(out) == 0
        assert collected(out) == collected(tmp_path / "whole")
        assert unit_files(out) == unit_files(tmp_path / "whole")
        assert not temporaries(out) and not (out / "rejected").exists()


def test_an_incomplete_sweep_is_3_and_collect_says_so(tmp_path, spec, capsys, monkeypatch):
    out = str(tmp_path / "out")
    monkeypatch.setattr(commands, "local_engine", lambda units: list(pretend(units))[:5])
    assert cli.main(["sweep", spec, "--out", out]) == 3
    assert "incomplete: 5 of 12" in capsys.readouterr().err
    assert cli.main(["collect", out]) == 3
    captured = capsys.readouterr()
    assert "replications are missing" in captured.err and len(rows_of(captured.out)) == 2 * 5


def test_an_interrupt_is_130_and_keeps_what_is_done(tmp_path, spec, capsys, monkeypatch):
    def interrupted(units):
        yield next(pretend(units))
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "local_engine", interrupted)
    assert cli.main(["sweep", spec, "--out", str(tmp_path / "out")]) == 130
    assert "what is done is kept; run the same command to resume" in capsys.readouterr().err
    assert len(os.listdir(tmp_path / "out" / "units")) == 1


def test_a_busy_directory_is_3(tmp_path, spec, capsys, monkeypatch):
    out, codes = str(tmp_path / "out"), []

    def engine(units):
        monkeypatch.setattr(commands, "local_engine", pretend)
        codes.append(cli.main(["sweep", spec, "--out", out]))
        return pretend(units)

    monkeypatch.setattr(commands, "local_engine", engine)
    assert cli.main(["sweep", spec, "--out", out]) == 0
    assert codes == [3]
    assert f"is being written by process {os.getpid()}" in capsys.readouterr().err


def test_damaged_files_are_reported(tmp_path, spec, capsys):
    out = tmp_path / "out"
    cli.main(["sweep", spec, "--out", str(out)])
    victim = sorted((out / "units").iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-1])
    assert cli.main(["collect", str(out)]) == 3
    assert f"passed over: {victim.name}: is damaged" in capsys.readouterr().err
    assert cli.main(["sweep", spec, "--out", str(out)]) == 0
    assert f"set aside and computed again: {victim.name}: is damaged" in capsys.readouterr().err


def test_a_missing_library_is_2_with_the_remedy(tmp_path, spec, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert cli.main(["sweep", spec, "--out", str(tmp_path / "out"), "--engine", "ray"]) == 2
    assert "pip install 'jaxband[ray]'" in capsys.readouterr().err
    cli.main(["sweep", spec, "--out", str(tmp_path / "out")])
    assert cli.main(["collect", str(tmp_path / "out"), "--parquet", str(tmp_path / "t.parquet")]) == 2
    assert "pip install 'jaxband[results]'" in capsys.readouterr().err


def test_an_empty_table_is_empty():
    assert tables.to_csv([]) == "" and tables.aligned([]) == ""
