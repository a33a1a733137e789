"""The problem: rests follow the paper's dynamics, what a user passes in is checked, and numbers do not recompile."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from jax.tree_util import Partial

from jaxband import Problem, recovery
from jaxband.kernels import SquaredExponential
from jaxband.problem import expected_rewards, is_legal, next_z, rests_after

CURVES = [[0.0, 0.5, 1.0], [0.2, 0.3, 0.3]]
NAN = float("nan")


@pytest.mark.parametrize("step", [next_z, rests_after])
@pytest.mark.parametrize(("num_arms", "z_max"), [(1, 0), (1, 4), (2, 1), (3, 0), (5, 3), (10, 30)])
def test_rests_follow_the_reference(num_arms, z_max, step):
    rng = np.random.default_rng(0)
    arms = rng.integers(num_arms, size=100)
    start = rng.integers(z_max + 1, size=num_arms)

    def play(z, arm):
        z = step(z, arm, z_max)
        return z, z

    _, visited = jax.lax.scan(play, jnp.asarray(start), jnp.asarray(arms))
    z = start
    for t, arm in enumerate(arms):
        z = reference.step(z, arm, z_max)
        np.testing.assert_array_equal(visited[t], z)


@pytest.mark.parametrize("step", [next_z, rests_after])
def test_rests_by_hand(step):
    z = jnp.asarray([0, 1, 2, 3])
    np.testing.assert_array_equal(step(z, jnp.asarray(1), 3), [1, 0, 3, 3])
    assert step(z, jnp.asarray(1), 3).dtype == z.dtype
    np.testing.assert_array_equal(step(z, jnp.asarray([0, 2]), 3), [0, 2, 0, 3])  # two plays in a round
    np.testing.assert_array_equal(step(z, jnp.asarray(-1), 3), [1, 2, 3, 3])  # no play resets nobody
    np.testing.assert_array_equal(step(z, jnp.asarray([3, -1]), 3), [1, 2, 3, 0])
    np.testing.assert_array_equal(step(z, jnp.asarray([-1, -1]), 3), [1, 2, 3, 3])
    np.testing.assert_array_equal(step(jnp.asarray([9, 4, 3]), jnp.asarray(2), 4), [4, 4, 0])  # beyond z_max: z_max


def test_next_z_takes_lists_and_plain_numbers():
    assert next_z([3, 0, 4], 1, 4).tolist() == [4, 0, 4]
    assert next_z(np.array([3, 0, 4]), np.int64(0), np.int64(4)).tolist() == [0, 1, 4]
    assert next_z((3, 0, 4), [0, 2], 4).tolist() == [0, 1, 0]
    assert next_z([30, 7], -1, 5).tolist() == [5, 5]
    assert next_z([0], 0, 0).tolist() == [0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: next_z([0, 1], 2, 3), ValueError, "arm must be in -1..1 (the arms; -1: no play), got 2"),
        (lambda: next_z([0, 1], -2, 3), ValueError, "arm must be in -1..1 (the arms; -1: no play), got -2"),
        (lambda: next_z([0, 1], [0, 5], 3), ValueError, "arm must be in -1..1 (the arms; -1: no play), got 5"),
        (lambda: next_z([0, 1], 1.5, 3), TypeError, "arm must hold integers, got 1.5"),
        (lambda: next_z([0, 1], 1.0, 3), TypeError, "arm must hold integers, got 1.0"),
        (lambda: next_z([0, -1], 1, 3), ValueError, "z must be >= 0, got -1"),
        (lambda: next_z([0.0, 1.0], 1, 3), TypeError, "z must hold integers, got [0.0, 1.0]"),
        (lambda: next_z([[0, 1]], 1, 3), ValueError, "z must have shape [K] = [any], got [1, 2]"),
        (lambda: next_z(3, 0, 3), ValueError, "z must have shape [K] = [any], got []"),
        (lambda: next_z([0, 1], 1, -1), ValueError, "z_max must be >= 0, got -1"),
        (lambda: next_z([0, 1], 1, 2.0), TypeError, "z_max must be a whole number, got 2.0"),
    ],
)
def test_next_z_refuses_what_is_no_play(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def plain_legal(num_arms, plays, idle, available, arms):
    """May these arms be played? By the words of the contract, with sets."""
    played = [arm for arm in arms if arm != -1]
    rising = played == sorted(set(played)) and list(arms) == played + [-1] * (len(arms) - len(played))
    there = range(num_arms) if available is None else [j for j in range(num_arms) if available[j]]
    missing = max(plays - len(there), 0)
    enough = idle or len(arms) - len(played) <= missing
    return rising and enough and all(arm in there for arm in played)


@pytest.mark.parametrize("plays", [None, 1, 2, 3])
@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_who_may_be_played(plays, idle, masked):
    """All arms from -2 to K in every place, under all masks: against plain Python."""
    problem = Problem(np.zeros((3, 2)), plays=plays, idle=idle, available=[0.5] * 3 if masked else None)
    places = plays or 1
    choices = np.array(list(itertools.product(range(-2, 4), repeat=places)), np.int32)
    masks = np.array(list(itertools.product([False, True], repeat=3)) if masked else [[True] * 3])

    def legal(arms, mask):
        return is_legal(problem, arms if plays else arms[0], mask if masked else None)

    found = jax.jit(jax.vmap(jax.vmap(legal, (0, None)), (None, 0)))(choices, masks)
    for i, mask in enumerate(masks):
        for j, arms in enumerate(choices.tolist()):
            assert found[i, j] == plain_legal(3, places, idle, mask if masked else None, arms), (mask, arms)


def test_each_arm_is_there_as_often_as_its_probability_says():
    """20,000 rounds, two arms: a false alarm below 1 in 10,000 each."""
    problem, key = Problem(np.zeros((4, 2)), available=[0.0, 0.3, 0.8, 1.0]), jax.random.key(0)
    rounds = np.arange(20_000, dtype=np.int32)
    there = jax.jit(jax.vmap(lambda t: problem.who_is_available(key, t, problem.z_init)))(rounds)
    often = there.mean(axis=0)
    assert often[0] == 0.0 and often[3] == 1.0
    np.testing.assert_allclose(often[1:3], [0.3, 0.8], atol=4.0 * 0.5 / np.sqrt(20_000))
    assert Problem(CURVES).who_is_available(key, 0, None) is None


def test_expected_rewards_reads_each_arm_at_its_own_rest():
    curves = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    z = np.array([5, 0, 2, 3])
    expected = [curves[j, z[j]] for j in range(4)]
    np.testing.assert_array_equal(expected_rewards(jnp.asarray(curves), jnp.asarray(z)), expected)


@pytest.mark.parametrize(
    ("z_init", "expected"), [(0, [0, 0]), (2, [2, 2]), ([1, 2], [1, 2]), (np.array([2, 0]), [2, 0])]
)
def test_z_init_is_one_number_or_one_per_arm(z_init, expected):
    problem = Problem(CURVES, z_init=z_init)
    np.testing.assert_array_equal(problem.z_init, expected)
    assert problem.z_init.dtype == jnp.int32 and (problem.num_arms, problem.z_max) == (2, 2)


@pytest.mark.parametrize("x64", [False, True])
def test_arrays_have_the_default_precision(x64):
    with jax.enable_x64(x64):
        problem = Problem(np.asarray(CURVES), noise=0)
        expected = jnp.float64 if x64 else jnp.float32
        assert problem.curves.dtype == problem.noise.dtype == expected and float(problem.noise) == 0.0


def test_a_table_is_the_same_in_every_replication():
    problem = Problem(CURVES)
    for seed in range(3):
        np.testing.assert_array_equal(problem.draw(jax.random.key(seed)), np.asarray(CURVES, np.float32))


def test_a_function_draws_new_curves_for_each_key():
    problem = Problem(lambda key: recovery.gp(key, SquaredExponential(4.0), 3, 5), z_init=5)
    assert (problem.num_arms, problem.z_max) == (3, 5)
    first, again, other = (problem.draw(jax.random.key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, recovery.gp(jax.random.key(0), SquaredExponential(4.0), 3, 5))
    assert not np.allclose(first, other)


def draw_scaled(scale, offset, key):
    return offset + scale * jax.random.normal(key, (2, 3))


def value(problem, key):
    return jnp.sum(problem.draw(key)) + problem.noise + jnp.sum(problem.z_init).astype(problem.noise.dtype)


@pytest.mark.parametrize(
    "build",
    [
        lambda number: Problem(np.asarray(CURVES) * number, noise=number, z_init=int(number)),
        lambda number: Problem(Partial(draw_scaled, number, 0.5), noise=number, z_init=int(number)),
    ],
    ids=["table", "partial"],
)
def test_new_numbers_do_not_recompile(build):
    traces = []

    @jax.jit
    def traced(problem, key):
        traces.append(None)
        return value(problem, key)

    key = jax.random.key(0)
    for number in (0.5, 1.0, 2.0):
        np.testing.assert_allclose(traced(build(number), key), value(build(number), key), rtol=1e-5)
    assert len(traces) == 1


def draw_unit(key):
    return jax.random.normal(key, (2, 3))


@pytest.mark.parametrize(
    "curves", [CURVES, Partial(draw_scaled, 1.0, 0.0), draw_unit], ids=["table", "partial", "bare"]
)
def test_is_a_pytree(curves):
    problem = Problem(curves, noise=0.3, z_init=[1, 2])
    copy = jax.jit(lambda problem: problem)(problem)
    assert jax.tree.structure(copy) == jax.tree.structure(problem)
    jax.tree.map(np.testing.assert_array_equal, copy, problem)
    np.testing.assert_array_equal(copy.draw(jax.random.key(3)), problem.draw(jax.random.key(3)))


def test_vmap_over_problems_equals_a_loop():
    problems = [Problem(np.asarray(CURVES) * scale, noise=scale) for scale in (0.5, 1.0, 2.0)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)
    key = jax.random.key(0)
    together = jax.vmap(lambda problem: value(problem, key))(stacked)
    np.testing.assert_allclose(together, [value(problem, key) for problem in problems], rtol=1e-6)


def test_a_problem_may_be_built_inside_jit():
    built = jax.jit(lambda curves, noise: Problem(curves, noise=noise, z_init=1))(jnp.asarray(CURVES), 0.2)
    assert float(built.noise) == pytest.approx(0.2)
    np.testing.assert_array_equal(built.z_init, [1, 1])


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Problem([[0.0, NAN]]), ValueError, "curves must be finite, got nan"),
        (lambda: Problem([[0.0, float("inf")]]), ValueError, "curves must be finite, got inf"),
        (lambda: Problem([0.0, 1.0]), ValueError, "curves must have shape [K, G] = [any, any], got [2]"),
        (lambda: Problem(np.zeros((2, 3, 4))), ValueError, "curves must have shape [K, G] = [any, any], got [2, 3, 4]"),
        (lambda: Problem(lambda key: jnp.zeros(3)), ValueError, "curves must have shape [K, G] = [any, any], got [3]"),
        (lambda: Problem(CURVES, noise=-0.1), ValueError, "noise must be >= 0, got -0.1"),
        (lambda: Problem(CURVES, noise=NAN), ValueError, "noise must be >= 0, got nan"),
        (lambda: Problem(CURVES, noise="loud"), TypeError, "noise must be >= 0, got 'loud'"),
        (lambda: Problem(CURVES, noise=[0.1, 0.2]), ValueError, "noise must have shape [] (one number) = [], got [2]"),
        (lambda: Problem(CURVES, z_init=3), ValueError, "z_init must be in 0..2 (0..z_max), got 3"),
        (lambda: Problem(CURVES, z_init=-1), ValueError, "z_init must be in 0..2 (0..z_max), got -1"),
        (lambda: Problem(CURVES, z_init=[0, 5]), ValueError, "z_init must be in 0..2 (0..z_max), got 5"),
        (lambda: Problem(CURVES, z_init=[0, 1, 2]), ValueError, "z_init must have shape [K] = [2], got [3]"),
        (lambda: Problem(CURVES, z_init=[[0, 1]]), ValueError, "z_init must have shape [K] = [2], got [1, 2]"),
        (lambda: Problem(CURVES, z_init=1.0), TypeError, "z_init must hold integers, got 1.0"),
        (lambda: Problem(np.zeros((0, 3))), ValueError, "curves must have at least one arm and one rest, got shape [0"),
        (lambda: Problem(CURVES, plays=3), ValueError, "plays must be between 1 and 2, got 3"),
        (lambda: Problem(CURVES, plays=0), ValueError, "plays must be between 1 and 2, got 0"),
        (lambda: Problem(CURVES, available=[0.5]), ValueError, "available must have shape [K] = [2], got [1]"),
        (lambda: Problem(CURVES, available=[0.5, 1.5]), ValueError, "available must be between 0 and 1, got 1.5"),
    ],
)
def test_errors_name_the_argument_and_the_value(build, error, message):
    with pytest.raises(error, match=re.escape(message)):
        build()
