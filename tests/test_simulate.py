"""One replication: rests follow the dynamics, rewards are the curve plus noise, the state is the history.

The statistical test fails by chance with probability 1e-5, if its seed were drawn anew.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from quick import jit
from scipy import stats

import jaxband as jb
from jaxband import prng
from jaxband.base import record
from jaxband.planners import exhaustive

NOISE, FALSE_ALARM = 0.3, 1e-5
KERNEL = jb.kernels.SquaredExponential(2.0)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def random_problem(num_arms, z_max, noise=NOISE, z_init=0):
    curves = np.random.default_rng(num_arms).normal(size=(num_arms, z_max + 1))
    return jb.Problem(curves, noise=noise, z_init=z_init)


@functools.partial(jit, static_argnames="horizon")
def play(policy, problem, key, horizon):
    return jb.simulate(policy, problem, key, horizon)


def z_played(run):
    return run.z[np.arange(len(run.arms)), run.arms]


def shocks_of(run, noise=NOISE):
    return (run.rewards - run.curves[run.arms, z_played(run)]) / noise


@pytest.mark.parametrize(
    ("num_arms", "z_max", "depth", "horizon", "z_init"),
    [
        (3, 4, 1, 12, 0),
        (3, 4, 3, 11, np.array([4, 0, 2])),  # the horizon cuts the last block short
        (3, 4, 3, 1, 0),
        (1, 3, 2, 7, 3),
        (3, 0, 2, 7, 0),
    ],
)
def test_rests_follow_the_dynamics_and_the_state_is_the_history(float64, num_arms, z_max, depth, horizon, z_init):
    policy = jb.policies.rgp_ucb(KERNEL, num_arms, z_max, NOISE, planner=exhaustive(depth))
    problem = random_problem(num_arms, z_max, z_init=z_init)
    run = jax.device_get(play(policy, problem, jax.random.key(0), horizon))
    z = reference.start(z_init, num_arms)
    for t, arm in enumerate(run.arms):
        np.testing.assert_array_equal(run.z[t], z)
        z = reference.step(z, arm, z_max)
    assert len(run.arms) == len(run.rewards) == len(run.z) == run.state.counts.sum() == horizon
    np.testing.assert_array_equal(run.curves, problem.curves)

    gram = reference.gram(lambda x, y: reference.squared_exponential(x, y, 2.0), z_max)
    means, covariances = reference.posteriors(gram, run.arms, z_played(run), run.rewards, num_arms, NOISE)
    np.testing.assert_allclose(run.state.mean, means, atol=1e-9)
    np.testing.assert_allclose(np.einsum("kgr,khr->kgh", run.state.root, run.state.root), covariances, atol=1e-9)


def test_the_state_after_a_run_is_the_prior_conditioned_on_the_history(float64):
    policy = jb.policies.rgp_ucb(KERNEL, 3, 4, NOISE)
    run = jax.device_get(play(policy, random_problem(3, 4), jax.random.key(0), 12))
    batch = jit(jb.posterior.condition)(policy.prior, run.arms, z_played(run), run.rewards, NOISE)
    np.testing.assert_array_equal(run.state.counts, batch.counts)
    for name in ("sums", "mean"):
        np.testing.assert_allclose(getattr(run.state, name), getattr(batch, name), atol=1e-9)
    covariances = [np.einsum("kgr,khr->kgh", root, root) for root in (run.state.root, batch.root)]
    np.testing.assert_allclose(*covariances, atol=1e-9)


def test_rewards_are_the_curve_plus_independent_standard_normal_shocks():
    run = jax.device_get(play(jb.policies.random(3), random_problem(3, 4), jax.random.key(0), 4000))
    shocks = shocks_of(run)
    p_values = [
        stats.kstest(shocks, "norm").pvalue,
        stats.pearsonr(shocks[1:], shocks[:-1]).pvalue,
        stats.pearsonr(shocks, run.arms).pvalue,
    ]
    assert min(p_values) > FALSE_ALARM / len(p_values)


def test_without_noise_rewards_are_the_curve():
    run = jax.device_get(play(jb.policies.random(3), random_problem(3, 4, noise=0.0), jax.random.key(0), 4000))
    np.testing.assert_array_equal(run.rewards, run.curves[run.arms, z_played(run)])


def test_policies_meet_the_same_shocks_and_curves_whatever_their_pace(float64):
    problem = jb.Problem(lambda key: jax.random.uniform(key, (3, 5)), noise=NOISE)
    policies = [jb.policies.round_robin(3)]
    policies += [jb.policies.oracle(3, 4, planner=exhaustive(2), commit=commit) for commit in (1, 2)]
    runs = [jax.device_get(play(policy, problem, jax.random.key(3), 10)) for policy in policies]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.curves, runs[0].curves)
        np.testing.assert_allclose(shocks_of(run), shocks_of(runs[0]), atol=1e-12)


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    policy, problem = jb.policies.oracle(3, 4, planner=exhaustive(3), commit=2), random_problem(3, 4)
    long, short = (jax.device_get(play(policy, problem, jax.random.key(0), horizon)) for horizon in (12, 7))
    for name in ("arms", "rewards", "z"):
        np.testing.assert_array_equal(getattr(long, name)[:7], getattr(short, name))


@record("commit", "warm_up", "num_arms")
class Clock:
    """Plays arm t + 20 s in slot s of the plan made in round t."""

    commit: int
    warm_up: int
    num_arms: int = 60
    depth = 3

    def init(self, key):
        return jnp.int32(0)  # counts updates

    def plan(self, key, state, z, t):
        return t + 20 * jnp.arange(self.commit, dtype=jnp.int32)

    def update(self, state, arm, z, reward):
        return state + 1


@pytest.mark.parametrize(("commit", "warm_up"), [(1, 0), (3, 0), (3, 4), (2, 5), (1, 30), (3, 23)])
def test_plans_are_made_every_commit_rounds_after_the_warm_up(commit, warm_up):
    run = play(Clock(commit, warm_up), random_problem(60, 2), jax.random.key(0), 20)
    slots = [(t - warm_up) % commit for t in range(20)]
    expected = [t if t < warm_up else t - slot + 20 * slot for t, slot in enumerate(slots)]
    assert run.arms.tolist() == expected
    assert run.state == 20


def test_warm_up_longer_than_the_number_of_arms_goes_round():
    run = play(Clock(1, 7, num_arms=3), random_problem(3, 2), jax.random.key(0), 7)
    assert run.arms.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_inside_a_users_jit_and_vmap():
    policy = jb.policies.rgp_ucb(KERNEL, 3, 4, NOISE, planner=exhaustive(2))
    curves, keys = random_problem(3, 4).curves, jax.random.split(jax.random.key(0), 4)
    noises, starts = jnp.array([0.0, 0.1, 0.3, 1.0]), jnp.array([0, 1, 2, 4])

    @jit
    @jax.vmap
    def users(key, noise, z_init):
        return jb.simulate(policy, jb.Problem(curves, noise, z_init), key, 7)

    runs = users(keys, noises, starts)
    for i in range(4):
        single = play(policy, jb.Problem(curves, noises[i], starts[i]), keys[i], 7)
        np.testing.assert_array_equal(runs.arms[i], single.arms)
        np.testing.assert_allclose(runs.rewards[i], single.rewards, rtol=1e-5, atol=1e-6)


KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda problem: jb.simulate(jb.policies.random(2), problem, KEY, 5),
            "policy has 2 arms but the problem has 3",
        ),
        (lambda problem: jb.simulate(jb.policies.oracle(3, 5), problem, KEY, 5), "policy has z_max 5 but .* has 4"),
        (lambda problem: jb.simulate(jb.policies.random(3), problem, KEY, 0), "horizon must be >= 1, got 0"),
        (lambda problem: jb.simulate(jb.policies.random(3), problem, KEY, 5.0), "horizon must be a whole number"),
        (lambda problem: jb.simulate(jb.policies.random(3), problem, KEY, True), "horizon must be a whole number"),
        (
            lambda problem: jax.jit(lambda n: jb.simulate(jb.policies.random(3), problem, KEY, n))(5),
            "horizon fixes a shape and must be a Python int, got a traced value; mark it static",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call(random_problem(3, 4))


@pytest.mark.parametrize("num_arms", [10, 140], ids=["drawn ahead", "drawn when planning"])
def test_every_plan_has_random_numbers_of_its_own_round(num_arms):
    """The plays of single precision, replayed with the numbers that belong to each round."""
    kernel, horizon = jb.kernels.SquaredExponential(2.0), 12
    policy = jb.policies.rgp_ts(kernel, num_arms, 6, 1.0)
    problem = jb.Problem(np.zeros((num_arms, 7)), noise=1.0)  # nothing to learn: chance decides
    key = jax.random.key(4)
    run = jax.jit(lambda: jb.simulate(policy, problem, key, horizon))()
    assert len(np.unique(run.arms)) > 4
    key_plan = jax.random.split(key, 4)[3]
    state, step = policy.init(None), jax.jit(policy.update)
    for t in range(horizon):
        if num_arms <= 128:
            pairs = prng.normal_pairs(key_plan, jnp.array([t], jnp.int32), num_arms // 2)
            shocks = prng.first_of_pairs(pairs, num_arms)
        else:
            shocks = jax.random.normal(jax.random.fold_in(key_plan, t), (num_arms,))
        assert policy.propose_from(shocks, state, run.z[t], t).arms[0] == run.arms[t]
        state = step(state, run.arms[t], run.z[t, run.arms[t]], run.rewards[t])
