"""Optimistic planning takes the paper's steps, is exact when it says so, and never gets worse with more budget."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from quick import jit

from jaxband import kernels, planners, policies, recovery
from jaxband.planners import max_tree, slot_sets
from jaxband.planners._optimistic import BOUNDS, _child_bounds, _Node
from jaxband.problem import Problem
from jaxband.simulation.rollout import simulate
from jaxband.theory import optimistic_error, smallest_near_optimal_fraction

SHAPES = [(1, 1, 0), (1, 4, 2), (2, 5, 1), (3, 3, 0), (4, 4, 6), (6, 3, 9)]  # num_arms, depth, z_max
EVERYTHING = 10**8


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def random_problems(seed, count, num_arms, z_max):
    rng = np.random.default_rng([seed, num_arms, z_max])
    shape = (count, num_arms, z_max + 1)
    return rng.normal(size=shape), rng.integers(0, z_max + 1, shape[:2])


def mixed_problems(seed, count, num_arms, z_max):
    """Every second problem has small whole numbers, which tie."""
    curves, z = random_problems(seed, count, num_arms, z_max)
    curves[1::2] = np.round(curves[1::2])
    return curves, z


@functools.cache
def plan(depth, budget, bound="per-slot"):
    return jit(jax.vmap(planners.optimistic(depth, budget, bound).plan))


@functools.cache
def plan_exactly(depth):
    return jit(jax.vmap(planners.subset(depth).plan))


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(("num_arms", "depth", "z_max"), SHAPES)
def test_without_a_limit_it_is_exact(float64, num_arms, depth, z_max, bound):
    curves, z = mixed_problems(0, 80, num_arms, z_max)
    found = plan(depth, EVERYTHING, bound)(curves, z)
    best = plan_exactly(depth)(curves, z)
    np.testing.assert_allclose(found.value, best.value, rtol=1e-12, atol=1e-12)
    for table, rests, arms, value in zip(curves, z, np.asarray(found.arms), found.value, strict=True):
        assert reference.leaf_mean(table, rests, arms) == pytest.approx(float(value), abs=1e-12)
    assert bool(found.certified.all())
    assert bool((found.tree_depth == depth).all())


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("budget", [4, 7, 20, 100])
def test_it_takes_the_steps_of_the_papers_procedure(float64, budget, bound):
    """Without ties the tree, its depth and the certificate are the reference's; the plan is at least as good."""
    curves, z = random_problems(1, 30, num_arms=4, z_max=6)
    found = plan(4, budget, bound)(curves, z)
    for i, (table, rests) in enumerate(zip(curves, z, strict=True)):
        arms, certified, depth, nodes = reference.optimistic_plan(table, rests, 4, budget, bound)
        assert (found.certified[i], found.tree_depth[i], found.nodes[i]) == (certified, depth, nodes)
        assert reference.leaf_mean(table, rests, arms) <= found.value[i] + 1e-12
        assert reference.leaf_mean(table, rests, found.arms[i].tolist()) == pytest.approx(float(found.value[i]))
    assert 0 < np.mean(found.certified) < 1 or budget != 20  # both ends of the procedure are met


@pytest.mark.parametrize("bound", BOUNDS)
def test_b_is_never_below_the_value_of_a_node_and_never_above_its_parents(float64, bound):
    """At every node of whole trees; the paper's bound is never the tighter one."""
    depth = 4

    def both_bounds(points, arms, reward):
        return [_child_bounds(points, _Node(arms, reward, 0, 0), kind) for kind in BOUNDS]

    bounds = jit(both_bounds)
    for curves, z in zip(*random_problems(2, 5, num_arms=3, z_max=2), strict=True):
        points = slot_sets.gather_points(jnp.asarray(curves), jnp.asarray(z), depth)
        smallest = {(): np.inf}
        for length in range(depth):
            for arms in itertools.product(range(3), repeat=length):
                padded = jnp.asarray([*arms, *[-1] * (depth - length)], jnp.int32)
                tight, paper = bounds(points, padded, jnp.asarray(reference.leaf_mean(curves, z, arms), float))
                b = paper if bound == "paper" else tight
                assert (np.asarray(paper) >= np.asarray(tight) - 1e-12).all()
                for arm in range(3):
                    continuations = itertools.product(range(3), repeat=depth - length - 1)
                    value = max(reference.leaf_mean(curves, z, (*arms, arm, *rest)) for rest in continuations)
                    assert value <= b[arm] + 1e-12
                    assert b[arm] <= smallest[arms] + 1e-12
                    _, rests = reference.path(z, (*arms, arm), 2)
                    u = reference.leaf_mean(curves, z, (*arms, arm))
                    expected = u + reference.optimistic_bound(curves, rests, depth - length - 1, bound)
                    assert b[arm] == pytest.approx(expected, abs=1e-12)
                    smallest[*arms, arm] = b[arm]


@pytest.mark.parametrize("bound", BOUNDS)
def test_more_budget_is_never_worse(bound):
    curves, z = mixed_problems(3, 200, num_arms=5, z_max=7)
    curves = curves.astype(np.float32)
    best = plan_exactly(5)(curves, z).value
    before = np.full(200, -np.inf)
    for budget in (5, 10, 40, 150, 2000):
        found = plan(5, budget, bound)(curves, z)
        assert (np.asarray(found.nodes) <= budget).all()
        assert (np.asarray(found.value) >= before).all()
        assert (np.asarray(found.value) <= np.asarray(best) + 1e-5).all()
        certified = np.asarray(found.certified)
        np.testing.assert_allclose(found.value[certified], best[certified], atol=1e-5)
        before = np.asarray(found.value)


def test_lanes_do_not_disturb_one_another():
    """Alone, beside others that take longer, and in nested vmaps: the same plan."""
    curves, z = random_problems(4, 6, num_arms=4, z_max=8)
    curves, planner = curves.astype(np.float32), planners.optimistic(5, 200)
    together = plan(5, 200)(curves, z)
    nested = jit(jax.vmap(jax.vmap(planner.plan)))(curves.reshape(2, 3, 4, 9), z.reshape(2, 3, 4))
    assert len(np.unique(together.nodes)) > 1
    plan_one = jit(planner.plan)
    for i in range(6):
        alone = plan_one(curves[i], z[i])
        for name, value in alone._asdict().items():
            np.testing.assert_array_equal(value, getattr(together, name)[i])
            np.testing.assert_array_equal(value, getattr(nested, name)[i // 3, i % 3])


def test_equal_bounds_are_followed_into_depth():
    """All sequences are worth the same: the search goes straight down, d expansions in all."""
    found = jit(planners.optimistic(6, 1000, "paper").plan)(np.ones((5, 4), np.float32), np.zeros(5, np.int32))
    assert bool(found.certified)
    assert int(found.nodes) == 6 * 5


def test_thompson_sampling_with_enough_budget_is_exact_planning():
    """No arm rests until z_max, where swapping two of them would change nothing."""
    kernel = kernels.SquaredExponential(2.0)
    problem = Problem(lambda key: recovery.gp(key, kernel, 4, 60), noise=0.1)
    choices = (planners.optimistic(3, 84), planners.subset(3))
    fast, slow = (policies.rgp_ts(kernel, 4, 60, 0.1, planner=planner) for planner in choices)
    play = jit(lambda policy: simulate(policy, problem, jax.random.key(5), 60).arms)
    np.testing.assert_array_equal(play(fast), play(slow))


@pytest.mark.parametrize("seed", range(12))
def test_errors_stay_within_proposition_2(seed):
    """On whole small trees: the returned node's best continuation against the bound, for every budget."""
    rng = np.random.default_rng(seed)
    num_arms, depth, z_max = 3, 5, 3
    curves = rng.normal(size=(num_arms, z_max + 1)) if seed % 2 else rng.random((num_arms, z_max + 1)) ** 4
    z = rng.integers(0, z_max + 1, num_arms)
    _, best = reference.best_sequence(curves, z, depth, True)
    said_something = 0
    for expansions in range(1, 120, 7):
        arms, certified, reached, _ = reference.optimistic_plan(curves, z, depth, expansions * num_arms, "paper")
        rests = itertools.product(range(num_arms), repeat=depth - reached)
        value = max(reference.leaf_mean(curves, z, (*arms[:reached], *rest)) for rest in rests)
        for first_depth in (1, 2):
            share, spread = smallest_near_optimal_fraction(curves, z, depth, first_depth)
            bound = optimistic_error(num_arms, depth, expansions, share, spread, first_depth)
            said_something += np.isfinite(bound)
            assert best - value <= bound + 1e-12
        if certified:
            assert value == pytest.approx(best)
            break
    assert said_something


def test_proposition_2_by_hand():
    # λK = 4, n0 = 1 + 10: d − log4(64) − log4(3) + 1 = 4 − 3 − log4(3) + 1
    assert optimistic_error(10, 4, 75, 0.4, 2.0, 1) == pytest.approx(2.0 * (2.0 - np.log(3.0) / np.log(4.0)))
    assert optimistic_error(10, 4, 11, 0.4, 2.0, 1) == np.inf  # n = n0
    assert optimistic_error(10, 4, 500, 0.1, 2.0, 1) == np.inf  # λ must exceed 1/K
    assert optimistic_error(10, 4, 10**9, 0.4, 2.0, 1) == 0.0
    # two arms, one constant at 1 and one at 0, d = 2, Δ = 1: at depth 1 all are within 1 of 2, at depth 2 one of four
    assert smallest_near_optimal_fraction([[1.0, 1.0], [0.0, 0.0]], [0, 0], 2) == (1.0, 1.0)
    assert smallest_near_optimal_fraction([[1.0, 1.0], [0.0, 0.0]], [0, 0], 2, first_depth=2) == (0.5, 1.0)


def test_a_tournament_knows_its_largest_entry():
    rng = np.random.default_rng(6)
    for size in (1, 2, 32, 33, 1500):
        levels, values = max_tree.start(size, jnp.float32), np.full(size, -np.inf)
        enter, leader = jit(max_tree.update), jit(max_tree.argmax)
        for _ in range(60):
            (i, j), (x, y) = rng.integers(0, size, 2), rng.integers(-3, 4, 2).astype(np.float32)
            levels = enter(levels, (jnp.int32(i), x), (jnp.int32(j), y))
            values[i] = x
            values[j] = y
            assert int(leader(levels)) == size - 1 - np.argmax(values[::-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0, "budget": 10}, "depth must be between 1 and 32, got 0"),
        ({"depth": 3, "budget": 0}, "budget must be between 1 and 100000000, got 0"),
        ({"depth": 3, "budget": 10, "bound": "papre"}, "bound must be one of 'per-slot', 'paper', got 'papre'"),
    ],
)
def test_impossible_planners_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        planners.optimistic(**arguments)


def test_a_budget_below_one_step_is_refused():
    with pytest.raises(ValueError, match="budget must be >= num_arms, got 3 for 4 arms"):
        planners.optimistic(2, 3).plan(np.zeros((4, 3), np.float32), np.zeros(4, np.int32))


def test_what_it_does_not_take_is_refused():
    points, planner = np.zeros((4, 3), np.float32), planners.optimistic(2, 10)
    for option in ({"num_slots": 1}, {"terminal": np.zeros((4, 3))}):
        with pytest.raises(TypeError, match=r"takes neither num_slots nor terminal; use planners\.subset"):
            planner.plan_window(points, **option)
    with pytest.raises(TypeError, match=r"takes no terminal values; use planners\.subset or beam"):
        planner.plan(points, np.zeros(4, np.int32), terminal_values=points)


def test_upper_confidence_bounds_need_another_planner():
    with pytest.raises(ValueError, match=r"use planners\.subset"):
        policies.rgp_ucb(kernels.SquaredExponential(2.0), 4, 8, 0.1, planner=planners.optimistic(2, 100))
