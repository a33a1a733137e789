"""Regret is measured at the rests the policy brought about: against plain NumPy on random runs, and by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from quick import jit

import jaxband as jb
from jaxband import regret
from jaxband.planners import exhaustive

K, Z_MAX, HORIZON, RUNS = 3, 4, 11, 8  # 11 rounds leave a short last block for d = 2 and 3


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def random_runs():
    """Curves [N, K, G], starting rests [N, K], arms [N, T] and the rests [N, T, K] they lead through."""
    rng = np.random.default_rng(0)
    curves = rng.normal(size=(RUNS, K, Z_MAX + 1))
    z_init, arms = rng.integers(0, Z_MAX + 1, (RUNS, K)), rng.integers(0, K, (RUNS, HORIZON))
    return curves, z_init, arms, np.array([rests_of(z, a, Z_MAX) for z, a in zip(z_init, arms, strict=True)])


def rests_of(z, arms, z_max):
    rests = []
    for arm in arms:
        rests.append(np.asarray(z))
        z = reference.step(z, arm, z_max)
    return rests


def test_instantaneous_regret_and_expected_rewards_of_random_runs(float64):
    curves, z_init, arms, z = random_runs()
    shortfall = jit(jax.vmap(regret.instantaneous))(curves, z, arms)
    earned = jit(jax.vmap(regret.expected))(curves, z, arms)
    for i in range(RUNS):
        np.testing.assert_allclose(
            shortfall[i], reference.instantaneous_regret(curves[i], z_init[i], arms[i]), atol=1e-13
        )
        z_played, _ = reference.path(z_init[i], arms[i], Z_MAX)
        np.testing.assert_array_equal(earned[i], curves[i, arms[i], z_played])


@pytest.mark.parametrize(("depth", "repeats"), [(1, True), (1, False), (2, True), (2, False), (3, True), (3, False)])
def test_lookahead_regret_of_random_runs_and_of_their_beginnings(float64, depth, repeats):
    curves, z_init, arms, z = random_runs()

    def lookahead(c, rests, played, num_rounds):
        return regret.lookahead(c, rests, played, depth, repeats=repeats, num_rounds=num_rounds)

    compiled = jit(jax.vmap(lookahead, in_axes=(0, 0, 0, None)))
    for num_rounds in (HORIZON, 7, 1, HORIZON + 1, 100):  # more rounds than there are: all of them
        shortfall = compiled(curves, z, arms, num_rounds)
        assert shortfall.shape == (RUNS, -(-HORIZON // depth))
        for i in range(RUNS):
            expected = reference.lookahead_regret(curves[i], z_init[i], arms[i, :num_rounds], depth, repeats)
            np.testing.assert_allclose(shortfall[i, : len(expected)], expected, atol=1e-12)
            np.testing.assert_array_equal(shortfall[i, len(expected) :], 0.0)


def shortfall_by_hand(curves, z, arms, available, idle):
    """What the best plays of one round pay more than the given ones: by sorting."""
    there = [j for j in range(len(curves)) if available is None or available[j]]
    best = sorted((curves[j, z[j]] for j in there), reverse=True)[: len(arms)]
    if idle:
        best = [value for value in best if value > 0.0]
    return sum(best) - sum(curves[arm, z[arm]] for arm in arms if arm >= 0)


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("plays", [None, 1, 2, 4])
def test_instantaneous_regret_with_several_plays_masks_and_idle_rounds(float64, plays, masked, idle):
    """Of any arms that may be played, in 60 rounds at random rests; no arm is there in some of them."""
    rng = np.random.default_rng([plays or 0, masked, idle])
    num_arms, rounds, m = 4, 60, plays or 1
    curves, z = rng.normal(size=(num_arms, 4)), rng.integers(0, 4, (rounds, num_arms))
    available = rng.random((rounds, num_arms)) < 0.4 if masked else None
    arms = np.full((rounds, m), -1)
    for t in range(rounds):
        there = np.flatnonzero(available[t]) if masked else np.arange(num_arms)
        number = rng.integers(0, m + 1) if idle else m
        played = np.sort(rng.permutation(there)[:number])
        arms[t, : len(played)] = played
    assert (arms == -1).any() == (masked or idle)
    given = arms if plays else arms[:, 0]
    measure = jit(functools.partial(regret.instantaneous, idle=idle))
    shortfall = measure(curves, z, given, available=available) if masked else measure(curves, z, given)
    expected = [shortfall_by_hand(curves, z[t], arms[t], available[t] if masked else None, idle) for t in range(rounds)]
    np.testing.assert_allclose(shortfall, expected, atol=1e-12)
    assert (np.asarray(shortfall) >= -1e-12).all()
    assert (np.max(shortfall) > 0.1) == (idle or m < num_arms)  # who must play all arms cannot do better
    earned = [sum(curves[arm, z[t, arm]] for arm in arms[t] if arm >= 0) for t in range(rounds)]
    np.testing.assert_allclose(jit(regret.expected)(curves, z, given), earned, atol=1e-12)


def test_one_step_lookahead_is_instantaneous(float64):
    curves, _, arms, z = (jnp.asarray(x[0]) for x in random_runs())
    one_step = jit(functools.partial(regret.lookahead, depth=1))(curves, z, arms)
    np.testing.assert_allclose(one_step, jit(regret.instantaneous)(curves, z, arms), atol=1e-13)


# Arm 0 pays 1 if it rested and nothing if it did not; arm 1 always pays 0.4. Both are tired at the start.
TWO_ARMS = np.array([[0.0, 1.0], [0.4, 0.4]])


@pytest.mark.parametrize(
    ("arms", "earned", "instantaneous", "lookahead"),
    [
        ([1, 0, 1, 0], [0.4, 1.0, 0.4, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0]),
        ([1, 1, 0, 0], [0.4, 0.4, 1.0, 0.0], [0.0, 0.6, 0.0, 0.4], [0.6, 0.4]),  # from (1, 0), [0, 1] would earn 1.4
        ([0, 0, 0, 0], [0.0, 0.0, 0.0, 0.0], [0.4, 0.4, 0.4, 0.4], [1.4, 1.4]),
    ],
)
def test_two_arms_by_hand(arms, earned, instantaneous, lookahead):
    run = jnp.asarray(TWO_ARMS), jnp.asarray(rests_of([0, 0], arms, 1)), jnp.asarray(arms)
    np.testing.assert_allclose(jit(regret.expected)(*run), earned, atol=1e-6)
    np.testing.assert_allclose(jit(regret.instantaneous)(*run), instantaneous, atol=1e-6)
    two_step = jit(functools.partial(regret.lookahead, depth=2))
    np.testing.assert_allclose(two_step(*run), lookahead, atol=1e-6)


@pytest.mark.parametrize(("depth", "repeats"), [(2, True), (3, False)])
def test_the_lookahead_oracle_has_no_lookahead_regret(depth, repeats):
    problem = jb.Problem(lambda key: jax.random.uniform(key, (K, Z_MAX + 1)))
    policy = jb.policies.oracle(K, Z_MAX, planner=exhaustive(depth, repeats))

    @jit
    @jax.vmap
    def shortfall(key):
        run = jb.simulate(policy, problem, key, 12)
        return regret.lookahead(run.curves, run.z, run.arms, depth, repeats=repeats)

    np.testing.assert_allclose(shortfall(jax.random.split(jax.random.key(0), RUNS)), 0.0, atol=1e-5)


CURVES, RESTS, ARMS = jnp.zeros((2, 3)), jnp.zeros((4, 2), jnp.int32), jnp.zeros(4, jnp.int32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regret.expected(CURVES, RESTS, ARMS[:3]), "arms must have shape"),
        (lambda: regret.expected(CURVES, RESTS[:, :1], ARMS), "z must have shape"),
        (lambda: regret.expected(CURVES, RESTS, ARMS + 2), "arms must be in -1..1"),
        (lambda: regret.expected(CURVES, RESTS, ARMS - 2), "arms must be in -1..1"),
        (lambda: regret.expected(CURVES, RESTS + 3, ARMS), "z must be in 0..2"),
        (lambda: regret.lookahead(CURVES, RESTS, ARMS, 0), "depth must be .* got 0"),
        (lambda: regret.lookahead(CURVES, RESTS, ARMS, 3, repeats=False), "depth must be <= num_arms"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_numpy_arrays_are_welcome():
    run = TWO_ARMS, np.array(rests_of([0, 0], [1, 1, 0, 0], 1)), np.array([1, 1, 0, 0])
    np.testing.assert_allclose(jit(lambda: regret.instantaneous(*run))(), [0.0, 0.6, 0.0, 0.4], atol=1e-6)
    np.testing.assert_allclose(jit(lambda: regret.lookahead(*run, 2))(), [0.6, 0.4], atol=1e-6)
