"""What the paper proves: information gain two ways, every lemma on random data, where printed constants fail, and
measured regret below the bounds.

Lemmas are checked against dense NumPy formulas of the posterior, which share nothing with the library.
"""

import itertools
import math
import re

import jax
import numpy as np
import pytest
from scipy import integrate, stats

import jaxband as jb
from jaxband import posterior, theory
from jaxband.kernels import Constant, Linear, Matern, SquaredExponential
from jaxband.kernels.gram_matrices import gram_float64

Z_MAX = 6
WHITE = SquaredExponential(0.05)  # independent rests, variance 1
SEEDS = range(25)
ROUNDING = 1.0 + 1e-9


def random_problem(seed):
    """Kernel, Gram matrix, noise, and twelve rests played in order."""
    rng = np.random.default_rng(seed)
    lengthscale, variance = rng.uniform(0.5, 8.0), rng.uniform(0.2, 3.0)
    kernels = [
        SquaredExponential(lengthscale, variance),
        Matern(1.5, lengthscale, variance),
        Constant(variance),
        Linear(0.05) + Constant(variance),
        SquaredExponential(lengthscale, variance) * (Linear(0.05) + 1.0),
    ]
    kernel = kernels[seed % len(kernels)]
    return kernel, gram(kernel), rng.uniform(0.05, 2.0), rng.integers(Z_MAX + 1, size=12)


def gram(kernel, z_max=Z_MAX):
    return gram_float64(kernel, np.arange(z_max + 1))


def covariance_after(matrix, z, noise):
    """k(·, ·; N) by the paper's formula."""
    across = matrix[:, z]
    return matrix - across @ np.linalg.solve(matrix[np.ix_(z, z)] + noise**2 * np.eye(len(z)), across.T)


def variances_when_played(matrix, z, noise):
    """σ²(z_n; n−1) for n = 1..N."""
    return np.array([covariance_after(matrix, z[:n], noise)[z[n], z[n]] for n in range(len(z))])


def dense_gain(matrix, z, noise):
    return 0.5 * np.linalg.slogdet(np.eye(len(z)) + matrix[np.ix_(z, z)] / noise**2)[1]


# Information gain


@pytest.mark.parametrize("seed", SEEDS)
def test_information_gain_is_the_dense_determinant_and_the_sum_over_plays(seed):
    kernel, matrix, noise, z = random_problem(seed)
    gain = theory.information_gain(kernel, np.bincount(z, minlength=Z_MAX + 1), noise)
    assert gain == pytest.approx(dense_gain(matrix, z, noise), rel=1e-9)
    assert gain == pytest.approx(0.5 * np.log1p(variances_when_played(matrix, z, noise) / noise**2).sum(), rel=1e-7)


def test_information_gain_is_what_the_posterior_of_the_library_collects():
    kernel, noise, plays = SquaredExponential(2.0), 0.3, [0, 3, 3, 6, 0, 5]
    belief, gain, observe = posterior.prior(kernel, 1, Z_MAX), 0.0, jax.jit(posterior.observe)
    for z in plays:
        gain += 0.5 * math.log1p(np.asarray(belief.variances)[0, z] / noise**2)
        belief = observe(belief, 0, z, 0.0, noise)
    counts = np.asarray(belief.counts)[0]
    assert theory.information_gain(kernel, counts, noise) == pytest.approx(gain, rel=1e-4)


@pytest.mark.parametrize(
    ("kernel", "num_plays", "noise", "gain"),
    [
        (Constant(2.0), 5, 1.0, 0.5 * math.log(11.0)),
        (WHITE, 14, 0.5, 7 * 0.5 * math.log(1.0 + 2 * 4.0)),  # two plays at each of the seven rests
        (WHITE, 0, 0.5, 0.0),
    ],
)
def test_maximal_gains_known_in_closed_form(kernel, num_plays, noise, gain):
    assert theory.information_gain_bound(kernel, Z_MAX, noise, num_plays) == pytest.approx(gain, rel=2e-4, abs=1e-12)
    greedy = theory.greedy_information_gain(kernel, Z_MAX, noise, num_plays)
    assert (greedy.gain[-1] if num_plays else 0.0) == pytest.approx(gain, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_and_concave_bound_enclose_the_maximum_over_all_multisets(seed):
    kernel, _, noise, _ = random_problem(seed)
    greedy = theory.greedy_information_gain(kernel, 4, noise, 5)
    for num_plays in range(1, 6):
        exact = theory.maximal_information_gain(kernel, 4, noise, num_plays)
        assert (1.0 - 1.0 / math.e) * exact <= greedy.gain[num_plays - 1] <= exact * ROUNDING
        assert exact <= theory.information_gain_bound(kernel, 4, noise, num_plays) * ROUNDING
    counts = np.bincount(greedy.z, minlength=5)
    assert theory.information_gain(kernel, counts, noise) == pytest.approx(greedy.gain[-1], rel=1e-9)


def test_greedy_is_not_always_the_maximum():
    exact = theory.maximal_information_gain(SquaredExponential(2.0), 4, 0.1, 4)
    greedy = theory.greedy_information_gain(SquaredExponential(2.0), 4, 0.1, 4)
    assert greedy.z[:3].tolist() == [0, 4, 2]  # the ends and the middle; too late for the best four, 0 1 3 4
    assert exact == pytest.approx(theory.information_gain(SquaredExponential(2.0), [1, 1, 0, 1, 1], 0.1))
    assert greedy.gain[-1] < 0.99 * exact


@pytest.mark.parametrize("lengthscale", [1.0, 4.0, 8.0])
def test_greedy_and_concave_bound_meet_for_many_plays(lengthscale):
    kernel = SquaredExponential(lengthscale)
    greedy = theory.greedy_information_gain(kernel, 30, 0.1, 1000).gain[-1]
    assert greedy <= theory.information_gain_bound(kernel, 30, 0.1, 1000) <= 1.001 * greedy


@pytest.mark.parametrize("seed", SEEDS)
def test_plays_spread_over_arms_gain_at_most_as_much_as_plays_shared_equally(seed):
    kernel, _, noise, _ = random_problem(seed)
    shared = 3 * theory.information_gain_bound(kernel, 4, noise, 7 / 3)
    gain = [0.0, *theory.greedy_information_gain(kernel, 4, noise, 7).gain]
    for first, second in itertools.product(range(8), repeat=2):
        if first + second <= 7:
            assert gain[first] + gain[second] + gain[7 - first - second] <= shared * ROUNDING


def test_too_large_an_enumeration_is_refused_with_its_size():
    with pytest.raises(ValueError, match=r"847,660,528 multisets of 10 rests out of 31 are too many"):
        theory.maximal_information_gain(WHITE, 30, 0.1, 10)


# Lemmas


@pytest.mark.parametrize("seed", SEEDS)
def test_a_play_lowers_variances_by_no_more_than_the_lemma_says(seed):
    _, matrix, noise, z = random_problem(seed)
    v = matrix.diagonal().max()
    for n in range(len(z)):
        before, after = (covariance_after(matrix, z[:m], noise) for m in (n, n + 1))
        lowered = before.diagonal() - after.diagonal()
        here = before[z[n], z[n]]
        np.testing.assert_allclose(lowered, before[z[n]] ** 2 / (here + noise**2), rtol=1e-6, atol=1e-9)
        assert (lowered <= v * here / noise**2 * ROUNDING + 1e-9).all()


def test_the_printed_decrease_needs_a_prior_variance_of_at_most_one():
    lowered = 4.0 - covariance_after(np.full((1, 1), 4.0), [0], 2.0)[0, 0]
    assert lowered == pytest.approx(2.0)  # v = σ² = 4
    assert 4.0 / 2.0**2 < lowered <= 4.0 * 4.0 / 2.0**2  # σ²(Z)/σ² < … ≤ v σ²(Z)/σ²


@pytest.mark.parametrize("seed", SEEDS)
def test_variances_sum_to_at_most_the_constant_times_the_information(seed):
    _, matrix, noise, z = random_problem(seed)
    constant = theory.variance_per_information(matrix.diagonal().max(), noise)
    assert variances_when_played(matrix, z, noise).sum() <= constant * dense_gain(matrix, z, noise) * ROUNDING


@pytest.mark.parametrize("noise", [0.1, 1.0, 3.0])
def test_the_printed_constant_of_that_lemma_fails_at_the_first_play(noise):
    maximal = theory.maximal_information_gain(WHITE, 0, noise, 1)
    assert theory.variance_per_information(1.0, noise) * maximal == pytest.approx(1.0)  # σ²(z; 0) = 1: attained
    assert maximal / math.log(1.0 + noise**-2) == pytest.approx(0.5)  # the lemma prints this as an upper bound
    assert maximal / (1.0 + math.log(noise**-2)) < 1.0  # and the proof of Theorem 3 this, negative from σ² = e on


@pytest.mark.parametrize("seed", SEEDS)
def test_the_variance_of_a_block_is_at_most_repeats_times_its_variances_and_the_constant_times_its_information(seed):
    _, matrix, noise, z = random_problem(seed)
    v = matrix.diagonal().max()
    for past, repeats in itertools.product((0, 5), range(1, 8)):
        block = z[past : past + repeats]
        joint = covariance_after(matrix, z[:past], noise)[np.ix_(block, block)]
        information = dense_gain(matrix, z[: past + repeats], noise) - dense_gain(matrix, z[:past], noise)
        assert joint.sum() <= repeats * joint.trace() * ROUNDING
        assert joint.sum() <= theory.variance_per_information(v, noise, repeats) * information * ROUNDING
        when_played = variances_when_played(matrix, z, noise)[past : past + repeats]
        mended = repeats * (1.0 + (repeats - 1) * v / noise**2)
        assert joint.sum() <= mended * when_played.sum() * ROUNDING


@pytest.mark.parametrize("repeats", range(1, 7))
def test_the_bound_on_a_block_is_attained_by_a_constant_curve(repeats):
    joint = np.ones((repeats, repeats))
    assert joint.sum() == repeats * joint.trace()
    assert (joint.sum() <= 3.0 * joint.trace()) == (repeats <= 3)  # the printed factor
    information = theory.information_gain(Constant(1.0), [repeats], 0.1)
    assert theory.variance_per_information(1.0, 0.1, repeats) * information == pytest.approx(joint.sum())
    assert (joint.sum() <= repeats) == (repeats == 1)  # the proof of the block's regret takes ς² ≤ d


@pytest.mark.parametrize(
    ("repeats", "noise", "holds"), [(3, 1.0, True), (4, 0.1, True), (10, 1.0, False), (4, 2.0, False), (1, 2.0, False)]
)
def test_the_printed_bound_on_a_block_fails_for_many_repeats_or_much_noise(repeats, noise, holds):
    """3 Σ_q (s − q)/σ² σ²(z; n+q−1) against s², for the first s plays of a constant curve."""
    when_played = variances_when_played(np.ones((1, 1)), np.zeros(repeats, int), noise)
    printed = 3.0 * ((repeats - np.arange(repeats)) / noise**2 * when_played).sum()
    assert (repeats**2 <= printed) == holds


@pytest.mark.parametrize("count", [1, 2, 10, 100, 1000])
def test_the_maximum_of_gaussians_stays_below_its_bound(count):
    density = lambda x: x * count * stats.norm.pdf(x) * stats.norm.cdf(x) ** (count - 1)  # noqa: E731
    independent = integrate.quad(density, -12.0, 12.0)[0]
    assert independent <= theory.gaussian_maximum(count) + 1e-9
    assert independent >= 0.45 * theory.gaussian_maximum(count)  # not far below
    rng = np.random.default_rng(count)
    shared = rng.normal(size=(4000, 1))
    correlated = 2.0 * (0.8 * shared + 0.6 * rng.normal(size=(4000, count)))
    mean, error = correlated.max(axis=1).mean(), 2.0 / math.sqrt(4000)
    assert mean <= theory.gaussian_maximum(count, 2.0) + 4.0 * error


@pytest.mark.parametrize("alpha", [0.0, 0.5, 2.0, 5.0])
def test_the_excess_over_a_confidence_bound_is_at_most_the_density(alpha):
    excess = stats.norm.pdf(alpha) - alpha * stats.norm.sf(alpha)  # E(X − α)⁺
    assert 0.0 < excess <= math.exp(-(alpha**2) / 2.0) / math.sqrt(2.0 * math.pi)


@pytest.mark.parametrize("visits", [1, 2, 5, 100])
def test_widths_of_ucb_z_sum_to_twice_the_root_and_not_to_the_root(visits):
    total = (1.0 / np.sqrt(np.arange(1, visits + 1))).sum()
    assert total <= 2.0 * math.sqrt(visits)
    assert (total <= math.sqrt(visits)) == (visits == 1)  # as printed


def test_ucb_z_has_visited_every_pair_by_the_round_its_bound_allows():
    num_arms, points = 3, 6
    latest = num_arms * (1 + points * (points + 1) // 2)
    problem = jb.Problem(np.zeros((num_arms, points)), noise=0.1)
    policy = jb.policies.ucb_z(num_arms, points - 1, 0.1, horizon=latest)
    keys = jax.random.split(jax.random.key(0), 100)
    counts = jax.jit(jax.vmap(lambda key: jb.simulate(policy, problem, key, horizon=latest).state.counts))(keys)
    assert (np.asarray(counts) > 0).all()


# Regret bounds


SMALL = (SquaredExponential(2.0), 3, Z_MAX, 0.2)


@pytest.mark.parametrize(
    ("repeats", "constant", "deviation"),
    [(False, 2.0 / math.log(2.0), math.sqrt(2.0)), (True, 8.0 / math.log(3.0), 2.0)],
)
def test_the_corrected_bounds_by_hand(repeats, constant, deviation):
    """K = 2, G = 1, d = 2, T = 3, so that H = 2 blocks; variance 1, σ = 1: γ̄_2 = ½ log 3."""
    widths = sum(2.0 * math.log(2.0**2 * t**2) for t in (2, 4))
    above = deviation * sum(1.0 / (math.sqrt(2.0 * math.pi) * (2 * h) ** 2) for h in range(1, 10**5))
    bound = theory.regret_bound_ucb(WHITE, 2, 0, 1.0, 3, 2, repeats=repeats)
    assert bound == pytest.approx(math.sqrt(widths * constant * 2 * 0.5 * math.log(3.0)) + above, rel=1e-4)
    assert bound == theory.regret_bound_ts(WHITE, 2, 0, 1.0, 3, 2, repeats=repeats)  # one rest: the same plans


def test_the_corrected_bound_of_ucb_z_by_hand():
    spread = 2 * math.sqrt(2 * math.log(12))  # K = 2, G = 6
    start, horizon = 2 * (1 + 6 + 5 + 4 + 3 + 2 + 1), 10**4
    visits = 4 * 0.5 * math.sqrt((2 + 6 * math.log(horizon)) * 12 * horizon)
    by_hand = start * spread + horizon * (2 * 12 / (math.e * horizon**2)) * spread + visits
    assert theory.regret_bound_ucb_z(WHITE, 2, 5, 0.5, horizon) == pytest.approx(by_hand)


def test_the_printed_bounds_by_hand():
    gamma = theory.information_gain_bound(WHITE, Z_MAX, 0.5, 20)
    widths = 4.0 * math.log((3 * 7) ** 2 * 22) * 11
    single = math.sqrt(widths * 3 * gamma / math.log(5.0)) + math.pi**2.5 / (math.sqrt(2.0) * 3 * 2)
    multiple = math.sqrt(widths * 3 * gamma / math.log(5.0) * 3 * 2 / 0.25) + math.pi**2.5 / (math.sqrt(2.0) * 3 * 2)
    for bound in (theory.regret_bound_ucb, theory.regret_bound_ts):
        problem = (WHITE, 3, Z_MAX, 0.5, 20, 2)
        assert bound(*problem, repeats=False, constants="printed") == pytest.approx(single)
        assert bound(*problem, constants="printed") == pytest.approx(multiple)
    rounds = 2 * 42 * 2 * math.sqrt(2 * math.log(2 * 42))
    printed = rounds + 2 * 2 * 6 * math.sqrt(2 * math.log(50)) + 2 * 0.5 * math.sqrt((2 + 6 * math.log(50)) * 12 * 50)
    assert theory.regret_bound_ucb_z(WHITE, 2, 5, 0.5, 50, constants="printed") == pytest.approx(printed)


def test_the_width_in_the_bound_is_that_of_the_policy():
    """Σ_h α_h², from the schedule itself."""
    kernel, num_arms, z_max, noise = SMALL
    depth, horizon = 3, 60
    schedule = jb.policies.confidence.as_written(num_arms, z_max + 1, depth)
    squared = sum(schedule(t).item() ** 2 for t in range(0, horizon, depth))
    constant = theory.variance_per_information(1.0, noise, depth)
    information = num_arms * theory.information_gain_bound(kernel, z_max, noise, horizon / num_arms)
    bound = theory.regret_bound_ucb(*SMALL, horizon, depth)
    assert bound == pytest.approx(math.sqrt(squared * constant * information), abs=0.01)
    assert bound >= math.sqrt(squared * constant * information)


@pytest.mark.parametrize("bound", [theory.regret_bound_ucb, theory.regret_bound_ts])
def test_bounds_grow_with_the_horizon_slower_than_it_and_with_repeats(bound):
    values = [bound(*SMALL, horizon, 2) for horizon in (10, 100, 1000, 10**6)]
    assert (np.diff(values) > 0).all()
    assert (np.diff(np.divide(values, (10, 100, 1000, 10**6))) < 0).all()
    assert bound(*SMALL, 1000, 2, repeats=False) < bound(*SMALL, 1000, 2)
    assert bound(*SMALL, 1000) == pytest.approx(bound(*SMALL, 1000, repeats=False))
    assert math.isfinite(bound(*SMALL, 10**12, 10))


def test_thompson_sampling_has_the_smaller_bound():
    assert theory.regret_bound_ts(*SMALL, 1000, 3) < theory.regret_bound_ucb(*SMALL, 1000, 3)


def test_ucb_z_costs_what_any_policy_may_cost_until_its_visits_are_over():
    assert theory.regret_bound_ucb_z(*SMALL, 50) == theory.trivial_regret_bound(*SMALL[:3], 50)
    assert theory.regret_bound_ucb_z(*SMALL, 10**5) < theory.trivial_regret_bound(*SMALL[:3], 10**5)


@pytest.mark.parametrize(
    ("name", "depth", "repeats"), [("rgp_ucb", 1, True), ("rgp_ucb", 3, True), ("rgp_ts", 2, False)]
)
def test_measured_regret_stays_below_the_bound(name, depth, repeats):
    kernel, num_arms, z_max, noise = SMALL
    problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, num_arms, z_max), noise=noise)
    planner = jb.planners.exhaustive(depth, repeats=repeats)
    policy = getattr(jb.policies, name)(kernel, num_arms, z_max, noise, planner=planner)
    options = {"lookahead": depth, "repeats": repeats, "progress": False}
    result = jb.monte_carlo(policy, problem, horizon=300, replications=64, **options)
    bound = theory.regret_bound_ucb if name == "rgp_ucb" else theory.regret_bound_ts
    measured = result.lookahead_regret.mean()
    assert 0.0 < measured < bound(kernel, num_arms, z_max, noise, 300, depth, repeats=repeats)
    assert measured < theory.trivial_regret_bound(kernel, num_arms, z_max, 300)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: theory.information_gain(WHITE, [1, -1], 0.1), ValueError, "counts must be >= 0, got -1"),
        (lambda: theory.information_gain(WHITE, [[1]], 0.1), ValueError, "counts must have shape [G]"),
        (lambda: theory.information_gain(WHITE, [1], 0.0), ValueError, "noise must be > 0, got 0.0"),
        (lambda: theory.information_gain("soft", [1], 0.1), TypeError, "kernel must be a jaxband.kernels.Kernel"),
        (lambda: theory.greedy_information_gain(WHITE, 3, 0.1, 1.5), TypeError, "num_plays must be a whole number"),
        (lambda: theory.information_gain_bound(WHITE, 3, 0.1, -1), ValueError, "num_plays must be >= 0"),
        (lambda: theory.variance_per_information(1.0, 0.1, 0), ValueError, "repeats must be >= 1, got 0"),
        (lambda: theory.regret_bound_ucb(*SMALL, 100, 0), ValueError, "depth must be >= 1, got 0"),
        (lambda: theory.regret_bound_ucb(*SMALL, 0), ValueError, "horizon must be >= 1, got 0"),
        (
            lambda: theory.regret_bound_ts(*SMALL, 100, 4, repeats=False),
            ValueError,
            "depth must be between 1 and 3, got 4; single play needs an arm per slot",
        ),
        (
            lambda: theory.regret_bound_ucb(*SMALL, 100, constants="loose"),
            ValueError,
            "constants must be one of 'corrected', 'printed', got 'loose'",
        ),
        (
            lambda: theory.regret_bound_ucb(Constant(4.0), 3, 5, 0.1, 100, constants="printed"),
            ValueError,
            "the printed constants are for a prior variance of at most 1, got 4",
        ),
    ],
)
def test_bad_arguments_are_refused_by_name(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize(("period", "z_max", "cycles", "horizon"), [(1, 0, 1, 10), (4, 5, 2, 1000), (7, 30, 3, 500)])
def test_proposition_1_at_the_depths_it_names(period, z_max, cycles, horizon):
    printed = (1 - ((cycles + 1) * period + z_max) / (horizon + period)) * cycles * period / (cycles * period + z_max)
    share = theory.guaranteed_fraction(period, z_max, z_max + cycles * period, horizon)
    assert share == pytest.approx(printed, rel=1e-12)
    if z_max + period > 1:
        assert theory.guaranteed_fraction(period, z_max, z_max + period - 1, horizon) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_deep_plans_earn_what_proposition_1_is_sure_of(seed):
    """Against dynamic programming: the best plan of d plays from every state it leads to, played to the end."""
    curves = np.random.default_rng(seed).uniform(0.0, 1.0, (3, 4))
    best, horizon = jb.optimum.exact(curves), 120
    for depth in range(3 + best.period, 3 + 2 * best.period + 1, max(best.period // 2, 1)):
        z, total = np.zeros(3, int), 0.0
        for begin in range(0, horizon, depth):
            plan = jb.optimum.finite(curves, z, min(depth, horizon - begin)).arms
            for arm in plan:
                total += curves[arm, z[arm]]
                z = np.where(np.arange(3) == arm, 0, np.minimum(z + 1, 3))
        sure = theory.guaranteed_fraction(best.period, 3, depth, horizon)
        assert 0.0 < sure * best.average * horizon <= total
