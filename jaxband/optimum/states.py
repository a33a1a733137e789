"""The rests of all arms as one number, for problems small enough to list them: code = Σ_j z_j G^j.

After z_max rounds every state is one that the last z_max plays have left behind: the arm played last has rested 0
rounds, no two arms have rested equally long, except those that have reached z_max. There are far fewer of these than
the G^K that can be written down: 98 thousand of 0.9 million for K = 4, G = 31; 3.3 of 28.6 million for K = 5.
"""

import math

import numpy as np

from jaxband import checks

MAX_STATES = 5_000_000


def table(curves) -> np.ndarray:
    """`curves` [K, G] in float64, checked."""
    checks.shape("curves", curves, (None, None), "[K, G]")
    checks.finite("curves", curves)
    if 0 in np.shape(curves):
        raise ValueError(f"curves must have at least one arm and one rest, got shape {list(np.shape(curves))}")
    return np.asarray(curves, np.float64)


def count(num_arms: int, num_points: int) -> int:
    """How many states can recur: m arms below z_max, one of them at rest 0, the others at different rests."""
    return sum(
        math.comb(num_arms, m) * math.factorial(m) * math.comb(num_points - 2, m - 1)
        for m in range(1, min(num_arms, num_points - 1) + 1)
    ) + (num_points == 1)


def check_size(num_arms: int, num_points: int, what: str, states: int, limit: int = MAX_STATES) -> None:
    """Refuse a problem with too many states."""
    if states > limit or num_points**num_arms >= 2**63:
        size = f"{num_arms} arms and {num_points} rests each ({num_points}^{num_arms}) have {states:,} {what}"
        raise ValueError(f"{size}, the limit is {limit:,}; use optimum.dual_bound, a bound for problems of any size")


def recurrent(num_arms: int, num_points: int) -> np.ndarray:
    """The codes of all states that can recur, sorted."""
    codes = [np.zeros(0, np.int64)]
    for played in range(num_arms):
        rests = np.zeros((1, num_arms), np.int16)
        for arm in (arm for arm in range(num_arms) if arm != played):
            rests = np.concatenate(
                [_with(rests, arm, rest, num_points - 1) for rest in range(1, num_points)] or [rests]
            )
        codes.append(encode(rests, num_points))
    return np.unique(np.concatenate(codes))


def _with(rests: np.ndarray, arm: int, rest: int, z_max: int) -> np.ndarray:
    """The rows in which `arm` can have rested so long: no other has, or rests end there."""
    free = rests if rest == z_max else rests[(rests != rest).all(axis=1)]
    free = free.copy()
    free[:, arm] = rest
    return free


def encode(rests: np.ndarray, num_points: int) -> np.ndarray:
    """Codes [n] of rests [n, K]."""
    return rests.astype(np.int64) @ num_points ** np.arange(rests.shape[1], dtype=np.int64)


def decode(codes: np.ndarray, num_arms: int, num_points: int) -> np.ndarray:
    """Rests [n, K] of codes [n]."""
    return codes[:, None] // num_points ** np.arange(num_arms, dtype=np.int64)[None, :] % num_points


def successors(rests: np.ndarray, num_points: int) -> np.ndarray:
    """The code after each arm is played, [n, K]."""
    rested = np.minimum(rests + 1, num_points - 1)
    place = num_points ** np.arange(rests.shape[1], dtype=np.int64)
    return encode(rested, num_points)[:, None] - rested * place[None, :]
