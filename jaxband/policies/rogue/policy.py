"""RogueUCB-Tuned (Mintz et al.): the curves are known up to θ, and every arm is as good as its data let it be.

With N plays of an arm, θ̂ their maximum-likelihood fit and KL = (f(θ, z) − f(θ̂, z))² / (2σ²), its index at rest z is

    max_θ f(θ, z)   subject to   (1/N) Σ KL ≤ √(min(η/4, S(θ)) · ln t / N),   S(θ) = (1/N²) gᵀ H⁻¹ g,

sums over its plays, g the gradient of Σ KL in θ, H the observed information of the plays at θ̂, η the largest KL there
can be. Counts and sums per rest are all that matters. Both problems are solved globally in practice: the best point of
a table of θ, then Gauss–Newton steps from there. One parameter of most families is a height, f = height · shape; then
the table holds shapes, and the best height of each is found by itself, as everything is a polynomial in it.
With q = Σ KL the constraint is q² / (N min(η/4, S)) ≤ ln t. What the table has to say for an arm changes when it is
played, and a little as t grows: it is kept for the ln t of its last play, and for one `LATER`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband._compiled import unrolled_linalg
from jaxband._compiled.batching import batch_last, single_problem
from jaxband.base import IDLE, Policy, Round
from jaxband.policies.arguments import as_number
from jaxband.policies.rogue import search
from jaxband.policies.rogue.family_curves import value_at
from jaxband.policies.rogue.family_table import Table, tabulate
from jaxband.policies.rogue.search import Fitted
from jaxband.policies.warm_up import with_warm_up
from jaxband.pytree import pytree_dataclass
from jaxband.recovery import FAMILIES, ParametricFamily
from jaxband.registry import Cost, register

TABLE_POINTS = 324  # of θ, or of shapes
FINE_TABLE_POINTS = 6400
TABLE_PARTS = 16
HEIGHTS = np.linspace(0.0, 1.0, 10) ** 2  # tried for every shape, between the best fit and the highest possible
FINE_HEIGHTS = np.linspace(0.0, 1.0, 40) ** 2
LATER = 0.5
REFINE_STEPS = 6
CANDIDATES = 2  # arms whose index is refined before one is chosen


def _cost(values) -> Cost:
    return Cost(25.0 + 1.2 * values["num_arms"] + 1.05 * (values["z_max"] + 1), 21.0)


@register("policy", label="RogueUCB-Tuned", cost=_cost, example={"family": "logistic"}, told=("family", "noise"))
def rogue_ucb_tuned(
    family: str | ParametricFamily,
    num_arms: int,
    z_max: int,
    noise: float,
    *,
    largest_divergence: float | None = None,
    warm_up: int | None = None,
) -> Policy:
    """The parametric baseline; `family` is "logistic", "gamma", "exponential" or a `recovery.ParametricFamily`.

    `largest_divergence` is η (default 1/(2σ²): curves span [0, 1]). The first `warm_up` rounds play arms 0, 1, 2, … in
    turn (default: each once, as the index needs data).

    >>> rogue_ucb_tuned("logistic", num_arms=10, z_max=30, noise=0.1).num_arms
    10
    """
    num_arms = checks.integer("num_arms", num_arms, minimum=1)
    z_max = checks.integer("z_max", z_max, minimum=0)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    if isinstance(family, str):
        family = FAMILIES[checks.one_of("family", family, FAMILIES)](z_max)
    if not isinstance(family, ParametricFamily):
        raise TypeError(f"family must be a recovery.ParametricFamily or one of {', '.join(FAMILIES)}, got {family!r}")
    if largest_divergence is None:
        largest_divergence = (
            0.5 / np.asarray(noise, float) ** 2 if checks.concrete_or_none(noise) is not None else 0.5 / noise**2
        )
    checks.positive("largest_divergence", largest_divergence)
    warm_up = num_arms if warm_up is None else checks.integer("warm_up", warm_up, minimum=0)
    table = tabulate(family, z_max + 1, TABLE_POINTS)
    policy = RogueUcbTuned(table, as_number(noise), as_number(largest_divergence), family, num_arms, z_max)
    return with_warm_up(policy, warm_up)


class RogueState(NamedTuple):
    counts: Array  # [K, G]
    sums: Array  # [K, G]
    best_fit: Array  # [K, p]; x̂
    information: Array  # [K, p(p+1)/2]; observed at x̂, a lower triangle row by row
    log_t: Array  # [K]; when the arm was last played
    heights: Array  # [2, K, M]; the largest admissible height of each table point then and `LATER`; −∞ if there is none


@pytree_dataclass(static=("family", "num_arms", "z_max"))
class RogueUcbTuned(Policy):
    table: Table
    noise: Array
    largest_divergence: Array
    family: ParametricFamily
    num_arms: int
    z_max: int

    def init(self, key: Array) -> RogueState:
        num_points, num_parameters = self.table.points.shape
        zeros = jnp.zeros((self.num_arms, self.z_max + 1))
        centres = jnp.full((self.num_arms, num_parameters), 0.5, zeros.dtype)
        highest = 1.0 if self.family.amplitude_index is None else self.family.bounds[self.family.amplitude_index][1]
        heights = jnp.full((2, self.num_arms, num_points), highest, zeros.dtype)
        unknown = jnp.zeros((self.num_arms, num_parameters * (num_parameters + 1) // 2))
        return RogueState(zeros, zeros, centres, unknown, jnp.zeros(self.num_arms), heights)

    def choose(self, key, state: RogueState, round: Round) -> tuple[Array, RogueState]:
        """The arm of largest index. Only arms that are among the best by the table are refined: half the time saved."""
        z = round.z
        log_t, starts, indices = self._in_table(state, z, round.t)
        if round.available is not None:
            available = round.available
            indices = jnp.where(available, indices, -jnp.inf)
        _, likely = jax.lax.top_k(indices, min(CANDIDATES, self.num_arms))

        _, values = self._refine(starts[likely], indices[likely], state, likely, z[likely], log_t, REFINE_STEPS)
        if round.available is None:
            return likely[jnp.argmax(values)], state
        values = jnp.where(available[likely], values, -jnp.inf)
        return jnp.where(jnp.any(available), likely[jnp.argmax(values)], IDLE), state

    def update(self, state: RogueState, round: Round, arm: Array, reward: Array) -> RogueState:
        new = self._updated(state, arm, round.z[arm], reward)
        if round.available is None:
            return new
        return jax.tree.map(lambda new, old: jnp.where(arm >= 0, new, old), new, state)

    def _updated(self, state: RogueState, arm: Array, z: Array, reward: Array) -> RogueState:
        counts, sums = state.counts.at[arm, z].add(1.0), state.sums.at[arm, z].add(reward)
        best_fit = self.fit(counts[arm], sums[arm], state.best_fit[arm])
        information = self._information(counts[arm], sums[arm], best_fit)
        log_t = jnp.log(jnp.sum(counts) + 1.0)  # of the next round
        fitted = self._fitted(counts[arm], best_fit, information)
        heights = self.admissible_heights(fitted, jnp.stack([log_t, log_t + LATER]))
        chosen = np.arange(self.num_arms, dtype=np.int32) == arm
        return RogueState(
            counts,
            sums,
            jnp.where(chosen[:, None], best_fit[None, :], state.best_fit),
            jnp.where(chosen[:, None], information[None, :], state.information),
            jnp.where(chosen, log_t, state.log_t),
            state.heights.at[:, arm].set(heights),
        )

    def indices(self, state: RogueState, z: Array, t: Array) -> Array:
        """The upper confidence of every arm at rests z [K] in round t = 0, 1, …, [K]."""
        return self.optimistic_parameters(state, z, t)[1]

    def optimistic_parameters(self, state: RogueState, z: Array, t: Array) -> tuple[Array, Array]:
        """The admissible x [K, p] at which every arm is best at its rest, and f there [K].

        More thorough than `choose`: a finer table, more heights (the admissible set may be thin), and steps from the
        best point of each part of the table and from the fit.
        """
        log_t = jnp.log(jnp.asarray(t, dtype=float) + 1.0)
        thorough = dataclasses.replace(self, table=tabulate(self.family, self.z_max + 1, FINE_TABLE_POINTS))

        def search_from_all_parts(arm, best_fit, z):
            fitted = self._fitted(state.counts[arm], best_fit, state.information[arm])
            starts, values = thorough._starts(fitted, best_fit, z, log_t)
            arms, rests = (jnp.full(len(starts), n, jnp.int32) for n in (arm, z))
            ends, values = self._refine(starts, values, state, arms, rests, log_t, 4 * REFINE_STEPS)
            first = jnp.argmax(values)
            return ends[first], values[first]

        return jax.vmap(search_from_all_parts)(jnp.arange(self.num_arms), state.best_fit, z)

    def _starts(self, fitted: Fitted, best_fit: Array, z: Array, log_t: Array) -> tuple[Array, Array]:
        """Admissible x [TABLE_PARTS + 1, p]: the best at rest z of each part of the table, and the fit; f there."""
        size = len(self.table.points) // TABLE_PARTS
        heights = self.admissible_heights(fitted, log_t[None], FINE_HEIGHTS)[0]
        values = jnp.where(heights > -jnp.inf, heights * self.table.values[z], -jnp.inf)
        best = jnp.argmax(values[: TABLE_PARTS * size].reshape(TABLE_PARTS, size), axis=1).astype(jnp.int32)
        points = best + size * np.arange(TABLE_PARTS, dtype=np.int32)
        in_table = jax.vmap(self._at_height)(points, heights[points])
        # f anew at those points, not values[points]: XLA may compute heights twice, and round to other ones
        reached, at_fit = value_at(self.family, in_table.T, z), value_at(self.family, best_fit, z)
        better = reached > at_fit
        starts = jnp.where(better[:, None], in_table, best_fit[None, :])
        return jnp.concatenate([starts, best_fit[None]]), jnp.append(jnp.where(better, reached, at_fit), at_fit)

    def admissible_heights(self, fitted: Fitted, log_t: Array, parts: np.ndarray = HEIGHTS) -> Array:
        """The largest admissible height tried for each table point at each ln t, [n, M] for [n]; −∞ if there is none.

        Without a height parameter: 1 if the point is admissible.
        """
        if self.family.amplitude_index is None:
            columns = jax.tree.map(lambda a: a[..., None], fitted)
            needed = search.needed(columns, self.table.values, list(self.table.slopes))
            return jnp.where(needed[None, :] <= log_t[:, None], 1.0, -jnp.inf)
        room_at, fits, highest = self._along_heights(fitted, log_t[-1])
        best = jnp.full((log_t.shape[0], self.table.points.shape[0]), -jnp.inf)
        for part in parts:
            height = fits + part * (highest - fits)
            square, room = room_at(height)
            best = jnp.where(square[None, :] <= log_t[:, None] * room[None, :], height[None, :], best)
        return best

    def _along_heights(
        self, fitted: Fitted, log_t: Array
    ) -> tuple[Callable[[Array], tuple[Array, Array]], Array, Array]:
        """For all shapes [M]: q² and N min(η/4, S) by height; the height that fits best; one above all admissible."""
        low, high = self.family.bounds[self.family.amplitude_index]
        square, *squares = self._sums(fitted.weights, self.table.products)
        cross, *crosses = self._sums(fitted.weights * fitted.curve, self.table.factors)
        own = jnp.sum(fitted.weights * fitted.curve**2)
        gradient = [[0.0] * len(crosses), [-b for b in crosses], squares]  # coefficients of 1, height, height²
        for coefficients, along in zip(gradient, (-cross, square, 0.0), strict=True):
            coefficients.insert(self.family.amplitude_index, (high - low) * along)
        halves = [unrolled_linalg.half_solve(fitted.factor, coefficients) for coefficients in gradient]

        def room(height):
            divergence = jnp.maximum(0.5 * (height * (height * square - 2.0 * cross) + own), 0.0)
            half = [a + height * (b + height * c) for a, b, c in zip(*halves, strict=True)]
            return divergence**2, fitted.num_plays * search.spread(fitted, half)

        most = jnp.sqrt(fitted.num_plays * fitted.largest_spread * log_t)  # of q, whatever S
        fits = cross / jnp.maximum(square, 1e-30)
        beyond = jnp.sqrt(jnp.maximum(fits**2 - (own - 2.0 * most) / jnp.maximum(square, 1e-30), 0.0))
        return room, jnp.clip(fits, low, high), jnp.clip(fits + beyond, low, high)

    def fit(self, counts: Array, sums: Array, guess: Array) -> Array:
        """The maximum-likelihood x̂ [p] of one arm: least squares of its averages."""
        averages = sums / jnp.maximum(counts, 1.0)
        fit_all = batch_last(functools.partial(search.fit_from, self.family))
        starts = jnp.stack([self._best_in_table(averages, counts), guess], axis=1)
        ends, losses = fit_all(starts, *(jnp.stack([x, x], axis=1) for x in (counts, averages)))
        return jnp.where(losses[1] < losses[0], ends[:, 1], ends[:, 0])

    def _best_in_table(self, averages: Array, counts: Array) -> Array:
        """The table point of least squares, with its best height."""
        if self.family.amplitude_index is None:
            misfits = jnp.sum(counts[:, None] * (self.table.values - averages[:, None]) ** 2, axis=0)
            return self.table.points[jnp.argmin(misfits)]
        low, high = self.family.bounds[self.family.amplitude_index]
        square = self._sums(counts, self.table.products)[0]
        cross = _dot(counts * averages, self.table.values)
        heights = jnp.clip(cross / jnp.maximum(square, 1e-30), low, high)
        best = jnp.argmin(heights * (heights * square - 2.0 * cross))
        return self._at_height(best, heights[best])

    def _at_height(self, point: Array, height: Array) -> Array:
        """x of a table point at a height."""
        if self.family.amplitude_index is None:
            return self.table.points[point]
        low, high = self.family.bounds[self.family.amplitude_index]
        is_height = np.arange(len(self.family.bounds)) == self.family.amplitude_index
        return jnp.where(is_height, (height - low) / (high - low), self.table.points[point])

    def _in_table(self, state: RogueState, z: Array, t: Array) -> tuple[Array, Array, Array]:
        """ln t and, for every arm, the best admissible x [K, p] of the table and f(x, z) [K]; or the fit, if better."""
        log_t = jnp.log(jnp.asarray(t, dtype=float) + 1.0)
        later = log_t >= state.log_t + LATER
        heights = jnp.where(later[:, None], state.heights[1], state.heights[0])
        values = jnp.where(heights > -jnp.inf, heights * self.table.values[z], -jnp.inf)
        points, best = jnp.argmax(values, axis=1).astype(jnp.int32), jnp.max(values, axis=1)
        best_heights = jnp.take_along_axis(heights, points[:, None], axis=1)[:, 0]
        in_table = jax.vmap(self._at_height)(points, best_heights)
        at_fit = value_at(self.family, state.best_fit.T, z)
        better = best > at_fit
        return log_t, jnp.where(better[:, None], in_table, state.best_fit), jnp.maximum(best, at_fit)

    def _refine(
        self, x: Array, index: Array, state: RogueState, arms: Array, z: Array, log_t: Array, num_steps: int
    ) -> tuple[Array, Array]:
        """The x [n, p] of largest f(θ, z) found from admissible ones of the given arms [n], and f there [n]."""

        def refine(x, index, z, log_t, *arm):
            return search.refine(self.family, num_steps, x, index, search.fitted(self.family, *arm), z, log_t)

        common = (jnp.broadcast_to(a, arms.shape) for a in (log_t, self.noise, self.largest_divergence))
        log_t, noise, largest_divergence = common
        known = state.counts[arms].T, state.best_fit[arms].T, state.information[arms].T
        ends, values = batch_last(refine)(x.T, index, z, log_t, *known, noise, largest_divergence)
        return ends.T, values

    def _information(self, counts: Array, sums: Array, best_fit: Array) -> Array:
        """Observed information of one arm's plays in x, or Fisher's where that is not positive definite."""
        compute = single_problem(batch_last(functools.partial(search.information, self.family)))
        return compute(best_fit, counts, sums / jnp.maximum(counts, 1.0)) / self.noise**2

    def _fitted(self, counts: Array, best_fit: Array, information: Array) -> Fitted:
        compute = single_problem(batch_last(functools.partial(search.fitted, self.family)))
        return compute(counts, best_fit, information, self.noise, self.largest_divergence)

    def _sums(self, weights: Array, table: Array) -> list[Array]:
        """Σ_z weight · table of tables side by side, [M] each."""
        return jnp.split(_dot(weights, table), len(self.family.bounds))


def _dot(weights: Array, table: Array) -> Array:
    return jnp.dot(weights, table, precision=jax.lax.Precision.HIGHEST)
