"""The kernel, and if wished the noise, of largest evidence: L-BFGS from several starts, in float64 on the host's CPU.

Several starts run side by side. Standard errors are those of the numbers s of `space`, √diag(H⁻¹) with H the Hessian of
−ln p in s, times dθ/ds.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxband import checks
from jaxband.fit.evidence import PlayStatistics, check_data, log_marginal_likelihood, sufficient_statistics
from jaxband.fit.search_space import Space, latin_hypercube, models, space_around
from jaxband.kernels.base import Kernel, as_kernel, is_traced

AT_BOUND = 0.97  # of the searched range
SHORTEST_STEP = 1e-10  # the search ends where shorter ones would be tried
ROUNDING = 1e-13  # of the evidence
SMALL_GRADIENT = 1e-4  # of ln p, per unit of s: no more than 1e-8 of ln p is left where a standard error is below 1
# Compiles in two thirds of the time, and runs faster than fully optimised code.
compiled = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})


class StandardErrors(NamedTuple):
    """Of every hyperparameter; inf where the data do not determine it, 0 for a noise that was given."""

    kernel: Kernel | list[Kernel]  # standard errors in place of the hyperparameters
    noise: float | np.ndarray


class Fit(NamedTuple):
    """The hyperparameters of largest evidence."""

    kernel: Kernel | list[Kernel]  # of the class that was given; one per arm unless shared
    noise: float | np.ndarray  # σ; [K] if learned per arm
    evidence: float  # ln p of all rewards
    standard_errors: StandardErrors
    converged: bool  # the gradient of ln p is as good as zero
    at_bound: tuple[str, ...]  # hyperparameters at an end of the searched range: ask what the data say about them
    evidences: np.ndarray  # [num_starts], or [K, num_starts]; what every start led to


def fit_kernel(
    kernel: Kernel, arm: Array, z: Array, reward: Array, *, num_arms: int, z_max: int, noise: float, **options
) -> Fit:
    """The hyperparameters under which the rewards [N] of plays of `arm` [N], rested for `z` [N], are most probable.

    `kernel` and `noise` are where the search starts, which goes a factor 10⁴ either way. Options as in
    `fit_statistics`.

    >>> from jaxband.kernels import Constant
    >>> fit = fit_kernel(Constant(1.0), [0, 1, 2, 3], [0] * 4, [2.0, -2.0, 2.0, -2.0], num_arms=4, z_max=1, noise=0.1)
    >>> round(fit.kernel.variance, 2), fit.converged  # the variance of the arms' levels, less that of the noise
    (3.99, True)
    """
    return fit_statistics(kernel, sufficient_statistics(arm, z, reward, num_arms, z_max), noise, **options)


def fit_statistics(
    kernel: Kernel,
    data: PlayStatistics,
    noise: float,
    *,
    learn_noise: bool = False,
    shared: bool = True,
    num_starts: int = 8,
    seed: int = 0,
    max_steps: int = 200,
) -> Fit:
    """`fit_kernel` for data already summarised. With `shared` false every arm has its own hyperparameters.

    Starts are a Latin hypercube around the given values, which are the first. Compiled once for every structure of
    the kernel and shape of the data; numbers may change.
    """
    kernel = _checked(kernel, data, noise, learn_noise, shared)
    num_starts = checks.integer("num_starts", num_starts, minimum=1)
    max_steps = checks.integer("max_steps", max_steps, minimum=1)
    space = space_around(kernel, noise, np.shape(data.counts)[1], learn_noise)
    starts = latin_hypercube(np.random.default_rng(seed), num_starts, space.ranges)
    groups = PlayStatistics(*(np.expand_dims(np.asarray(table, np.float64), 0 if shared else 1) for table in data))
    cpu = jax.local_devices(backend="cpu")[0]
    with jax.ensure_compile_time_eval(), jax.enable_x64(True), jax.default_device(cpu):
        found, evidences = _from_all_starts(space, groups, starts, max_steps)
        best = np.take_along_axis(found, np.argmax(evidences, axis=1)[:, None, None], axis=1)[:, 0]
        curvatures, gradients = (np.asarray(values) for values in _derivatives(space, groups, best))
    return _fit(space, best, evidences, gradients, curvatures, shared)


def _loss(space: Space, data: PlayStatistics, s: Array) -> Array:
    kernel, noise = space.model(s)
    return -log_marginal_likelihood(kernel, data, noise)


def _from_all_starts(
    space: Space, groups: PlayStatistics, starts: np.ndarray, max_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """s [groups, starts, P] and evidences [groups, starts]."""
    num_groups, num_starts = len(groups.counts), len(starts)
    every = PlayStatistics(*(np.repeat(table, num_starts, axis=0) for table in groups))
    found, evidences = _search(space, every, np.tile(starts, (num_groups, 1)), max_steps)
    return np.asarray(found).reshape(num_groups, *starts.shape), np.asarray(evidences).reshape(num_groups, num_starts)


class _SearchState(NamedTuple):
    """A search on its way down −ln p, in the free variable u."""

    u: Array  # [P]
    value: Array
    gradient: Array  # [P]
    direction: Array  # [P]; of the next step
    length: Array  # of the next step, in directions
    memory: Any  # what L-BFGS knows of the curvature
    count: Array  # of evaluations


@functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 1}
)  # faster here, to compile and to run
@functools.partial(jax.vmap, in_axes=(None, 0, 0, None))
def _search(space: Space, data: PlayStatistics, start: Array, max_steps: Array) -> tuple[Array, Array]:
    """Where L-BFGS leads from a start u [P]: s [P] there, and the evidence.

    Every turn of the loop is one evaluation, which either is a step or halves the next trial: searches that run side by
    side under `vmap` need not wait for the longest line search.
    """
    evaluate = jax.value_and_grad(lambda u: _loss(space, data, space.inside(u)))

    def unfinished(climb):
        steep = jnp.max(jnp.abs(climb.gradient)) > 0.01 * SMALL_GRADIENT
        return steep & (climb.count < max_steps) & (climb.length > SHORTEST_STEP)

    def turn(climb):
        trial = climb.u + climb.length * climb.direction
        value, gradient = evaluate(trial)
        allowed = 1e-4 * climb.length * jnp.sum(climb.direction * climb.gradient) + ROUNDING * jnp.abs(value)
        direction, memory = _descend(climb, trial, gradient)
        step = climb._replace(u=trial, value=value, gradient=gradient, direction=direction, memory=memory, length=1.0)
        shorter = climb._replace(length=0.5 * climb.length)
        chosen = jax.tree.map(functools.partial(jnp.where, value <= climb.value + allowed), step, shorter)
        return chosen._replace(count=climb.count + 1)

    nowhere = _SearchState(  # the first trial is the start itself, and always a step
        u=start,
        value=jnp.inf,
        gradient=jnp.ones_like(start),
        direction=jnp.zeros_like(start),
        length=1.0,
        memory=_lbfgs().init(start),
        count=0,
    )
    found = jax.lax.while_loop(unfinished, turn, nowhere)
    return space.inside(found.u), -found.value


@functools.cache
def _lbfgs():
    import optax  # not needed to import jaxband, and slow to import

    return optax.scale_by_lbfgs()


def _descend(climb: _SearchState, u: Array, gradient: Array) -> tuple[Array, Any]:
    """The direction from u, and what L-BFGS then knows; all is forgotten where −ln p does not curve upwards.

    Then a step of length 1 is tried, however small the gradient, so that plateaus are crossed.
    """
    convex = jnp.sum((u - climb.u) * (gradient - climb.gradient)) > 0
    memory = jax.tree.map(functools.partial(jnp.where, convex), climb.memory, _lbfgs().init(u))
    with jax.numpy_dtype_promotion("standard"):  # optax mixes int32 and int64
        ascent, memory = _lbfgs().update(gradient, memory, u)
    steepest = gradient / jnp.maximum(jnp.sqrt(jnp.sum(gradient**2)), jnp.finfo(gradient.dtype).tiny)
    return -jnp.where(convex, ascent, steepest), memory


@compiled
@functools.partial(jax.vmap, in_axes=(None, 0, 0))
def _derivatives(space: Space, data: PlayStatistics, s: Array) -> tuple[Array, Array]:
    """Hessian [P, P] and gradient [P] of −ln p in s."""

    def gradient_twice(s):
        gradient = jax.grad(functools.partial(_loss, space, data))(s)
        return gradient, gradient

    return jax.jacfwd(gradient_twice, has_aux=True)(s)


def _checked(kernel, data, noise, learn_noise, shared) -> Kernel:
    kernel = as_kernel(kernel)
    check_data(data)
    checks.scalar("noise", noise)
    checks.positive("noise", noise)
    if is_traced(kernel) or any(isinstance(value, jax.core.Tracer) for value in (*data, noise)):
        raise TypeError("kernel, data and noise must be concrete; inside jit use fit.log_marginal_likelihood")
    num_parameters = len(jax.tree.leaves(kernel)) + learn_noise
    plays = np.sum(data.counts, axis=1) if not shared else np.sum(data.counts, keepdims=True)[0]
    if plays.min() < num_parameters:
        whose, remedy = ("data", "") if shared else (f"data of arm {plays.argmin()}", ", shared=True")
        raise ValueError(
            f"{whose} must hold at least as many plays as there are hyperparameters, {num_parameters}, got "
            f"{int(plays.min())}; use more plays{remedy} or a kernel with fewer hyperparameters"
        )
    if learn_noise:
        _check_variation(data, shared)
    return kernel


def _check_variation(data: PlayStatistics, shared: bool) -> None:
    """Rewards that are all the same are the more probable the smaller the noise, without end."""
    counts, sums, squares = (np.asarray(table, np.float64) for table in data)
    axis = None if shared else 1
    averages = sums / np.maximum(counts, 1)
    levels = np.sum(sums, axis=axis, keepdims=True) / np.sum(counts, axis=axis, keepdims=True)
    variation = np.sum(squares + counts * (averages - levels) ** 2, axis=axis)
    constant = variation <= 1e-24 * np.sum(counts * averages**2, axis=axis)
    if np.any(constant):
        arm = np.argmax(constant)
        whose = "" if shared else f" of arm {arm}"
        raise ValueError(
            f"rewards{whose} must differ for the noise to be learned, got {levels[arm, 0]:g} throughout; "
            "use learn_noise=False"
        )


def _fit(space: Space, s, evidences, gradients, curvatures, shared: bool) -> Fit:
    """What the search found, s [groups, P] and the derivatives there, in the user's terms."""
    bound = np.abs(s) > AT_BOUND * space.ranges
    labels = [(f"arm {group}: " if not shared else "") + space.names[index] for group, index in np.argwhere(bound)]
    values = np.where(space.signed, space.centre + s, space.centre * np.exp(s))
    slopes = np.where(space.signed, 1.0, values)
    errors = np.where(bound, np.inf, np.stack([_errors(h, space.ranges) for h in curvatures]) * slopes)
    kernels, noises = models(space, values, space.noise, shared)
    best = evidences.max(axis=1)
    if not np.isfinite(best).all():
        raise ValueError(f"kernel must be finite on the grid for all hyperparameters, got {kernels!r}")
    return Fit(
        kernel=kernels,
        noise=noises,
        evidence=float(best.sum()),
        standard_errors=StandardErrors(*models(space, errors, 0.0, shared)),
        converged=bool(np.all((np.abs(gradients) <= SMALL_GRADIENT) | bound)),
        at_bound=tuple(labels),
        evidences=evidences[0] if shared else evidences,
    )


def _errors(curvature: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """√diag(H⁻¹); inf along directions in which the evidence is flat over the whole range, or does not fall."""
    scaled = curvature * np.outer(ranges, ranges)
    values, vectors = np.linalg.eigh(scaled)
    variances = np.where(values > 1.0, 1.0 / np.maximum(values, 1.0), np.inf)
    loads = vectors**2
    return ranges * np.sqrt(np.sum(np.where(loads > 1e-6, np.maximum(loads, 1e-6) * variances, 0.0), axis=1))
