"""How much optimism pays: as many standard deviations as make a single look break even.

Take a point with mean m and standard deviation s, a sure reward m + b·s, and n plays to come. To try the point once
instead costs b·s; if it turns out better than the sure reward it is played ever after, which gains n·s·ψ(b), with

    ψ(b) = E[(N(0, 1) − b)⁺] = φ(b) − b Φ(−b).

Both are equal for b = n·ψ(b), and m + b·s is what the point may be taken to be worth. b grows like √(2 ln n).
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array

MAX_WIDTH = 6.0  # standard deviations; worth it for 10¹⁰ plays
STEPS_PER_LOG = 8  # of the table in ln n


def break_even_width(plays: Array) -> Array:
    """b = n·ψ(b) for n = `plays` still to come, to 1e-4; 0 if none are.

    >>> [round(float(break_even_width(n)), 2) for n in (0, 1, 30, 1000)]
    [0.0, 0.28, 1.32, 2.44]
    """
    place = STEPS_PER_LOG * jnp.log1p(jnp.asarray(plays, dtype=float))
    low = jnp.clip(jnp.floor(place), 0, len(_BY_LOG) - 2)
    table, index = jnp.asarray(_BY_LOG, place.dtype), low.astype(jnp.int32)
    share = jnp.clip(place - low, 0.0, 1.0)
    return (1.0 - share) * table[index] + share * table[index + 1]


def _tabulate() -> np.ndarray:
    """b for ln(1 + n) = 0, 1/8, 2/8, …"""
    b = np.linspace(0.0, MAX_WIDTH, 4001)
    excess = np.exp(-0.5 * b**2) / math.sqrt(2 * math.pi) - 0.5 * b * np.array([math.erfc(x / math.sqrt(2)) for x in b])
    logs = np.log1p(b / excess)
    return np.interp(np.arange(0.0, STEPS_PER_LOG * logs[-1]) / STEPS_PER_LOG, logs, b)


_BY_LOG = _tabulate()
