"""The subset planner finds what exhaustive search finds, and its certificates hold."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from quick import jit
from scipy.optimize import linear_sum_assignment

from jaxband import kernels, planners, policies, recovery
from jaxband.planners import slot_sets
from jaxband.planners.partitions import best_partition, slot_pairs
from jaxband.problem import Problem
from jaxband.simulation.rollout import simulate

SHAPES = [  # num_arms, depth, z_max, repeats
    (1, 1, 0, True),
    (1, 4, 2, True),
    (2, 5, 1, True),
    (3, 3, 0, True),
    (4, 4, 6, True),
    (5, 3, 9, True),
    (4, 4, 3, False),
    (6, 3, 8, False),
]


def random_problems(seed, count, num_arms, z_max):
    """Half of them with small whole numbers, which tie and add up exactly; the rest normal."""
    rng = np.random.default_rng(seed)
    curves = rng.integers(-2, 3, (count, num_arms, z_max + 1)).astype(np.float32)
    curves[::2] = rng.normal(size=curves[::2].shape)
    return curves, rng.integers(0, z_max + 1, (count, num_arms)).astype(np.int32)


@functools.cache
def plan_window(planner):
    return jit(jax.vmap(planner.plan_window))


def compare_with_exhaustive(seed, count, num_arms, depth, z_max, repeats):
    curves, z = random_problems(seed, count, num_arms, z_max)
    points = jax.vmap(lambda table, rests: slot_sets.gather_points(table, rests, depth))(curves, z)
    fast, slow = (plan_window(kind(depth, repeats))(points) for kind in (planners.subset, planners.exhaustive))
    np.testing.assert_allclose(fast.value, slow.value, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(fast.arms[1::2], slow.arms[1::2])  # exact arithmetic: ties are broken the same way
    for curve, rests, arms, value in zip(curves, z, np.asarray(fast.arms), fast.value, strict=True):
        assert reference.leaf_mean(curve, rests, arms) == pytest.approx(float(value), abs=1e-5)
    assert bool(fast.certified.all())
    return points, slow


@pytest.mark.parametrize(("num_arms", "depth", "z_max", "repeats"), SHAPES)
def test_plans_equal_exhaustive_search(num_arms, depth, z_max, repeats):
    compare_with_exhaustive(0, 200, num_arms, depth, z_max, repeats)


@pytest.mark.slow
@pytest.mark.parametrize(("num_arms", "depth"), list(itertools.product(range(1, 7), range(1, 7))))
def test_100_000_plans_of_all_planners_agree(num_arms, depth):
    """2,800 problems for each of 36 shapes, half of them without repeats where the arms suffice: 100,800 in all.

    Optimistic planning without a limit, which allows repeats, finds the same values.
    """
    for z_max in (0, 1, 2, 3, 5, 8, 30):
        for repeats in (True, False) if depth <= num_arms else (True,):
            count = 200 if depth <= num_arms else 400
            points, slow = compare_with_exhaustive(depth + 10 * z_max, count, num_arms, depth, z_max, repeats)
            if repeats:
                found = plan_window(planners.optimistic(depth, budget=10**8))(points)
                np.testing.assert_allclose(found.value, slow.value, rtol=1e-5, atol=1e-5)
                assert bool(found.certified.all())


def test_without_repeats_it_is_an_assignment_problem():
    curves, z = random_problems(1, 100, num_arms=7, z_max=10)
    plans = jit(jax.vmap(planners.subset(5, repeats=False).plan))(curves, z)
    for curve, rests, value in zip(curves, z, plans.value, strict=True):
        gains = curve[np.arange(7)[:, None], np.minimum(rests[:, None] + np.arange(5), 10)]
        arms, slots = linear_sum_assignment(gains, maximize=True)
        assert float(value) == pytest.approx(gains[arms, slots].sum(), abs=1e-5)


def test_permuting_arms_permutes_plans():
    curves, z = random_problems(2, 60, num_arms=5, z_max=7)
    curves, z = curves[::2], z[::2]  # no ties
    order = np.array([3, 0, 4, 1, 2])
    plan = jit(jax.vmap(planners.subset(4).plan))
    np.testing.assert_array_equal(order[plan(curves[:, order], z[:, order]).arms], plan(curves, z).arms)


def test_a_window_cut_short_is_a_shorter_plan():
    curves, z = random_problems(3, 50, num_arms=4, z_max=6)

    def cut(table, rests):
        points = slot_sets.gather_points(table, rests, 4)
        return planners.subset(4).plan_window(points, num_slots=jnp.asarray(2)).value

    shorter = jit(jax.vmap(planners.subset(2).plan))(curves, z).value
    np.testing.assert_allclose(jit(jax.vmap(cut))(curves, z), shorter, atol=1e-6)


def test_plans_of_more_slots_than_a_word_holds():
    """With 2,000 arms an int32 spells two slots, so that four need two words."""
    rng = np.random.default_rng(4)
    gains = rng.integers(0, 3, (2000, 16)).astype(np.float32)
    value, arms = jit(best_partition, static_argnums=1)(gains, True)
    sets = [sum(1 << slot for slot in range(4) if arms[slot] == arm) for arm in range(2000)]
    assert float(value) == gains[np.arange(2000), sets].sum()
    assert float(value) >= 4 * 2  # four different arms that gain 2 by one slot each exist


def test_there_are_three_to_the_d_pairs():
    assert sum(own.size for own, _ in slot_pairs(6, True).groups) == 3**6
    assert sum(own.size for own, _ in slot_pairs(6, False).groups) == 2**6 + 6 * 2**5


@pytest.mark.slow
def test_depth_twelve_fits_in_memory():
    curves, z = random_problems(5, 2, num_arms=10, z_max=30)
    plan = jit(planners.subset(12).plan)(curves[0], z[0])
    shorter = jit(planners.subset(6).plan)(curves[0], z[0])
    assert plan.arms.shape == (12,)
    assert float(plan.value) > float(shorter.value)


def random_posteriors(seed, count, num_arms, z_max):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(count, num_arms, z_max + 1)).astype(np.float32)
    scale = rng.random((count, num_arms, 1, 1))
    root = (0.5 * scale * rng.normal(size=(count, num_arms, z_max + 1, 4))).astype(np.float32)
    z = rng.integers(0, z_max + 1, (count, num_arms)).astype(np.int32)
    alpha = (4.0 * rng.random(count)).astype(np.float32)
    extra = np.where(rng.random(count) < 0.5, 0.0, 0.04).astype(np.float32)
    return mean, root, z, alpha, extra


@functools.cache
def plan_ucb(planner):
    return jit(
        jax.vmap(lambda mean, root, z, alpha, extra: planner.plan_ucb(mean, root, z, alpha, extra_variance=extra))
    )


@pytest.mark.parametrize(
    ("num_arms", "depth", "repeats", "labels"),
    [(1, 3, True, 2), (4, 1, True, 1), (4, 3, True, 16), (6, 3, True, 2), (5, 3, False, 4), (8, 4, True, 1)],
)
def test_certified_ucb_plans_are_optimal_and_gaps_are_honest(num_arms, depth, repeats, labels):
    problems = random_posteriors(6, 300, num_arms, z_max=6)
    found = plan_ucb(planners.subset(depth, repeats, labels))(*problems)
    best = plan_ucb(planners.exhaustive(depth, repeats))(*problems)
    short = np.asarray(best.value - found.value)
    certified = np.asarray(found.certified)
    np.testing.assert_allclose(short[certified], 0.0, atol=1e-5)
    assert short.min() > -1e-5
    assert (short <= np.asarray(found.gap) + 1e-5).all()
    np.testing.assert_array_equal(certified, np.asarray(found.gap) == 0.0)
    if labels == 16:
        assert certified.all()


def test_more_labels_certify_more():
    problems = random_posteriors(7, 300, num_arms=8, z_max=6)
    certified = [np.asarray(plan_ucb(planners.subset(3, max_labels=m))(*problems).certified) for m in (1, 2, 8)]
    assert certified[0].mean() < certified[1].mean() < certified[2].mean()
    assert certified[2].mean() > 0.95


def test_a_zero_width_is_planning_on_the_mean():
    mean, root, z, _, extra = random_posteriors(8, 50, num_arms=4, z_max=6)
    found = plan_ucb(planners.subset(3))(mean, root, z, np.zeros(50, np.float32), extra)
    np.testing.assert_allclose(found.value, jit(jax.vmap(planners.subset(3).plan))(mean, z).value, atol=1e-5)


def test_whole_runs_are_those_of_exhaustive_search():
    kernel = kernels.SquaredExponential(2.0)
    problem = Problem(lambda key: recovery.gp(key, kernel, 4, 8), noise=0.1)
    key = jax.random.key(9)
    for factory in (policies.rgp_ucb, policies.rgp_ts):
        fast, slow = (factory(kernel, 4, 8, 0.1, planner=kind(3)) for kind in (planners.subset, planners.exhaustive))
        play = jit(lambda policy: simulate(policy, problem, key, 60).arms)
        np.testing.assert_array_equal(play(fast), play(slow))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "depth must be between 1 and 12, got 0"),
        ({"depth": 13}, "depth must be between 1 and 12, got 13; look less far ahead, or use planners.beam"),
        ({"depth": 12, "max_labels": 64}, "max_labels must be between 1 and 31, got 64"),
        ({"depth": 3, "max_labels": 0}, "max_labels must be"),
    ],
)
def test_impossible_planners_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        planners.subset(**arguments)


def test_a_plan_without_repeats_needs_enough_arms():
    with pytest.raises(ValueError, match="depth 3 and 2 arms"):
        planners.subset(3, repeats=False).plan(np.zeros((2, 4), np.float32), np.zeros(2, np.int32))
