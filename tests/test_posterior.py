"""The posterior: the dense formula on short histories, accurate after 100,000 float32 observations, and lawful.

Three ways to one posterior must agree: `observe` play by play, `condition` on a batch, `refresh` from counts and sums.
"""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from scipy import stats

from jaxband import posterior as gp
from jaxband.kernels import Constant, Linear, Matern, Periodic, SquaredExponential

NAN = float("nan")

KERNELS = {
    "smooth": (SquaredExponential(5.0), lambda x, y: reference.squared_exponential(x, y, 5.0)),
    "rough": (Matern(0.5, 4.0, 2.0), lambda x, y: reference.matern(x, y, 0.5, 4.0, 2.0)),
    "matern": (Matern(2.5, 4.0), lambda x, y: reference.matern(x, y, 2.5, 4.0)),
    "constant": (Constant(2.0), lambda x, y: 2.0),
    "line": (Linear(0.01), lambda x, y: reference.linear(x, y, 0.01)),
    "line + constant": (Linear(0.01) + 1.0, lambda x, y: reference.linear(x, y, 0.01) + 1.0),
    "smooth * line + constant": (
        SquaredExponential(5.0) * Linear(0.01) + Constant(0.5),
        lambda x, y: reference.squared_exponential(x, y, 5.0) * reference.linear(x, y, 0.01) + 0.5,
    ),
    "wave * smooth": (
        Periodic(7.0, 1.0) * SquaredExponential(8.0),
        lambda x, y: reference.periodic(x, y, 7.0, 1.0) * reference.squared_exponential(x, y, 8.0),
    ),
}
KERNEL, FORMULA = KERNELS["smooth"]


def history(seed, length=40, num_arms=3, z_max=12):
    """Random plays: arms, z, rewards, [N] each."""
    rng = np.random.default_rng(seed)
    return rng.integers(num_arms, size=length), rng.integers(z_max + 1, size=length), rng.normal(size=length)


# Compiled once for all tests of the same shape.
observe, condition, refresh = jax.jit(gp.observe), jax.jit(gp.condition), jax.jit(gp.refresh)


@jax.jit
def observe_all(posterior, arms, z, rewards, noise):
    """The last posterior, and the variances before every play."""

    def play(posterior, observation):
        return gp.observe(posterior, *observation, noise), gp.variance(posterior)

    return jax.lax.scan(play, posterior, (arms, z, rewards))


def observed(posterior, arms, z, rewards, noise):
    return observe_all(posterior, arms, z, rewards, noise)[0]


def refreshed(posterior, arms, z, rewards, noise):
    """`refresh` alone: counts and sums made here, mean and root left at the prior."""
    counts, sums = np.zeros(posterior.mean.shape, np.int32), np.zeros(posterior.mean.shape)
    np.add.at(counts, (arms, z), 1)
    np.add.at(sums, (arms, z), rewards)
    return refresh(posterior._replace(counts=jnp.asarray(counts), sums=jnp.asarray(sums)), noise)


WAYS = {"observe": observed, "condition": condition, "refresh": refreshed}


def assert_close(actual, expected, tolerance):
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=tolerance)


def assert_same(left, right, tolerance):
    """The same beliefs: roots may differ by a rotation, covariances may not."""
    assert_close(left.mean, right.mean, tolerance)
    for arm in range(left.mean.shape[0]):
        assert_close(gp.covariance(left, arm), gp.covariance(right, arm), tolerance)
    np.testing.assert_array_equal(left.counts, right.counts)
    assert_close(left.sums, right.sums, tolerance)


# Short histories against the dense formula.


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("way", WAYS)
def test_equals_the_dense_posterior(name, way):
    kernel, formula = KERNELS[name]
    arms, z, rewards = history(0)
    means, covariances = reference.posteriors(reference.gram(formula, 12), arms, z, rewards, 3, 0.3)
    with jax.enable_x64(True):
        posterior = WAYS[way](gp.prior(kernel, 3, 12), arms, z, rewards, 0.3)
        assert_close(gp.mean(posterior), means, 1e-10)
        assert_close(gp.variance(posterior), np.diagonal(covariances, axis1=1, axis2=2), 1e-10)
        assert_close([gp.covariance(posterior, arm) for arm in range(3)], covariances, 1e-10)


@pytest.mark.parametrize("name", KERNELS)
def test_the_prior_is_the_kernel(name):
    kernel, formula = KERNELS[name]
    with jax.enable_x64(True):
        posterior = gp.prior(kernel, 2, 30)
        assert_close(gp.covariance(posterior, 1), reference.gram(formula, 30), 1e-10)
    assert not posterior.mean.any() and not posterior.counts.any() and not posterior.sums.any()


@pytest.mark.parametrize("plays", [[4], [4, 4], [0, 3, 3, 12], [1, 2, 1, 2, 1], [12] * 6])
def test_variance_of_a_sum_is_the_double_sum_of_covariances(plays):
    arms, z, rewards = history(1)
    _, covariances = reference.posteriors(reference.gram(FORMULA, 12), arms, z, rewards, 3, 0.3)
    expected = sum(covariances[2, a, b] for a in plays for b in plays)
    with jax.enable_x64(True):
        posterior = condition(gp.prior(KERNEL, 3, 12), arms, z, rewards, 0.3)
        assert float(gp.variance_of_sum(posterior, 2, plays)) == pytest.approx(expected, rel=1e-9)


def test_batches_may_follow_one_another():
    arms, z, rewards = history(2)
    with jax.enable_x64(True):
        start = gp.prior(KERNEL, 3, 12)
        whole = condition(start, arms, z, rewards, 0.3)
        halves = condition(condition(start, arms[:20], z[:20], rewards[:20], 0.3), arms[20:], z[20:], rewards[20:], 0.3)
        mixed = observed(condition(start, arms[:20], z[:20], rewards[:20], 0.3), arms[20:], z[20:], rewards[20:], 0.3)
        assert_same(halves, whole, 1e-12)
        assert_same(mixed, whole, 1e-11)
        assert_same(condition(whole, arms[:0], z[:0], rewards[:0], 0.3), whole, 1e-12)


def test_one_kernel_per_arm():
    arms, z, rewards = history(3)
    chosen = [KERNELS[name] for name in ("rough", "line + constant", "wave * smooth")]
    with jax.enable_x64(True):
        posterior = observed(gp.prior([kernel for kernel, _ in chosen], 3, 12), arms, z, rewards, 0.3)
        for arm, (_, formula) in enumerate(chosen):
            mean, covariance = reference.dense_posterior(
                reference.gram(formula, 12), z[arms == arm], rewards[arms == arm], 0.3
            )
            assert_close(gp.mean(posterior)[arm], mean, 1e-10)
            assert_close(gp.covariance(posterior, arm), covariance, 1e-10)


@pytest.mark.parametrize("way", WAYS)
def test_one_z_max_per_arm(way):
    arms, z, rewards = history(4)
    limits = [0, 5, 12]
    with jax.enable_x64(True):
        posterior = WAYS[way](gp.prior(KERNEL, 3, limits), arms, z, rewards, 0.3)
        for arm, limit in enumerate(limits):
            clipped = reference.gram(lambda x, y, limit=limit: FORMULA(min(x, limit), min(y, limit)), 12)
            mean, covariance = reference.dense_posterior(clipped, z[arms == arm], rewards[arms == arm], 0.3)
            assert_close(gp.mean(posterior)[arm], mean, 1e-10)
            assert_close(gp.covariance(posterior, arm), covariance, 1e-10)
            assert_close(np.ptp(gp.mean(posterior)[arm, limit:]), 0.0, 1e-13)
            assert_close(np.ptp(gp.variance(posterior)[arm, limit:]), 0.0, 1e-13)


@pytest.mark.parametrize("way", WAYS)
def test_one_arm_and_one_point_by_hand(way):
    """Conjugate normal: precision 1/s + n/σ² = 1/2 + 3/0.25 = 12.5, mean = Σy/σ² / precision = 4·1.5/12.5."""
    zeros = np.zeros(3, int)
    with jax.enable_x64(True):
        posterior = WAYS[way](gp.prior(Constant(2.0), 1, 0), zeros, zeros, np.array([1.0, 0.5, 0.0]), 0.5)
        np.testing.assert_allclose(gp.variance(posterior), [[1 / 12.5]], rtol=1e-13)
        np.testing.assert_allclose(gp.mean(posterior), [[6.0 / 12.5]], rtol=1e-13)


def test_a_prior_without_variance_learns_nothing():
    posterior = refresh(observe(gp.prior(Linear(), 1, 0), 0, 0, 1.0, 0.1), 0.1)  # Linear is 0 at z = 0
    assert float(gp.mean(posterior)[0, 0]) == float(gp.variance(posterior)[0, 0]) == 0.0


# Laws.


@pytest.mark.parametrize("name", KERNELS)
def test_variance_never_increases(name):
    with jax.enable_x64(True):
        start = gp.prior(KERNELS[name][0], 3, 12)
        last, before = observe_all(start, *history(5, length=200), 0.1)
        variances = np.concatenate([before, gp.variance(last)[None]])
    assert np.diff(variances, axis=0).max() <= 1e-14 and variances.min() >= 0.0
    assert np.all(variances[-1] * np.asarray(last.counts) <= 0.1**2)  # no more than the average of n rewards


def test_order_does_not_matter():
    arms, z, rewards = history(6, length=200)
    order = np.random.default_rng(0).permutation(200)
    with jax.enable_x64(True):
        start = gp.prior(KERNEL, 3, 12)
        shuffled = observed(start, arms[order], z[order], rewards[order], 0.1)
        assert_same(shuffled, observed(start, arms, z, rewards, 0.1), 1e-11)


def test_other_arms_are_untouched():
    before = condition(gp.prior(KERNEL, 3, 12), *history(7), 0.3)
    after = observe(before, 1, 4, 2.0, 0.3)
    for name in ("mean", "root", "counts", "sums"):
        left, right = np.asarray(getattr(before, name)), np.asarray(getattr(after, name))
        np.testing.assert_array_equal(left[[0, 2]], right[[0, 2]])
        assert not np.array_equal(left[1], right[1])


@pytest.mark.parametrize("way", ["observe", "condition"])
def test_counts_and_sums_are_the_record(way):
    arms, z, rewards = history(8)
    with jax.enable_x64(True):
        posterior = WAYS[way](gp.prior(KERNEL, 3, 12), arms, z, rewards, 0.3)
    counts, sums = np.zeros((3, 13)), np.zeros((3, 13))
    for arm, rest, reward in zip(arms, z, rewards, strict=True):
        counts[arm, rest] += 1
        sums[arm, rest] += reward
    assert posterior.counts.dtype == jnp.int32
    np.testing.assert_array_equal(posterior.counts, counts)
    assert_close(posterior.sums, sums, 1e-12)


@pytest.mark.parametrize("lengthscale", [0.5, 1.0, 2.0, 5.0, 10.0, 50.0])
def test_rank_is_a_multiple_of_four_and_no_more_than_needed(lengthscale):
    kernel = SquaredExponential(lengthscale)
    eigenvalues = np.linalg.eigvalsh(reference.gram(lambda x, y: reference.squared_exponential(x, y, lengthscale), 30))
    needed = np.sum(eigenvalues > 1e-12 * eigenvalues[-1])
    rank = gp.prior(kernel, 2, 30).root.shape[2]
    assert rank % 4 == 0 and needed - 1 <= rank < needed + 5


@pytest.mark.parametrize("x64", [False, True])
def test_everything_has_the_default_precision(x64):
    with jax.enable_x64(x64):
        posterior = refresh(observe(gp.prior(KERNEL, 3, 12), 0, 1, 0.5, 0.1), 0.1)
        expected = jnp.float64 if x64 else jnp.float32
        assert {leaf.dtype for leaf in posterior} == {jnp.dtype(expected), jnp.dtype(jnp.int32)}
        assert gp.sample(jax.random.key(0), posterior).dtype == expected


# Inside transformations.


def test_jit_equals_eager():
    start, plays = gp.prior(KERNEL, 3, 12), history(11)
    eager = gp.observe(gp.condition(start, *plays, 0.2), 1, 3, 0.7, 0.2)
    compiled = observe(condition(start, *plays, 0.2), 1, 3, 0.7, 0.2)
    assert_same(eager, compiled, 1e-6)


def test_vmap_equals_a_loop():
    arms, z, rewards = history(9, length=6)
    with jax.enable_x64(True):
        starts = [condition(gp.prior(KERNEL, 3, 12), *history(seed), 0.3) for seed in range(6)]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
        together = jax.vmap(observe, in_axes=(0, 0, 0, 0, None))(stacked, arms, z, rewards, 0.3)
        rebuilt = jax.vmap(refresh, in_axes=(0, None))(together, 0.3)
        for row, start in enumerate(starts):
            alone = observe(start, arms[row], z[row], rewards[row], 0.3)
            assert_same(jax.tree.map(lambda leaf, row=row: leaf[row], together), alone, 1e-12)
            assert_same(jax.tree.map(lambda leaf, row=row: leaf[row], rebuilt), alone, 1e-10)


def test_a_prior_may_be_built_inside_jit_but_not_from_a_traced_kernel():
    inside = jax.jit(lambda reward: gp.observe(gp.prior(KERNEL, 3, 12), 0, 1, reward, 0.1).mean)
    assert_close(inside(0.5), observe(gp.prior(KERNEL, 3, 12), 0, 1, 0.5, 0.1).mean, 1e-6)
    with pytest.raises(TypeError, match="kernel must be concrete"):
        jax.jit(lambda kernel: gp.prior(kernel, 2, 5))(KERNEL)


# 100,000 observations in float32.

LENGTH, Z_MAX, NOISE = 100_000, 30, 0.1
RESTS = {
    "uniform": lambda rng: rng.integers(Z_MAX + 1, size=LENGTH),
    "geometric": lambda rng: np.minimum(rng.geometric(0.2, size=LENGTH) - 1, Z_MAX),  # 20,000 at z = 0, 130 at 30
    "never beyond 16": lambda rng: np.minimum(rng.geometric(0.5, size=LENGTH) - 1, 16),  # 50,000 at z = 0, 1 at 16
}


def truth(gram, counts, sums, noise):
    """Mean and variance, [G] each, from K − KS (SKS + I)⁻¹ SK with S = √counts/σ: relative error below 1e-7 here."""
    scale = np.sqrt(counts) / noise
    factor = np.linalg.cholesky(scale[:, None] * gram * scale[None, :] + np.eye(len(gram)))
    half = np.linalg.solve(factor, scale[:, None] * gram)
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    return half.T @ np.linalg.solve(factor, scale * means), np.diag(gram) - np.sum(half**2, axis=0)


@jax.jit
def long_run(posterior, z, rewards):
    def play(carry, observation):
        posterior, smallest = carry
        posterior = gp.observe(posterior, 0, *observation, NOISE)
        return (posterior, jnp.minimum(smallest, jnp.min(gp.variance(posterior)))), None

    return jax.lax.scan(play, (posterior, jnp.inf), (z, rewards))[0]


@functools.cache
def long_history(name, rests):
    """The posterior after every play, the smallest variance on the way, and the true mean and variance."""
    kernel, formula = KERNELS[name]
    gram = reference.gram(formula, Z_MAX)
    rng = np.random.default_rng(0)
    z = RESTS[rests](rng)
    curve = rng.multivariate_normal(np.zeros(Z_MAX + 1), gram, method="eigh")
    rewards = (curve[z] + NOISE * rng.normal(size=LENGTH)).astype(np.float32)
    counts = np.bincount(z, minlength=Z_MAX + 1)
    sums = np.bincount(z, weights=rewards.astype(float), minlength=Z_MAX + 1)
    posterior, smallest = long_run(gp.prior(kernel, 1, Z_MAX), jnp.asarray(z), jnp.asarray(rewards))
    return posterior, float(smallest), *truth(gram, counts, sums, NOISE)


def errors(posterior, mean, variance):
    """Largest relative error of the variance; largest error of the mean in posterior standard deviations."""
    seen = variance > 1e-12
    relative = np.abs(np.asarray(gp.variance(posterior)[0], float) - variance)[seen] / variance[seen]
    shift = np.abs(np.asarray(gp.mean(posterior)[0], float) - mean)[seen] / np.sqrt(variance[seen])
    return relative.max(), shift.max()


@pytest.mark.parametrize("rests", RESTS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_long_float32_run_stays_accurate(name, rests):
    posterior, smallest, mean, variance = long_history(name, rests)
    relative, shift = errors(posterior, mean, variance)
    assert posterior.root.dtype == jnp.float32 and int(posterior.counts.sum()) == LENGTH
    assert smallest >= 0.0
    assert relative <= 5e-4 and shift <= 0.05


@pytest.mark.parametrize("rests", RESTS)
@pytest.mark.parametrize("name", KERNELS)
def test_refresh_after_a_long_float32_run_is_accurate(name, rests):
    posterior, _, mean, variance = long_history(name, rests)
    again = refresh(posterior, NOISE)
    relative, shift = errors(again, mean, variance)
    assert float(gp.variance(again).min()) >= 0.0
    assert relative <= 6e-5 and shift <= 0.05


@pytest.mark.parametrize("noise", [0.1, 0.01])
@pytest.mark.parametrize("name", ["smooth", "rough"])
def test_refresh_survives_one_favourite_rest(name, noise):
    """In float32, B = I + LᵀDL loses its I when counts/σ² exceed 1e7, and with it the rests that were never seen."""
    kernel, formula = KERNELS[name]
    counts = np.zeros(Z_MAX + 1, int)
    counts[[1, Z_MAX]] = 99_900, 100
    sums = 0.5 * counts
    start = gp.prior(kernel, 1, Z_MAX)
    posterior = refresh(
        start._replace(counts=jnp.asarray(counts[None], jnp.int32), sums=jnp.asarray(sums[None], float)), noise
    )
    relative, shift = errors(posterior, *truth(reference.gram(formula, Z_MAX), counts, sums, noise))
    assert relative <= 5e-4 and shift <= 0.05  # false for NaN


# Draws.


@pytest.mark.parametrize("name", ["smooth", "line + constant"])
def test_draws_have_the_posteriors_mean_and_covariance(name):
    """Whitened by the dense posterior, all arms together are N(0, I) in the directions above 1/10,000 of the largest.

    N |mean|² is χ²(k), and N (tr S − ln det S − k) is χ²(k (k + 1) / 2) in the limit: false alarms 1e-4 each.
    """
    kernel, formula = KERNELS[name]
    arms, z, rewards = history(10, length=12, num_arms=2, z_max=8)
    means, covariances = reference.posteriors(reference.gram(formula, 8), arms, z, rewards, 2, 0.5)
    posterior = condition(gp.prior(kernel, 2, 8), arms, z, rewards, 0.5)
    keys = jax.random.split(jax.random.key(0), 25_000)
    draws = np.asarray(jax.jit(jax.vmap(lambda key: gp.sample(key, posterior)))(keys), float)
    white = []
    for arm in range(2):
        eigenvalues, vectors = np.linalg.eigh(covariances[arm])
        keep = eigenvalues > 1e-4 * eigenvalues[-1]
        white.append((draws[:, arm] - means[arm]) @ (vectors[:, keep] / np.sqrt(eigenvalues[keep])))
    white = np.concatenate(white, axis=1)
    count, k = white.shape
    scatter = white.T @ white / count
    ratio = count * (np.trace(scatter) - np.linalg.slogdet(scatter)[1] - k)
    assert count * np.sum(white.mean(axis=0) ** 2) < stats.chi2.isf(1e-4, k)
    assert ratio < stats.chi2.isf(1e-4, k * (k + 1) / 2)


# Errors.

START = gp.prior(KERNEL, 3, 4)
PAIR, REWARDS = np.array([0, 1]), np.array([0.5, 0.5])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gp.observe(START, 3, 0, 0.5, 0.1), ValueError, "arm must be in 0..2 (the arms), got 3"),
        (lambda: gp.observe(START, -1, 0, 0.5, 0.1), ValueError, "arm must be in 0..2 (the arms), got -1"),
        (lambda: gp.observe(START, 1.0, 0, 0.5, 0.1), TypeError, "arm must hold integers, got 1.0"),
        (lambda: gp.observe(START, 0, -2, 0.5, 0.1), ValueError, "got -2"),
        (lambda: gp.observe(START, 0, 2.5, 0.5, 0.1), TypeError, "z must hold integers, got 2.5"),
        (lambda: gp.observe(START, 0, 0, NAN, 0.1), ValueError, "reward must be finite, got nan"),
        (lambda: gp.observe(START, 0, 0, float("inf"), 0.1), ValueError, "reward must be finite, got inf"),
        (lambda: gp.observe(START, 0, 0, "much", 0.1), TypeError, "reward must be finite, got 'much'"),
        (lambda: gp.observe(START, 0, 0, 0.5, 0.0), ValueError, "noise must be > 0, got 0.0"),
        (lambda: gp.observe(START, 0, 0, 0.5, -0.1), ValueError, "noise must be > 0, got -0.1"),
        (lambda: gp.observe(START, 0, 0, 0.5, NAN), ValueError, "noise must be > 0, got nan"),
        (lambda: gp.observe(START, 0, 0, 0.5, REWARDS), ValueError, "noise must have shape [] (one number)"),
        (lambda: gp.condition(START, 0, 0, 0.5, 0.1), ValueError, "arms must have shape [N] = [any], got []"),
        (lambda: gp.condition(START, PAIR, [0], REWARDS, 0.1), ValueError, "z must have shape [N] = [2], got [1]"),
        (lambda: gp.condition(START, PAIR, PAIR, 0.5, 0.1), ValueError, "rewards must have shape [N] = [2], got []"),
        (lambda: gp.condition(START, [0, 7], PAIR, REWARDS, 0.1), ValueError, "arm must be in 0..2 (the arms), got 7"),
        (lambda: gp.condition(START, PAIR, [0, -9], REWARDS, 0.1), ValueError, "z must be >= 0, got -9"),
        (lambda: gp.condition(START, PAIR, PAIR, [0.5, NAN], 0.1), ValueError, "reward must be finite, got nan"),
        (lambda: gp.condition(START, PAIR, PAIR, REWARDS, 0.0), ValueError, "noise must be > 0, got 0.0"),
        (lambda: gp.refresh(START, 0.0), ValueError, "noise must be > 0, got 0.0"),
        (lambda: gp.covariance(START, 3), ValueError, "arm must be in 0..2 (the arms), got 3"),
        (lambda: gp.variance_of_sum(START, 3, [0]), ValueError, "arm must be in 0..2 (the arms), got 3"),
        (lambda: gp.variance_of_sum(START, 0, [0, 5]), ValueError, "z must be in 0..4 (the grid), got 5"),
        (lambda: gp.prior(KERNEL, 0, 4), ValueError, "num_arms must be >= 1, got 0"),
        (lambda: gp.prior(KERNEL, 2.0, 4), TypeError, "num_arms must be a whole number, got 2.0"),
        (lambda: gp.prior(KERNEL, 2, -1), ValueError, "z_max must be >= 0, got -1"),
        (lambda: gp.prior(KERNEL, 2, [4, -1]), ValueError, "z_max must be >= 0, got -1"),
        (lambda: gp.prior(KERNEL, 2, [4]), ValueError, "z_max must be one number or 2 of them, one per arm, got 1"),
        (
            lambda: gp.prior([KERNEL] * 2, 3, 4),
            ValueError,
            "kernel must be one kernel or 3 of them, one per arm, got 2",
        ),
        (lambda: gp.prior([KERNEL, max], 2, 4), TypeError, "kernel must be a jaxband.kernels.Kernel or a number"),
    ],
)
def test_errors_name_the_argument_and_change_nothing(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
    assert not START.counts.any() and not START.sums.any() and not START.mean.any()


def test_an_observation_changes_its_arm_only():
    before = gp.prior(KERNEL, 17, 12)
    after = jax.jit(observe)(before, 5, 7, 0.3, 0.1)
    for name in ("mean", "variance", "root", "counts", "sums"):
        changed = np.any(np.asarray(getattr(after, name) != getattr(before, name)).reshape(17, -1), axis=1)
        assert np.flatnonzero(changed).tolist() == [5], name


def test_sums_of_policies_do_not_lose_digits():
    """100,000 rewards of 0.1 at one rest, which plain float32 sums cannot add up; `refresh` takes what they say."""

    def play(state, _):
        return gp.observe(state, 0, 0, np.float32(0.1), 1.0, compensate=False), None

    state, _ = jax.jit(lambda s: jax.lax.scan(play, s, length=100_000))(gp.prior(KERNEL, 1, 2))
    np.testing.assert_allclose(np.float64(state.sums[0, 0]) - np.float64(state.sums_error[0, 0]), 1e4, rtol=1e-7)
    np.testing.assert_allclose(gp.refresh(state, 1.0).mean[0, 0], 0.1, rtol=3e-5)
