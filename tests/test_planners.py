"""A plan is the best of all sequences: the exact planners against brute force, and slot sets against hand tables.

Values and the sequences that attain them are compared in float64; integer-valued curves make exact ties.
"""

import functools
import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from quick import jit

from jaxband.planners import beam, exhaustive, optimistic, slot_sets, subset, whittle
from jaxband.planners._whittle import indices

PROBLEMS = 12  # random problems per shape, planned in one vmap
SHAPES = [  # K, z_max, d, repeats
    (3, 5, 3, True),
    (4, 3, 2, True),
    (1, 4, 3, True),
    (3, 4, 1, True),
    (3, 0, 3, True),
    (2, 1, 5, True),  # rests of up to d − 2 = 3 within the plan, beyond z_max
    (4, 6, 3, False),
    (3, 2, 3, False),
    (2, 0, 2, False),
    (1, 0, 1, False),
]
ALPHA = np.linspace(0.0, 3.0, PROBLEMS)
EXTRA = np.tile([0.0, 0.7], PROBLEMS // 2)
ZEROS, TWOS = np.zeros(PROBLEMS), np.full(PROBLEMS, 2.0)
PLANNERS = {"exhaustive": exhaustive, "subset": subset}


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def random_problems(num_arms, z_max, integers=False, seed=0):
    """Curves [N, K, G] of either sign, roots [N, K, G, 3] and rests [N, K]; small integers if exact ties are wanted."""
    rng = np.random.default_rng([seed, num_arms, z_max])
    shape = (PROBLEMS, num_arms, z_max + 1)
    z = rng.integers(0, z_max + 1, shape[:2])
    if integers:
        return rng.integers(-1, 2, shape).astype(float), rng.integers(-1, 2, (*shape, 3)).astype(float), z
    return rng.normal(size=shape), rng.normal(size=(*shape, 3)), z


@functools.cache
def compiled(depth, repeats):
    """The plans of all planners, and UCB plans, for a batch of problems; one compilation per shape serves all tests."""

    def plan(curves, root, z, alpha, extra):
        plans = {name: planner(depth, repeats).plan(curves, z) for name, planner in PLANNERS.items()}
        return plans | {"ucb": exhaustive(depth, repeats).plan_ucb(curves, root, z, alpha, extra_variance=extra)}

    return jit(jax.vmap(plan))


def covariances_of(root):
    return np.einsum("kgr,khr->kgh", root, root)


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(("num_arms", "z_max", "depth", "repeats"), SHAPES)
def test_plan_is_the_best_of_all_sequences(float64, num_arms, z_max, depth, repeats, planner):
    curves, root, z = random_problems(num_arms, z_max)
    plans = compiled(depth, repeats)(curves, root, z, ALPHA, EXTRA)[planner]
    for i, (table, rests) in enumerate(zip(curves, z, strict=True)):
        arms, value = plans.arms[i].tolist(), plans.value[i].item()
        _, best = reference.best_sequence(table, rests, depth, repeats)
        assert value == pytest.approx(best, rel=1e-13, abs=1e-13)
        assert reference.leaf_mean(table, rests, arms) == pytest.approx(best, rel=1e-13, abs=1e-13)
        assert repeats or len(set(arms)) == depth
    assert plans.certified.all()


@pytest.mark.parametrize(("num_arms", "z_max", "depth", "repeats"), SHAPES)
def test_ucb_plan_is_the_best_of_all_sequences(float64, num_arms, z_max, depth, repeats):
    mean, root, z = random_problems(num_arms, z_max)
    plans = compiled(depth, repeats)(mean, root, z, ALPHA, EXTRA)["ucb"]
    for i, (alpha, extra) in enumerate(zip(ALPHA, EXTRA, strict=True)):
        arms, value, covariances = plans.arms[i].tolist(), plans.value[i].item(), covariances_of(root[i])
        _, best = reference.best_ucb_sequence(mean[i], covariances, z[i], depth, repeats, alpha, extra)
        eta, variance = reference.leaf_moments(mean[i], covariances, z[i], arms)
        assert value == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert eta + alpha * np.sqrt(variance + extra) == pytest.approx(best, rel=1e-12, abs=1e-12)
        assert repeats or len(set(arms)) == depth
    assert plans.certified.all()


@pytest.mark.parametrize(("num_arms", "z_max", "depth", "repeats"), [(3, 5, 3, True), (4, 6, 3, False)])
def test_lexicographically_first_of_equal_plans(float64, num_arms, z_max, depth, repeats):
    curves, root, z = random_problems(num_arms, z_max, integers=True)
    plans = compiled(depth, repeats)(curves, root, z, TWOS, ZEROS)
    for i in range(PROBLEMS):
        arms, _ = reference.best_sequence(curves[i], z[i], depth, repeats)
        assert all(tuple(plans[planner].arms[i].tolist()) == arms for planner in PLANNERS)
        arms, _ = reference.best_ucb_sequence(curves[i], covariances_of(root[i]), z[i], depth, repeats, 2.0)
        assert tuple(plans["ucb"].arms[i].tolist()) == arms


def test_float32_plans_are_good_to_float32():
    curves, root, z = random_problems(3, 5)
    plans = compiled(3, True)(curves, root, z, ALPHA, EXTRA)
    best = [reference.best_sequence(table, rests, 3, True)[1] for table, rests in zip(curves, z, strict=True)]
    for planner in PLANNERS:
        assert plans[planner].arms.dtype == jnp.int32 and plans[planner].value.dtype == jnp.float32
        np.testing.assert_allclose(plans[planner].value, best, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("planner", PLANNERS)
def test_num_slots_counts_only_the_first_slots(float64, planner, repeats):
    curves, _, z = random_problems(4, 6)

    def plan_window(curves, z, num_slots):
        return PLANNERS[planner](3, repeats).plan_window(slot_sets.gather_points(curves, z, 3), num_slots=num_slots)

    plan = jit(jax.vmap(plan_window, in_axes=(0, 0, None)))
    for num_slots in range(4):
        plans = plan(curves, z, num_slots)
        for i, (table, rests) in enumerate(zip(curves, z, strict=True)):
            _, best = reference.best_sequence(table, rests, num_slots, repeats)
            arms = plans.arms[i, :num_slots].tolist()
            assert plans.value[i].item() == pytest.approx(best, abs=1e-12)
            assert reference.leaf_mean(table, rests, arms) == pytest.approx(best, abs=1e-12)


@pytest.fixture
def look_ups_per_chunk(monkeypatch):
    """A function that sets the chunk size for trees grown from then on, and only within the test."""
    module = sys.modules["jaxband.planners._exhaustive"]  # `jaxband.planners.exhaustive` itself is the function

    def set_size(size):
        monkeypatch.setattr(module, "LOOK_UPS_PER_CHUNK", size)
        module._tree.cache_clear()

    yield set_size
    module._tree.cache_clear()


@pytest.mark.parametrize(("size", "repeats"), [(16, True), (16, False), (1, False)])
def test_chunked_search_finds_the_same_first_plan(float64, look_ups_per_chunk, size, repeats):
    curves, root, z = random_problems(4, 6, integers=True)
    whole = compiled(4, repeats)(curves, root, z, TWOS, EXTRA)
    look_ups_per_chunk(size)
    chunked = compiled.__wrapped__(4, repeats)(curves, root, z, TWOS, EXTRA)
    jax.tree.map(np.testing.assert_array_equal, whole, chunked)


def test_a_tree_larger_than_one_chunk(look_ups_per_chunk):
    rng = np.random.default_rng(0)
    curves, z = rng.normal(size=(34, 6)), rng.integers(0, 6, 34)
    chunked = jit(lambda c, rests: exhaustive(4).plan(c, rests))(curves, z)  # 34³ = 39304 look-ups
    look_ups_per_chunk(40000)
    whole = jit(lambda c, rests: exhaustive(4).plan(c, rests))(curves, z)
    jax.tree.map(np.testing.assert_array_equal, whole, chunked)


def test_ucb_plans_where_nothing_is_uncertain():
    mean, root = np.array([[0.0, 0.5], [0.3, 0.1], [0.2, 0.4]]), np.zeros((3, 2, 1))
    for planner in PLANNERS.values():
        plan = jit(lambda m, r, z, planner=planner: planner(1).plan_ucb(m, r, z, 2.0))(mean, root, np.zeros(3, int))
        assert plan.arms.tolist() == [1] and plan.value == pytest.approx(0.3) and plan.certified


@pytest.mark.parametrize("repeats", [True, False])
def test_renaming_the_arms_renames_the_plan(float64, repeats):
    curves, root, z = random_problems(4, 6)
    z = z % 4  # no rest saturates, so that no two plans tie
    order = np.array([2, 0, 3, 1])
    plain = compiled(3, repeats)(curves, root, z, ALPHA, EXTRA)
    renamed = compiled(3, repeats)(curves[:, order], root[:, order], z[:, order], ALPHA, EXTRA)
    for kind in plain:
        np.testing.assert_array_equal(order[renamed[kind].arms], plain[kind].arms)


# Slots without a play: because no arm is available in the first one, or because any slot may be idle.

MODES = {  # masked, idle
    "masked": (True, False),
    "masked, idle": (True, True),
    "idle": (False, True),
}
IDLE_SHAPES = [  # K, z_max, d, repeats
    (3, 4, 3, True),
    (2, 1, 4, True),
    (1, 3, 2, True),
    (3, 5, 1, True),
    (3, 4, 3, False),
    (4, 2, 2, False),
    (1, 2, 1, False),
]
MASKS = np.random.default_rng(0).random((PROBLEMS, 4)) < 0.5
MASKS[:2], MASKS[2], MASKS[3] = False, True, [False, True, False, False]  # nobody, all, one


def sequences_with_rests(num_arms, depth, repeats, available, idle):
    """All that may be played, −1 for no play."""
    nobody = available is not None and not any(available)
    for arms in itertools.product(range(-1, num_arms), repeat=depth):
        played = [arm for arm in arms if arm >= 0]
        there = arms[0] < 0 or available is None or available[arms[0]]
        rests_allowed = idle or (-1 not in arms[1:] and (arms[0] >= 0 or nobody))
        if there and rests_allowed and (repeats or len(set(played)) == len(played)):
            yield arms


def total_with_rests(curves, z, arms, ends):
    """What the arms pay one after the other, no play 0, and what the rests are worth in the end."""
    total = 0.0
    for arm in arms:
        total += curves[arm, z[arm]] if arm >= 0 else 0.0
        z = reference.step(z, arm, curves.shape[1] - 1)
    return total + sum(row[rest] for row, rest in zip(ends, z, strict=True))


def exact_planners(num_arms, depth, repeats):
    """Planners that find the best of all sequences: with room for all partial plans, or budget for the whole tree."""
    planners = {"exhaustive": exhaustive(depth, repeats), "subset": subset(depth, repeats)}
    if repeats:
        planners["beam"] = beam(depth, (num_arms + 1) ** (depth - 1))
        planners |= {f"optimistic, {bound}": optimistic(depth, 10**6, bound) for bound in ("per-slot", "paper")}
    return planners


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("num_arms", "z_max", "depth", "repeats"), IDLE_SHAPES)
def test_plans_with_masks_and_idle_slots_are_the_best_of_all(float64, num_arms, z_max, depth, repeats, mode):
    """Curves of either sign; with terminal values too, for the planners that take them."""
    masked, idle = MODES[mode]
    curves, _, z = random_problems(num_arms, z_max)
    ends, masks = random_problems(num_arms, z_max, seed=1)[0], MASKS[:, :num_arms]
    planners = exact_planners(num_arms, depth, repeats)

    def plan(curves, z, ends, mask):
        options = {"available": mask if masked else None, "idle": idle}
        plain = {name: planner.plan(curves, z, **options) for name, planner in planners.items()}
        with_ends = {
            name: planner.plan(curves, z, **options, terminal_values=ends)
            for name, planner in planners.items()
            if planner.takes_terminal_values
        }
        return plain, with_ends

    plain, with_ends = jit(jax.vmap(plan))(curves, z, ends, masks)
    assert len(with_ends) == 2 + repeats
    for i in range(PROBLEMS):
        mask = masks[i] if masked else None
        legal = list(sequences_with_rests(num_arms, depth, repeats, mask, idle))
        for plans, worth in ((plain, 0.0 * ends[i]), (with_ends, ends[i])):
            best = max(total_with_rests(curves[i], z[i], arms, worth) for arms in legal)
            for name, found in plans.items():
                arms = tuple(found.arms[i].tolist())
                assert arms in legal, name
                assert found.value[i] == pytest.approx(best, abs=1e-12), name
                assert total_with_rests(curves[i], z[i], arms, worth) == pytest.approx(best, abs=1e-12), name
                assert found.certified[i], name
        if masked and not idle and not mask.any():
            assert all(found.arms[i, 0] == -1 for found in plain.values())


@pytest.mark.parametrize(
    ("num_arms", "z_max", "depth", "repeats"), [(3, 4, 3, True), (2, 1, 4, True), (3, 5, 1, True), (3, 4, 3, False)]
)
def test_ucb_plans_with_masks_are_the_best_of_all(float64, num_arms, z_max, depth, repeats):
    mean, root, z = random_problems(num_arms, z_max)
    masks = MASKS[:, :num_arms]
    planners = {"exhaustive": exhaustive(depth, repeats), "subset": subset(depth, repeats, max_labels=64)}

    def plan(mean, root, z, alpha, extra, mask):
        options = {"extra_variance": extra, "available": mask}
        return {name: planner.plan_ucb(mean, root, z, alpha, **options) for name, planner in planners.items()}

    plans = jit(jax.vmap(plan))(mean, root, z, ALPHA, EXTRA, masks)
    for i in range(PROBLEMS):
        covariances, values = covariances_of(root[i]), {}
        for arms in sequences_with_rests(num_arms, depth, repeats, masks[i], False):
            started, later = z[i], arms
            if arms[0] == -1:  # the first round passes without a play
                started, later = reference.step(z[i], -1, z_max), arms[1:]
            eta, variance = reference.leaf_moments(mean[i], covariances, started, later)
            values[arms] = eta + ALPHA[i] * np.sqrt(max(variance, 0.0) + EXTRA[i])
        best = max(values.values())
        for name, found in plans.items():
            assert found.value[i] == pytest.approx(best, abs=1e-11), name
            assert values[tuple(found.arms[i].tolist())] == pytest.approx(best, abs=1e-11), name
            assert found.certified[i], name


def test_whittles_plan_with_masks_and_idle_rounds(float64):
    """The largest index among those that are there; no play if nobody is, or if all are worth less than nothing."""
    curves, _, z = random_problems(4, 5)
    curves = curves - np.linspace(0.0, 2.0, PROBLEMS)[:, None, None]  # towards the end all indices are negative
    index = np.asarray(jax.vmap(indices)(jnp.asarray(curves)))
    for mode, (masked, idle) in MODES.items():

        def plan(table, rests, mask, masked=masked, idle=idle):
            return whittle().plan(table, rests, available=mask if masked else None, idle=idle)

        found = jit(jax.vmap(plan))(curves, z, MASKS)
        for i in range(PROBLEMS):
            here = np.where(MASKS[i] | (not masked), index[i, np.arange(4), z[i]], -np.inf)
            plays = here.max() >= 0.0 if idle else here.max() > -np.inf
            assert found.arms[i].tolist() == [np.argmax(here) if plays else -1], mode
            assert found.value[i] == pytest.approx(here.max() if plays else 0.0), mode
        assert 0 < np.sum(found.arms == -1) < PROBLEMS


@pytest.mark.parametrize("planner", [exhaustive(2), subset(2), beam(2), optimistic(2, 50), whittle()], ids=str)
def test_planners_of_one_play_per_round_refuse_more(planner):
    assert planner.plan(CURVES, [0, 0], plays=1).arms.size == planner.depth
    for plays in (0, 2):
        with pytest.raises(ValueError, match="plays must be between 1 and 1, got"):
            planner.plan(CURVES, [0, 0], plays=plays)


ROOT = np.zeros((2, 3, 1))
CURVES = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exhaustive(0), "depth must be between 1 and 20, got 0"),
        (lambda: exhaustive(21), "depth must be between 1 and 20, got 21; use planners.optimistic"),
        (lambda: exhaustive(2).plan_window(np.zeros((2, 5))), "points must have shape .* = .any, 3., got .2, 5."),
        (lambda: exhaustive(2).plan([0.0, 1.0], [0, 0]), "curves must have shape"),
        (lambda: exhaustive(2).plan_ucb(CURVES, ROOT[:, :2], [0, 0], 1.0), "root must have shape"),
        (lambda: exhaustive(1.5), "depth must be a whole number, got 1.5"),
        (lambda: exhaustive(True), "depth must be a whole number, got True"),
        (lambda: exhaustive(3, repeats=False).plan(CURVES, [0, 0]), "depth must be <= num_arms without repeats"),
        (
            lambda: exhaustive(3, repeats=False).plan(CURVES, [0, 0], available=np.array([True, True])),
            "depth must be <= num_arms without repeats",
        ),
        (lambda: whittle().plan(CURVES, [0, 0], available=np.array([True])), "available must have shape"),
        (lambda: exhaustive(2).plan(CURVES, [0, 0], available=np.array([True] * 3)), "available must have shape"),
        (lambda: exhaustive(17).check(3), "more than 1e\\+08; use planners.subset"),
        (lambda: exhaustive(2).plan(CURVES, [-1, 0]), "z must be >= 0, got -1"),
        (lambda: exhaustive(2).plan(CURVES, [0.0, 0.0]), "z must hold integers"),
        (lambda: exhaustive(2).plan(CURVES, [0, 0, 0]), "z must have shape"),
        (lambda: exhaustive(2).plan(CURVES * np.nan, [0, 0]), "curves must be finite, got"),
        (lambda: exhaustive(2).plan_ucb(CURVES * np.nan, ROOT, [0, 0], 1.0), "mean must be finite, got"),
        (lambda: exhaustive(2).plan_ucb(CURVES, ROOT + np.inf, [0, 0], 1.0), "root must be finite, got"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_large_tree_is_allowed_where_it_has_few_leaves():
    exhaustive(20).check(2)
    exhaustive(4, repeats=False).check(100)
    with pytest.raises(ValueError, match="would score 1e\\+10 leaves"):
        exhaustive(5).check(100)


reach = jit(slot_sets.gather_points, static_argnames="depth")


def test_reach_is_first_rests_then_gaps():
    curves = np.tile([10.0, 11.0, 12.0, 13.0, 14.0, 15.0], (3, 1))
    points = reach(curves, np.array([2, 4, 5]), depth=3)
    assert points.tolist() == [[12, 13, 14, 10, 11], [14, 15, 15, 10, 11], [15, 15, 15, 10, 11]]


@pytest.mark.parametrize(("depth", "points"), [(1, [7]), (4, [7, 8, 8, 8, 7, 8, 8])])
def test_reach_of_depth_one_and_of_gaps_beyond_z_max(depth, points):
    assert reach(np.array([[7.0, 8.0]]), np.array([0]), depth=depth).tolist() == [points]


# First plays in slots 0, 1, 2 pay 1, 10, 100; plays again at once 1000, after one round of rest 10000.
POINTS = np.array([[1.0, 10.0, 100.0, 1000.0, 10000.0]], np.float32)
SLOT_SETS = [  # slots, total, gain of the last play; the bit mask of a set is its row number
    ((), 0, 0),
    ((0,), 1, 1),
    ((1,), 10, 10),
    ((0, 1), 1001, 1000),
    ((2,), 100, 100),
    ((0, 2), 10001, 10000),
    ((1, 2), 1010, 1000),
    ((0, 1, 2), 2001, 1000),
]


def test_totals_gains_and_last_slots_of_all_slot_sets():
    slots, totals, gains = zip(*SLOT_SETS, strict=True)
    assert jit(lambda points: slot_sets.slot_set_totals(slot_sets.increments(points)))(POINTS).tolist() == [
        list(totals)
    ]
    assert jit(slot_sets.increments)(POINTS).tolist() == [list(gains)]
    assert slot_sets.last_slot(3).tolist() == [max(s, default=-1) for s in slots]


def test_variance_gains_of_all_slot_sets():
    # One root column: an arm's sum over a slot set has variance (sum of the entries)², 0 1 4 25 9 36 36 81.
    roots = np.array([[[1.0], [2.0], [3.0], [4.0], [5.0]]], np.float32)
    assert jit(slot_sets.variance_increments)(roots).tolist() == [[0, 1, 4, 25 - 1, 9, 36 - 1, 36 - 4, 81 - 25]]
