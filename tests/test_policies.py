"""Policies: one contract for all of them, and whole runs that equal the same algorithms in plain NumPy, shock by shock.

A statistical test fails by chance with probability 1e-5, if its seed were drawn anew; there are fewer than ten.
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
from jaxband.planners import exhaustive, whittle, windows
from jaxband.policies import confidence, oracle, rgp_ts, rgp_ucb, round_robin, ucb_z

K, Z_MAX, NOISE = 3, 6, 0.3
KERNEL = jb.kernels.SquaredExponential(2.0) + jb.kernels.Linear(variance=0.02)  # no two rests have the same variance
GRAM = reference.gram(lambda x, y: reference.squared_exponential(x, y, 2.0) + reference.linear(x, y, 0.02), Z_MAX)
FALSE_ALARM = 1e-5

POLICIES = {
    "1RGP-UCB": lambda: rgp_ucb(KERNEL, K, Z_MAX, NOISE),
    "3RGP-UCB, published, two plays per plan": lambda: rgp_ucb(
        *(KERNEL, K, Z_MAX, NOISE), planner=exhaustive(3), commit=2, alpha=confidence.published, noisy_variance=True
    ),
    "2RGP-UCB, single play": lambda: rgp_ucb(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(2, repeats=False)),
    "1RGP-TS": lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, noisy_variance=True, warm_up=K),
    "3RGP-TS, receding": lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(3), commit=1),
    "2RGP-TS, one kernel and grid per arm": lambda: rgp_ts([KERNEL] * K, K, [2, 4, 6], NOISE, planner=exhaustive(2)),
    "UCB-Z": lambda: ucb_z(K, Z_MAX, NOISE, horizon=100),
    "oracle": lambda: oracle(K, Z_MAX),
    "3-step oracle": lambda: oracle(K, Z_MAX, planner=exhaustive(3), commit=2),
    "random": lambda: jb.policies.random(K),
    "round robin": lambda: round_robin(K),
}


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def signature(tree):
    return jax.tree.map(lambda leaf: jax.typeof(jnp.asarray(leaf)), tree)


@jit
@functools.partial(jax.vmap, in_axes=(None, 0))
def first_blocks(policy, key):
    """State, first plan, and state after its first play."""
    state = policy.init(key)
    z = jnp.arange(policy.num_arms, dtype=jnp.int32)
    arms = policy.plan(key, state, z, jnp.int32(policy.warm_up))
    return state, arms, policy.update(state, arms[0], z[arms[0]], jnp.asarray(0.5))


@pytest.mark.parametrize("name", POLICIES)
def test_contract(name):
    policy = POLICIES[name]()
    assert 1 <= policy.commit <= policy.depth and policy.warm_up >= 0 and policy.num_arms == K
    keys = jax.random.split(jax.random.key(0), 8)[np.array([0, 1, 2, 3, 4, 5, 6, 7, 0])]
    state, arms, after = first_blocks(policy, keys)
    assert arms.shape == (9, policy.commit) and jnp.issubdtype(arms.dtype, jnp.integer)
    assert ((arms >= 0) & (arms < K)).all()
    assert signature(after) == signature(state), "update must keep the state's structure, shapes and dtypes"
    first, again = (jax.tree.map(lambda batch, i=i: batch[i], (state, arms, after)) for i in (0, 8))
    jax.tree.map(np.testing.assert_array_equal, first, again)  # the same key, the same everything


@pytest.mark.parametrize("name", POLICIES)
def test_pytree_round_trip(name):
    policy = POLICIES[name]()
    leaves, structure = jax.tree.flatten(policy)
    copy = jax.tree.unflatten(structure, leaves)
    assert type(copy) is type(policy) and vars(copy).keys() == vars(policy).keys()
    assert all(new is old for new, old in zip(jax.tree.leaves(copy), leaves, strict=True))
    assert structure == jax.tree.structure(POLICIES[name]()) and hash(structure) == hash(jax.tree.structure(copy))
    assert all(isinstance(leaf, jax.Array) for leaf in leaves), "a number that is not a leaf recompiles when swept"


@pytest.mark.parametrize("schedule", ["as_written", "published"])
def test_confidence_width_for_long_runs_deep_plans_and_many_arms(schedule):
    t, protocol = np.array([0, 1, 2, 46341, 10**6], np.int32), schedule.replace("_", "-")
    first = 1 if schedule == "as_written" else 0  # the paper's formula counts rounds from 1, the published code from 0
    for num_arms, num_points, depth in [(10, 31, 1), (2, 2, 1), (3, 1, 2), (10, 31, 3), (1000, 1001, 10)]:
        width = getattr(confidence, schedule)(num_arms, num_points, depth)(t)
        expected = [reference.alpha(protocol, int(s) + first, num_arms, num_points, depth) for s in t]
        assert width.dtype == jnp.float32
        np.testing.assert_allclose(width, expected, rtol=1e-6)


def test_confidence_width_of_the_smallest_problem_is_zero():
    assert confidence.as_written(num_arms=1, num_points=1, depth=1)(0) == 0.0


# Whole runs: NumPy is handed the shocks of the compiled run, and must make the same plays and earn the same.


@functools.partial(jit, static_argnames="horizon")
def run_many(policy, problem, keys, horizon):
    return jax.vmap(lambda key: jb.simulate(policy, problem, key, horizon))(keys)


def runs_of(policy, problem, horizon, count=3):
    """A few replications: their keys, and the runs as NumPy arrays."""
    keys = jax.random.split(jax.random.key(1), count)
    runs = jax.device_get(run_many(policy, problem, keys, horizon))
    return keys, [jax.tree.map(lambda batch, i=i: batch[i], runs) for i in range(count)]


def shocks_of(run, noise):
    z_played = run.z[np.arange(len(run.arms)), run.arms]
    return (run.rewards - run.curves[run.arms, z_played]) / noise


def assert_same_run(run, expected):
    np.testing.assert_array_equal(run.arms, expected["arms"])
    np.testing.assert_array_equal(run.z[np.arange(len(run.arms)), run.arms], expected["z_played"])
    np.testing.assert_allclose(run.rewards, expected["rewards"], rtol=1e-12, atol=1e-12)


def random_problem(num_arms, z_max, z_init=0, noise=NOISE):
    curves = np.random.default_rng(num_arms).normal(size=(num_arms, z_max + 1))
    return jb.Problem(curves, noise=noise, z_init=np.asarray(z_init))


RUNS = [  # depth, repeats, protocol, horizon, z_init
    (1, True, "as-written", 20, 0),
    (1, True, "published", 20, [6, 1, 3]),
    (2, True, "published", 20, 0),
    (2, False, "as-written", 21, [1, 4, 2]),
    (3, True, "as-written", 20, 0),
    (3, False, "published", 20, 2),
]


def options_of(protocol):
    return {"noisy_variance": True, "warm_up": K} if protocol == "published" else {}


@pytest.mark.parametrize(("depth", "repeats", "protocol", "horizon", "z_init"), RUNS)
def test_rgp_ucb_plays_as_the_reference_does(float64, depth, repeats, protocol, horizon, z_init):
    alpha = {"as-written": confidence.as_written, "published": confidence.published}[protocol]
    planner = exhaustive(depth, repeats)
    policy = rgp_ucb(KERNEL, K, Z_MAX, NOISE, planner=planner, alpha=alpha, **options_of(protocol))
    _, runs = runs_of(policy, random_problem(K, Z_MAX, z_init), horizon)
    for run in runs:
        shocks = shocks_of(run, NOISE)
        expected = reference.run_rgp_ucb(run.curves, GRAM, NOISE, shocks, depth, repeats, protocol, z_init)
        assert_same_run(run, expected)


@jit
def draws_of(policy, run, key):
    """What the policy drew, had it planned in every round: the states before each round, and draws [T, K, 2d − 1]."""
    rounds = jnp.arange(run.arms.shape[0], dtype=jnp.int32)
    z_played = run.z[rounds, run.arms]

    def play(state, inputs):
        return policy.update(state, *inputs), state

    _, states = jax.lax.scan(play, policy.init(key), (run.arms, z_played, run.rewards))
    key_plan = jax.random.split(key, 4)[3]
    keys = jax.vmap(lambda t: jax.random.fold_in(key_plan, t))(rounds)
    shocks = jax.vmap(lambda key: jax.random.normal(key, (policy.num_shocks,)))(keys)
    return states, jax.vmap(policy.draw)(shocks, states, run.z)


def table_of(points, z, depth):
    """Curves [K, G] that are the drawn points [K, 2d − 1] where these are, and not a number elsewhere."""
    table = np.full((K, Z_MAX + 1), np.nan)
    rests = [[*(min(Z_MAX, int(rest) + slot) for slot in range(depth)), *range(depth - 1)] for rest in z]
    for arm in range(K):
        table[arm, rests[arm]] = points[arm]
    return table


@pytest.mark.parametrize(("depth", "repeats", "protocol", "horizon", "z_init"), [RUNS[1], RUNS[3], RUNS[4]])
def test_rgp_ts_plays_as_the_reference_does(float64, depth, repeats, protocol, horizon, z_init):
    options = options_of(protocol) | ({"noisy_variance": False} if depth > 1 else {})
    policy = rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(depth, repeats), **options)
    keys, runs = runs_of(policy, random_problem(K, Z_MAX, z_init), horizon)
    for key, run in zip(keys, runs, strict=True):
        states, draws = jax.device_get(draws_of(policy, run, key))
        extra = NOISE**2 * np.eye(Z_MAX + 1) if policy.noisy_variance else 0.0

        def sampler(means, covariances, block, states=states, draws=draws, run=run, extra=extra):
            t = int(policy.warm_up) + depth * block
            root = states.root[t]
            np.testing.assert_allclose(states.mean[t], means, atol=1e-9)
            np.testing.assert_allclose(np.einsum("kgr,khr->kgh", root, root) + extra, covariances, atol=1e-9)
            return table_of(draws[t], run.z[t], depth)

        shocks = shocks_of(run, NOISE)
        expected = reference.run_rgp_ts(run.curves, GRAM, NOISE, shocks, sampler, depth, repeats, protocol, z_init)
        assert_same_run(run, expected)


def observed(policy):
    """The posterior after a few plays."""
    state = policy.init(None)
    for arm, z, reward in [(0, 2, 1.0), (1, 0, -0.5), (0, 0, 0.3)]:
        state = jit(jb.posterior.observe)(state, arm, z, reward, policy.noise)
    return state


@pytest.mark.parametrize(("depth", "noisy"), [(1, False), (1, True), (3, False)])
def test_thompson_draws_have_the_posterior_covariance_at_the_points_within_reach(depth, noisy):
    policy = rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(depth), noisy_variance=noisy)
    state, z = observed(policy), jnp.array([0, 2, 4])
    shocks = jax.random.normal(jax.random.key(0), (20_000, policy.num_shocks))
    draws = np.asarray(jit(jax.vmap(lambda numbers: policy.draw(numbers, state, z)))(shocks), np.float64)
    mean, root = (np.asarray(windows.reach(x, z, depth), np.float64) for x in (state.mean, state.root))
    block = np.einsum("kpr,kqr->kpq", root, root) + noisy * NOISE**2 * np.eye(mean.shape[1])
    covariance = np.einsum("kpq,kl->kplq", block, np.eye(K)).reshape(mean.size, mean.size)

    # Σ (a·x)² / aᵀCa is χ² for every direction a; single points and sums of two determine C, also across arms.
    pairs = np.eye(mean.size)[:, None] + np.eye(mean.size)[None, :]
    directions = pairs[np.triu_indices(mean.size)]
    away = (draws - mean).reshape(len(draws), -1) @ directions.T
    spread = np.einsum("np,pq,nq->n", directions, covariance, directions)
    p_high = stats.chi2.sf((away**2).sum(axis=0) / spread, len(draws))
    p_mean = stats.norm.sf(np.abs(away.mean(axis=0)) * np.sqrt(len(draws) / spread))
    tests = 4 * len(directions)  # two tails each
    assert np.minimum(p_high, 1.0 - p_high).min() > FALSE_ALARM / tests
    assert p_mean.min() > FALSE_ALARM / tests


@pytest.mark.parametrize(
    ("num_arms", "z_max", "z_init", "horizon"), [(3, 3, [3, 0, 2], 150), (2, 1, 0, 40), (1, 2, 0, 8)]
)
def test_ucb_z_plays_as_the_reference_does(float64, num_arms, z_max, z_init, horizon):
    problem = random_problem(num_arms, z_max, z_init)
    _, runs = runs_of(ucb_z(num_arms, z_max, NOISE, horizon=horizon), problem, horizon)
    for run in runs:
        shocks = shocks_of(run, NOISE)

        def wait_with(t, arm, run=run):
            return run.arms[t]

        assert_same_run(run, reference.run_ucb_z(run.curves, NOISE, shocks, wait_with, horizon, z_init))
        if num_arms > 1:
            assert (run.state.counts > 0).all(), "the run must reach the index rule"


def test_ucb_z_waits_with_every_other_arm_alike():
    policy = ucb_z(4, 3, NOISE, horizon=10)
    unseen = policy.init(None)._replace(counts=jnp.zeros((4, 4)).at[1, 0].set(1.0).at[0].set(1.0))
    keys = jax.random.split(jax.random.key(0), 3000)
    arms = jit(jax.vmap(lambda key: policy.plan(key, unseen, jnp.zeros(4, jnp.int32), 5)))(keys)
    counts = np.bincount(arms.ravel(), minlength=4)
    assert counts[1] == 0 and stats.chisquare(counts[[0, 2, 3]]).pvalue > FALSE_ALARM


def best_value_from(curves, z, prefix, depth, repeats):
    """The most that a plan beginning with `prefix` can earn."""
    leaves = reference.sequences(len(curves), depth, repeats)
    return max(reference.leaf_mean(curves, z, leaf) for leaf in leaves if leaf[: len(prefix)] == tuple(prefix))


@pytest.mark.parametrize(("depth", "commit", "repeats"), [(1, None, True), (3, None, False), (3, 1, True)])
def test_oracle_plays_the_best_plan_for_the_curves_of_its_replication(float64, depth, commit, repeats):
    problem = jb.Problem(lambda key: jax.random.uniform(key, (K, Z_MAX + 1)), noise=NOISE)
    policy = oracle(K, Z_MAX, planner=exhaustive(depth, repeats), commit=commit)
    _, runs = runs_of(policy, problem, 10)
    assert np.std([run.curves[0, 0] for run in runs]) > 0
    for run in runs:
        for t in range(0, 10 - policy.commit + 1, policy.commit):
            _, best = reference.best_sequence(run.curves, run.z[t], depth, repeats)
            prefix = run.arms[t : t + policy.commit]
            assert best_value_from(run.curves, run.z[t], prefix, depth, repeats) == pytest.approx(best, abs=1e-12)


def test_round_robin_plays_the_arms_in_turn():
    _, (run,) = runs_of(round_robin(3), random_problem(3, 4), 8, count=1)
    assert run.arms.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]


def test_random_plays_are_uniform_and_independent_of_the_last():
    _, (run,) = runs_of(jb.policies.random(3), random_problem(3, 4), 4001, count=1)
    pairs = 3 * run.arms[:-1:2] + run.arms[1::2]
    assert stats.chisquare(np.bincount(pairs, minlength=9)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("policy", [rgp_ucb, rgp_ts])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 0.0}, "noise must be > 0, got 0.0"),
        ({"noise": float("nan")}, "noise must be > 0, got nan"),
        ({"noise": [0.1, 0.2]}, "noise must have shape"),
        ({"num_arms": 0}, "num_arms must be >= 1, got 0"),
        ({"z_max": -1}, "z_max must be >= 0, got -1"),
        ({"z_max": [3, 3]}, "z_max must be one number or 3 of them"),
        ({"kernel": [KERNEL, KERNEL]}, "kernel must be one kernel or 3 of them, one per arm, got 2"),
        ({"planner": exhaustive(2), "commit": 3}, "commit must be between 1 and 2, got 3; a plan is as long"),
        ({"planner": exhaustive(2), "commit": 0}, "commit must be between 1 and 2, got 0"),
        (
            {"planner": exhaustive(4, repeats=False)},
            "depth must be <= num_arms without repeats, got depth 4 and 3 arms",
        ),
        ({"warm_up": -1}, "warm_up must be >= 0, got -1"),
        ({"warm_up": 1.0}, "warm_up must be a whole number, got 1.0"),
    ],
)
def test_gaussian_policies_refuse(policy, options, message):
    arguments = {"kernel": KERNEL, "num_arms": K, "z_max": Z_MAX, "noise": NOISE} | options
    with pytest.raises((ValueError, TypeError), match=message):
        policy(**arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(2), noisy_variance=True), "noisy_variance must be"),
        (lambda: rgp_ucb(KERNEL, K, Z_MAX, NOISE, alpha_scale=-1.0), "alpha_scale must be >= 0, got -1.0"),
        (lambda: ucb_z(K, Z_MAX, 0.0, horizon=10), "noise must be > 0, got 0.0"),
        (lambda: ucb_z(K, Z_MAX, NOISE, horizon=0), "horizon must be >= 1, got 0"),
        (lambda: ucb_z(0, Z_MAX, NOISE, horizon=10), "num_arms must be >= 1, got 0"),
        (lambda: oracle(K, -1), "z_max must be >= 0, got -1"),
        (lambda: oracle(K, Z_MAX, commit=2), "commit must be between 1 and 1, got 2"),
        (lambda: oracle(2, Z_MAX, planner=exhaustive(3, repeats=False)), "depth must be <= num_arms"),
        (lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=whittle()), "planner must plan for sampled points"),
        (lambda: jb.policies.random(0), "num_arms must be >= 1, got 0"),
        (lambda: round_robin(0), "num_arms must be >= 1, got 0"),
    ],
)
def test_other_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
