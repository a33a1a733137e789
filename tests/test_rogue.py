"""RogueUCB-Tuned against SciPy's SLSQP from many starts, written from the definition in plain NumPy."""

import functools
import itertools

import jax
import numpy as np
import pytest
from quick import jit
from scipy import optimize

import jaxband as jb
from jaxband import Round
from jaxband.policies.rogue import search
from jaxband.policies.rogue.policy import RogueState
from jaxband.policies.warm_up import WarmUp

pytestmark = pytest.mark.usefixtures("compiled_quickly")
NOISE, Z_MAX = 0.1, 30
REST = np.arange(Z_MAX + 1)
BOUNDS = {
    "logistic": [(0.1, 1.0), (0.1, 1.0), (0.1, 30.0)],
    "gamma": [(0.1, 30.0), (0.1, 0.8), (0.1, 1.0)],
    "exponential": [(0.1, 1.0), (0.01, 2.0), (0.0, 2.0)],
}


def curve(family, theta):
    """f(θ, ·) [G]."""
    a, b, c = theta
    if family == "logistic":
        return a / (1.0 + np.exp(-b * (REST - c)))
    if family == "exponential":
        return a * (1.0 - np.exp(-b * REST - c))
    w = 31.0 - REST
    return c * (w * b / a) ** a * np.exp(a - b * w)


def slopes(family, theta):
    """∂f/∂θ [G, 3], by central differences."""
    steps = 1e-6 * scale(family)
    return np.stack(
        [(curve(family, theta + step) - curve(family, theta - step)) / (2 * step.sum()) for step in np.diag(steps)],
        axis=1,
    )


def scale(family):
    """The sides of the box of θ."""
    return np.array([high - low for low, high in BOUNDS[family]])


def information(family, fit, counts, sums):
    """Observed, in θ as shares of its box: the Hessian of −log L, or Fisher's where that is not positive definite."""
    seen = counts > 0
    averages = np.where(seen, sums / np.maximum(counts, 1), 0.0)
    gradients = scale(family) * slopes(family, fit)
    fisher = (gradients.T * counts) @ gradients / NOISE**2
    left = counts * (curve(family, fit) - averages) / NOISE**2
    steps = 1e-4 * np.diag(scale(family))
    bends = np.zeros((3, 3))
    for i, j in itertools.product(range(3), repeat=2):
        corners = [a * b * curve(family, fit + a * steps[i] + b * steps[j]) for a in (1, -1) for b in (1, -1)]
        bends[i, j] = left @ sum(corners) / 4e-8
    observed = fisher + bends
    if not positive_definite(observed):
        observed = fisher
    return observed + (search.RIDGE * np.trace(observed) / 3 + 1e-12) * np.eye(3)


def positive_definite(matrix):
    """Are all pivots of elimination above rounding?"""
    for i in range(len(matrix)):
        rest = matrix[:i, :i]
        pivot = matrix[i, i] - (matrix[i, :i] @ np.linalg.solve(rest, matrix[:i, i]) if i else 0.0)
        if not pivot > 1e-5 * abs(matrix[i, i]):
            return False
    return True


def room(family, theta, fit, counts, t, known):
    """ln t · N · min(η/4, S) − q²: θ is admissible if this is not negative."""
    difference = curve(family, theta) - curve(family, fit)
    q = 0.5 * np.sum(counts * difference**2) / NOISE**2
    gradient = scale(family) * (slopes(family, theta).T @ (counts * difference)) / NOISE**2
    plays = counts.sum()
    spread = gradient @ np.linalg.solve(known, gradient) / plays**2
    return np.log(t) * plays * min(0.125 / NOISE**2, spread) - q**2


def best_by_slsqp(family, fit, counts, z, t, known, starts):
    """The largest admissible f(θ, z) that SLSQP finds."""
    best = curve(family, fit)[z]
    constraint = {"type": "ineq", "fun": lambda theta: room(family, theta, fit, counts, t, known)}
    for start in (fit, *starts):
        found = optimize.minimize(
            lambda theta: -curve(family, theta)[z],
            start,
            method="SLSQP",
            bounds=BOUNDS[family],
            constraints=[constraint],
        )
        theta = np.clip(found.x, *np.array(BOUNDS[family]).T)
        if np.isfinite(theta).all() and room(family, theta, fit, counts, t, known) >= 0.0:
            best = max(best, curve(family, theta)[z])
    return best


def random_histories(family, number, seed=0):
    """Counts and sums [n, G], rests [n] and rounds [n]."""
    rng = np.random.default_rng([seed, len(family)])
    low, high = np.array(BOUNDS[family]).T
    counts, sums, rests, rounds = [], [], [], []
    for i in range(number):
        plays = (1, 2, 4, 10, 30, 100, 300)[i % 7]
        typical = rng.integers(0, Z_MAX + 1, 3)  # an arm is mostly played at a few rests
        z = np.where(rng.random(plays) < 0.7, rng.choice(typical, plays), rng.integers(0, Z_MAX + 1, plays))
        truth = curve(family, rng.uniform(low, high))
        rewards = truth[z] + NOISE * rng.normal(size=plays)
        counts.append(np.bincount(z, minlength=Z_MAX + 1).astype(float))
        sums.append(np.bincount(z, rewards, minlength=Z_MAX + 1))
        rests.append(rng.integers(0, Z_MAX + 1))
        rounds.append(rng.integers(plays + 10, 1001))
    return np.array(counts), np.array(sums), np.array(rests, np.int32), np.array(rounds, np.int32)


@functools.cache
def solver(family):
    """Histories [n, G], rests [n] and rounds [n] -> states of a policy of one arm, its optimistic x and index."""
    policy = jb.policies.rogue_ucb_tuned(family, 1, Z_MAX, NOISE, warm_up=0)

    def solve(counts, sums, z, t):
        x = policy.fit(counts, sums, np.full(3, 0.5, counts.dtype))
        known = policy._information(counts, sums, x)
        log_t = jax.numpy.log(t.astype(counts.dtype))
        heights = policy.admissible_heights(policy._fitted(counts, x, known), log_t[None])
        arm = (counts[None], sums[None], x[None], known[None], log_t[None], jax.numpy.stack([heights, heights]))
        most, index = policy.optimistic_parameters(RogueState(*arm), z[None], t - 1)
        return RogueState(*arm), most[0], index[0]

    return jit(jax.vmap(solve))


@functools.cache
def solved(family, number):
    """Our fits [n, 3] and optimistic parameters [n, 3] (as θ), and indices [n], of random histories."""
    counts, sums, z, t = random_histories(family, number)
    state, most, index = solver(family)(np.float32(counts), np.float32(sums), z, t)
    low, high = np.array(BOUNDS[family]).T
    fits, best = (low + np.asarray(place, float) * (high - low) for place in (state.best_fit[:, 0], most))
    return fits, best, np.asarray(index, float)


FAMILIES = ["logistic", "gamma", pytest.param("exponential", marks=pytest.mark.slow)]


@pytest.mark.parametrize("family", FAMILIES)
def test_fits_are_as_good_as_scipys(family, number=21):
    counts, sums, _, _ = random_histories(family, number)
    ours, _, _ = solved(family, number)
    rng = np.random.default_rng(1)
    low, high = np.array(BOUNDS[family]).T
    for n, total, theta in zip(counts, sums, ours, strict=True):
        seen = n > 0
        average = total[seen] / n[seen]

        def residuals(theta, seen=seen, plays=n[seen], average=average):
            return np.sqrt(plays) * (curve(family, theta)[seen] - average)

        fits = [optimize.least_squares(residuals, rng.uniform(low, high), bounds=(low, high)) for _ in range(6)]
        likelihoods = min(fit.cost for fit in fits) / NOISE**2, 0.5 * np.sum(residuals(theta) ** 2) / NOISE**2
        assert likelihoods[1] <= likelihoods[0] + 0.1  # a likelihood ratio of 1.1


@pytest.mark.parametrize("family", FAMILIES)
def test_indices_against_slsqp_from_many_starts(family, number=21):
    """The admissible set falls into pieces: SLSQP often misses the best one."""
    counts, sums, z, t = random_histories(family, number)
    fits, _, indices = solved(family, number)
    rng = np.random.default_rng(2)
    low, high = np.array(BOUNDS[family]).T
    ahead = []
    for n, total, fit, rest, rounds, index in zip(counts, sums, fits, z, t, indices, strict=True):
        known = information(family, fit, n, total)
        ahead.append(index - best_by_slsqp(family, fit, n, rest, rounds, known, rng.uniform(low, high, (6, 3))))
    ahead = np.array(ahead)
    assert np.min(ahead) >= -1e-3
    assert np.mean(ahead) > 0.0


def test_thin_admissible_pieces_are_found(history=11, number=21):
    """One between two of the ten heights that plans try for each shape: an admissible θ there is not better."""
    counts, sums, z, t = random_histories("logistic", number)
    fits, _, indices = solved("logistic", number)
    fit, plays, inside = fits[history], counts[history], np.array([0.3957, 1.0, 14.0944])
    known = information("logistic", fit, plays, sums[history])
    assert room("logistic", inside, fit, plays, t[history], known) > 0.0
    assert indices[history] >= curve("logistic", inside)[z[history]]


@pytest.mark.parametrize("family", FAMILIES)
def test_indices_are_attained_by_admissible_parameters(family, number=21):
    """The θ found is within its bounds, satisfies the constraint to float32, and gives the index."""
    counts, sums, z, t = random_histories(family, number)
    fits, best, indices = solved(family, number)
    low, high = np.array(BOUNDS[family]).T
    assert (best >= low - 1e-5).all() and (best <= high + 1e-5).all()
    for i in range(number):
        assert curve(family, best[i])[z[i]] == pytest.approx(indices[i], abs=1e-4)
        assert indices[i] >= curve(family, fits[i])[z[i]] - 1e-4
        difference = curve(family, best[i]) - curve(family, fits[i])
        q = 0.5 * np.sum(counts[i] * difference**2) / NOISE**2
        known = information(family, fits[i], counts[i], sums[i])
        assert room(family, best[i], fits[i], counts[i], t[i], known) >= -0.02 * q**2 - 1e-6


@pytest.mark.parametrize(("family", "tolerance"), [("logistic", 2e-4), ("gamma", 2e-3)])
def test_choices_are_nearly_the_best_arm_by_the_thorough_indices(family, tolerance, number=21, repeats=3):
    """Of two arms whose data differ by noise alone; a table of 36 points loses 5e-4 and 5e-3 on average."""
    policy = jb.policies.rogue_ucb_tuned(family, 2, Z_MAX, NOISE, warm_up=0)
    choose = jit(jax.vmap(lambda state, z, t: policy.choose(None, state, Round(t, z))[0]))
    rng = np.random.default_rng(4)
    losses = []
    for seed in range(repeats):
        counts, sums, z, t = random_histories(family, number, seed)
        others = sums + NOISE * np.sqrt(counts) * rng.normal(size=counts.shape)
        (one, _, first), (two, _, second) = (
            solver(family)(np.float32(counts), np.float32(data), z, t) for data in (sums, others)
        )
        state = RogueState(
            *(np.concatenate(pair, axis=1) for pair in zip(one[:-1], two[:-1], strict=True)),
            np.concatenate([one.heights, two.heights], axis=2),
        )
        chosen = np.asarray(choose(state, np.stack([z, z], axis=1), t - 1))
        indices = np.stack([first, second], axis=1)
        losses.extend(indices.max(axis=1) - np.take_along_axis(indices, chosen[:, None], axis=1)[:, 0])
    assert np.mean(losses) < tolerance


def test_an_arm_never_played_is_as_good_as_can_be():
    policy = jb.policies.rogue_ucb_tuned("logistic", 3, Z_MAX, NOISE, warm_up=0)
    state = policy.init(jax.random.key(0))
    indices = jit(policy.indices)(state, np.full(3, 30, np.int32), 5)
    np.testing.assert_allclose(indices, 1.0, atol=1e-3)


def test_every_arm_is_played_once_before_the_first_index_unless_told_otherwise():
    usual = jb.policies.rogue_ucb_tuned("logistic", 3, Z_MAX, NOISE)
    assert isinstance(usual, WarmUp) and usual.rounds == 3 and usual.num_arms == 3 and usual.z_max == Z_MAX
    assert jb.policies.rogue_ucb_tuned("logistic", 3, Z_MAX, NOISE, warm_up=8).rounds == 8
    assert not isinstance(jb.policies.rogue_ucb_tuned("logistic", 3, Z_MAX, NOISE, warm_up=0), WarmUp)


def test_more_rounds_admit_more():
    policy = jb.policies.rogue_ucb_tuned("gamma", 2, Z_MAX, NOISE, warm_up=0)
    update, indices = jit(policy.update), jit(policy.indices)
    state = policy.init(jax.random.key(0))
    for arm, z, reward in [(0, 3, 0.3), (1, 9, 0.1), (0, 20, 0.6), (0, 12, 0.5), (1, 25, 0.2)]:
        state = update(state, Round(0, np.full(2, z, np.int32)), arm, np.float32(reward))
    z = np.array([15, 28], np.int32)
    values = np.stack([indices(state, z, t) for t in (5, 10, 100, 1000, 10**6)])
    assert (np.diff(values, axis=0) >= -2e-3).all() and (values[-1, 0] > values[0, 0])


@pytest.mark.parametrize(("family", "amplitude"), [("logistic", 0), ("gamma", 2), ("exponential", 0)])
def test_the_height_of_a_family_is_found(family, amplitude):
    assert jb.recovery.FAMILIES[family](Z_MAX).amplitude_index == amplitude


def test_a_family_of_ones_own_without_a_height():
    """f(z) = 1 − (1 − θ0)·θ1^z is proportional to neither parameter."""
    family = jb.recovery.ParametricFamily(
        lambda theta, z: 1.0 - (1.0 - theta[0]) * theta[1] ** z, ((0.0, 0.9), (0.5, 0.95))
    )
    assert family.amplitude_index is None
    curves = np.stack([1.0 - (1.0 - a) * b ** np.arange(11) for a, b in ((0.2, 0.6), (0.5, 0.9), (0.0, 0.8))])
    problem = jb.Problem(curves, noise=NOISE)
    played = jb.monte_carlo(
        jb.policies.rogue_ucb_tuned(family, 3, 10, NOISE), problem, horizon=100, replications=8, batch_size=8
    )
    oracle = jb.monte_carlo(jb.policies.oracle(3, 10), problem, horizon=100, replications=8, batch_size=8)
    assert played.expected_reward.mean() > 0.93 * oracle.expected_reward.mean()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"family": "weibull"}, "family must be one of"),
        ({"family": 3}, "family must be a recovery.ParametricFamily"),
        ({"noise": 0.0}, "noise must be > 0"),
        ({"largest_divergence": -1.0}, "largest_divergence must be > 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    good = {"family": "logistic", "num_arms": 3, "z_max": 5, "noise": 0.1}
    with pytest.raises((ValueError, TypeError), match=message):
        jb.policies.rogue_ucb_tuned(**(good | arguments))
