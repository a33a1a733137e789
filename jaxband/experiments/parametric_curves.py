"""The paper's four policies on its parametric curves: tables of total reward (Table 1 and the appendix's two), regret
over time (Figure 4 and the appendix's two)."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jaxband import plots, policies
from jaxband.experiments import paper
from jaxband.experiments.output import Report
from jaxband.experiments.protocols import PROTOCOLS
from jaxband.kernels import SquaredExponential
from jaxband.problem import Problem
from jaxband.simulation.monte_carlo import Result, monte_carlo

LENGTHSCALES = {"table1": (5.0,), "lengthscales": (2.5, 7.5), "figure4": (5.0, 2.5, 7.5)}  # of the policies' kernels
PICTURES = {"total_reward": "cumulative reward", "instantaneous_regret": "cumulative instantaneous regret"}


class Cell(NamedTuple):
    """One policy in one setting."""

    setting: str
    policy: str
    lengthscale: float | None  # None for policies without a kernel
    protocol: str
    printed: paper.Printed
    result: Result


def run(experiment: str, protocol: str | None, replications: int, seed: int, announce: Callable[[str], None]) -> Report:
    """The cells of `experiment` under one protocol, or under both; `announce` is told each before it runs."""
    protocols = [protocol] if protocol else list(PROTOCOLS)
    cells = {protocol: [] for protocol in protocols}
    for protocol in protocols:
        for setting in paper.FAMILIES:
            for policy, lengthscale in _columns(experiment):
                announce(f"{setting}: {_label(policy, lengthscale)}, {protocol}")
                cells[protocol].append(_run_cell(setting, policy, lengthscale, protocol, replications, seed))
    return _report(experiment, cells, replications, seed)


@functools.cache  # Figure 4 shows the cells of the tables
def _run_cell(setting, policy, lengthscale, protocol, replications, seed) -> Cell:
    played = _policy(policy, setting, lengthscale, protocol)
    problem = Problem(paper.curves(setting), noise=paper.NOISE)
    result = monte_carlo(played, problem, horizon=paper.HORIZON, replications=replications, seed=seed, progress=False)
    return Cell(setting, policy, lengthscale, protocol, paper.TOTAL_REWARD[setting, policy, lengthscale], result)


def _report(experiment: str, cells: dict[str, list[Cell]], replications: int, seed: int) -> Report:
    (first, shown), *beside = cells.items()
    document = {
        "experiment": experiment,
        "protocol": first,
        "replications": replications,
        "seed": seed,
        "horizon": paper.HORIZON,
        "interval": "5th and 95th percentile of the replications",
        "cells": [_as_json(cell) for cell in shown],
        "beside": {protocol: [_as_json(cell) for cell in others] for protocol, others in beside},
    }
    rows = []
    for index, cell in enumerate(document["cells"]):
        others = [_interval(others[index], "mean", "low", "high") for others in document["beside"].values()]
        printed, ours = _interval(cell, "paper", "paper_low", "paper_high"), _interval(cell, "mean", "low", "high")
        difference = f"{cell['difference']:+.1f}"
        rows.append((cell["setting"], _label(cell["policy"], cell["lengthscale"]), printed, ours, difference, *others))
    return Report(
        document,
        title=f"Total reward at T = {paper.HORIZON}, mean (5 %, 95 %) of {replications} replications",
        columns=("setting", "policy", "paper", f"ours, {first}", "difference", *document["beside"]),
        rows=rows,
        remarks=(),
        pictures=_pictures(experiment, shown, first),
    )


def _pictures(experiment: str, cells: Sequence[Cell], protocol: str) -> dict[str, Callable[[], bytes]]:
    """Reward and regret over time; for Figure 4, regret, one picture per lengthscale."""
    if experiment != "figure4":
        return {f"{metric}.png": _picture(cells, metric, protocol) for metric in PICTURES}
    return {
        f"regret_l{lengthscale:g}.png": _picture(
            [cell for cell in cells if cell.lengthscale in (lengthscale, None)], "instantaneous_regret", protocol
        )
        for lengthscale in LENGTHSCALES[experiment]
    }


def _picture(cells: Sequence[Cell], metric: str, protocol: str) -> Callable[[], bytes]:
    panels = {setting: [] for setting in paper.FAMILIES}
    for cell in cells:
        line = (_label(cell.policy, cell.lengthscale), cell.result.checkpoints, cell.result.bands[metric])
        panels[cell.setting].append(line)
    return lambda: plots.cumulative(panels, PICTURES[metric], f"{protocol} protocol")


def _interval(cell: dict, mean: str, low: str, high: str) -> str:
    return f"{cell[mean]:.1f} ({cell[low]:.1f}, {cell[high]:.1f})"


def _as_json(cell: Cell) -> dict:
    """A cell as the command line prints it."""
    reward = cell.result.summary()["total_reward"]
    regret = cell.result.summary()["instantaneous_regret"]
    return {
        "setting": cell.setting,
        "policy": cell.policy,
        "lengthscale": cell.lengthscale,
        "protocol": cell.protocol,
        "paper": cell.printed.mean,
        "paper_low": cell.printed.low,
        "paper_high": cell.printed.high,
        "mean": reward.mean,
        "standard_error": reward.standard_error,
        "low": reward.p05,
        "high": reward.p95,
        "difference": reward.mean - cell.printed.mean,
        "instantaneous_regret": regret.mean,
    }


def _label(policy: str, lengthscale: float | None) -> str:
    return policy if lengthscale is None else f"{policy} (l={lengthscale:g})"


def _columns(experiment: str) -> list[tuple[str, float | None]]:
    with_kernel = [(policy, l) for policy in ("1RGP-UCB", "1RGP-TS") for l in LENGTHSCALES[experiment]]
    return with_kernel + ([] if experiment == "lengthscales" else [("RogueUCB-Tuned", None), ("UCB-Z", None)])


def _policy(name: str, setting: str, lengthscale: float | None, protocol: str):
    options = PROTOCOLS[protocol](paper.NUM_ARMS)
    shape = {"num_arms": paper.NUM_ARMS, "z_max": paper.Z_MAX, "noise": paper.NOISE}
    match name:
        case "1RGP-UCB":
            return policies.rgp_ucb(SquaredExponential(lengthscale), **shape, **options["rgp_ucb"])
        case "1RGP-TS":
            return policies.rgp_ts(SquaredExponential(lengthscale), **shape, **options["rgp_ts"])
        case "RogueUCB-Tuned":
            return policies.rogue_ucb_tuned(setting, **shape, **options["rogue_ucb_tuned"])
        case "UCB-Z":
            return policies.ucb_z(**shape, horizon=paper.HORIZON)
