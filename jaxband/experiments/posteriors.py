"""Posteriors of dRGP-UCB and dRGP-TS at the end of one run on curves drawn from their own prior (Figure 2, appendix).

The pictures show the first replication. What the paper reads off such pictures is measured over all of them: where on
its curve an arm is played, and how far the posterior mean is from the truth.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from jaxband import checks, planners, plots, policies, posterior
from jaxband.base import Policy
from jaxband.experiments import paper
from jaxband.experiments.output import Report
from jaxband.experiments.protocols import PROTOCOLS
from jaxband.kernels import SquaredExponential
from jaxband.problem import Problem
from jaxband.simulation.rollout import Run, simulate
from jaxband.simulation.summaries import Summary, summarize


class Case(NamedTuple):
    policy: str
    lengthscale: float  # of the kernel that curves are drawn from, and of the policy's
    depth: int

    @property
    def name(self) -> str:
        return f"{self.depth}{self.policy} (l={self.lengthscale:g})"


CASES = {
    "figure2": [Case("RGP-UCB", 2.0, depth) for depth in (1, 3)],
    "appendix": [Case(p, l, d) for p in ("RGP-UCB", "RGP-TS") for l in (0.5, 2.0, 5.0) for d in (1, 2, 3)],
}
PEAK, GOOD = 0.1, 0.5  # how far below its best, as a share of the arm's range, a reward may be


class Cell(NamedTuple):
    """One case, played."""

    measured: dict[str, np.ndarray]  # [R] each, see _measure
    shown: Run  # the first replication


def run(
    experiment: str, replications: int, seed: int, announce: Callable[[str], None], protocol: str | None = None
) -> Report:
    """The cases of `experiment`, as-written if no protocol is named; `announce` is told each before it runs."""
    replications = checks.integer("replications", replications, minimum=1)
    seed = checks.integer("seed", seed, 0, 2**32 - 1, remedy="JAX would take it modulo 2³²")
    protocol = protocol or "as-written"
    cells = {}
    for case in CASES[experiment]:
        announce(case.name)
        cells[case] = _run_cell(case, protocol, replications, seed)
    claims = (_claims_of_figure2 if experiment == "figure2" else _claims_of_appendix)(cells)
    document = {
        "experiment": experiment,
        "protocol": protocol,
        "replications": replications,
        "seed": seed,
        "horizon": paper.HORIZON,
        "cells": [_as_json(case, cell) for case, cell in cells.items()],
        "claims": claims,
    }
    return Report(
        document,
        title=f"Plays and posteriors at T = {paper.HORIZON}, {protocol}, means of {replications} replications",
        columns=("policy", "reward", "on peaks", "at random", "upper half", "at random", "rmse, plays", "rmse, all",
                 "in 2 sd"),
        rows=[_row(cell) for cell in document["cells"]],
        remarks=[
            "on peaks: plays that pay in expectation within a tenth of the arm's range of its best; upper half: within "
            "half of it; at random: what as many plays of the same arms would give at random rests",
            "rmse: of the posterior mean, at the rests played or over all; in 2 sd: share of the curves within two "
            "posterior standard deviations (95.4 % is right); differences ± standard error must exceed two of these",
            *(f"{'holds' if c['holds'] else 'not shown'}: {c['claim']}: {c['measured']}" for c in claims),
        ],
        pictures=_pictures(experiment, cells, protocol),
    )  # fmt: skip


@functools.cache  # the cases of Figure 2 are among those of the appendix
def _run_cell(case: Case, protocol: str, replications: int, seed: int) -> Cell:
    prior = posterior.prior(SquaredExponential(case.lengthscale), paper.NUM_ARMS, paper.Z_MAX)
    problem = Problem(Partial(_draw, prior), noise=paper.NOISE)
    measured, shown = _replicate(_policy(case, protocol), problem, jax.random.key(seed), np.arange(replications))
    return Cell({name: np.asarray(values) for name, values in measured.items()}, jax.tree.map(np.asarray, shown))


def _policy(case: Case, protocol: str) -> Policy:
    options = PROTOCOLS[protocol](paper.NUM_ARMS)
    kernel, planner = SquaredExponential(case.lengthscale), planners.exhaustive(case.depth)
    shape = (kernel, paper.NUM_ARMS, paper.Z_MAX, paper.NOISE)
    if case.policy == "RGP-UCB":
        return policies.rgp_ucb(*shape, planner=planner, **options["rgp_ucb"])
    predictive = {} if case.depth == 1 else {"predictive_variance": False}  # both protocols draw whole curves for d > 1
    return policies.rgp_ts(*shape, planner=planner, **options["rgp_ts"] | predictive)


def _draw(prior: posterior.Posterior, key: Array) -> Array:
    """Curves of the prior; as a function of arrays, so that lengthscales of equal rank share a compilation."""
    return posterior.sample(key, prior)


@jax.jit
def _replicate(policy: Policy, problem: Problem, key: Array, replications: Array) -> tuple[dict[str, Array], Run]:
    """Measures of all replications, [R] each, and the first of them in full."""
    keys = jax.vmap(lambda replication: jax.random.fold_in(key, replication))(replications)
    runs = jax.vmap(lambda key: simulate(policy, problem, key, paper.HORIZON))(keys)
    return jax.vmap(_measure)(runs), jax.tree.map(lambda x: x[0], runs)


def _measure(run: Run) -> dict[str, Array]:
    """What the paper's claims are about, of one run."""
    plays = run.state.posterior.counts.astype(run.curves.dtype)  # [K, G]
    share, of_arm = plays / jnp.sum(plays), jnp.sum(plays, axis=1)
    best, worst = jnp.max(run.curves, axis=1, keepdims=True), jnp.min(run.curves, axis=1, keepdims=True)
    below = (best - run.curves) / (best - worst)
    peak, good = ((below <= limit).astype(plays.dtype) for limit in (PEAK, GOOD))  # 1 there, 0 elsewhere
    squares = (run.state.posterior.mean - run.curves) ** 2

    def at_random(places):
        return jnp.sum(jnp.sum(share, axis=1) * jnp.mean(places, axis=1))

    return {
        "total_reward": jnp.sum(run.rewards),
        "on_peaks": jnp.sum(share * peak),
        "on_peaks_at_random": at_random(peak),
        "upper_half": jnp.sum(share * good),
        "upper_half_at_random": at_random(good),
        # every arm counts the same here, however often it is played
        "upper_half_of_arms": jnp.mean(jnp.sum(plays * good, axis=1) / jnp.maximum(of_arm, 1.0)),
        "error_where_played": jnp.sqrt(jnp.sum(share * squares)),
        "error_everywhere": jnp.sqrt(jnp.mean(squares)),
        "within_2_sd": jnp.mean((squares <= 4.0 * run.state.posterior.variance).astype(plays.dtype)),
    }


def _as_json(case: Case, cell: Cell) -> dict:
    summaries = {name: summarize(values) for name, values in cell.measured.items()}
    return {
        **case._asdict(),
        "name": case.name,
        **{name: summary.mean for name, summary in summaries.items()},
        "standard_errors": {name: summary.standard_error for name, summary in summaries.items()},
    }


def _row(cell: dict) -> Sequence[str]:
    shares = ("on_peaks", "on_peaks_at_random", "upper_half", "upper_half_at_random")
    reward = f"{cell['total_reward']:.0f} ± {cell['standard_errors']['total_reward']:.0f}"
    errors = (f"{cell[name]:.3f}" for name in ("error_where_played", "error_everywhere"))
    return (cell["name"], reward, *(f"{cell[name]:.1%}" for name in shares), *errors, f"{cell['within_2_sd']:.1%}")


def _claims_of_figure2(cells: dict[Case, Cell]) -> list[dict]:
    """What the paper says Figure 2 shows, and whether it does here."""
    greedy, ahead = cells.values()
    means = {name: [float(cell.measured[name].mean()) for cell in (greedy, ahead)] for name in greedy.measured}
    more = _difference(ahead, greedy, "on_peaks")

    def both(name, form):
        return " and ".join(f"{value:{form}}" for value in means[name])

    return [
        {
            "claim": f"curves are estimated accurately where arms are played (error below the noise, {paper.NOISE:g})",
            "measured": f"{both('error_where_played', '.3f')} for d = 1 and 3, {both('error_everywhere', '.2f')} "
            "over all rests",
            "holds": max(means["error_where_played"]) < paper.NOISE,
        },
        {
            "claim": "each arm is played where its reward is high (at least three quarters in the upper half)",
            "measured": f"{both('upper_half', '.1%')} of all plays, {both('upper_half_of_arms', '.1%')} of an arm's "
            "plays, averaged over arms",
            "holds": min(means["upper_half_of_arms"]) >= 0.75,
        },
        {
            "claim": "3RGP-UCB has more samples on the peaks than 1RGP-UCB",
            "measured": f"{more.mean:+.1%} ± {more.standard_error:.1%} of plays",
            "holds": _positive(more),
        },
    ]


def _claims_of_appendix(cells: dict[Case, Cell]) -> list[dict]:
    """What the paper says its pictures of posteriors show, and whether they do here, step by step."""
    problems = list(dict.fromkeys((case.policy, case.lengthscale) for case in cells))

    def deeper(d, than):
        pairs = {f"{policy} (l={l:g})": (Case(policy, l, d), Case(policy, l, than)) for policy, l in problems}
        return _claim(cells, f"more samples on the peaks with d = {d} than with d = {than}", pairs, "on_peaks", ".1%")

    def smoother(l, than):
        pairs = {f"{d}RGP-UCB": (Case("RGP-UCB", l, d), Case("RGP-UCB", than, d)) for d in (1, 2, 3)}
        claim = f"more samples in the upper half with l = {l:g} than with l = {than:g}"
        return _claim(cells, claim, pairs, "upper_half", ".1%")

    poorer = {f"l={l:g}": (Case("RGP-TS", l, 1), Case("RGP-UCB", l, 1)) for l in (0.5, 2.0, 5.0)}
    claim = "1RGP-TS estimates the curves worse than 1RGP-UCB (error over all rests)"
    return [
        *(deeper(d, than) for d, than in ((2, 1), (3, 2))),
        *(smoother(l, than) for l, than in ((2.0, 0.5), (5.0, 2.0))),
        _claim(cells, claim, poorer, "error_everywhere", ".3f"),
    ]


def _claim(cells, claim: str, pairs: dict[str, tuple[Case, Case]], measure: str, form: str) -> dict:
    """That the first of every pair has more of the measure, by at least two standard errors."""
    differences = {name: _difference(cells[one], cells[other], measure) for name, (one, other) in pairs.items()}
    measured = [f"{name} {d.mean:+{form}} ± {d.standard_error:{form}}" for name, d in differences.items()]
    return {"claim": claim, "measured": ", ".join(measured), "holds": all(map(_positive, differences.values()))}


def _difference(one: Cell, other: Cell, name: str) -> Summary:
    """Replication by replication, which have the same random numbers."""
    return summarize(one.measured[name].astype(np.float64) - other.measured[name])


def _positive(difference: Summary) -> bool:
    return difference.mean > 2.0 * difference.standard_error


def _pictures(experiment: str, cells: dict[Case, Cell], protocol: str) -> dict[str, Callable[[], bytes]]:
    """One per policy and lengthscale, a group of panels for every depth."""
    groups = {}
    for case, cell in cells.items():
        groups.setdefault((case.policy, case.lengthscale), {})[f"d = {case.depth}"] = cell
    columns = 5 if experiment == "figure2" else paper.NUM_ARMS

    def picture(policy, lengthscale, cells):
        title = f"{policy}, squared exponential with l = {lengthscale:g}, one run, {protocol}"
        return plots.posteriors({name: _panels(cell.shown) for name, cell in cells.items()}, title, columns)

    names = {key: f"{key[0].lower().replace('-', '_')}_l{key[1]:g}.png" for key in groups}
    if experiment == "figure2":
        names = dict.fromkeys(groups, "figure2.png")
    return {names[key]: functools.partial(picture, *key, cells) for key, cells in groups.items()}


def _panels(run: Run) -> list[plots.Panel]:
    rests = run.z[np.arange(len(run.arms)), run.arms]
    return [
        plots.Panel(mean, deviation, truth, rests[run.arms == arm], run.rewards[run.arms == arm])
        for arm, (mean, deviation, truth) in enumerate(
            zip(run.state.posterior.mean, np.sqrt(run.state.posterior.variance), run.curves, strict=True)
        )
    ]
