"""Learning kernels: the dense Gaussian density, derivatives by differences, maxima by hand and by SciPy, error rates.

Statistical tests have fixed seeds; each would fail by chance with probability 1e-3 or less, were they drawn anew.
"""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from quick import jit
from scipy import optimize as scipy_optimize
from scipy import stats

import jaxband as jb
from jaxband import fit
from jaxband.fit import optimize
from jaxband.kernels import Constant, Linear, Matern, Periodic, SquaredExponential

NAN = float("nan")
KERNELS = {
    "smooth": (SquaredExponential(3.0, 2.0), lambda x, y: reference.squared_exponential(x, y, 3.0, 2.0)),
    "rough": (Matern(0.5, 4.0, 0.5), lambda x, y: reference.matern(x, y, 0.5, 4.0, 0.5)),
    "constant": (Constant(2.0), lambda x, y: 2.0),
    "line + constant": (Linear(0.01, 3.0) + 1.0, lambda x, y: reference.linear(x, y, 0.01, 3.0) + 1.0),
    "wave * smooth": (
        Periodic(7.0, 1.0) * SquaredExponential(8.0),
        lambda x, y: reference.periodic(x, y, 7.0, 1.0) * reference.squared_exponential(x, y, 8.0),
    ),
}
K, Z_MAX = 3, 12


def history(seed, length=60, num_arms=K, z_max=Z_MAX):
    """Random plays: arm, z, reward, [N] each."""
    rng = np.random.default_rng(seed)
    return rng.integers(num_arms, size=length), rng.integers(z_max + 1, size=length), rng.normal(size=length)


def played(seed, curves, noise, length):
    """Plays of random arms at random rests of `curves` [K, G]."""
    arm, z, shocks = history(seed, length, len(curves), curves.shape[1] - 1)
    return arm, z, np.asarray(curves, float)[arm, z] + noise * shocks


@functools.cache
def recovering(seed, lengthscale=4.0, num_arms=20, z_max=30, noise=0.3, length=1200):
    """Plays of curves drawn from a squared exponential."""
    curves = jb.recovery.gp(jax.random.key(seed), SquaredExponential(lengthscale), num_arms, z_max)
    return played(seed, curves, noise, length)


def dense(gram, arm, z, reward, noise):
    """The log-density of the rewards, all arms', from their own N × N covariance."""
    covariance = np.where(arm[:, None] == arm, gram[z[:, None], z], 0.0) + noise**2 * np.eye(len(z))
    explained = reward @ np.linalg.solve(covariance, reward)
    return -0.5 * (np.linalg.slogdet(covariance)[1] + explained + len(z) * np.log(2 * np.pi))


def evidence(kernel, data, noise):
    with jax.enable_x64(True):
        return float(fit.log_marginal_likelihood(kernel, data, noise))


# The data.


def test_summary_of_a_few_plays():
    data = fit.sufficient_statistics([0, 1, 1, 1], [2, 0, 0, 1], [5.0, 1.0, 4.0, 7.0], num_arms=2, z_max=2)
    assert data.counts.tolist() == [[0, 0, 1], [2, 1, 0]]
    assert data.sums.tolist() == [[0.0, 0.0, 5.0], [5.0, 7.0, 0.0]]
    assert data.squares.tolist() == [[0.0, 0.0, 0.0], [4.5, 0.0, 0.0]]


def test_squares_keep_their_digits_far_from_zero():
    shocks = np.array([-1.0, 0.0, 1.0])
    data = fit.sufficient_statistics([0] * 3, [0] * 3, 1e8 + shocks, num_arms=1, z_max=0)
    assert float(data.squares[0, 0]) == pytest.approx(2.0, rel=1e-7)  # Σ y² − n ȳ² would be 0 or 4


def test_rests_beyond_an_arms_own_z_max_count_as_that():
    arm, z, reward = history(0)
    limits = np.array([0, 5, 12])
    clipped = fit.sufficient_statistics(arm, np.minimum(z, limits[arm]), reward, K, Z_MAX)
    for left, right in zip(fit.sufficient_statistics(arm, z, reward, K, [0, 5, 12]), clipped, strict=True):
        np.testing.assert_array_equal(left, right)


# The evidence.


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("length", "noise"), [(1, 0.3), (60, 0.1), (2000, 0.3)])
def test_evidence_equals_the_dense_density(name, length, noise):
    kernel, formula = KERNELS[name]
    plays = history(1, length)
    expected = dense(reference.gram(formula, Z_MAX), *plays, noise)
    assert evidence(kernel, fit.sufficient_statistics(*plays, K, Z_MAX), noise) == pytest.approx(
        expected, abs=1e-9, rel=0.0
    )


def test_one_kernel_and_one_noise_per_arm():
    arm, z, reward = history(2)
    chosen = [KERNELS[name] for name in ("rough", "line + constant", "wave * smooth")]
    noises = np.array([0.1, 0.2, 0.4])
    expected = sum(
        dense(reference.gram(formula, Z_MAX), *(values[arm == j] for values in (arm, z, reward)), noises[j])
        for j, (_, formula) in enumerate(chosen)
    )
    data = fit.sufficient_statistics(arm, z, reward, K, Z_MAX)
    assert evidence([kernel for kernel, _ in chosen], data, noises) == pytest.approx(expected, abs=1e-10)


def test_neither_order_nor_arms_never_played_matter():
    arm, z, reward = history(3)
    kernel, _ = KERNELS["smooth"]
    expected = evidence(kernel, fit.sufficient_statistics(arm, z, reward, K, Z_MAX), 0.2)
    assert evidence(
        kernel, fit.sufficient_statistics(2 - arm[::-1], z[::-1], reward[::-1], 9, Z_MAX), 0.2
    ) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["rough", "line + constant", "wave * smooth"])
def test_derivatives_equal_differences(name):
    """Gradient and Hessian in all hyperparameters and the noise, by central differences."""
    data = fit.sufficient_statistics(*history(4), K, Z_MAX)
    leaves, structure = jax.tree.flatten((KERNELS[name][0], 0.3))
    point, steps = np.array(leaves), 1e-4 * np.diag(leaves)
    with jax.enable_x64(True):

        def value(leaves):
            kernel, noise = jax.tree.unflatten(structure, list(leaves))
            return fit.log_marginal_likelihood(kernel, data, noise)

        evaluate, hessian = jit(jax.value_and_grad(value)), jit(jax.hessian(value))(point)
        after, before = ([evaluate(point + sign * step) for step in steps] for sign in (1, -1))
        gradient = evaluate(point)[1]
        slopes = [(high - low) / (2e-4 * x) for (high, _), (low, _), x in zip(after, before, point, strict=True)]
        bends = [(high - low) / (2e-4 * x) for (_, high), (_, low), x in zip(after, before, point, strict=True)]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(hessian, bends, rtol=1e-5, atol=1e-3)
        np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9)


def test_compiled_in_batches_and_in_float32():
    kernel, _ = KERNELS["smooth"]
    data = fit.sufficient_statistics(*history(5), K, Z_MAX)
    noises = np.array([0.1, 0.3, 1.0], np.float32)
    together = jax.jit(jax.vmap(fit.log_marginal_likelihood, in_axes=(None, None, 0)))(kernel, data, noises)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together, [evidence(kernel, data, noise) for noise in noises], rtol=1e-5)


def test_cost_does_not_depend_on_the_number_of_plays():
    """What is compiled sees [K, G] tables and hyperparameters only, and one program serves any number of plays."""
    few, many = (fit.sufficient_statistics(*history(6, length), K, Z_MAX) for length in (10, 5000))
    jaxpr = jax.make_jaxpr(lambda *data: fit.log_marginal_likelihood(Constant(1.0), fit.PlayStatistics(*data), 0.3))(
        *many
    )
    assert [variable.aval.shape for variable in jaxpr.jaxpr.invars] == [(K, Z_MAX + 1)] * 3
    compiled = jit(lambda data: fit.log_marginal_likelihood(Constant(1.0), data, 0.3))
    compiled(few), compiled(many)
    assert compiled._cache_size() == 1


# The maximum.


def test_the_variance_of_levels_by_hand():
    """y_j ~ N(0, v + σ²), one each of n arms: v̂ = mean y² − σ², with standard error (v̂ + σ²) √(2/n)."""
    reward = np.array([2.0, -1.0, 3.0])
    found = fit.fit_kernel(Constant(1.0), [0, 1, 2], [0, 5, 7], reward, num_arms=K, z_max=Z_MAX, noise=0.5)
    assert found.kernel.variance == pytest.approx(14 / 3 - 0.25, rel=1e-5)
    assert found.standard_errors.kernel.variance == pytest.approx(14 / 3 * np.sqrt(2 / 3), rel=1e-4)
    assert found.noise == 0.5 and found.standard_errors.noise == 0.0
    assert found.converged and found.at_bound == ()
    assert found.evidence == pytest.approx(stats.norm(0.0, np.sqrt(14 / 3)).logpdf(reward).sum(), rel=1e-9)


def test_equals_a_maximum_found_without_gradients():
    arm, z, reward = recovering(0, num_arms=K, z_max=Z_MAX, length=60)
    found = fit.fit_kernel(
        SquaredExponential(1.0), arm, z, reward, num_arms=K, z_max=Z_MAX, noise=1.0, learn_noise=True
    )

    def loss(logs):
        lengthscale, variance, noise = np.exp(logs)
        distance = np.subtract.outer(np.arange(Z_MAX + 1), np.arange(Z_MAX + 1))
        return -dense(variance * np.exp(-0.5 * (distance / lengthscale) ** 2), arm, z, reward, noise)

    expected = scipy_optimize.minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7})
    assert found.evidence == pytest.approx(-expected.fun, abs=1e-6)
    actual = [found.kernel.lengthscale, found.kernel.variance, found.noise]
    np.testing.assert_allclose(actual, np.exp(expected.x), rtol=1e-3)
    assert found.evidence == pytest.approx(
        evidence(found.kernel, fit.sufficient_statistics(arm, z, reward, K, Z_MAX), found.noise)
    )


@functools.cache
def fits():
    """Of 8 draws: 20 curves of lengthscale 4 and noise 0.3, 1,200 plays at random rests."""
    start = SquaredExponential(10.0)
    options = dict(num_arms=20, z_max=30, noise=1.0, learn_noise=True, num_starts=4)
    return [fit.fit_kernel(start, *recovering(seed), **options) for seed in range(8)]


def test_lengthscale_and_noise_are_recovered():
    assert all(found.converged and not found.at_bound for found in fits())
    assert np.mean([abs(found.kernel.lengthscale / 4.0 - 1.0) for found in fits()]) < 0.15
    assert np.mean([abs(found.noise / 0.3 - 1.0) for found in fits()]) < 0.10


def test_standard_errors_are_those_of_the_estimates():
    """Σ ((estimate − truth) / error)² over the draws is χ²: within its 99.8 % limits."""
    low, high = stats.chi2(len(fits())).ppf([0.001, 0.999])
    for name, truth in (("lengthscale", 4.0), ("variance", 1.0)):
        scores = [
            (getattr(found.kernel, name) - truth) / getattr(found.standard_errors.kernel, name) for found in fits()
        ]
        assert low < np.sum(np.square(scores)) < high
    scores = [(found.noise - 0.3) / found.standard_errors.noise for found in fits()]
    assert low < np.sum(np.square(scores)) < high


def test_all_starts_but_lost_ones_lead_to_one_maximum():
    for found in fits():
        assert found.evidences.shape == (4,) and found.evidence == found.evidences.max()
        assert np.sum(found.evidences > found.evidence - 1e-5) >= 2


def test_arms_fitted_on_their_own():
    """As if the other arms had never been played."""
    data = fit.sufficient_statistics(*recovering(1, num_arms=K, z_max=Z_MAX, length=300), K, Z_MAX)
    found = fit.fit_statistics(SquaredExponential(2.0), data, 1.0, learn_noise=True, shared=False)
    assert found.noise.shape == found.standard_errors.noise.shape == (K,) and found.evidences.shape == (K, 8)
    assert found.evidence == pytest.approx(evidence(found.kernel, data, found.noise))
    for j in range(K):
        only = fit.PlayStatistics(*(np.where(np.arange(K)[:, None] == j, table, 0) for table in data))
        alone = fit.fit_statistics(SquaredExponential(2.0), only, 1.0, learn_noise=True)
        assert found.kernel[j].lengthscale == pytest.approx(alone.kernel.lengthscale, rel=1e-4)
        assert found.noise[j] == pytest.approx(alone.noise, rel=1e-4)
        errors = found.standard_errors.kernel[j]
        assert errors.variance == pytest.approx(alone.standard_errors.kernel.variance, rel=1e-3)


def test_sums_and_products_are_fitted():
    kernel = Periodic(7.0, 1.0) * SquaredExponential(8.0) + Linear(0.1, 3.0)
    data = fit.sufficient_statistics(
        *played(8, jb.recovery.gp(jax.random.key(8), kernel, 10, Z_MAX), 0.1, 600), 10, Z_MAX
    )
    found = fit.fit_statistics(kernel, data, 0.1)
    assert jax.tree.structure(found.kernel) == jax.tree.structure(kernel) and found.converged
    assert np.isfinite(jax.tree.leaves(found.kernel)).all() and found.evidence >= evidence(kernel, data, 0.1)
    errors = found.standard_errors.kernel.left
    assert errors.left.variance == errors.right.variance == np.inf  # only their product matters


def test_hyperparameters_that_nothing_depends_on_have_infinite_errors():
    reward = np.array([2.0, -1.0, 3.0])  # one rest only: any lengthscale will do
    found = fit.fit_kernel(SquaredExponential(2.0), [0, 1, 2], [4] * 3, reward, num_arms=K, z_max=Z_MAX, noise=0.5)
    assert found.standard_errors.kernel.lengthscale == np.inf
    assert found.standard_errors.kernel.variance == pytest.approx(14 / 3 * np.sqrt(2 / 3), rel=1e-4)


def test_a_bound_that_is_met_is_reported():
    arm, z, reward = recovering(0, num_arms=K, z_max=Z_MAX, length=150)
    found = fit.fit_kernel(SquaredExponential(2.0, 1e-6), arm, z, reward, num_arms=K, z_max=Z_MAX, noise=0.3)
    assert found.at_bound == ("variance",) and found.standard_errors.kernel.variance == np.inf
    assert found.kernel.variance <= 1e-2


def test_constant_rewards_with_a_known_noise_give_a_finite_kernel():
    arm, z, _ = history(0)
    for level in (0.0, 1.0):
        found = fit.fit_kernel(SquaredExponential(2.0), arm, z, np.full(60, level), num_arms=K, z_max=Z_MAX, noise=0.3)
        leaves = jax.tree.leaves(found.kernel)
        assert np.isfinite(leaves).all() and min(leaves) > 0 and np.isfinite(found.evidence)


def test_numbers_and_plays_may_change_without_compiling_again():
    sizes = set()
    for seed, length, lengthscale in ((0, 60, 2.0), (1, 500, 5.0)):
        noise = 0.1 * lengthscale
        fit.fit_kernel(SquaredExponential(lengthscale), *history(seed, length), num_arms=K, z_max=Z_MAX, noise=noise)
        sizes.add((optimize._search._cache_size(), optimize._derivatives._cache_size()))
    assert len(sizes) == 1


def test_the_default_precision_does_not_matter():
    options = dict(num_arms=K, z_max=Z_MAX, noise=0.3)
    found = fit.fit_kernel(SquaredExponential(2.0), *history(0), **options)
    with jax.enable_x64(True):
        again = fit.fit_kernel(SquaredExponential(2.0), *history(0), **options)
    assert jax.tree.leaves(found.kernel) == jax.tree.leaves(again.kernel) and found.evidence == again.evidence


# The choice.


def flat_problem(seed, num_arms=5, z_max=12, length=100, noise=0.3):
    """Arms of constant reward, rests as uneven as a policy makes them."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(num_arms, size=length)
    z = np.minimum(rng.geometric(0.2, size=length) - 1, z_max)
    return fit.sufficient_statistics(
        arm, z, 3.0 * rng.normal(size=num_arms)[arm] + noise * rng.normal(size=length), num_arms, z_max
    )


@pytest.mark.parametrize("noise", [0.3, None])
def test_false_alarms_are_as_rare_as_stated(noise):
    """400 flat problems at 5 %: the number called recovering is binomial, within its 99.9 % limits."""
    p_values = np.array(
        [fit.no_recovery_p_value(flat_problem(seed), noise, num_draws=99, seed=seed) for seed in range(400)]
    )
    low, high = stats.binom(400, 0.05).ppf([0.0005, 0.9995])
    assert low <= np.sum(p_values <= 0.05) <= high
    assert np.mean(p_values > 0.05) >= 0.90
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("noise", [0.3, None])
def test_recovery_is_seen(noise):
    for seed in range(20):
        data = fit.sufficient_statistics(*recovering(seed, num_arms=5, length=200), 5, 30)
        assert fit.no_recovery_p_value(data, noise, num_draws=99) == 0.01


def test_the_p_value_depends_on_neither_levels_nor_unit():
    data = flat_problem(0)
    levels, unit = np.array([[1e6], [-3.0], [0.0], [2.0], [50.0]]), 1e3
    moved = fit.PlayStatistics(data.counts, unit * (data.sums + levels * data.counts), unit**2 * data.squares)
    assert fit.no_recovery_p_value(moved, None) == fit.no_recovery_p_value(data, None)
    assert fit.no_recovery_p_value(moved, 300.0) == fit.no_recovery_p_value(data, 0.3)


def test_one_rest_per_arm_or_constants_are_no_evidence_of_recovery():
    data = fit.sufficient_statistics([0, 0, 1, 1], [3, 3, 5, 5], [1.0, 2.0, 3.0, 4.0], num_arms=3, z_max=6)
    assert fit.no_recovery_p_value(data, 0.3) == fit.no_recovery_p_value(data, None) == 1.0
    constant = fit.sufficient_statistics([0, 0, 1, 1], [0, 1, 0, 1], [0.1, 0.1, 0.7, 0.7], num_arms=2, z_max=6)
    assert fit.no_recovery_p_value(constant, None) == 1.0


def test_the_kernel_that_made_the_curves_comes_first():
    data = fit.sufficient_statistics(*recovering(2, num_arms=K, z_max=Z_MAX, noise=0.1, length=600), K, Z_MAX)
    kernels = {"smooth": SquaredExponential(10.0), "rough": Matern(0.5, 10.0)}
    comparison = fit.compare(kernels, data, 0.1)
    assert [row.name for row in comparison.rows] == ["smooth", "rough", "flat"]
    assert [row.num_hyperparameters for row in comparison.rows] == [2, 2, 1]
    assert comparison.recovers() and comparison.no_recovery_p_value == 0.001
    assert sum(row.weight for row in comparison.rows) == pytest.approx(1.0) and comparison.rows[0].weight > 0.999
    for row in comparison.rows:
        assert row.penalised == pytest.approx(row.evidence - 0.5 * row.num_hyperparameters * np.log(600))
    lines = str(comparison).splitlines()
    assert len(lines) == 5 and lines[1].startswith("smooth") and lines[-1] == "no recovery effect: p = 0.001"


def test_a_flat_problem_is_called_flat():
    comparison = fit.compare([SquaredExponential(3.0), Constant(1.0)], flat_problem(1, num_arms=K), 0.3)
    assert [row.name for row in comparison.rows] == ["Constant", "SquaredExponential"]
    assert not comparison.recovers()


# Bad input.

GOOD = dict(kernel=SquaredExponential(2.0), arm=[0, 1, 1], z=[0, 1, 2], reward=[0.1, 0.2, 0.3])
SIZES = dict(num_arms=2, z_max=2, noise=0.3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(reward=[0.1, NAN, 0.3]), "reward must be finite, got nan"),
        (dict(reward=[0.1, 0.2]), "reward must have shape [N], as many as arm = [3], got [2]"),
        (dict(arm=[0, 1, 2]), "arm must be in 0..1 (the arms), got 2"),
        (dict(z=[0, 1, 3]), "z must be in 0..2 (the grid; rests beyond z_max count as z_max), got 3"),
        (dict(z=[0, 1, -1]), "z must be in 0..2"),
        (dict(z=[0.0, 1.0, 2.0]), "z must hold integers"),
        (dict(arm=[], z=[], reward=[]), "arm must hold at least one play, got none"),
        (dict(arm=[0], z=[0], reward=[0.1]), "as many plays as there are hyperparameters, 2, got 1"),
        (dict(shared=False), "data of arm 0 must hold at least as many plays as there are hyperparameters, 2, got 1"),
        (dict(reward=[0.2] * 3, learn_noise=True), "rewards must differ for the noise to be learned, got 0.2"),
        (
            dict(arm=[0, 0, 0, 1, 1, 1], z=[0] * 6, reward=[0.1] * 3 + [1.0, 2.0, 3.0], shared=False, learn_noise=True),
            "rewards of arm 0 must differ for the noise to be learned, got 0.1 throughout",
        ),
        (dict(noise=0.0), "noise must be > 0, got 0.0"),
        (dict(noise=NAN), "noise must be > 0, got nan"),
        (dict(noise=[0.1, 0.2]), "noise must have shape [] (one number)"),
        (dict(z_max=[2]), "z_max must have shape [K], one per arm = [2], got [1]"),
        (dict(num_starts=0), "num_starts must be >= 1, got 0"),
        (dict(max_steps=0), "max_steps must be >= 1, got 0"),
        (dict(kernel="smooth"), "kernel must be a jaxband.kernels.Kernel or a number, got 'smooth'"),
        (dict(kernel=SquaredExponential(jnp.ones(2))), "lengthscale must have shape [] (one number)"),
    ],
)
def test_bad_input_is_refused(change, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        fit.fit_kernel(**{**GOOD, **SIZES, **change})


def test_bad_data_is_refused():
    data = fit.sufficient_statistics(*history(0), K, Z_MAX)
    for bad, message in (
        (data._replace(sums=data.sums * NAN), "data.sums must be finite, got"),
        (data._replace(counts=-data.counts), "data.counts must be >= 0, got"),
        (data._replace(squares=data.squares[1:]), "data.squares must have shape [K, G], as counts = [3, 13], got"),
    ):
        for use in (evidence, fit.fit_statistics, lambda kernel, *rest: fit.compare([kernel], *rest)):
            with pytest.raises(ValueError, match=re.escape(message)):
                use(Constant(1.0), bad, 0.3)
    with pytest.raises(ValueError, match=r"num_draws must be >= 19, got 5; fewer cannot reach a level of 5 %"):
        fit.no_recovery_p_value(data, 0.3, num_draws=5)
    with pytest.raises(ValueError, match="kernels must be a dict from name to kernel where two are alike"):
        fit.compare([Constant(1.0), Constant(2.0)], data, 0.3)
    with pytest.raises(TypeError, match="must be concrete; inside jit use fit"):
        jax.jit(lambda noise: fit.fit_statistics(Constant(1.0), data, noise).noise)(0.3)
    with pytest.raises(ValueError, match=r"kernel must have shape \[K\], one per arm = \[3\], got \[2\]"):
        evidence([Constant(1.0)] * 2, data, 0.3)
