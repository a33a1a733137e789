"""One replication: rests follow the dynamics, rewards are the curve plus noise, the state is the history.

The statistical test fails by chance with probability 1e-5, if its seed were drawn anew.
"""

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from jax import Array
from quick import jit
from scipy import stats

import jaxband as jb
from jaxband import Plan, Planner, Round
from jaxband._compiled import prng
from jaxband.planners import exhaustive
from jaxband.policies import with_warm_up
from jaxband.policies.planning import PlanningPolicy
from jaxband.pytree import pytree_dataclass

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
    belief = run.state.posterior
    assert len(run.arms) == len(run.rewards) == len(run.z) == belief.counts.sum() == horizon
    assert run.available is None and run.watched == {}
    np.testing.assert_array_equal(run.curves, problem.curves)

    gram = reference.gram(lambda x, y: reference.squared_exponential(x, y, 2.0), z_max)
    means, covariances = reference.posteriors(gram, run.arms, z_played(run), run.rewards, num_arms, NOISE)
    np.testing.assert_allclose(belief.mean, means, atol=1e-9)
    np.testing.assert_allclose(np.einsum("kgr,khr->kgh", belief.root, belief.root), covariances, atol=1e-9)


def test_the_state_after_a_run_is_the_prior_conditioned_on_the_history(float64):
    policy = jb.policies.rgp_ucb(KERNEL, 3, 4, NOISE)
    run = jax.device_get(play(policy, random_problem(3, 4), jax.random.key(0), 12))
    batch = jit(jb.posterior.condition)(policy.prior, run.arms, z_played(run), run.rewards, NOISE)
    belief = run.state.posterior
    np.testing.assert_array_equal(belief.counts, batch.counts)
    for name in ("sums", "mean"):
        np.testing.assert_allclose(getattr(belief, name), getattr(batch, name), atol=1e-9)
    covariances = [np.einsum("kgr,khr->kgh", root, root) for root in (belief.root, batch.root)]
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
    policies += [jb.policies.oracle(3, 4, planner=exhaustive(2), replan_every=n) for n in (1, 2)]
    runs = [jax.device_get(play(policy, problem, jax.random.key(3), 10)) for policy in policies]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.curves, runs[0].curves)
        np.testing.assert_allclose(shocks_of(run), shocks_of(runs[0]), atol=1e-12)


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    policy, problem = jb.policies.oracle(3, 4, planner=exhaustive(3), replan_every=2), random_problem(3, 4)
    long, short = (jax.device_get(play(policy, problem, jax.random.key(0), horizon)) for horizon in (12, 7))
    for name in ("arms", "rewards", "z"):
        np.testing.assert_array_equal(getattr(long, name)[:7], getattr(short, name))


class Counted(NamedTuple):
    updates: Array
    plan: Plan


@dataclasses.dataclass(frozen=True)
class ThreePlays(Planner):
    """Only says how long plans are."""

    depth: ClassVar[int] = 3


@pytree_dataclass(static=("replan_every", "num_arms", "first_round"))
class Clock(PlanningPolicy):
    """Plays arm t + 20 s in slot s of the plan made in round t."""

    replan_every: int
    num_arms: int = 60
    first_round: int = 0
    planner: ClassVar[Planner] = ThreePlays()
    z_max: ClassVar[int] = 2

    def init(self, key):
        return Counted(jnp.int32(0), self.no_plan())

    def plan(self, key, state, round):
        arms = round.t + 20 * jnp.arange(3, dtype=jnp.int32)
        return Plan(arms, round.t.astype(float), jnp.asarray(True))

    def update(self, state, round, arm, reward):
        return state._replace(updates=state.updates + 1)

    def begin_at(self, first_round):
        return dataclasses.replace(self, first_round=first_round)


@pytest.mark.parametrize(("replan_every", "warm_up"), [(1, 0), (3, 0), (3, 4), (2, 5), (1, 30), (3, 23)])
def test_plans_are_made_every_so_many_rounds_after_the_warm_up(replan_every, warm_up):
    """The plan that is played, and what is watched of it: its value is the round in which it was made."""
    policy, problem = with_warm_up(Clock(replan_every), warm_up), random_problem(60, 2)
    run = jit(lambda: jb.simulate(policy, problem, jax.random.key(0), 20, watch=("value",)))()
    slots = [(t - warm_up) % replan_every for t in range(20)]
    expected = [t if t < warm_up else t - slot + 20 * slot for t, slot in enumerate(slots)]
    assert run.arms.tolist() == expected
    assert run.state.updates == 20
    made = [np.nan if t < warm_up else t - slot for t, slot in enumerate(slots)]
    np.testing.assert_array_equal(run.watched["value"], made)


def test_warm_up_longer_than_the_number_of_arms_goes_round():
    run = play(with_warm_up(Clock(1, num_arms=3), 7), random_problem(3, 2), jax.random.key(0), 7)
    assert run.arms.tolist() == [0, 1, 2, 0, 1, 2, 0]


POLICIES = {
    "1RGP-UCB": lambda: jb.policies.rgp_ucb(KERNEL, 3, 4, NOISE),
    "2RGP-UCB, warmed up": lambda: jb.policies.rgp_ucb(KERNEL, 3, 4, NOISE, planner=exhaustive(2), warm_up=3),
    "1RGP-TS": lambda: jb.policies.rgp_ts(KERNEL, 3, 4, NOISE),
    "3RGP-TS, two plays per plan": lambda: jb.policies.rgp_ts(
        KERNEL, 3, 4, NOISE, planner=exhaustive(3), replan_every=2
    ),
    "2RGP-TS, learning its kernel": lambda: jb.policies.rgp_ts(
        KERNEL, 3, 4, NOISE, planner=exhaustive(2), refit_every=2
    ),
    "UCB-Z": lambda: jb.policies.ucb_z(3, 4, NOISE, horizon=20),
    "oracle": lambda: jb.policies.oracle(3, 4, planner=exhaustive(2)),
    "random": lambda: jb.policies.random(3),
}
MASKED = ["1RGP-UCB", "1RGP-TS", "UCB-Z", "random"]  # those that choose anew in every round


@pytest.mark.parametrize(
    ("name", "available"), [*((name, None) for name in POLICIES), *((name, [0.6, 0.4, 0.5]) for name in MASKED)]
)
def test_a_loop_written_by_hand_makes_the_same_choices(float64, name, available):
    policy, horizon, key = POLICIES[name](), 20, jax.random.key(6)
    curves = np.random.default_rng(3).normal(size=(3, 5))
    problem = jb.Problem(curves, noise=NOISE, z_init=[4, 0, 2], available=available)
    run = jax.device_get(play(policy, problem, key, horizon))
    key_curves, key_init, key_noise, key_plan, key_available = jax.random.split(key, 5)
    choose, update = jit(policy.choose), jit(policy.update)
    state, z = policy.inform(policy.init(key_init), problem.draw(key_curves)), problem.z_init
    shocks = jax.vmap(lambda t: jax.random.normal(jax.random.fold_in(key_noise, t)))(np.arange(horizon))
    for t in np.arange(horizon, dtype=np.int32):
        there = None
        if available is not None:
            there = jax.random.uniform(jax.random.fold_in(key_available, t), (3,)) < np.asarray(available)
            np.testing.assert_array_equal(run.available[t], there)
        round = Round(jnp.asarray(t), z, there)
        np.testing.assert_array_equal(run.z[t], z)
        arm, state = choose(policy.draw(key_plan, round.t[None])[0], state, round)
        assert arm == run.arms[t]
        reward = 0.0 if arm == jb.IDLE else curves[arm, z[arm]] + NOISE * shocks[t]
        assert run.rewards[t] == pytest.approx(float(reward), abs=1e-12)
        state = update(state, round, arm, jnp.asarray(reward))
        z = jb.next_z(z, arm, 4)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-9), run.state, state)
    assert available is None or (run.arms == jb.IDLE).any()


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
            "policy has num_arms 2 but the problem has 3",
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
    key_plan = jax.random.split(key, 5)[3]
    state, update = policy.init(None), jax.jit(policy.update)
    for t in range(horizon):
        if num_arms <= 128:
            pairs = prng.normal_pairs(key_plan, jnp.array([t], jnp.int32), num_arms // 2)
            normals = prng.first_of_pairs(pairs, num_arms)
        else:
            normals = jax.random.normal(jax.random.fold_in(key_plan, t), (num_arms,))
        best = policy.planner.plan_window(policy.sampled(normals[None, :], state.posterior, run.z[t]))
        assert best.arms[0] == run.arms[t]
        state = update(state, Round(t, run.z[t]), run.arms[t], run.rewards[t])


# What a policy may and may not do.


def policy_of(choose, init=lambda key: 0, update=lambda state, round, arm, reward: state, **options):
    return jb.policies.from_functions(init, choose, update, 3, **options)


def from_round(t, arm):
    """Arm 0, and from round t on something else."""
    return lambda key, state, round: (jnp.where(round.t < t, 0, arm), state)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (policy_of(from_round(0, 3)), "chose arm 3 in round 0; choose must return an arm in 0..2$"),
        (policy_of(from_round(4, 7), name="Ours"), "Ours chose arm 7 in round 4"),
        (policy_of(from_round(2, -1)), "chose arm -1 in round 2"),
        (policy_of(from_round(2, jb.INVALID)), "chose arm -2 in round 2"),
        (policy_of(lambda key, state, round: round.t), r"choose must return \(arm, state\), got "),
        (
            policy_of(lambda key, state, round: (1.0, state)),
            "must return an integer arm, got dtype float32; use argmax",
        ),
        (policy_of(lambda key, state, round: ([1], state)), r"must return a scalar as arm, got shape \[1\]"),
        (policy_of(lambda key, state, round: ("one", state)), "must return an arm, a number, got 'one'"),
        (
            policy_of(lambda key, state, round: (0, state.astype(float))),
            r"choose must leave state as it is, int32\[\], got fl",
        ),
        (policy_of(lambda key, state, round: (0, (state, state))), "choose must return a state of the same structure"),
        (
            policy_of(lambda key, state, round: (0, state), update=lambda state, round, arm, reward: reward),
            r"update must leave state as it is, int32\[\], got float32\[\]; `init` fixes",
        ),
        (policy_of(lambda key, state, round: (0, state), init=lambda key: "none"), "init must return a state of arr"),
        (
            policy_of(lambda key, state, round: (0 if round.t < 3 else 1, state)),
            r"choose raised TracerBoolConversionError \(test_rollout.py, line \d+\): .*; policies are compiled",
        ),
        (policy_of(lambda key, state, round: (round.z[9, 9], state)), "choose raised IndexError"),
    ],
)
def test_a_policy_that_breaks_the_contract_is_told_how(policy, message):
    with pytest.raises(jb.PolicyError, match=message):
        jb.simulate(policy, random_problem(3, 4), jax.random.key(0), 6)


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (object(), TypeError, "policy must be a jaxband.Policy, got"),
        (type("Bare", (jb.Policy,), {"num_arms": 3})(), jb.PolicyError, "Bare is no pytree; put @jb.pytree_dataclass"),
        (policy_of(len, plays=2), ValueError, "policy has plays 2 but the problem has None"),
        (policy_of(len, idle=True), ValueError, "policy may idle but the problem does not allow it"),
        (policy_of(len, z_max=5), ValueError, "policy has z_max 5 but the problem has 4"),
    ],
)
def test_what_cannot_play_a_problem_is_refused(policy, error, message):
    with pytest.raises(error, match=message):
        jb.simulate(policy, random_problem(3, 4), jax.random.key(0), 6)


def test_inside_jit_rewards_are_nan_from_the_first_arm_on_that_cannot_be_played():
    policy = policy_of(lambda key, state, round: (jnp.where(round.t == 4, 7, 0), state))
    run = play(policy, random_problem(3, 4), jax.random.key(0), 9)
    np.testing.assert_array_equal(np.isnan(run.rewards), np.arange(9) >= 4)


def test_monte_carlo_says_which_replication_played_what_cannot_be_played(compiled_quickly):
    def choose(key, state, round):
        return jnp.where((round.t == 3) & (state > 0.5), 5, 0), state

    policy = policy_of(choose, init=lambda key: jax.random.uniform(key))
    inits = [jax.random.split(jax.random.fold_in(jax.random.key(2), r), 5)[1] for r in range(20)]
    first = next(r for r in range(20) if jax.random.uniform(inits[r]) > 0.5)
    with pytest.raises(jb.PolicyError, match=f"chose arm 5 in replication {first}, round 3; choose must"):
        jb.monte_carlo(policy, random_problem(3, 4), horizon=6, replications=20, seed=2, batch_size=4)
    early = jb.monte_carlo(policy, random_problem(3, 4), horizon=3, replications=20, seed=2, batch_size=4)
    assert np.isfinite(early.total_reward).all(), "rounds beyond the horizon have no faults"


def test_rounds_may_pass_without_a_play_where_the_problem_says_so():
    curves = np.random.default_rng(3).normal(size=(3, 5))
    policy = policy_of(lambda key, state, round: (jnp.where(round.t % 3 == 1, jb.IDLE, 1), state), idle=True)
    run = play(policy, jb.Problem(curves, noise=0.0, idle=True), jax.random.key(0), 7)
    assert run.arms.tolist() == [1, -1, 1, 1, -1, 1, 1]
    assert run.z[:, 1].tolist() == [0, 0, 1, 0, 0, 1, 0]
    assert run.z[:, 0].tolist() == run.z[:, 2].tolist() == [0, 1, 2, 3, 4, 4, 4]
    np.testing.assert_allclose(run.rewards, np.where(run.arms < 0, 0.0, curves[1, run.z[:, 1]]), rtol=1e-6)


def test_several_plays_per_round(float64):
    """Two arms a round, or one and no play; the first of them meets the shocks of problems with one play."""
    curves = np.random.default_rng(4).normal(size=(3, 5))
    pairs = jnp.asarray([[0, 2], [1, 2], [1, jb.IDLE], [jb.IDLE, jb.IDLE]], jnp.int32)
    policy = policy_of(lambda key, state, round: (pairs[round.t % 4], state), plays=2, idle=True)
    run = jax.device_get(play(policy, jb.Problem(curves, noise=NOISE, plays=2, idle=True), jax.random.key(5), 12))
    single = jax.device_get(play(jb.policies.round_robin(3), jb.Problem(curves, noise=NOISE), jax.random.key(5), 12))
    z, shocks = np.zeros(3, int), []
    for t in range(12):
        np.testing.assert_array_equal(run.z[t], z)
        np.testing.assert_array_equal(run.arms[t], pairs[t % 4])
        played = [arm for arm in run.arms[t] if arm >= 0]
        assert not run.rewards[t, len(played) :].any()
        shocks.append([(run.rewards[t, i] - curves[arm, z[arm]]) / NOISE for i, arm in enumerate(played)])
        z = np.array([0 if j in played else min(rest + 1, 4) for j, rest in enumerate(z)])
    for t in range(12):
        if shocks[t]:
            assert shocks[t][0] == pytest.approx(shocks_of(single)[t], abs=1e-12)
    everything = [shock for shocks_of_round in shocks for shock in shocks_of_round]
    assert len(set(np.round(everything, 9))) == len(everything), "every play has a shock of its own"


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ([1, 1], r"chose arm \[1, 1\] in round 0; choose must return 2 different arms in 0..2, in rising order"),
        ([2, 0], r"chose arm \[2, 0\]"),
        ([-1, 0], r"chose arm \[-1, 0\]"),
        ([0, 3], r"chose arm \[0, 3\]"),
        ([0, -2], r"chose arm \[0, -2\]"),
    ],
)
def test_several_plays_are_different_and_in_order(arms, message):
    policy = policy_of(lambda key, state, round: (jnp.asarray(arms, jnp.int32), state), plays=2)
    problem = jb.Problem(np.zeros((3, 5)), plays=2, idle=True)
    with pytest.raises(jb.PolicyError, match=message):
        jb.simulate(policy, problem, jax.random.key(0), 3)


def test_who_may_be_played_is_a_function_of_the_round_if_wanted():
    """Arm t mod 3 is never there; a policy must not play it, nor leave out a round in which some arm is."""

    def there(key, t, z):
        return jnp.arange(3) != t % 3

    problem = jb.Problem(np.zeros((3, 5)), available=there)
    after = policy_of(lambda key, state, round: ((round.t + 1) % 3, state))
    run = jb.simulate(after, problem, jax.random.key(0), 7)
    np.testing.assert_array_equal(run.available, [[j != t % 3 for j in range(3)] for t in range(7)])
    for arm in (lambda t: t % 3, lambda t: t * 0 - 1):
        policy = policy_of(lambda key, state, round, arm=arm: (arm(round.t), state))
        with pytest.raises(jb.PolicyError, match=r"in round 0; .* that round.available allows"):
            jb.simulate(policy, problem, jax.random.key(0), 7)
