"""What a round costs on a GPU on paper: the counter on a program checkable by hand, and counts of compiled programs.

Nothing runs on a GPU here. The counts need the wheels of jaxband's extra `gpu-program`.
"""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from jaxband import registry

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

# 10 tables of 4 rows of 8: a row of each is doubled five times, and again in a loop of unknown length
PROGRAM = """
HloModule by_hand

%keep (old: f32[], new: f32[]) -> f32[] {
  %old = f32[] parameter(0)
  ROOT %new = f32[] parameter(1)
}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%fused_twice (table: f32[10,4,8], row: s32[10,2]) -> f32[10,1,8] {
  %table = f32[10,4,8]{2,1,0} parameter(0)
  %row = s32[10,2]{1,0} parameter(1)
  %both = f32[10,4,8]{2,1,0} add(%table, %table)
  ROOT %gather = f32[10,1,8]{2,1,0} gather(%both, %row), offset_dims={1,2}, slice_sizes={1,1,8}
}

%fused_put (table.1: f32[10,4,8], new.1: f32[10,1,8], row.1: s32[10,2]) -> f32[10,4,8] {
  %table.1 = f32[10,4,8]{2,1,0} parameter(0)
  %new.1 = f32[10,1,8]{2,1,0} parameter(1)
  %row.1 = s32[10,2]{1,0} parameter(2)
  ROOT %scatter = f32[10,4,8]{2,1,0} scatter(%table.1, %row.1, %new.1), update_window_dims={1,2}, to_apply=%COMBINER
}

%fused_total (table.2: f32[10,4,8]) -> (f32[10], s32[]) {
  %table.2 = f32[10,4,8]{2,1,0} parameter(0)
  %zero = f32[] constant(0)
  %one = s32[] constant(1)
  %total = f32[10]{0} reduce(%table.2, %zero), dimensions={1,2}, to_apply=%add
  ROOT %results = (f32[10]{0}, s32[]) tuple(%total, %one)
}

%body (state: (f32[10,4,8], s32[10,2])) -> (f32[10,4,8], s32[10,2]) {
  %state = (f32[10,4,8]{2,1,0}, /*index=1*/s32[10,2]{1,0}) parameter(0)
  %now = f32[10,4,8]{2,1,0} get-tuple-element(%state), index=0
  %which = s32[10,2]{1,0} get-tuple-element(%state), index=1
  %twice = f32[10,1,8]{2,1,0} fusion(%now, %which), kind=kLoop, calls=%fused_twice, metadata={op_name="jit(f)/while"}
  %put = f32[10,4,8]{2,1,0} fusion(%now, %twice, %which), kind=kInput, calls=%fused_put
  ROOT %next = (f32[10,4,8]{2,1,0}, s32[10,2]{1,0}) tuple(%put, %which)
}

%condition (state.1: (f32[10,4,8], s32[10,2])) -> pred[] {
  %state.1 = (f32[10,4,8]{2,1,0}, s32[10,2]{1,0}) parameter(0)
  ROOT %yes = pred[] constant(true)
}

ENTRY %main (a: f32[10,4,8], b: s32[10,2]) -> f32[10] {
  %a = f32[10,4,8]{2,1,0} parameter(0)
  %b = s32[10,2]{1,0} parameter(1)
  %copy = f32[10,4,8]{2,1,0} copy(%a)
  %start = (f32[10,4,8]{2,1,0}, s32[10,2]{1,0}) tuple(%copy, %b)
  %five = (f32[10,4,8]{2,1,0}, s32[10,2]{1,0}) while(%start), condition=%condition, body=%body, backend_config=KNOWN
  %until = (f32[10,4,8]{2,1,0}, s32[10,2]{1,0}) while(%five), condition=%condition, body=%body
  %last = f32[10,4,8]{2,1,0} get-tuple-element(%until), index=0
  %sums = (f32[10]{0}, s32[]) fusion(%last), kind=kInput, calls=%fused_total
  ROOT %result = f32[10]{0} get-tuple-element(%sums), index=0
}
""".replace("KNOWN", '{"known_trip_count":{"n":"5"}}')


@pytest.mark.parametrize("combiner", ["keep", "add"])
def test_a_program_is_counted_as_by_hand(monkeypatch, combiner):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import hlo_cost

    program = hlo_cost.parse(PROGRAM.replace("COMBINER", combiner))
    rows, indices, tables = 10 * 8 * 4, 10 * 2 * 4, 10 * 4 * 8 * 4
    gather = indices + rows + rows  # read, read, written
    put = indices + rows + rows + (rows if combiner == "add" else 0)
    copy, total = 2 * tables, tables + 10 * 4 + 4
    cost = hlo_cost.cost_of(program, program["main"])
    assert cost == (1 + 5 * 2 + 2 + 1, copy + 6 * (gather + put) + total, 1)


# kernels and KB per round and replication, of policies that plan in every round: no host syncs
COUNTS = {
    "H100": {
        "1RGP-UCB": (12.5, 11.8),
        "1RGP-TS": (12.6, 11.9),
        "3RGP-TS, every round": (94.8, 24.0),
        "recommended": (552, 387),
        "3RGP-UCB, exhaustive": (19.6, 21.2),
        "3RGP-TS, optimistic": (265, 38.5),
    },
    "A100": {
        "1RGP-UCB": (14.5, 11.9),
        "1RGP-TS": (13.7, 12.0),
        "3RGP-TS, every round": (103, 24.7),
        "recommended": (552, 385),
    },
}


def _why_not() -> str | None:
    try:
        versions = {metadata.version(name) for name in ("jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt")}
    except metadata.PackageNotFoundError:
        return "needs the wheels of jaxband's extra gpu-program, as in pip install --editable '.[gpu-program]'"
    return None if versions == {"0.10.1"} else f"counts are those of version 0.10.1, not of {sorted(versions)}"


@pytest.mark.slow
@pytest.mark.skipif(_why_not() is not None, reason=str(_why_not()))
@pytest.mark.parametrize("gpu", COUNTS)
def test_rounds_cost_what_they_did(tmp_path, gpu):
    file = tmp_path / "rows.json"
    command = [sys.executable, BENCHMARKS / "gpu_program.py", "--gpus", gpu, "--json", file, "--policies", *COUNTS[gpu]]
    run = subprocess.run(command, env=os.environ | {"JAXBAND_CACHE": "off"}, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Nothing was run on a GPU")
    rows = {row["policy"]: row for row in json.loads(file.read_text())["rows"]}
    assert rows["1RGP-UCB"]["KB"] <= 25
    for name, (kernels, kilobytes) in COUNTS[gpu].items():
        assert rows[name]["host syncs"] == 0, name
        assert rows[name]["kernels"] == pytest.approx(kernels, rel=0.01), name
        assert rows[name]["KB"] == pytest.approx(kilobytes, rel=0.01), name


def test_every_policy_can_be_asked_for():
    """The script is read, not run: it sets JAX to CPUs for the whole process."""
    text = (BENCHMARKS / "gpu_program.py").read_text()
    for name in registry.entries("policy"):
        if registry.entries("policy")[name].factory.__module__.startswith("jaxband."):
            assert f"jb.policies.{name}(" in text, name
