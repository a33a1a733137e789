"""Beam search: exact when it keeps everything, else the search that its description says."""

import itertools

import jax
import numpy as np
import pytest
from quick import jit

import jaxband as jb
from jaxband.planners import beam, exhaustive, slot_sets


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def after(z, arm, z_max):
    return tuple(0 if j == arm else min(rest + 1, z_max) for j, rest in enumerate(z))


def searched(curves, z, terminal_values, depth, width):
    """Beam search by sorted lists of (value, arms, rests, earned)."""
    num_arms, z_max = len(curves), len(curves[0]) - 1

    def worth(rests):
        return sum(terminal_values[j][rest] for j, rest in enumerate(rests))

    plans = [(0.0, (), tuple(z), 0.0)]
    for _ in range(depth):
        children = []
        for (_, arms, rests, earned), arm in itertools.product(plans, range(num_arms)):
            now, then = earned + curves[arm][rests[arm]], after(rests, arm, z_max)
            children.append((now + worth(then), (*arms, arm), then, now))
        plans = sorted(children, key=lambda plan: -plan[0])[:width]
    return plans[0][1], plans[0][0]


def total(curves, z, arms, terminal_values):
    """What the arms earn one after another, and what the rests are worth in the end."""
    earned, z = 0.0, tuple(z)
    for arm in arms:
        earned, z = earned + curves[arm][z[arm]], after(z, arm, len(curves[0]) - 1)
    return earned + sum(terminal_values[j][rest] for j, rest in enumerate(z))


def random_problems(seed, count, num_arms, z_max):
    rng = np.random.default_rng(seed)
    curves, ends = rng.normal(size=(2, count, num_arms, z_max + 1))
    return curves, ends, rng.integers(0, z_max + 1, (count, num_arms)).astype(np.int32)


SHAPES = [  # num_arms, z_max, depth, width
    (1, 3, 4, 2),
    (2, 0, 3, 1),
    (3, 5, 1, 4),
    (3, 5, 6, 1),
    (4, 6, 5, 3),
    (7, 3, 9, 16),
    (4, 4, 6, 40),
    (5, 30, 14, 8),
]


@pytest.mark.parametrize(("num_arms", "z_max", "depth", "width"), SHAPES)
def test_plans_are_those_of_a_search_by_lists(float64, num_arms, z_max, depth, width):
    curves, ends, z = random_problems(depth, 30, num_arms, z_max)
    plan = jit(jax.vmap(lambda c, r, h: beam(depth, width).plan(c, r, terminal_values=h)))(curves, z, ends)
    for i in range(30):
        arms, value = searched(curves[i], z[i], ends[i], depth, width)
        assert tuple(plan.arms[i].tolist()) == arms
        assert plan.value[i] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("num_arms", "depth"), [(2, 5), (3, 4)])
def test_with_room_for_all_partial_plans_it_is_exhaustive_search(num_arms, depth):
    curves, ends, z = random_problems(num_arms, 100, num_arms, 6)
    everything = beam(depth, num_arms ** (depth - 1))
    for options in ({}, {"terminal_values": ends}):
        found, best = (
            jit(jax.vmap(lambda c, r, o, p=planner: p.plan(c, r, **o)))(curves, z, options)
            for planner in (everything, exhaustive(depth))
        )
        np.testing.assert_allclose(found.value, best.value, rtol=1e-5, atol=1e-5)
        totals = [
            total(curves[i], z[i], found.arms[i], options.get("terminal_values", 0.0 * ends)[i]) for i in range(100)
        ]
        np.testing.assert_allclose(totals, best.value, rtol=1e-5, atol=1e-5)
        assert found.certified.all()
    narrow = beam(depth, num_arms ** (depth - 1) - 1).plan(curves[0], z[0])
    assert not narrow.certified


def test_points_within_reach_are_enough_without_terminal_values():
    curves, _, z = random_problems(0, 50, 4, 9)
    points = jax.vmap(lambda c, r: slot_sets.gather_points(c, r, 5))(curves, z)
    whole, reached = jit(jax.vmap(beam(5, 3).plan))(curves, z), jit(jax.vmap(beam(5, 3).plan_window))(points)
    np.testing.assert_array_equal(whole.arms, reached.arms)
    np.testing.assert_array_equal(whole.value, reached.value)


def test_of_equal_plans_the_first_arms_win():
    plan = beam(4, 2).plan(np.ones((3, 5)), [0, 0, 0])
    assert plan.arms.tolist() == [0, 0, 0, 0]
    assert plan.value == 4.0


def test_problems_side_by_side_do_not_change_one_another():
    curves, ends, z = random_problems(1, 37, 5, 8)
    search = jit(lambda c, r, h: beam(6, 4).plan(c, r, terminal_values=h))
    together = jit(jax.vmap(lambda c, r, h: beam(6, 4).plan(c, r, terminal_values=h)))(curves, z, ends)
    for i in range(0, 37, 6):
        alone = search(curves[i], z[i], ends[i])
        np.testing.assert_array_equal(together.arms[i], alone.arms)


def test_a_policy_may_plan_by_beam_search(compiled_quickly):
    """Thompson sampling without terminal values, an oracle with them; upper confidence bounds of plans are not sums."""
    kernel = jb.kernels.SquaredExponential(2.0)
    problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, 4, 6), noise=0.1)
    sampling = jb.policies.rgp_ts(kernel, 4, 6, 0.1, planner=beam(5, 3), replan_every=1)
    knowing = jb.policies.oracle(4, 6, planner=beam(8), replan_every=1, terminal_values=True)
    learned, known = (
        jb.monte_carlo(policy, problem, horizon=200, replications=8).expected_reward.mean()
        for policy in (sampling, knowing)
    )
    assert 0.0 < learned < known
    with pytest.raises(ValueError, match="planner"):
        jb.policies.rgp_ucb(kernel, 4, 6, 0.1, planner=beam(5, 3))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="depth must be"):
        beam(0)
    with pytest.raises(ValueError, match="width must be"):
        beam(3, 0)
    for option in ({"num_slots": 1}, {"terminal": np.zeros((3, 3))}):
        with pytest.raises(TypeError, match="beam takes neither num_slots nor terminal from a window"):
            beam(2).plan_window(np.zeros((3, 3)), **option)
    with pytest.raises(ValueError, match="points must have shape"):
        beam(2).plan_window(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="terminal_values must have shape"):
        beam(2).plan(np.zeros((3, 5)), np.zeros(3, int), terminal_values=np.zeros((3, 4)))
