"""What a sweep will take, before it is run: cells, units, compilations and a rough time.

The time comes from a table of costs per round, measured on one core of an AMD EPYC at 2.4 GHz, not from a
trial run: a factor of two either way is to be expected (benchmarks/sweep_costs.py compares).
"""

import collections
import math
from pathlib import Path

import jax
import numpy as np

from jaxband.layout import CPU_TILE
from jaxband.policies.learning import early_fits
from jaxband.policies.recommended import DEPTH, WIDTH
from jaxband.sweep import compute, frozen, paired, settings, store, tables, units
from jaxband.sweep.cells import Cell
from jaxband.sweep.disk import Disk
from jaxband.sweep.spec import Spec

MICROSECONDS = 1e-6
CACHE = 2**23  # bytes; larger states are read from memory
PLAYS = {  # policy -> microseconds per round, fixed and per arm
    "round_robin": (0.08, 0.007),
    "oracle": (0.07, 0.013),
    "random": (0.25, 0.015),
    "rogue_ucb_tuned": (25.0, 1.2),
}
END_VALUES = 0.075  # per arm and rest, for every plan
LEARN = 0.048  # per arm and third power of the grid, for every fit


def describe(spec: Spec, out: Path | None = None) -> str:
    """Text for a person: one line per cell and the sums."""
    wanted = frozen.freeze(spec)
    left = missing(spec, wanted, out)
    shapes = {cell: compute.prepare(cell).shape for cell in wanted.cells}
    numbers = {shape: n for n, shape in enumerate(dict.fromkeys(shapes.values()), start=1)}
    waiting = collections.Counter(unit.cell for unit in left)
    varying = [n for n in settings.ENVIRONMENT if len({cell.settings[n] for cell in wanted.cells}) > 1]
    lines = [
        {"cell": n, "policy": label}
        | {name: cell.settings[name] for name in varying}
        | {"units": waiting[cell], "compiled": f"shape {numbers[shapes[cell]]}"}
        for n, (cell, label) in enumerate(zip(wanted.cells, paired.labels(list(wanted.cells)), strict=True), start=1)
    ]
    needed = {shapes[unit.cell]: unit.cell for unit in left}
    devices = jax.local_device_count()
    seconds = sum(seconds_of(unit) for unit in left) / devices + sum(map(compile_seconds, needed.values()))
    return tables.aligned(lines) + (
        f"\n{len(wanted.cells)} cells, {len(left)} units to run, {len(needed)} compilations; about {_time(seconds)} "
        f"on {devices} devices (from a table of costs; a factor of 2 either way)"
    )


def missing(spec: Spec, wanted: frozen.Frozen, out: Path | None) -> list[units.Unit]:
    """What is left to run in `out`, found out without changing anything; everything if there is no such directory."""
    done = collections.defaultdict(list)
    if out is not None and (content := Disk().read(Path(out) / "spec.json")) is not None:
        frozen.check_extends(wanted, frozen.from_bytes(content))
        for cell, pieces in store.scan(Path(out), wanted, Disk(), with_results=False).pieces.items():
            done[cell] = [(piece.start, piece.stop) for piece in pieces]
    return [u for cell in wanted.cells for u in units.missing(cell, done[cell.identity], spec.replications, spec.unit)]


def seconds_of(unit: units.Unit) -> float:
    """On one device, without compiling."""
    rounds = (unit.stop - unit.start) * unit.cell.settings["horizon"]
    return rounds * (policy_cost(unit.cell) + lookahead_cost(unit.cell)) * MICROSECONDS


def policy_cost(cell: Cell) -> float:
    """Microseconds per round: a play, an update of the posterior, a share of a plan."""
    values = cell.settings
    num_arms, num_points = values["num_arms"], values["z_max"] + 1
    fixed, per_arm = PLAYS.get(values["policy"], (0.1, 0.015))
    cost = fixed + per_arm * num_arms
    if "kernel" in settings.POLICY_USES[values["policy"]]:
        root = 0.65 * num_points**2  # the rank is about two thirds of the grid
        cost += 0.0007 * root * (3 if 4 * CPU_TILE * num_arms * root > CACHE else 1)
    if values["policy"] == "ucb_z":
        cost += 0.003 * num_arms * num_points
    if values["policy"] == "rogue_ucb_tuned":
        cost += 1.05 * num_points
    if values.get("learn"):
        cost += LEARN * num_arms * num_points**3 * fits(values) / values["horizon"]
    return cost + plan_cost(values, num_arms) / values.get("commit", 1)


def fits(values: dict) -> int:
    """How often a learning policy fits its kernel."""
    blocks, every = values["horizon"] // values.get("commit", 1), values["learn"]
    return blocks // every + int(np.sum(early_fits(every) <= blocks))


def plan_cost(values: dict, num_arms: int) -> float:
    """Microseconds per plan."""
    if values["policy"] == "recommended":
        values = values | {"planner": "beam", "depth": DEPTH, "width": WIDTH, "end_values": True}
    depth, bounds = values.get("depth", 1), values["policy"] == "rgp_ucb"
    ends = END_VALUES * num_arms * (values["z_max"] + 1) if values.get("end_values") else 0.0
    match values.get("planner") if depth > 1 else None:
        case "exhaustive":
            leaves = num_arms**depth if values["repeats"] else math.perm(num_arms, depth)
            return ends + 0.07 * num_arms * depth + leaves * (0.004 if bounds else 0.0012)
        case "subset":
            return ends + num_arms * 3**depth * (0.025 * values["labels"] if bounds else 0.008)
        case "beam":
            return ends + num_arms * depth * values["width"] * 0.009
        case "optimistic":
            return 5.0 + 0.04 * values["budget"]
        case _:
            return ends


def lookahead_cost(cell: Cell) -> float:
    """Microseconds per round for the best sequences that the lookahead regret compares with."""
    depth = cell.settings["lookahead"] if "lookahead_regret" in cell.metrics else 1
    return cell.settings["num_arms"] * 3**depth * 0.008 / depth if depth > 1 else 0.0


def compile_seconds(cell: Cell) -> float:
    values = cell.settings
    if values["policy"] == "rogue_ucb_tuned":
        return 21.0
    if values.get("learn"):
        return 28.0
    if values["policy"] == "rgp_ucb" and values["planner"] == "subset" and values["depth"] > 1:
        return 13.0
    if values["policy"] in ("rgp_pointwise", "recommended") or values.get("planner") == "optimistic":
        return 9.0
    return 4.0 if values.get("depth", 1) == values["lookahead"] == 1 else 7.0


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
