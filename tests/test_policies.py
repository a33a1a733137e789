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
from jaxband import Round
from jaxband.planners import exhaustive, slot_sets, subset, whittle
from jaxband.policies import confidence, oracle, rgp_pointwise, rgp_ts, rgp_ucb, rogue_ucb_tuned, round_robin, ucb_z
from jaxband.policies.planning import PlanningPolicy
from jaxband.policies.warm_up import WarmUp, with_warm_up

K, Z_MAX, NOISE = 3, 6, 0.3
KERNEL = jb.kernels.SquaredExponential(2.0) + jb.kernels.Linear(variance=0.02)  # no two rests have the same variance
GRAM = reference.gram(lambda x, y: reference.squared_exponential(x, y, 2.0) + reference.linear(x, y, 0.02), Z_MAX)
FALSE_ALARM = 1e-5

POLICIES = {
    "1RGP-UCB": lambda: rgp_ucb(KERNEL, K, Z_MAX, NOISE),
    "3RGP-UCB, published, two plays per plan": lambda: rgp_ucb(
        *(KERNEL, K, Z_MAX, NOISE),
        planner=exhaustive(3),
        replan_every=2,
        alpha=confidence.published,
        predictive_variance=True,
    ),
    "2RGP-UCB, single play": lambda: rgp_ucb(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(2, repeats=False)),
    "1RGP-TS": lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, predictive_variance=True, warm_up=K),
    "3RGP-TS, receding": lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(3), replan_every=1),
    "2RGP-TS, one kernel and grid per arm": lambda: rgp_ts([KERNEL] * K, K, [2, 4, 6], NOISE, planner=exhaustive(2)),
    "UCB-Z": lambda: ucb_z(K, Z_MAX, NOISE, horizon=100),
    "oracle": lambda: oracle(K, Z_MAX),
    "3-step oracle": lambda: oracle(K, Z_MAX, planner=exhaustive(3), replan_every=2),
    "random": lambda: jb.policies.random(K),
    "round robin": lambda: round_robin(K),
    "RGP-pointwise": lambda: rgp_pointwise(KERNEL, K, Z_MAX, NOISE, planner=subset(2)),
    "2RGP-TS, learning its kernel": lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=subset(2), refit_every=3),
    "RogueUCB-Tuned": lambda: rogue_ucb_tuned("logistic", K, Z_MAX, NOISE),
}
PLANNING = [name for name in POLICIES if ("RGP" in name or "oracle" in name) and "learning" not in name]


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def signature(tree):
    return jax.tree.map(lambda leaf: jax.typeof(jnp.asarray(leaf)), tree)


T = 6  # where every policy above begins a block: after the warm-up, and a multiple of 1, 2 and 3 plays from there


def choice(policy, key, state, round):
    """What a loop asks for."""
    return policy.choose(policy.draw(key, jnp.asarray(round.t, jnp.int32)[None])[0], state, round)


@jit
@functools.partial(jax.vmap, in_axes=(None, 0))
def first_choices(policy, key):
    """A state, the first arm of a block and the state that remembers the plan, and the state after its play."""
    round = Round(jnp.int32(T), jnp.arange(policy.num_arms, dtype=jnp.int32))
    state = policy.init(key)
    arm, planned = choice(policy, key, state, round)
    return state, arm, planned, policy.update(planned, round, arm, jnp.asarray(0.5))


@pytest.mark.parametrize("name", POLICIES)
def test_contract(name):
    policy = POLICIES[name]()
    assert isinstance(policy, jb.Policy) and policy.num_arms == K and policy.z_max in (None, Z_MAX)
    assert policy.plays is None and not policy.idle
    keys = jax.random.split(jax.random.key(0), 8)[np.array([0, 1, 2, 3, 4, 5, 6, 7, 0])]
    state, arms, planned, after = first_choices(policy, keys)
    assert arms.shape == (9,) and jnp.issubdtype(arms.dtype, jnp.integer)
    assert ((arms >= 0) & (arms < K)).all()
    for method, new in (("choose", planned), ("update", after)):
        assert signature(new) == signature(state), f"{method} must keep the state's structure, shapes and dtypes"
    everything = state, arms, planned, after
    first, again = (jax.tree.map(lambda batch, i=i: batch[i], everything) for i in (0, 8))
    jax.tree.map(np.testing.assert_array_equal, first, again)  # the same key, the same everything


@pytest.mark.parametrize("name", PLANNING)
def test_a_state_remembers_the_plan_and_describes_it(name):
    policy = POLICIES[name]()
    planning = policy.policy if isinstance(policy, WarmUp) else policy
    assert isinstance(planning, PlanningPolicy)
    assert 1 <= planning.replan_every <= planning.planner.depth
    state, arms, planned, _ = first_choices(policy, jax.random.split(jax.random.key(0), 4))
    assert planned.plan.arms.shape == (4, planning.replan_every)
    assert ((planned.plan.arms >= 0) & (planned.plan.arms < K)).all()
    np.testing.assert_array_equal(planned.plan.arms[:, 0], arms)
    none, some = policy.describe(state), policy.describe(planned)
    assert none.keys() == some.keys() == set(planning.plan_type._fields) - {"arms", "price"}
    assert all(np.isnan(number).all() for number in none.values()), "nothing is planned yet"
    assert all(np.isfinite(number).all() for number in some.values())
    assert np.asarray(some["certified"]).all()


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_drawn_ahead_is_what_is_drawn_round_by_round(name):
    """To the last bit: it depends on the key and the round alone."""
    policy, key = POLICIES[name](), jax.random.key(3)
    ahead = policy.draw(key, jnp.arange(4, 15, dtype=jnp.int32))
    for i, t in enumerate(range(4, 15)):
        one = policy.draw(key, jnp.asarray([t], jnp.int32))
        for many, single in zip(jax.tree.leaves(ahead), jax.tree.leaves(one), strict=True):
            assert many.shape == (11, *single.shape[1:]) and single.shape[0] == 1
            np.testing.assert_array_equal(bits(many[i]), bits(single[0]))


def bits(numbers):
    """What a key is made of; other arrays as they are."""
    return jax.random.key_data(numbers) if jnp.issubdtype(numbers.dtype, jax.dtypes.prng_key) else numbers


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
    return {"predictive_variance": True, "warm_up": K} if protocol == "published" else {}


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
    """Had the policy planned in every round: what it believed before each of them, and what it drew, [T, K, 2d − 1]."""
    rounds = jnp.arange(run.arms.shape[0], dtype=jnp.int32)

    def play(state, inputs):
        t, z, arm, reward = inputs
        return policy.update(state, Round(t, z), arm, reward), state

    _, states = jax.lax.scan(play, policy.init(key), (rounds, run.z, run.arms, run.rewards))
    key_plan = jax.random.split(key, 5)[3]
    keys = jax.vmap(lambda t: jax.random.fold_in(key_plan, t))(rounds)
    sampling = policy.policy if isinstance(policy, WarmUp) else policy
    normals = jax.vmap(lambda key: jax.random.normal(key, (sampling.columns, K)))(keys)
    return states.posterior, jax.vmap(sampling.sampled)(normals, states.posterior, run.z)


def table_of(points, z, depth):
    """Curves [K, G] that are the drawn points [K, 2d − 1] where these are, and not a number elsewhere."""
    table = np.full((K, Z_MAX + 1), np.nan)
    rests = [[*(min(Z_MAX, int(rest) + slot) for slot in range(depth)), *range(depth - 1)] for rest in z]
    for arm in range(K):
        table[arm, rests[arm]] = points[arm]
    return table


@pytest.mark.parametrize(("depth", "repeats", "protocol", "horizon", "z_init"), [RUNS[1], RUNS[3], RUNS[4]])
def test_rgp_ts_plays_as_the_reference_does(float64, depth, repeats, protocol, horizon, z_init):
    options = options_of(protocol) | ({"predictive_variance": False} if depth > 1 else {})
    policy = rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(depth, repeats), **options)
    keys, runs = runs_of(policy, random_problem(K, Z_MAX, z_init), horizon)
    for key, run in zip(keys, runs, strict=True):
        beliefs, draws = jax.device_get(draws_of(policy, run, key))
        extra = NOISE**2 * np.eye(Z_MAX + 1) if options.get("predictive_variance") else 0.0

        def sampler(means, covariances, block, beliefs=beliefs, draws=draws, run=run, extra=extra):
            t = options.get("warm_up", 0) + depth * block
            root = beliefs.root[t]
            np.testing.assert_allclose(beliefs.mean[t], means, atol=1e-9)
            np.testing.assert_allclose(np.einsum("kgr,khr->kgh", root, root) + extra, covariances, atol=1e-9)
            return table_of(draws[t], run.z[t], depth)

        shocks = shocks_of(run, NOISE)
        expected = reference.run_rgp_ts(run.curves, GRAM, NOISE, shocks, sampler, depth, repeats, protocol, z_init)
        assert_same_run(run, expected)


def observed(policy):
    """The posterior after a few plays."""
    belief = policy.init(None).posterior
    for arm, z, reward in [(0, 2, 1.0), (1, 0, -0.5), (0, 0, 0.3)]:
        belief = jit(jb.posterior.observe)(belief, arm, z, reward, policy.noise)
    return belief


@pytest.mark.parametrize(("depth", "noisy"), [(1, False), (1, True), (3, False)])
def test_thompson_draws_have_the_posterior_covariance_at_the_points_within_reach(depth, noisy):
    policy = rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(depth), predictive_variance=noisy)
    belief, z = observed(policy), jnp.array([0, 2, 4])
    normals = jax.random.normal(jax.random.key(0), (20_000, policy.columns, K))
    draws = np.asarray(jit(jax.vmap(lambda numbers: policy.sampled(numbers, belief, z)))(normals), np.float64)
    mean, root = (np.asarray(slot_sets.gather_points(x, z, depth), np.float64) for x in (belief.mean, belief.root))
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
    arms = jit(jax.vmap(lambda key: policy.choose(key, unseen, Round(5, jnp.zeros(4, jnp.int32)))[0]))(keys)
    counts = np.bincount(arms, minlength=4)
    assert counts[1] == 0 and stats.chisquare(counts[[0, 2, 3]]).pvalue > FALSE_ALARM


def best_value_from(curves, z, prefix, depth, repeats):
    """The most that a plan beginning with `prefix` can earn."""
    leaves = reference.sequences(len(curves), depth, repeats)
    return max(reference.leaf_mean(curves, z, leaf) for leaf in leaves if leaf[: len(prefix)] == tuple(prefix))


@pytest.mark.parametrize(("depth", "replan_every", "repeats"), [(1, None, True), (3, None, False), (3, 1, True)])
def test_oracle_plays_the_best_plan_for_the_curves_of_its_replication(float64, depth, replan_every, repeats):
    problem = jb.Problem(lambda key: jax.random.uniform(key, (K, Z_MAX + 1)), noise=NOISE)
    policy = oracle(K, Z_MAX, planner=exhaustive(depth, repeats), replan_every=replan_every)
    _, runs = runs_of(policy, problem, 10)
    assert np.std([run.curves[0, 0] for run in runs]) > 0
    for run in runs:
        for t in range(0, 10 - policy.replan_every + 1, policy.replan_every):
            _, best = reference.best_sequence(run.curves, run.z[t], depth, repeats)
            prefix = run.arms[t : t + policy.replan_every]
            assert best_value_from(run.curves, run.z[t], prefix, depth, repeats) == pytest.approx(best, abs=1e-12)


# Rounds in which not all arms can be played, rests beyond the grid, warm-ups.


@pytest.mark.parametrize("name", POLICIES)
def test_only_available_arms_are_played_and_no_play_teaches_nothing(name):
    """Each of three arms is there in half of the rounds: in one of eight none is, and in that one none is played."""
    curves = np.random.default_rng(K).normal(size=(K, Z_MAX + 1))
    policy, problem = POLICIES[name](), jb.Problem(curves, noise=NOISE, available=[0.5] * K)
    _, runs = runs_of(policy, problem, 30)
    for run in runs:
        there = run.available.any(axis=1)
        assert 0 < there.sum() < 30
        np.testing.assert_array_equal(run.arms == jb.IDLE, ~there)
        assert run.available[there, run.arms[there]].all()
        assert np.isfinite(run.rewards).all() and not run.rewards[~there].any()
        rests = np.where(run.arms[:-1, None] == np.arange(K), 0, np.minimum(run.z[:-1] + 1, Z_MAX))
        np.testing.assert_array_equal(run.z[1:], rests)
        plays = np.zeros((K, Z_MAX + 1))
        np.add.at(plays, (run.arms[there], run.z[there, run.arms[there]]), 1)
        seen = getattr(run.state, "posterior", run.state)
        if hasattr(seen, "counts"):
            np.testing.assert_array_equal(seen.counts, plays)
            np.testing.assert_allclose(np.sum(seen.sums), np.sum(run.rewards), rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "random"])
def test_a_mask_that_hides_nobody_changes_nothing(float64, name):
    """Where no arm is hidden, the choice is the one without a mask (but a random arm is drawn another way)."""
    policy, keys = POLICIES[name](), jax.random.split(jax.random.key(5), 6)
    z = np.random.default_rng(0).integers(0, Z_MAX + 1, (6, K))

    @jit
    @jax.vmap
    def both(key, z):
        state = policy.init(key)
        plain, masked = Round(T, z), Round(T, z, jnp.ones(K, bool))
        return [choice(policy, key, state, round)[0] for round in (plain, masked)]

    plain, masked = both(keys, z)
    np.testing.assert_array_equal(plain, masked)


@pytest.mark.parametrize("name", ["1RGP-UCB", "1RGP-TS", "UCB-Z", "oracle", "random", "RogueUCB-Tuned"])
def test_a_loop_without_jit_may_pass_a_round_without_a_play(name):
    policy = POLICIES[name]()
    state, round = policy.init(jax.random.key(0)), Round(T, jnp.arange(K), jnp.zeros(K, bool))
    arm, state = choice(policy, jax.random.key(0), state, round)
    assert arm == jb.IDLE
    after = policy.update(state, round, arm, jnp.zeros(()))
    jax.tree.map(np.testing.assert_array_equal, after, state)


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ("random", "round robin")])
def test_rests_beyond_z_max_count_as_z_max(name):
    """In choices and in updates, to the last bit."""
    policy = POLICIES[name]()
    longer = np.array([[Z_MAX + 1, 2, Z_MAX + 40], [1, Z_MAX + 7, 0], [Z_MAX + 3, Z_MAX + 2, Z_MAX + 1]], np.int32)

    @jit
    @jax.vmap
    def play(z):
        key, state = jax.random.key(2), policy.init(jax.random.key(0))
        for t in range(K):
            state = policy.update(state, Round(t, z), jnp.int32(t), jnp.asarray(0.1 * t))
        arm, state = choice(policy, key, state, Round(T, z))
        return arm, policy.update(state, Round(T, z), arm, jnp.asarray(0.5))

    jax.tree.map(np.testing.assert_array_equal, play(longer), play(np.minimum(longer, Z_MAX)))


def test_a_warm_up_plays_in_turn_and_blocks_begin_after_it():
    """The first plan is made in round 4, the next ones every two rounds; the plan of no round before is played."""
    policy = oracle(K, Z_MAX, planner=exhaustive(3), replan_every=2)
    warmed, problem = with_warm_up(policy, 4), random_problem(K, Z_MAX)
    assert with_warm_up(policy, 0) is policy
    _, (run,) = runs_of(warmed, problem, 14, count=1)
    assert run.arms[:4].tolist() == [0, 1, 2, 0]
    for t in range(4, 13, 2):
        _, best = reference.best_sequence(run.curves, run.z[t], 3, True)
        assert best_value_from(run.curves, run.z[t], run.arms[t : t + 2], 3, True) == pytest.approx(best, abs=1e-5)
    state = warmed.inform(warmed.init(None), problem.curves)
    for t in range(4):
        arm, state = warmed.choose(None, state, Round(t, run.z[t]))
        assert arm == run.arms[t] and np.isnan(warmed.describe(state)["value"])


def test_a_warm_up_after_a_warm_up_and_one_with_absent_arms():
    twice = with_warm_up(with_warm_up(round_robin(4), 3), 2)
    arms = [twice.choose(None, (), Round(t, jnp.zeros(4, int)))[0].item() for t in range(9)]
    assert arms == [0, 1, 0, 1, 2, 1, 2, 3, 0]
    once, key = with_warm_up(jb.policies.random(4), 8), jax.random.key(0)
    there = jnp.array([True, False, False, True])
    arms = [once.choose(key, (), Round(t, jnp.zeros(4, int), there))[0].item() for t in range(6)]
    assert arms == [0, 3, 3, 3, 0, 3]
    assert once.choose(key, (), Round(1, jnp.zeros(4, int), jnp.zeros(4, bool)))[0] == jb.IDLE
    with pytest.raises(ValueError, match="warm_up must be 0 for a policy of 2 plays"):
        with_warm_up(jb.policies.from_functions(len, len, len, 4, plays=2), 3)


def test_a_warm_up_teaches_the_policy():
    policy = rgp_ucb(KERNEL, K, Z_MAX, NOISE, warm_up=5)
    _, (run,) = runs_of(policy, random_problem(K, Z_MAX), 5, count=1)
    assert run.state.posterior.counts.sum(axis=1).tolist() == [2, 2, 1]


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
        ({"planner": exhaustive(2), "replan_every": 3}, "replan_every must be between 1 and 2, got 3; a plan is"),
        ({"planner": exhaustive(2), "replan_every": 0}, "replan_every must be between 1 and 2, got 0"),
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
        (
            lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(2), predictive_variance=True),
            "predictive_variance must be",
        ),
        (lambda: rgp_ucb(KERNEL, K, Z_MAX, NOISE, alpha_scale=-1.0), "alpha_scale must be >= 0, got -1.0"),
        (lambda: ucb_z(K, Z_MAX, 0.0, horizon=10), "noise must be > 0, got 0.0"),
        (lambda: ucb_z(K, Z_MAX, NOISE, horizon=0), "horizon must be >= 1, got 0"),
        (lambda: ucb_z(0, Z_MAX, NOISE, horizon=10), "num_arms must be >= 1, got 0"),
        (lambda: oracle(K, -1), "z_max must be >= 0, got -1"),
        (lambda: oracle(K, Z_MAX, replan_every=2), "replan_every must be between 1 and 1, got 2"),
        (lambda: oracle(2, Z_MAX, planner=exhaustive(3, repeats=False)), "depth must be <= num_arms"),
        (lambda: rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=whittle()), "planner must plan for sampled points"),
        (lambda: jb.policies.random(0), "num_arms must be >= 1, got 0"),
        (lambda: round_robin(0), "num_arms must be >= 1, got 0"),
    ],
)
def test_other_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
