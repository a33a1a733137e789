"""The best sequence of T plays of small problems, by dynamic programming over the states that can be reached."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxband import checks
from jaxband.optimum import states

MAX_DECISIONS = 200_000_000  # a byte each


class Finite(NamedTuple):
    """The best that any policy can do in T rounds."""

    total: float
    arms: np.ndarray  # [T]; a sequence that earns it


def finite(curves: ArrayLike, z: ArrayLike, horizon: int) -> Finite:
    """The largest total of `horizon` plays on known curves [K, G] from rests z [K].

        V_t(z) = max_j f_j(z_j) + V_{t+1}(next z),   V_T = 0

    >>> best = finite([[0.0, 1.0, 1.0], [0.3, 0.3, 0.3]], z=[0, 0], horizon=5)
    >>> round(best.total, 6), best.arms.tolist()
    (2.9, [1, 0, 1, 0, 1])
    """
    curves, z = states.table(curves), np.asarray(z)
    checks.shape("z", z, curves.shape[:1], "[K]")
    checks.indices("z", z, curves.shape[1], "the grid")
    horizon = checks.integer("horizon", horizon, minimum=1)
    _check_size(*curves.shape, horizon)
    rounds = _forward(z, curves.shape[1], horizon)
    value, choices = np.zeros(len(rounds[-1].rests) * len(curves)), []
    arms = np.arange(len(curves))[None, :]
    for now in reversed(rounds):
        totals = curves[arms, now.rests] + value[now.following]
        value = totals.max(axis=1)
        choices.append(np.argmax(totals, axis=1).astype(np.min_scalar_type(len(curves))))
    return Finite(float(value[0]), _played(rounds, choices[::-1]))


class _Round(NamedTuple):
    """The states that can be met in one round."""

    rests: np.ndarray  # [n, K]
    following: np.ndarray  # [n, K]; index among the states of the next round


def _check_size(num_arms: int, num_points: int, horizon: int) -> None:
    """After t rounds there are at most as many states as recur on a grid of t + 1 points."""
    sizes = [states.count(num_arms, t + 1) for t in range(min(horizon, num_points))]
    states.check_size(num_arms, num_points, "states in reach", max(sizes))
    decisions = sum(sizes) + (horizon - len(sizes)) * sizes[-1]
    states.check_size(num_arms, num_points, f"states in {horizon} rounds", decisions, MAX_DECISIONS)


def _forward(z: np.ndarray, num_points: int, horizon: int) -> list[_Round]:
    """All rounds. Once every state that can recur has been met the rounds are alike, and share their arrays."""
    codes, rounds = states.encode(z[None, :], num_points), []
    while len(rounds) < horizon:
        rests = states.decode(codes, len(z), num_points)
        reached, following = np.unique(states.successors(rests, num_points), return_inverse=True)
        rounds.append(_Round(rests, following.reshape(rests.shape).astype(np.int32)))
        if np.array_equal(reached, codes):
            rounds += [rounds[-1]] * (horizon - len(rounds))
        codes = reached
    return rounds


def _played(rounds: list[_Round], choices: list[np.ndarray]) -> np.ndarray:
    state, arms = 0, []
    for now, choice in zip(rounds, choices, strict=True):
        arms.append(int(choice[state]))
        state = now.following[state, arms[-1]]
    return np.array(arms)
