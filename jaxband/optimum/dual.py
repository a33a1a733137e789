"""An upper bound on what any policy can earn, for problems of any size.

Let arms be played freely, in one round several or none, but at a price λ per play. Arm j on its own then earns at most

    g_j(λ) = max(0, max_{1≤p≤G} (f_j(p − 1) − λ) / p)

per round, by one play every p rounds (resting on at z_max only delays a gain, and an arm without gain is not played).
Who must play exactly one arm per round pays λ per round in all, so that for every λ, of either sign, no policy has a
long-run average reward above λ + Σ_j g_j(λ). That is convex and piecewise linear in λ; its minimum is the dual bound.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._runtime.entry_points import argument, compiled

MAX_STEPS = 128  # about ten are usual
ACCELERATOR_STEPS = 24  # always; 16 were the most that 58,000 random problems took
MIDPOINT_EVERY = 4  # steps; halving the bracket now and then bounds their number
ROUNDING = 4.0  # spacings of floating-point numbers of the curves' size: how exactly the minimum is found


class DualBound(NamedTuple):
    """An upper bound on the long-run average reward, and what the prices behind it say of each arm."""

    average: Array  # λ + Σ_j g_j(λ); no policy earns more per round in the long run
    price: Array  # λ; what the right to play once is worth, of either sign
    gains: Array  # [K]; g_j(λ), what arm j adds per round
    relative_values: Array  # [K, G]; h_j(z), what rest z of arm j is worth beyond rest 0


def dual_bound(curves: Array) -> DualBound:
    """The least upper bound of its kind: min_λ λ + Σ_j g_j(λ), found to rounding. Of several best prices the largest.

    >>> bound = dual_bound([[0.0, 1.0, 1.0], [0.3, 0.3, 0.3]])
    >>> round(bound.average.item(), 4), round(bound.price.item(), 4)
    (0.65, 0.3)
    """
    return _dual_bound(_checked(curves))


@compiled
def _dual_bound(curves: Array) -> DualBound:
    slack = ROUNDING * _spacing(curves)

    def unfinished(search):
        return (_excess(search, slack) > slack) & (search.step < MAX_STEPS)

    def narrowed(search):
        return _narrowed(curves, search, _next_price(search, slack))

    def until_found(search):
        return jax.lax.while_loop(unfinished, narrowed, search)

    def in_fixed_steps(search):  # the host of a GPU would have to wait for every answer to `unfinished`
        def step(_, search):
            return jax.tree.map(lambda x, y: jnp.where(unfinished(search), x, y), narrowed(search), search)

        return jax.lax.fori_loop(0, ACCELERATOR_STEPS, step, search)

    search = jax.lax.platform_dependent(_around(curves), cpu=until_found, default=in_fixed_steps)
    left, right = search.left, search.right
    return _bound_at_price(curves, jnp.where(left.value < right.value - slack, left.price, right.price))


def dual_bound_from(curves: Array, price: Array, *, steps: int = 4, reach: float = 0.03) -> DualBound:
    """Nearly the dual bound after `steps` looks at the curves, from a price that was best for similar ones.

    A bound like any other, but for its price not quite the least. The first look is at `price`, the second a share
    `reach` of the curves' range further on, the next three times as far, until the best price is enclosed; from then
    on the bracket is narrowed. For loops in which curves change little from round to round.

    >>> bound = dual_bound_from([[0.0, 1.0, 1.0], [0.3, 0.3, 0.3]], price=0.25)
    >>> round(bound.average.item(), 2)
    0.65
    """
    steps = checks.integer("steps", steps, minimum=1)
    return _dual_bound_from(_checked(curves), _checked_price(price), argument(reach, float), steps)


@compiled(static=("steps",))
def _dual_bound_from(curves: Array, price: Array, reach: Array, steps: int) -> DualBound:
    search, slack = _around(curves), ROUNDING * _spacing(curves)
    outer, stride = search, reach * (jnp.max(curves) - jnp.min(curves))
    price = jnp.clip(price.astype(curves.dtype), outer.left.price + stride, outer.right.price - stride)
    for step in range(steps - 1):
        search = _narrowed(curves, search, price)
        price = _price_onward(search, outer, 3.0**step * stride, slack)
    return _bound_at_price(curves, price)


def bound_at_price(curves: Array, price: Array) -> DualBound:
    """The upper bound that a given price proves, with its gains and relative values.

    h_j is what the rests of arm j are worth to one who plays it at that price as well as possible for ever:

        h_j(z) + g_j = max(f_j(z) − λ + h_j(0), h_j(min(z + 1, z_max))),   h_j(0) = 0,

    so that h_j(z) = max_{y≥z} f_j(y) − λ − (y − z + 1) g_j, and 0 for an arm without gain: it need not be played.

    >>> bound_at_price([[0.0, 1.0, 1.0], [0.5, 0.5, 0.5]], price=0.5).relative_values.tolist()
    [[0.0, 0.25, 0.25], [0.0, 0.0, 0.0]]
    """
    return _bound_at_price(_checked(curves), _checked_price(price))


@compiled
def _bound_at_price(curves: Array, price: Array) -> DualBound:
    price = price.astype(curves.dtype)
    gains = _gains(curves, price)
    rests = jnp.arange(curves.shape[1], dtype=curves.dtype)[None, :]
    if_played_at = curves - price - (rests + 1) * gains[:, None]
    values = _best_from_here(if_played_at) + rests * gains[:, None]
    relative_values = jnp.where(gains[:, None] > 0, values - values[:, :1], 0.0)
    return DualBound(price + jnp.sum(gains), price, gains, relative_values)


def terminal_values(curves: Array, price: Array, *, width: float = 0.015, looks: int = 5) -> Array:
    """What rests are worth to a planner after its window, [K, G]: relative values averaged over prices near `price`.

    At the best price itself some arms are indifferent between two periods, and a planner that goes by their relative
    values cannot tell when to play them. The mean over prices within a share `width` of the curves' range can.

    >>> curves = jnp.asarray([[0.0, 0.9, 1.0], [0.3, 0.4, 0.4]])
    >>> terminal_values(curves, dual_bound(curves).price).shape
    (2, 3)
    """
    looks = checks.integer("looks", looks, minimum=1)
    return _terminal_values(_checked(curves), _checked_price(price), argument(width, float), looks)


@compiled(static=("looks",))
def _terminal_values(curves: Array, price: Array, width: Array, looks: int) -> Array:
    reach = width * (jnp.max(curves) - jnp.min(curves))
    prices = price + reach * jnp.asarray(np.linspace(-1.0, 1.0, looks), curves.dtype)
    return jnp.mean(jax.vmap(lambda p: _bound_at_price(curves, p).relative_values)(prices), axis=0)


def total_reward_bound(bound: DualBound, z_init: Array, horizon: Array) -> Array:
    """The total expected reward that no policy exceeds over `horizon` rounds from rests z_init [K].

        T·D + Σ_j max(h_j(z_init), 0)

    Every play or rest of arm j satisfies net reward + h_j(next z) ≤ g_j + h_j(z). Nor does max(h_j, 0) break these
    inequalities, as h_j(0) = 0 and g_j ≥ 0; and the least it can have at the end is 0. Rounding errors are those of
    `horizon` times a sum of K gains: in float32 about 10⁻⁶ of the largest |curve| per round.

    >>> bound = dual_bound([[0.0, 1.0, 1.0], [0.3, 0.3, 0.3]])
    >>> round(total_reward_bound(bound, z_init=[2, 0], horizon=100).item(), 2)
    65.35
    """
    return horizon * bound.average + head_start(bound, z_init)


def head_start(bound: DualBound, z_init: Array) -> Array:
    """What rests z_init [K] can add to the total of any number of rounds: Σ_j max(h_j(z_init), 0)."""
    checks.shape("z_init", z_init, bound.gains.shape, "[K]")
    checks.indices("z_init", z_init, bound.relative_values.shape[1], "0..z_max")
    return _head_start(bound, argument(z_init, np.int32))


@compiled
def _head_start(bound: DualBound, z_init: Array) -> Array:
    rests = jnp.arange(bound.relative_values.shape[1], dtype=z_init.dtype)
    here = rests[None, :] == z_init[:, None]
    return jnp.sum(jnp.where(here, jnp.maximum(bound.relative_values, 0.0), 0.0))


class _Line(NamedTuple):
    """The bound as a function of the price near one price: a line that supports it from below everywhere."""

    price: Array
    value: Array
    slope: Array  # to the right of the price


class _Search(NamedTuple):
    """What is known of the best price: it is not left of `left` and not right of `right`."""

    left: _Line  # slope ≤ 0
    right: _Line  # slope > 0
    step: Array


def _around(curves: Array) -> _Search:
    """Prices so low that every arm would be played all the time, and so high that none would be."""
    low, high = jnp.min(curves), jnp.max(curves)
    lowest = low - 2.0 * (high - low)
    everything = lowest + jnp.sum(curves[:, 0] - lowest)
    one = jnp.ones_like(high)
    return _Search(_Line(lowest, everything, one - curves.shape[0]), _Line(high, high, one), jnp.zeros((), jnp.int32))


def _narrowed(curves: Array, search: _Search, price: Array) -> _Search:
    """What is known once the bound at `price` is."""
    inverse_periods = _inverse_periods(curves)
    gains = _gains(curves, price)
    best = (curves - price) * inverse_periods >= gains[:, None]
    rates = jnp.where(gains > 0, jnp.min(jnp.where(best, inverse_periods, 1.0), axis=1), 0.0)
    slope = 1.0 - jnp.sum(rates)
    rises = slope > 16.0 * jnp.finfo(curves.dtype).eps
    line = _Line(price, price + jnp.sum(gains), jnp.where(rises, slope, jnp.minimum(slope, 0.0)))
    return _Search(_where(rises, search.left, line), _where(rises, line, search.right), search.step + 1)


def _next_price(search: _Search, slack: Array) -> Array:
    middle = 0.5 * (search.left.price + search.right.price)
    halve = search.step % MIDPOINT_EVERY == MIDPOINT_EVERY - 1
    return jnp.where(halve, middle, _beyond_meeting(search, slack))


def _price_onward(search: _Search, outer: _Search, stride: Array, slack: Array) -> Array:
    """Where the lines meet, or `stride` beyond what was looked at if that was all on one side of the best price."""
    up = jnp.minimum(search.left.price + stride, 0.5 * (search.left.price + outer.right.price))
    down = jnp.maximum(search.right.price - stride, 0.5 * (search.right.price + outer.left.price))
    outward = jnp.where(search.left.price == outer.left.price, down, _beyond_meeting(search, slack))
    return jnp.where(search.right.price == outer.right.price, up, outward)


def _beyond_meeting(search: _Search, slack: Array) -> Array:
    """A little to the right of where the lines meet, so that a kink found there becomes the right end.

    At the kink itself rounding would say on which side of it the best price is.
    """
    return jnp.minimum(_meeting(search) + 0.5 * slack, search.right.price)


def _meeting(search: _Search) -> Array:
    """The price at which the two lines meet: no minimum is below their value there."""
    left, right = search.left, search.right
    above = right.value - left.value - left.slope * (right.price - left.price)
    return jnp.clip(right.price - above / (right.slope - left.slope), left.price, right.price)


def _excess(search: _Search, slack: Array) -> Array:
    """How far the better end is above the least the minimum can be; the left one only if no price is between."""
    left, right, meeting = search.left, search.right, _meeting(search)
    stuck = meeting - left.price <= slack
    return jnp.minimum(
        right.slope * (right.price - meeting), jnp.where(stuck, left.slope * (left.price - meeting), jnp.inf)
    )


def _gains(curves: Array, price: Array) -> Array:
    """g_j(λ), [K]."""
    return jnp.maximum(jnp.max((curves - price) * _inverse_periods(curves), axis=1), 0.0)


def _best_from_here(table: Array) -> Array:
    """max_{y≥z} table[:, y] for every z, in doubling steps: half the time of `lax.cummax` on CPU."""
    reach, size = 1, table.shape[1]
    while reach < size:
        ahead = jnp.maximum(table[:, :-reach], table[:, reach:])
        table, reach = jnp.concatenate([ahead, table[:, size - reach :]], axis=1), 2 * reach
    return table


def _inverse_periods(curves: Array) -> Array:
    """1/p for p = 1..G, [1, G]."""
    return jnp.asarray(1.0 / np.arange(1, curves.shape[1] + 1), curves.dtype)[None, :]


def _spacing(curves: Array) -> Array:
    """That of floating-point numbers of the curves' size."""
    return jnp.finfo(curves.dtype).eps * jnp.max(jnp.abs(curves))


def _where(condition: Array, one: _Line, other: _Line) -> _Line:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), one, other)


def _checked(curves: Array) -> Array:
    checks.shape("curves", curves, (None, None), "[K, G]")
    checks.finite("curves", curves)
    if 0 in np.shape(curves):
        raise ValueError(f"curves must have at least one arm and one rest, got shape {list(np.shape(curves))}")
    return argument(curves, float)


def _checked_price(price) -> Array:
    checks.scalar("price", price)
    checks.finite("price", price)
    return argument(price, float)
