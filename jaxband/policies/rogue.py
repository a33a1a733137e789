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
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks, small_matrices
from jaxband.base import record
from jaxband.planners.exhaustive import best_arm
from jaxband.policies.gaussian import as_count, as_number
from jaxband.policies.rogue_steps import clipped, step_within, steps_uphill
from jaxband.policies.rogue_table import Table, bends, curve_at, tabulate, theta_at
from jaxband.recovery import FAMILIES, Family

TABLE_POINTS = 625  # of θ, or of shapes
FINE_TABLE_POINTS = 6400
TABLE_PARTS = 16
HEIGHTS = np.linspace(0.0, 1.0, 10) ** 2  # tried for every shape, between the best fit and the highest possible
LATER = 0.5
FIT_STEPS = 6
REFINE_STEPS = 6
CANDIDATES = 2  # arms whose index is refined before one is chosen
DAMPINGS = (1e-6, 1e-3, 1e-1, 1e1)  # of a Gauss–Newton step, relative to the mean curvature
REACHES = (1.5, 0.5)  # lengths tried in every step
RIDGE = 1e-6  # relative to the mean curvature: a direction in θ that no play tells anything about


def rogue_ucb_tuned(
    family: str | Family,
    num_arms: int,
    z_max: int,
    noise: float,
    *,
    largest_divergence: float | None = None,
    warm_up: int | None = None,
) -> "RogueUcbTuned":
    """The parametric baseline; `family` is a name ("logistic", "gamma", "exponential") or a `recovery.Family`.

    `largest_divergence` is η (default 1/(2σ²): curves span [0, 1]). The first `warm_up` rounds play arms 0, 1, 2, … in
    turn (default: each once, as the index needs data).

    >>> rogue_ucb_tuned("logistic", num_arms=10, z_max=30, noise=0.1).num_arms
    10
    """
    num_arms = checks.whole_number("num_arms", num_arms, minimum=1)
    z_max = checks.whole_number("z_max", z_max, minimum=0)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    if isinstance(family, str):
        family = FAMILIES[checks.one_of("family", family, FAMILIES)](z_max)
    if not isinstance(family, Family):
        raise TypeError(f"family must be a recovery.Family or one of {', '.join(FAMILIES)}, got {family!r}")
    if largest_divergence is None:
        largest_divergence = (
            0.5 / np.asarray(noise, float) ** 2 if checks.concrete(noise) is not None else 0.5 / noise**2
        )
    checks.positive("largest_divergence", largest_divergence)
    warm_up = num_arms if warm_up is None else checks.whole_number("warm_up", warm_up, minimum=0)
    table = tabulate(family, z_max + 1, TABLE_POINTS)
    return RogueUcbTuned(
        table, as_number(noise), as_number(largest_divergence), as_count(warm_up), family, num_arms, z_max
    )


class History(NamedTuple):
    counts: Array  # [K, G]
    sums: Array  # [K, G]
    best_fit: Array  # [K, p]; x̂
    information: Array  # [K, p(p+1)/2]; observed at x̂, a lower triangle row by row
    log_t: Array  # [K]; when the arm was last played
    heights: Array  # [2, K, M]; the largest admissible height of each table point then and `LATER`; −∞ if there is none


class Fitted(NamedTuple):
    """What the constraint of one arm is made of."""

    weights: Array  # [G]; counts / σ²
    curve: Array  # [G]; f(θ̂, ·)
    factor: list[list[Array]]  # of H, in x
    num_plays: Array  # at least 1


@record("family", "num_arms", "z_max")
class RogueUcbTuned:
    table: Table
    noise: Array
    largest_divergence: Array
    warm_up: Array
    family: Family
    num_arms: int
    z_max: int

    depth = commit = 1

    def init(self, key: Array) -> History:
        num_points, num_parameters = self.table.points.shape
        zeros = jnp.zeros((self.num_arms, self.z_max + 1))
        centres = jnp.full((self.num_arms, num_parameters), 0.5)
        highest = 1.0 if self.family.height is None else self.family.bounds[self.family.height][1]
        heights = jnp.full((2, self.num_arms, num_points), highest)
        unknown = jnp.zeros((self.num_arms, num_parameters * (num_parameters + 1) // 2))
        return History(zeros, zeros, centres, unknown, jnp.zeros(self.num_arms), heights)

    def plan(self, key: Array, state: History, z: Array, t: Array) -> Array:
        """The arm of largest index. Only arms that are among the best by the table are refined: half the time saved."""
        log_t, starts, indices = self._in_table(state, z, t)
        _, likely = jax.lax.top_k(indices, min(CANDIDATES, self.num_arms))

        def refined(arm):
            return self._refine(starts[arm], indices[arm], self._known(state, arm), z[arm], log_t, REFINE_STEPS)

        _, values = jax.vmap(refined)(likely)
        return likely[best_arm(values).arms]

    def update(self, state: History, arm: Array, z: Array, reward: Array) -> History:
        counts, sums = state.counts.at[arm, z].add(1.0), state.sums.at[arm, z].add(reward)
        best_fit = self.fit(counts[arm], sums[arm], state.best_fit[arm])
        information = self._information(counts[arm], sums[arm], best_fit)
        log_t = jnp.log(jnp.sum(counts) + 1.0)  # of the next round
        fitted = self._fitted(counts[arm], best_fit, information)
        heights = self.admissible_heights(fitted, jnp.stack([log_t, log_t + LATER]))
        chosen = np.arange(self.num_arms, dtype=np.int32) == arm
        return History(
            counts,
            sums,
            jnp.where(chosen[:, None], best_fit[None, :], state.best_fit),
            jnp.where(chosen[:, None], information[None, :], state.information),
            jnp.where(chosen, log_t, state.log_t),
            jnp.where(chosen[None, :, None], heights[:, None, :], state.heights),
        )

    def indices(self, state: History, z: Array, t: Array) -> Array:
        """The upper confidence of every arm at rests z [K] in round t = 0, 1, …, [K]."""
        return self.most_favourable(state, z, t)[1]

    def most_favourable(self, state: History, z: Array, t: Array) -> tuple[Array, Array]:
        """The admissible x [K, p] at which every arm is best at its rest, and f there [K].

        More thorough than `plan`: a finer table, and steps from the best point of each of its parts and from the fit.
        """
        log_t = jnp.log(jnp.asarray(t, dtype=float) + 1.0)
        thorough = dataclasses.replace(self, table=tabulate(self.family, self.z_max + 1, FINE_TABLE_POINTS))

        def search(arm, best_fit, z):
            fitted = self._known(state, arm)
            starts, values = thorough._starts(fitted, best_fit, z, log_t)
            ends, values = jax.vmap(lambda x, value: self._refine(x, value, fitted, z, log_t, 4 * REFINE_STEPS))(
                starts, values
            )
            first = best_arm(values).arms[0]
            return ends[first], values[first]

        return jax.vmap(search)(jnp.arange(self.num_arms), state.best_fit, z)

    def _starts(self, fitted: Fitted, best_fit: Array, z: Array, log_t: Array) -> tuple[Array, Array]:
        """Admissible x [TABLE_PARTS + 1, p]: the best at rest z of each part of the table, and the fit; f there."""
        size = len(self.table.points) // TABLE_PARTS
        heights = self.admissible_heights(fitted, log_t[None])[0]
        values = jnp.where(heights > -jnp.inf, heights * self.table.values[z], -jnp.inf)
        best = jax.vmap(best_arm)(values[: TABLE_PARTS * size].reshape(TABLE_PARTS, size))
        points = best.arms[:, 0] + size * np.arange(TABLE_PARTS, dtype=np.int32)
        at_fit = self._value_at(best_fit, z)
        starts = jnp.where(
            (best.value > at_fit)[:, None], jax.vmap(self._at_height)(points, heights[points]), best_fit[None, :]
        )
        return jnp.concatenate([starts, best_fit[None]]), jnp.append(jnp.maximum(best.value, at_fit), at_fit)

    def admissible_heights(self, fitted: Fitted, log_t: Array) -> Array:
        """The largest admissible height of each table point at each ln t, [n, M] for [n]; −∞ if there is none.

        Without a height parameter: 1 if the point is admissible.
        """
        if self.family.height is None:
            needed = self._needed(fitted, self.table.values, list(self.table.slopes))
            return jnp.where(needed[None, :] <= log_t[:, None], 1.0, -jnp.inf)
        needed_of, fits, highest = self._along_heights(fitted, log_t[-1])
        best = jnp.full((log_t.shape[0], self.table.points.shape[0]), -jnp.inf)
        for part in HEIGHTS:
            height = fits + part * (highest - fits)
            best = jnp.where(needed_of(height)[None, :] <= log_t[:, None], height, best)
        return best

    def _along_heights(self, fitted: Fitted, log_t: Array) -> tuple[Callable[[Array], Array], Array, Array]:
        """For all shapes [M]: `_needed` by height; the height that fits best; one above all that are admissible."""
        low, high = self.family.bounds[self.family.height]
        square, *squares = _sums(fitted.weights, self.table.products, len(self.family.bounds))
        cross, *crosses = _sums(fitted.weights * fitted.curve, self.table.factors, len(self.family.bounds))
        own = jnp.sum(fitted.weights * fitted.curve**2)

        def needed(height):
            divergence = 0.5 * (height * (height * square - 2.0 * cross) + own)
            gradient = [height * (height * a - b) for a, b in zip(squares, crosses, strict=True)]
            gradient.insert(self.family.height, (high - low) * (height * square - cross))
            return self._log_t_needed(fitted, jnp.maximum(divergence, 0.0), gradient)

        most = jnp.sqrt(fitted.num_plays * self.largest_divergence / 4.0 * log_t)  # of q, whatever S
        fits = cross / jnp.maximum(square, 1e-30)
        beyond = jnp.sqrt(jnp.maximum(fits**2 - (own - 2.0 * most) / jnp.maximum(square, 1e-30), 0.0))
        return needed, jnp.clip(fits, low, high), jnp.clip(fits + beyond, low, high)

    def fit(self, counts: Array, sums: Array, guess: Array) -> Array:
        """The maximum-likelihood x̂ [p] of one arm: least squares of its averages."""
        averages = sums / jnp.maximum(counts, 1.0)
        start = self._best_in_table(averages, counts)

        def improve(_, x):
            values, slopes = self._curve(x)
            force = [-jnp.sum(slope * counts * (values - averages)) for slope in slopes]
            curvature = small_matrices.products(slopes, counts)
            unit = small_matrices.mean(curvature)
            steps = [
                step_within(x, small_matrices.with_ridge(curvature, damping * unit), force) for damping in DAMPINGS
            ]
            trials = [x, *(clipped(x, step) for step in steps)]
            losses = [_misfit(self._values(trial)[:, None], averages, counts)[0] for trial in trials]
            return _first_of_least(losses, trials)

        ends = jax.vmap(lambda x: jax.lax.fori_loop(0, FIT_STEPS, improve, x))(jnp.stack([start, guess]))
        losses = [_misfit(self._values(end)[:, None], averages, counts)[0] for end in ends]
        return _first_of_least(losses, list(ends))

    def _best_in_table(self, averages: Array, counts: Array) -> Array:
        """The table point of least squares, with its best height."""
        if self.family.height is None:
            return self.table.points[jnp.argmin(_misfit(self.table.values, averages, counts))]
        low, high = self.family.bounds[self.family.height]
        square = jnp.sum(counts[:, None] * self.table.values**2, axis=0)
        cross = jnp.sum((counts * averages)[:, None] * self.table.values, axis=0)
        heights = jnp.clip(cross / jnp.maximum(square, 1e-30), low, high)
        best = jnp.argmin(heights * (heights * square - 2.0 * cross))
        return self._at_height(best, heights[best])

    def _at_height(self, point: Array, height: Array) -> Array:
        """x of a table point at a height."""
        if self.family.height is None:
            return self.table.points[point]
        low, high = self.family.bounds[self.family.height]
        is_height = np.arange(len(self.family.bounds)) == self.family.height
        return jnp.where(is_height, (height - low) / (high - low), self.table.points[point])

    def _in_table(self, state: History, z: Array, t: Array) -> tuple[Array, Array, Array]:
        """ln t and, for every arm, the best admissible x [K, p] of the table and f(x, z) [K]; or the fit, if better."""
        log_t = jnp.log(jnp.asarray(t, dtype=float) + 1.0)
        later = log_t >= state.log_t + LATER
        heights = jnp.where(later[:, None], state.heights[1], state.heights[0])
        values = jnp.where(heights > -jnp.inf, heights * self.table.values[z], -jnp.inf)
        best = jax.vmap(best_arm)(values)
        points = best.arms[:, 0]
        best_heights = jnp.take_along_axis(heights, points[:, None], axis=1)[:, 0]
        in_table = jax.vmap(self._at_height)(points, best_heights)
        at_fit = jax.vmap(self._value_at)(state.best_fit, z)
        better = best.value > at_fit
        return log_t, jnp.where(better[:, None], in_table, state.best_fit), jnp.maximum(best.value, at_fit)

    def _refine(
        self, x: Array, index: Array, fitted: Fitted, z: Array, log_t: Array, num_steps: int
    ) -> tuple[Array, Array]:
        """The x of largest f(θ, z) found from an admissible one, and f there.

        Steps go along f, or along the bound of the admissible set.
        The length of a step is measured by what it would add to q, or by its share of the box where the plays say
        nothing; it grows after a success and shrinks after a failure. A trial beyond the bound is put back once.
        """
        plays = fitted.num_plays
        farthest = jnp.sqrt(plays * self.largest_divergence / 4.0 * log_t)

        def excess(x):
            values, slopes = self._curve(x)
            return self._needed(fitted, values[:, None], [s[:, None] for s in slopes])[0] / log_t - 1.0

        def improve(_, best):
            x, index, length = best
            _, slopes = self._curve(x)
            metric = small_matrices.with_ridge(small_matrices.products(slopes, fitted.weights), 2.0 * farthest)
            over, outward = jax.value_and_grad(excess)(x)
            steps, back = steps_uphill(
                x, metric, self._gradient_at(x, z), list(outward), over, [r * length for r in REACHES]
            )
            before = index
            for step in steps:
                trial = clipped(x, step)
                too_far = excess(trial)
                trial = jnp.where(too_far > 0.0, clipped(trial, [1.1 * too_far * b for b in back]), trial)
                value = self._value_at(trial, z)
                better = (excess(trial) <= 0.0) & (value > index)
                x, index = jnp.where(better, trial, x), jnp.where(better, value, index)
            return x, index, jnp.where(index > before, 1.5, 0.2) * length

        length = jnp.sqrt(2.0 * jnp.minimum(2.0 * log_t / plays, farthest))
        return jax.lax.fori_loop(0, num_steps, improve, (x, index, length))[:2]

    def _information(self, counts: Array, sums: Array, best_fit: Array) -> Array:
        """Observed information of one arm's plays in x, or Fisher's where that is not positive definite."""
        weights, averages = counts / self.noise**2, sums / jnp.maximum(counts, 1.0)
        curve, slopes = self._curve(best_fit)
        fisher = small_matrices.products(slopes, weights)
        left = weights * (curve - averages)
        rest = [[jnp.sum(left * bend) for bend in row] for row in bends(self._values, best_fit)]
        observed = [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(fisher, rest, strict=True)]
        definite = small_matrices.is_positive_definite(observed)
        return jnp.where(definite, small_matrices.flat(observed), small_matrices.flat(fisher))

    def _known(self, state: History, arm: Array) -> Fitted:
        return self._fitted(state.counts[arm], state.best_fit[arm], state.information[arm])

    def _fitted(self, counts: Array, best_fit: Array, information: Array) -> Fitted:
        matrix = small_matrices.from_flat(information)
        ridge = RIDGE * small_matrices.mean(matrix) + 1e-12
        factor = small_matrices.factor(small_matrices.with_ridge(matrix, ridge))
        return Fitted(counts / self.noise**2, self._values(best_fit), factor, jnp.maximum(jnp.sum(counts), 1.0))

    def _needed(self, fitted: Fitted, values: Array, slopes: list[Array]) -> Array:
        """The ln t from which on curves [G, n] with slopes [G, n] each are admissible, [n]."""
        difference = values - fitted.curve[:, None]
        shift = fitted.weights[:, None] * difference
        gradient = [jnp.sum(slope * shift, axis=0) for slope in slopes]
        return self._log_t_needed(fitted, 0.5 * jnp.sum(shift * difference, axis=0), gradient)

    def _log_t_needed(self, fitted: Fitted, divergence: Array, gradient: list[Array]) -> Array:
        """q² / (N min(η/4, S)); 0 before any play."""
        return divergence**2 / (fitted.num_plays * self._spread(fitted, gradient))

    def _spread(self, fitted: Fitted, gradient: list[Array]) -> Array:
        """min(η/4, S)."""
        spread = small_matrices.dot(gradient, small_matrices.solve(fitted.factor, gradient)) / fitted.num_plays**2
        return jnp.clip(spread, 1e-30, self.largest_divergence / 4.0)

    def _curve(self, x: Array) -> tuple[Array, list[Array]]:
        """f [G] and its derivative in each of x, [G] each."""
        return curve_at(self.family, self.z_max + 1, x)

    def _values(self, x: Array) -> Array:
        return self.family.table(theta_at(self.family, x), self.z_max + 1)

    def _value_at(self, x: Array, z: Array) -> Array:
        return self.family.value(theta_at(self.family, x), z.astype(x.dtype))

    def _gradient_at(self, x: Array, z: Array) -> list[Array]:
        return list(jax.grad(lambda x: self._value_at(x, z))(x))


def _sums(weights: Array, table: Array, number: int) -> list[Array]:
    """Σ_z weight · table of `number` tables side by side, [M] each."""
    return jnp.split(jnp.dot(weights, table, precision=jax.lax.Precision.HIGHEST), number)


def _misfit(values: Array, averages: Array, counts: Array) -> Array:
    """Σ n (f − ȳ)² of curves [G, n], [n]."""
    return jnp.sum(counts[:, None] * (values - averages[:, None]) ** 2, axis=0)


def _first_of_least(losses: list[Array], choices: list[Array]) -> Array:
    least, chosen = losses[0], choices[0]
    for loss, choice in zip(losses[1:], choices[1:], strict=True):
        chosen, least = jnp.where(loss < least, choice, chosen), jnp.minimum(loss, least)
    return chosen
