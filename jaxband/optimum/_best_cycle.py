"""The best long-run average reward of small problems, and the cycle of arms that earns it.

Rests move without chance, so that a best policy ends in a cycle of states, and from every state each cycle can be
reached: play its arms. The best one is found by Howard's policy iteration on the graph of states. A policy leads all
states into one cycle of mean reward η; with v(s) what the way there earns beyond η per round,

    η ≤ best average ≤ η + max_{s,j} f_j(z_j) − η + v(next) − v(s),

and where the right side exceeds η, playing the maximising j is a better policy. At the end both agree to rounding.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxband.optimum import states

TOLERANCE = 1e-11  # of the curves' range: smaller improvements are rounding errors


class Exact(NamedTuple):
    """The best that any policy can do in the long run."""

    average: float  # reward per round of the cycle; no policy earns more
    cycle: np.ndarray  # [period]; the arms, repeated for ever
    z: np.ndarray  # [K]; the rests when the cycle begins, and again when it ends
    upper: float  # proven upper bound on the average of any policy, equal to `average` but for rounding

    @property
    def period(self) -> int:
        return len(self.cycle)


def exact(curves: ArrayLike) -> Exact:
    """The optimal cycle of a problem with at most 5 million recurrent states, from known curves [K, G].

    >>> best = exact([[0.0, 1.0, 1.0], [0.3, 0.3, 0.3]])
    >>> best.average, best.cycle.tolist(), best.period
    (0.65, [0, 1], 2)
    """
    curves = states.table(curves)
    num_arms, num_points = curves.shape
    states.check_size(num_arms, num_points, "recurrent states", states.count(num_arms, num_points))
    graph = _graph(curves)
    slack = TOLERANCE * max(np.ptp(curves), np.abs(curves).max(), np.finfo(float).tiny)
    arms = np.argmax(graph.rewards, axis=1)
    while True:
        arms, cycle = _lead_into_best_cycle(graph, arms)
        average = _of_arm(graph.rewards, arms)[cycle].mean()
        values = _values(graph, arms, cycle[0], average)
        better, improvement = _improved(graph, values, average)
        switch = improvement > slack
        if not switch.any():
            break
        arms = np.where(switch, better, arms)
    return Exact(float(average), arms[cycle], graph.rests[cycle[0]], float(average + max(improvement.max(), 0.0)))


class _Graph(NamedTuple):
    """States and what playing each arm in them does."""

    rests: np.ndarray  # [S, K]
    rewards: np.ndarray  # [S, K]
    following: np.ndarray  # [S, K]; index of the next state


def _graph(curves: np.ndarray) -> _Graph:
    num_arms, num_points = curves.shape
    codes = states.recurrent(num_arms, num_points)
    rests = states.decode(codes, num_arms, num_points)
    following = np.searchsorted(codes, states.successors(rests, num_points)).astype(np.int32)
    return _Graph(rests, curves[np.arange(num_arms)[None, :], rests], following)


def _lead_into_best_cycle(graph: _Graph, arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The policy, changed to end in the best of its cycles from everywhere; and that cycle's states, in order."""
    following = _of_arm(graph.following, arms)
    ends = following
    while not np.array_equal(recurring := np.unique(ends), np.unique(following[recurring])):
        ends = ends[ends]
    cycles, seen = [], set()
    for state in recurring.tolist():
        cycle = []
        while state not in seen:
            seen.add(state)
            cycle.append(state)
            state = int(following[state])
        if cycle:
            cycles.append(np.array(cycle))
    rewards = _of_arm(graph.rewards, arms)
    best = max(cycles, key=lambda cycle: rewards[cycle].mean())
    led = np.isin(ends, best)
    while not led.all():
        leads = led[graph.following]
        joins = ~led & leads.any(axis=1)
        arms = np.where(joins, np.argmax(leads, axis=1), arms)
        led |= joins
    return arms, best


def _values(graph: _Graph, arms: np.ndarray, root: int, average: float) -> np.ndarray:
    """What each state earns beyond `average` per round on its way to the root, [S]; ways are doubled in every step."""
    following, values = _of_arm(graph.following, arms), _of_arm(graph.rewards, arms) - average
    following[root], values[root] = root, 0.0
    while (following != root).any():
        values = values + values[following]
        following = following[following]
    return values


def _improved(graph: _Graph, values: np.ndarray, average: float) -> tuple[np.ndarray, np.ndarray]:
    """The best arm of every state if `values` follow, and by how much it is better than what they hold, [S] each."""
    totals = graph.rewards - average + values[graph.following]
    return np.argmax(totals, axis=1), totals.max(axis=1) - values


def _of_arm(table: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """The entry of each state's arm, [S] from [S, K]."""
    return np.take_along_axis(table, arms[:, None], axis=1)[:, 0]
