"""What is measured of a run: functions of the true curves and a stretch of rounds, added up over stretches.

A metric of one's own is `jb.register`ed: a function (curves [K, G], rounds: Stretch) that returns a number per round,
[n], or one for the stretch.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxband import registry, regret
from jaxband.registry import register

STANDARD = ("total_reward", "expected_reward", "instantaneous_regret")  # of every run
LOOKAHEAD = "lookahead_regret"  # where a lookahead is asked for
BOUND = ("bound_gap", "bound_fraction")  # against the certified upper bound, made on the host


class Stretch(NamedTuple):
    """A stretch of consecutive rounds, as a metric sees it."""

    t: Array  # [n]
    z: Array  # [n, K]; the rests of all arms when each round began
    available: Array | None  # [n, K] bool; None: all arms always were
    arms: Array  # [n], or [n, m] for m plays per round; −1: no play
    rewards: Array  # the same shape; noise included
    counted: Array  # [n] bool; rounds beyond the horizon count nothing


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric made ready: its function and the options that it is called with."""

    name: str
    function: Callable
    options: tuple[tuple[str, object], ...] = ()

    def measure(self, curves: Array, rounds: Stretch) -> Array:
        """Its sum over the rounds that count."""
        value = jnp.asarray(self.function(curves, rounds, **dict(self.options)))
        if value.ndim > 1 or (value.ndim == 1 and value.shape != rounds.counted.shape):
            what = f"metric {self.name!r} must return one number, or one per round [{len(rounds.counted)}]"
            raise ValueError(f"{what}, got shape {list(value.shape)}")
        value = value.astype(jnp.zeros(()).dtype)
        return value if value.ndim == 0 else jnp.sum(jnp.where(rounds.counted, value, 0.0))


def standard(idle: bool) -> tuple[Metric, ...]:
    """Reward, expected reward and instantaneous regret."""
    options = {"instantaneous_regret": (("idle", True),)} if idle else {}
    return tuple(Metric(n, registry.entry("metric", n).factory, options.get(n, ())) for n in STANDARD)


def lookahead(depth: int, repeats: bool) -> Metric:
    """The regret against the best sequences of `depth` rounds."""
    return Metric(LOOKAHEAD, lookahead_regret, (("depth", depth), ("repeats", repeats)))


def own(names: tuple[str, ...]) -> tuple[Metric, ...]:
    """Registered metrics by name."""
    return tuple(Metric(name, registry.entry("metric", name).factory) for name in names)


@register("metric", label="total reward")
def total_reward(curves: Array, rounds: Stretch) -> Array:
    """Rewards, noise included."""
    return rounds.rewards if rounds.rewards.ndim == 1 else jnp.sum(rounds.rewards, axis=1)


@register("metric", label="expected reward")
def expected_reward(curves: Array, rounds: Stretch) -> Array:
    """Rewards without their noise."""
    return regret.expected(curves, rounds.z, rounds.arms)


@register(
    "metric",
    label="instantaneous regret",
    lower_is_better=True,
    remark="Against the best arm of the same round. A policy that lets arms rest until they pay more has more of it "
    "and earns more: compare policies by reward or bound gap.",
)
def instantaneous_regret(curves: Array, rounds: Stretch, idle: bool = False) -> Array:
    """What each round fell short of the best arm at the same rests."""
    return regret.instantaneous(curves, rounds.z, rounds.arms, available=rounds.available, idle=idle)


@register(
    "metric",
    label="lookahead regret",
    lower_is_better=True,
    remark="Against the best sequence of a few rounds from the same rests.",
)
def lookahead_regret(curves: Array, rounds: Stretch, depth: int = 1, repeats: bool = True) -> Array:
    """What blocks of `depth` rounds fell short of the best sequences from where they began."""
    num_rounds = jnp.sum(rounds.counted, dtype=jnp.int32)
    blocks = regret.lookahead(curves, rounds.z, rounds.arms, depth, repeats=repeats, num_rounds=num_rounds)
    return jnp.sum(blocks)


@register(
    "metric",
    label="bound gap",
    lower_is_better=True,
    remark="How far the expected reward stayed below the certified upper bound; no policy gets below 0.",
)
def bound_gap(expected_reward, upper_bound):
    """Upper bound − expected reward, on the host."""
    return upper_bound - expected_reward


@register(
    "metric",
    label="bound fraction",
    remark="Expected reward over the certified upper bound; of meaning where that is positive.",
)
def bound_fraction(expected_reward, upper_bound):
    """Expected reward / upper bound, on the host."""
    return expected_reward / upper_bound
