"""Policies that learn lengthscale and variance as they play, and what their evidence is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import jit

import jaxband as jb
from jaxband import posterior
from jaxband.planners import subset
from jaxband.policies.kernel_learning import STEPS_PER_OCTAVE

pytestmark = pytest.mark.as_users

KERNEL, K, Z_MAX, NOISE = jb.kernels.SquaredExponential(4.0), 5, 20, 0.1


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def observations(seed, number, kernel=KERNEL):
    rng = np.random.default_rng(seed)
    arm, z = rng.integers(0, K, number), rng.integers(0, Z_MAX + 1, number)
    curves = np.asarray(jb.recovery.gp(jax.random.key(seed), kernel, K, Z_MAX), float)
    return arm, z, curves[arm, z] + NOISE * rng.normal(size=number)


def test_the_posteriors_evidence_is_the_marginal_likelihood(compiled_quickly, float64):
    """Up to a number that depends on the data alone: differences between kernels are equal."""
    arm, z, reward = observations(0, 200)
    data = jb.fit.sufficient_statistics(arm, z, reward, K, Z_MAX)
    kernels = [KERNEL, jb.kernels.SquaredExponential(1.5), jb.kernels.Matern(1.5, 3.0, 0.5), jb.kernels.Constant(2.0)]
    ours, theirs = [], []
    for kernel in kernels:
        known = posterior.condition(posterior.prior(kernel, K, Z_MAX), arm, z, reward, NOISE)
        ours.append(float(posterior.log_evidence(known, NOISE)))
        theirs.append(float(jb.fit.log_marginal_likelihood(kernel, data, NOISE)))
    np.testing.assert_allclose(np.diff(ours), np.diff(theirs), atol=1e-6)


@pytest.mark.parametrize("wrong", [0.25, 4.0])
def test_a_wrong_lengthscale_is_found(compiled_quickly, wrong):
    """From a start four times off, the stretch found is within a factor of 1.5 (one step is 1.41) of the right one."""
    policy = jb.policies.rgp_ts(jb.kernels.SquaredExponential(4.0 * wrong), K, Z_MAX, NOISE, refit_every=10)
    state = policy.init(jax.random.key(0))
    arm, z, reward = observations(1, 300)
    known = posterior.condition(state.posterior, arm, z, np.float32(reward), NOISE)
    state = state._replace(posterior=known)
    refit = jit(policy.refit_kernel)
    for _ in range(10):
        state = refit(state)
    assert policy.stretch(state) * wrong == pytest.approx(1.0, rel=0.5)
    right = posterior.condition(posterior.prior(KERNEL, K, Z_MAX), arm, z, np.float32(reward), NOISE)
    np.testing.assert_allclose(state.posterior.mean, right.mean, atol=0.1)


def test_learning_makes_up_for_a_wrong_kernel():
    """Curves with l = 4, a policy that starts from l = 16, 64 problems, T = 1,000, all paired.

    Learning is ahead of the wrong kernel by more than two standard errors (if it made no difference, this would pass
    for 1 seed in 40) and nearer to the right kernel than to the wrong one: it wins back more than half of the loss.
    It does cost something: 8 ± 2.5 in reward over 256 problems, of a loss of 48.
    """
    problem = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, K, Z_MAX), noise=NOISE)

    def earned(lengthscale, refit_every):
        kernel = jb.kernels.SquaredExponential(lengthscale)
        policy = jb.policies.rgp_ts(kernel, K, Z_MAX, NOISE, planner=subset(3), refit_every=refit_every)
        return jb.monte_carlo(policy, problem, horizon=1000, replications=64).expected_reward

    learned = earned(16.0, 5)
    ahead, behind = learned - earned(16.0, None), earned(4.0, None) - learned
    assert ahead.mean() > 2 * ahead.std(ddof=1) / 8
    assert behind.mean() < ahead.mean()


def test_a_policy_that_learns_shows_what_it_learned(compiled_quickly):
    policy = jb.policies.rgp_ucb(KERNEL, 2, 5, NOISE, refit_every=3)
    problem = jb.Problem([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]], noise=NOISE)
    watch = ("stretch", "variance_scale", "value")
    run = jb.simulate(policy, problem, jax.random.key(0), 60, watch=watch)
    assert run.state.posterior.counts.sum() == 60
    assert policy.stretch(run.state) == pytest.approx(2.0 ** (float(run.state.stretch) / STEPS_PER_OCTAVE))
    scale = 2.0 ** (float(run.state.variance_steps) / STEPS_PER_OCTAVE)
    assert policy.variance_scale(run.state) == pytest.approx(scale)
    assert 0.0 < policy.variance_scale(run.state) < 10.0
    assert run.watched["stretch"][0] == run.watched["variance_scale"][0] == 1.0
    assert run.watched["stretch"][-1] == policy.stretch(run.state)
    assert run.watched["variance_scale"][-1] == policy.variance_scale(run.state)
    moved = np.flatnonzero(np.diff(run.watched["stretch"]) != 0) + 1
    assert moved.size and all(policy.refit_due(t) for t in moved)


def test_a_smaller_variance_is_learned_but_not_taken_over(compiled_quickly):
    """The data speak for a variance of 0.05; what was not tried keeps the one that was given."""
    policy = jb.policies.rgp_ts(KERNEL, K, Z_MAX, NOISE, refit_every=10)
    arm, z, reward = observations(2, 300, jb.kernels.SquaredExponential(4.0, 0.05))
    seen = z < Z_MAX - 12
    state = policy.init(jax.random.key(0))
    known = posterior.condition(state.posterior, arm[seen], z[seen], np.float32(reward[seen]), NOISE)
    refit, state = jit(policy.refit_kernel), state._replace(posterior=known)
    for _ in range(6):
        state = refit(state)
    assert policy.variance_scale(state) < 0.2
    np.testing.assert_allclose(state.posterior.variance[:, -1], 1.0, atol=0.02)


def test_the_kernel_is_fitted_often_at_first_and_then_regularly():
    def fits(every):
        policy = jb.policies.rgp_ts(KERNEL, 2, 3, NOISE, refit_every=every)
        return [t for t in range(60) if policy.refit_due(np.int32(t))]

    assert fits(1) == list(range(1, 60))
    assert fits(5) == [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, *range(20, 60, 5)]
    assert fits(100) == [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 23, 29, 36, 45, 56]


def test_fits_are_made_between_blocks_and_count_them():
    """Plans of three plays after a warm-up of two: before the choices that begin a block, never in the warm-up."""
    policy = jb.policies.rgp_ts(KERNEL, 2, 3, NOISE, planner=subset(3), refit_every=7, warm_up=2)
    blocks = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 19, 21]
    assert [t for t in range(70) if policy.policy.refit_due(np.int32(t))] == [2 + 3 * n for n in blocks]
    later = policy.begin_at(10)
    assert [t for t in range(40) if later.policy.refit_due(np.int32(t))] == [12 + 3 * n for n in blocks if n < 10]


def test_the_kernel_is_fitted_before_the_choice_and_the_plan_is_made_with_it(compiled_quickly):
    """In rounds in which a fit is due, a choice is that of the plain policy from the refitted state; else its own."""
    policy = jb.policies.rgp_ucb(KERNEL, K, Z_MAX, NOISE, planner=subset(2), refit_every=2)
    state = policy.init(jax.random.key(0))
    arm, z, reward = observations(3, 40, jb.kernels.SquaredExponential(1.0, 3.0))
    belief = posterior.condition(state.posterior, arm, z, np.float32(reward), NOISE)
    state, rests = state._replace(posterior=belief), jnp.asarray([3, 0, 20, 7, 1])
    choose, plain, refit = jit(policy.choose), jit(policy.policy.choose), jit(policy.refit_kernel)
    for t, due in [(7, False), (8, True)]:
        assert policy.refit_due(t) == due
        found = choose(None, state, jb.Round(jnp.int32(t), rests))
        expected = plain(None, refit(state) if due else state, jb.Round(jnp.int32(t), rests))
        assert found[0] == expected[0]
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5), found[1], expected[1])
        assert (found[1].stretch != state.stretch) == due


def test_learning_leaves_the_rest_of_a_policy_alone(compiled_quickly):
    plain = jb.policies.rgp_ts(KERNEL, 4, Z_MAX, NOISE, planner=subset(3), replan_every=2)
    learner = jb.policies.rgp_ts(KERNEL, 4, Z_MAX, NOISE, planner=subset(3), replan_every=2, refit_every=50)
    for name in ("num_arms", "z_max", "plays", "idle"):
        assert getattr(plain, name) == getattr(learner, name)
    for name in ("depth", "replan_every", "first_round", "planner"):
        assert getattr(plain, name) == getattr(learner.policy, name)
    assert plain.title() == learner.title()
    problem = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, 4, Z_MAX), noise=NOISE)
    runs = [jb.simulate(policy, problem, jax.random.key(1), 20) for policy in (plain, learner)]
    assert runs[0].arms.shape == runs[1].arms.shape
    with pytest.raises(ValueError, match="refit_every must be >= 1"):
        jb.policies.rgp_ts(KERNEL, 4, Z_MAX, NOISE, refit_every=0)


def test_arms_that_recover_at_different_rests_and_a_z_max_that_is_only_a_bound():
    """A policy told each arm's own z_max, and one told an upper bound for all, both learn the extended curves."""
    own = [3, 8, 12]
    curves = jb.recovery.hold_after(jb.recovery.gp(jax.random.key(0), KERNEL, 3, 12), own)
    problem = jb.Problem(curves, noise=NOISE)
    wider = jb.Problem(np.pad(np.asarray(curves), ((0, 0), (0, 8)), mode="edge"), noise=NOISE)

    def earned(policy, problem, replications):
        options = {"horizon": 1000, "replications": replications, "batch_size": replications}
        return jb.monte_carlo(policy, problem, **options).expected_reward.mean()

    told = earned(jb.policies.recommended(KERNEL, 3, own, NOISE, 1000), problem, 32)
    bounded = earned(jb.policies.recommended(KERNEL, 3, 20, NOISE, 1000), wider, 32)
    best = earned(jb.policies.oracle(3, 12, planner=subset(4), replan_every=1, terminal_values=True), problem, 2)
    assert told > 0.9 * best
    assert bounded > 0.9 * best
