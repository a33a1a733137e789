"""Bounds and optima against linear programs, plain dynamic programming and enumeration; certificates against policies.

Small problems of four kinds: concave, monotone, neither, and with rewards that are mostly negative.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import scipy.optimize
from quick import jit

import jaxband as jb
from jaxband import optimum, regret
from jaxband.optimum import states

SHAPES = [(2, 3), (2, 4), (2, 5), (3, 3), (3, 4), (3, 5)]
PER_SHAPE = 36  # 216 problems
KERNEL = jb.kernels.SquaredExponential(2.0)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def small_problems(num_arms, num_points, number=PER_SHAPE):
    """Curves [N, K, G], a quarter of each kind; a few have ties, as rounded numbers do."""
    rng = np.random.default_rng(100 * num_arms + num_points)
    arbitrary = rng.normal(size=(number, num_arms, num_points))
    concave = np.cumsum(-np.sort(-rng.exponential(size=arbitrary.shape)), axis=-1)
    kinds = [concave, np.sort(arbitrary), arbitrary, arbitrary - 2.0]
    curves = np.stack([kinds[i % 4][i] for i in range(number)])
    curves[-8:] = np.round(2.0 * curves[-8:]) / 2.0
    return curves


@functools.cache
def exact_averages(num_arms, num_points):
    return np.array([optimum.exact(curves).average for curves in small_problems(num_arms, num_points)])


compiled_bounds = jit(jax.vmap(optimum.dual_bound))


def dual_bounds(curves):
    """The bounds of curves [N, K, G], as NumPy arrays."""
    return jax.tree.map(np.asarray, compiled_bounds(curves))


# The dual bound.


def linear_program(curves):
    """min λ + Σ_j g_j  such that  λ + p g_j ≥ f_j(p − 1), g_j ≥ 0."""
    num_arms, num_points = curves.shape
    rows, right = [], []
    for arm, period in itertools.product(range(num_arms), range(1, num_points + 1)):
        row = np.zeros(num_arms + 1)
        row[0], row[1 + arm] = -1.0, -period
        rows.append(row)
        right.append(-curves[arm, period - 1])
    bounds = [(None, None)] + [(0.0, None)] * num_arms
    return scipy.optimize.linprog(np.ones(num_arms + 1), A_ub=np.array(rows), b_ub=right, bounds=bounds).fun


def objective(curves, price):
    """λ + Σ_j g_j(λ), as it is written."""
    periods = np.arange(1, curves.shape[1] + 1)
    return price + sum(max(0.0, *((curve - price) / periods)) for curve in curves)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-13)])
@pytest.mark.parametrize("shape", [(2, 4), (3, 5), (1, 1), (1, 4), (4, 1), (10, 31)])
def test_the_dual_bound_is_the_least_there_is(shape, dtype, tolerance):
    curves = small_problems(*shape).astype(dtype).astype(float)
    with jax.enable_x64(dtype == "float64"):
        bound = dual_bounds(curves)
        assert bound.average.dtype == bound.relative_values.dtype == dtype
    size = np.abs(curves).max(axis=(1, 2))
    least = np.array([linear_program(c) for c in curves])
    assert (np.abs(bound.average - least) <= tolerance * size + 1e-14).all()
    values = np.array([objective(c, float(price)) for c, price in zip(curves, bound.price, strict=True)])
    assert (np.abs(bound.average - values) <= tolerance * size + 1e-14).all()


def test_the_dual_bound_of_many_arms_and_of_one_problem_alone(float64):
    curves = np.sort(np.random.default_rng(0).normal(size=(500, 31)))
    alone = jit(optimum.dual_bound)(curves)
    around = [objective(curves, float(alone.price) + step) for step in (-1e-4, 0.0, 1e-4)]
    assert min(around) == pytest.approx(float(alone.average), abs=1e-12) == around[1]
    one_of_many = jax.tree.map(lambda x: x[1], dual_bounds(np.stack([curves - 1.0, curves])))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-12), alone, one_of_many)


@pytest.mark.parametrize(
    ("curves", "average", "price"),
    [
        ([[1.0, 1.0], [0.0, 0.0]], 1.0, 1.0),  # any price from 0 to 1 is best
        ([[0.2, 1.0]], 0.2, -0.6),  # one arm must be played all the time; at −0.6 it may as well rest in between
        ([[0.0, 1.0], [0.0, 1.0]], 1.0, 1.0),
        ([[-1.0, -1.0], [-1.0, -1.0]], -1.0, -1.0),
        ([[0.0, 0.0, 0.0]] * 3, 0.0, 0.0),
        ([[0.0, 0.0, 3.0]] * 2, 1.5, -1.5),  # at −1.5 per round played in vain, or 4.5 every third round
        ([[1e-30, 3e-30], [0.0, 1e-30]], 2e-30, 1e-30),
    ],
)
def test_bounds_by_hand_have_the_largest_of_the_best_prices(curves, average, price):
    size = np.abs(curves).max() * 4e-6
    bound = jit(optimum.dual_bound)(jnp.asarray(curves))
    np.testing.assert_allclose([bound.average, bound.price], [average, price], rtol=0, atol=size)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_dual_bound_is_never_below_the_exact_optimum(float64, shape):
    bound, best = dual_bounds(small_problems(*shape)).average, exact_averages(*shape)
    assert (bound >= best - 1e-12).all()
    assert np.median(bound - best) < 0.1


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("shape", [(2, 4), (3, 5), (10, 31)])
def test_relative_values_solve_their_equation(shape, dtype, tolerance):
    """h(z) + g = max(f(z) − λ + h(0), h(next z)) and h(0) = 0; an arm without gain only has h ≥."""
    with jax.enable_x64(dtype == "float64"):
        curves = np.asarray(jnp.asarray(small_problems(*shape)))
        bound = dual_bounds(curves)
    h, g = bound.relative_values, bound.gains[..., None]
    rested = np.concatenate([h[..., 1:], h[..., -1:]], axis=-1)
    right = np.maximum(curves - bound.price[:, None, None] + h[..., :1], rested)
    slack = tolerance * np.abs(curves).max() * shape[1]
    assert (h[..., 0] == 0).all() and (g >= 0).all()
    assert (h + g >= right - slack).all()
    np.testing.assert_allclose(np.where(g > 0, h + g, 0.0), np.where(g > 0, right, 0.0), rtol=0, atol=slack)
    assert (h[np.broadcast_to(g == 0, h.shape)] == 0).all()


def test_every_price_proves_a_bound_and_tracking_finds_a_good_one(float64):
    draw = jax.vmap(lambda key: jb.recovery.gp(key, KERNEL, 10, 30))
    curves = jit(draw)(jax.random.split(jax.random.key(0), 50))
    best = dual_bounds(curves)
    at_best = jit(jax.vmap(optimum.bound_at_price))(curves, best.price)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-14), at_best, best)
    for steps in (1, 2, 6):
        track = jit(jax.vmap(functools.partial(optimum.dual_bound_from, steps=steps)))
        excess = {
            offset: track(curves, best.price + offset).average - best.average for offset in (-20, -0.05, 0.05, 20)
        }
        assert all((values >= -1e-13).all() for values in excess.values())
    for offset in (-0.05, 0.05):
        assert excess[offset].mean() < 1e-4 and excess[offset].max() < 2e-3


@pytest.mark.parametrize("curves", [[[1.0, 1.0], [0.0, 0.0]], [[0.5]], [[2.0, 2.0]] * 3, [[0.2, 1.0]]])
def test_tracking_works_on_degenerate_curves(curves):
    least = jit(optimum.dual_bound)(jnp.asarray(curves)).average
    track = jit(functools.partial(optimum.dual_bound_from, steps=8))
    for price in (-5.0, 0.3, 5.0):
        assert least - 1e-6 <= track(jnp.asarray(curves), price).average < least + 0.05


# The exact optimum.


def value_iteration(curves, transient=1000, rounds=10_080):
    """The best average reward by plain dynamic programming over all G^K states, [N] from curves [N, K, G].

    `rounds` is a multiple of every period up to 10; of others it leaves an error of about 1e-4.
    """
    _, num_arms, num_points = curves.shape
    every = list(itertools.product(range(num_points), repeat=num_arms))
    number = {z: i for i, z in enumerate(every)}
    following = [
        [number[tuple(reference.step(z, arm, num_points - 1).tolist())] for arm in range(num_arms)] for z in every
    ]
    rewards = np.stack([curves[:, arm, [z[arm] for z in every]] for arm in range(num_arms)])
    following, values = np.array(following).T, np.zeros((len(curves), len(every)))
    for t in range(transient + rounds):
        if t == transient:
            start = values
        values = np.max([rewards[arm] + values[:, following[arm]] for arm in range(num_arms)], axis=0)
    return ((values - start) / rounds)[:, 0]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_optimum_is_that_of_plain_dynamic_programming(shape):
    averages = value_iteration(small_problems(*shape))
    np.testing.assert_allclose(exact_averages(*shape), averages, rtol=0, atol=1e-4)


def lap_means(curves, longest):
    """The mean reward of every sequence of up to `longest` arms, played over and over."""
    num_arms, num_points = curves.shape
    for length in range(1, longest + 1):
        laps = -(-num_points // length) + 1  # after which the rests repeat
        for arms in itertools.product(range(num_arms), repeat=length):
            z_played, _ = reference.path(np.zeros(num_arms, int), arms * laps, num_points - 1)
            yield np.mean([curves[arm, z] for arm, z in zip(arms, z_played[-length:], strict=True)])


@pytest.mark.parametrize(("shape", "longest"), [((2, 3), 8), ((3, 3), 6)])
def test_the_exact_optimum_is_that_of_all_short_cycles(shape, longest):
    found = 0
    for curves in small_problems(*shape)[:12]:
        best, short = optimum.exact(curves), max(lap_means(curves, longest))
        assert best.average >= short - 1e-12
        if best.period <= longest:
            found += 1
            assert best.average == pytest.approx(short, abs=1e-12)
    assert found >= 10


@pytest.mark.parametrize("shape", [*SHAPES, (1, 1), (1, 4), (4, 1), (3, 2), (3, 16), (4, 10)])
def test_the_cycle_returns_to_where_it_began_and_earns_the_average(shape):
    for curves in small_problems(*shape, number=8):
        best = optimum.exact(curves)
        z_played, z_end = reference.path(best.z, best.cycle, shape[1] - 1)
        np.testing.assert_array_equal(z_end, best.z)
        assert best.average == pytest.approx(curves[best.cycle, z_played].mean(), abs=1e-13)
        assert best.period == len(best.cycle)
        assert best.average <= best.upper <= best.average + 1e-9


@pytest.mark.parametrize("shape", [*SHAPES, (1, 1), (1, 5), (4, 1), (5, 2), (4, 4)])
def test_recurrent_states_are_those_that_plays_lead_to(shape):
    num_arms, num_points = shape
    reached = {(0,) * num_arms}
    for _ in range(2 * num_points):  # after z_max rounds nothing is left of the start
        reached = {tuple(reference.step(z, arm, num_points - 1).tolist()) for z in reached for arm in range(num_arms)}
    codes = states.recurrent(num_arms, num_points)
    assert {tuple(z) for z in states.decode(codes, num_arms, num_points).tolist()} == reached
    assert states.count(num_arms, num_points) == len(codes) == len(reached)


# The best sequence of finitely many plays.


@pytest.mark.parametrize(
    ("shape", "horizon"), [((2, 3), 1), ((2, 3), 9), ((3, 4), 6), ((3, 2), 6), ((1, 3), 4), ((4, 5), 4)]
)
def test_the_best_sequence_is_that_of_enumeration(shape, horizon):
    rng = np.random.default_rng(0)
    for curves in small_problems(*shape, number=20):
        z = rng.integers(0, shape[1], shape[0])
        best = optimum.finite(curves, z, horizon)
        _, total = reference.best_sequence(curves, z, horizon, repeats=True)
        assert best.total == pytest.approx(total, abs=1e-12)
        assert best.total == pytest.approx(reference.leaf_mean(curves, z, best.arms), abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_long_sequences_approach_the_cycle_and_stay_below_the_certificate(float64, shape):
    curves, rng = small_problems(*shape), np.random.default_rng(1)
    bounds = dual_bounds(curves)
    for number in range(0, PER_SHAPE, 3):
        problem, bound = curves[number], jax.tree.map(lambda x, i=number: x[i], bounds)
        z = rng.integers(0, shape[1], shape[0])
        for horizon in (1, 2, 5, 17, 400):
            best = optimum.finite(problem, z, horizon)
            assert best.total == pytest.approx(reference.leaf_mean(problem, z, best.arms), abs=1e-10)
            assert best.total <= optimum.total_reward_bound(bound, z, horizon) + 1e-10
        assert best.total / horizon == pytest.approx(optimum.exact(problem).average, abs=0.1)


def test_a_certificate_by_hand():
    """Alternating two arms earns 1.3 in two rounds, the bound; a rested arm 0 first adds half of its worth."""
    curves = jnp.array([[0.0, 1.0, 1.0], [0.3, 0.3, 0.3]])
    bound = optimum.dual_bound(curves)
    np.testing.assert_allclose(optimum.total_reward_bound(bound, [0, 0], 100), 65.0, rtol=1e-6)
    np.testing.assert_allclose(optimum.total_reward_bound(bound, [1, 2], 101), 65.65 + 0.35, rtol=1e-6)
    assert optimum.finite(curves, [1, 2], 101).total == pytest.approx(51 * 1.0 + 50 * 0.3, abs=1e-5)  # it is attained


# Certificates of Monte Carlo runs.

K, Z_MAX = 3, 6


def drawn_curves(key):
    """Concave or monotone or neither or mostly negative, by turns."""
    numbers = jax.random.normal(key, (K + 1, Z_MAX + 1))
    rough, kind = numbers[:K], jnp.abs(numbers[K, 0])
    rising = jnp.cumsum(jnp.abs(rough) * 0.5 ** jnp.arange(Z_MAX + 1.0)[None, :], axis=1)
    kinds = [(kind < 0.3, rising), (kind < 0.7, jnp.cumsum(jnp.abs(rough), axis=1)), (kind < 1.2, rough)]
    return jnp.select(*zip(*kinds, strict=True), rough - 2.0)


POLICIES = {
    "greedy oracle": lambda: jb.policies.oracle(K, Z_MAX),
    "oracle, d = 5, replanned": lambda: jb.policies.oracle(K, Z_MAX, planner=jb.planners.subset(5), replan_every=1),
    "random": lambda: jb.policies.random(K),
    "round robin": lambda: jb.policies.round_robin(K),
    "1RGP-UCB": lambda: jb.policies.rgp_ucb(KERNEL, K, Z_MAX, 0.1),
    "2RGP-TS": lambda: jb.policies.rgp_ts(KERNEL, K, Z_MAX, 0.1, planner=jb.planners.subset(2)),
}
REPLICATIONS = 1700  # 10,200 in all


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_exceeds_its_certificate_in_any_replication(policy):
    problem = jb.Problem(drawn_curves, noise=0.1, z_init=[6, 0, 3])
    options = {"horizon": 40, "replications": REPLICATIONS}
    result = jb.monte_carlo(POLICIES[policy](), problem, **options, upper_bound=True)
    assert (result.bound_gap >= -1e-5 * options["horizon"]).all()
    np.testing.assert_array_equal(result.bound_gap, result.upper_bound - result.expected_reward)
    np.testing.assert_array_equal(result.bound_fraction, result.expected_reward / result.upper_bound)
    if policy == "oracle, d = 5, replanned":
        assert np.median(result.bound_fraction[result.upper_bound > 0]) > 0.9, "the certificate says little"


def test_the_certificate_is_that_of_each_replications_curves_and_leaves_totals_alone():
    policy, problem = jb.policies.round_robin(K), jb.Problem(drawn_curves, noise=0.1, z_init=[6, 0, 3])
    options = {"horizon": 30, "replications": 130, "seed": 5}
    asked = jb.monte_carlo(policy, problem, **options, upper_bound=True)
    usual = jb.monte_carlo(policy, problem, **options)
    for metric in ("total_reward", "expected_reward", "instantaneous_regret", "lookahead_regret", "plays"):
        np.testing.assert_array_equal(getattr(asked, metric), getattr(usual, metric))
    narrow = jb.monte_carlo(policy, problem, **options, upper_bound=True, batch_size=7, devices=jax.devices()[:1])
    np.testing.assert_array_equal(narrow.upper_bound, asked.upper_bound)

    def from_simulation(number):
        run = jb.simulate(policy, problem, jax.random.fold_in(jax.random.key(5), number), 30)
        return optimum.total_reward_bound(optimum.dual_bound(run.curves), problem.z_init, 30)

    np.testing.assert_allclose(
        asked.upper_bound, jit(jax.vmap(from_simulation))(np.arange(130, dtype=np.uint32)), rtol=1e-5
    )


def test_the_gap_is_never_below_the_regret_and_the_regret_never_below_zero():
    curves, z, horizon = small_problems(3, 5)[1], [4, 2, 0], 50
    problem = jb.Problem(curves, noise=0.1, z_init=z)
    best = optimum.finite(curves, z, horizon)
    result = jb.monte_carlo(jb.policies.random(3), problem, horizon=horizon, replications=20, upper_bound=True)
    shortfall = regret.full_horizon(result.expected_reward, best.total)
    assert (shortfall >= 0).all()
    assert (result.bound_gap >= shortfall).all()


def test_certificates_cost_nothing_unless_asked_for(monkeypatch):
    def refuse(curves):
        raise AssertionError("computed although nobody asked")

    monkeypatch.setattr(optimum, "dual_bound", refuse)
    policy, problem, options = (
        jb.policies.round_robin(2),
        jb.Problem(np.ones((2, 9))),
        {"horizon": 7, "replications": 2},
    )
    result = jb.monte_carlo(policy, problem, **options)
    assert result.upper_bound is None
    for name in ("bound_gap", "bound_fraction"):
        with pytest.raises(ValueError, match=r"call monte_carlo.*upper_bound=True"):
            getattr(result, name)
    with pytest.raises(AssertionError, match="nobody asked"):
        jb.monte_carlo(policy, problem, **options, upper_bound=True)


# What is refused.

CURVES = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimum.dual_bound(np.zeros(3)), "curves must have shape"),
        (lambda: optimum.dual_bound(np.zeros((0, 3))), "at least one arm"),
        (lambda: optimum.dual_bound([[0.0, np.nan]]), "curves must be finite, got nan"),
        (lambda: optimum.dual_bound_from(CURVES, np.inf), "price must be finite, got inf"),
        (lambda: optimum.dual_bound_from(CURVES, np.zeros(2)), "price must have shape"),
        (lambda: optimum.dual_bound_from(CURVES, 0.0, steps=0), "steps must be >= 1, got 0"),
        (lambda: optimum.total_reward_bound(optimum.dual_bound(CURVES), [0], 10), "z_init must have shape"),
        (lambda: optimum.total_reward_bound(optimum.dual_bound(CURVES), [0, 3], 10), "z_init must be in 0..2"),
        (lambda: optimum.exact(np.zeros(3)), "curves must have shape"),
        (lambda: optimum.exact([[np.inf]]), "curves must be finite"),
        (lambda: optimum.exact(np.zeros((10, 31))), r"\(31\^10\) have [\d,]+ recurrent states.*use optimum.dual_bound"),
        (lambda: optimum.exact(np.zeros((100, 2))), r"\(2\^100\).*use optimum.dual_bound"),
        (lambda: optimum.finite(CURVES, [0], 3), "z must have shape"),
        (lambda: optimum.finite(CURVES, [0, 3], 3), "z must be in 0..2"),
        (lambda: optimum.finite(CURVES, [0, 0], 0), "horizon must be >= 1, got 0"),
        (lambda: optimum.finite(np.zeros((10, 31)), [0] * 10, 30), "states in reach, the limit is"),
        (lambda: optimum.finite(np.zeros((3, 31)), [0] * 3, 10**6), "states in 1000000 rounds, the limit is"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
