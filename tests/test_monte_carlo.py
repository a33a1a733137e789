"""Monte Carlo totals are those of single replications, the same to the last bit however batched; sweeps compile once.

Beside it the statistics over replications (`summaries`) against NumPy.
"""

import sys
import tracemalloc
import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import jit
from scipy import stats

import jaxband as jb
from jaxband import registry, regret
from jaxband.planners import exhaustive
from jaxband.simulation import dispatch, layout, metrics, summaries

pytestmark = pytest.mark.as_users

module = sys.modules["jaxband.simulation.monte_carlo"]  # `jaxband.monte_carlo` itself is the function
METRICS = ("total_reward", "expected_reward", "instantaneous_regret", "lookahead_regret")
K, Z_MAX, NOISE, HORIZON = 3, 6, 0.3, 13
KERNEL = jb.kernels.SquaredExponential(2.0)
CURVES = np.random.default_rng(0).normal(size=(K, Z_MAX + 1))


def drawn_curves(key):
    return jax.random.uniform(key, (K, Z_MAX + 1))


def one_step_ucb():
    return jb.policies.rgp_ucb(KERNEL, K, Z_MAX, NOISE), jb.Problem(CURVES, NOISE)


def two_step_thompson():
    planner = exhaustive(2, repeats=False)
    return jb.policies.rgp_ts(KERNEL, K, Z_MAX, NOISE, planner=planner), jb.Problem(drawn_curves, NOISE)


CASES = {"1RGP-UCB, one problem": one_step_ucb, "2RGP-TS, a new problem each time": two_step_thompson}


def run(case, replications, devices=None, seed=7, **more):
    policy, problem = CASES[case]()
    options = {"horizon": HORIZON, "replications": replications, "seed": seed, **as_far_as(policy), **more}
    return jb.monte_carlo(policy, problem, **options, devices=devices and jax.devices()[:devices])


def as_far_as(policy):
    """Regret against sequences like the policy's own plans."""
    return {"lookahead": policy.depth, "repeats": policy.planner.repeats}


def totals_one_by_one(policy, problem, horizon, seed, replications):
    """The same metrics by `simulate` and `regret`, a vmap over replications."""
    repeats = policy.planner.repeats

    def replicate(number):
        run = jb.simulate(policy, problem, jax.random.fold_in(jax.random.key(seed), number), horizon)
        history = run.curves, run.z, run.arms
        return {
            "total_reward": run.rewards.sum(),
            "expected_reward": regret.expected(*history).sum(),
            "instantaneous_regret": regret.instantaneous(*history).sum(),
            "lookahead_regret": regret.lookahead(*history, policy.depth, repeats=repeats).sum(),
            "plays": (run.arms[:, None] == np.arange(K, dtype=np.int32)[None, :]).sum(axis=0),
        }

    return jit(jax.vmap(replicate))(np.arange(replications, dtype=np.uint32))


@pytest.mark.parametrize("case", CASES)
def test_totals_are_those_of_single_replications(case):
    result = run(case, 5, devices=1)
    expected = totals_one_by_one(*CASES[case](), HORIZON, 7, 5)
    for metric, values in expected.items():
        np.testing.assert_allclose(getattr(result, metric), values, rtol=1e-5, atol=1e-5, err_msg=metric)
    assert (result.plays.sum(axis=1) == HORIZON).all()


@pytest.mark.parametrize("case", CASES)
def test_totals_are_bitwise_the_same_on_any_number_of_devices_and_for_any_number_of_replications(case):
    assert len(jax.devices()) >= 3
    longest = run(case, 200, devices=3)
    assert len(set(longest.total_reward)) == 200, "replications must differ"
    for devices in (1, 2, 3):
        for replications in (1, 5, 64, 65, 130, 200):
            result = run(case, replications, devices)
            for metric in (*METRICS, "plays"):
                np.testing.assert_array_equal(getattr(result, metric), getattr(longest, metric)[:replications], metric)


def test_numbers_can_be_swept_without_compiling_again():
    run("1RGP-UCB, one problem", 5, devices=1)
    compiled, totals = dispatch._run_works._cache_size(), []
    for step in range(20):
        noise, scale = 0.1 + 0.02 * step, 0.1 * step
        policy = jb.policies.rgp_ucb(KERNEL, K, Z_MAX, noise, alpha_scale=scale)
        problem = jb.Problem(CURVES + 0.01 * step, noise, z_init=step % (Z_MAX + 1))
        result = jb.monte_carlo(policy, problem, horizon=HORIZON, replications=5, seed=step)
        assert result.compile_seconds == 0.0
        totals.append(result.total_reward[0])
    assert dispatch._run_works._cache_size() == compiled
    assert len(set(totals)) == 20


def test_bands_and_summary_agree_with_the_totals():
    result = run("2RGP-TS, a new problem each time", 65, devices=2)
    assert result.checkpoints.tolist() == [2, 4, 6, 8, 10, 12, 13]
    for metric, summary in result.summary().items():
        totals, band = getattr(result, metric), result.bands[metric]
        low, median, high = np.percentile(totals, [5, 50, 95])
        error = totals.std(ddof=1) / np.sqrt(65)
        np.testing.assert_allclose(summary, [totals.mean(), error, low, median, high], rtol=1e-12)
        last = [curve[-1] for curve in band]
        np.testing.assert_allclose(last, [totals.mean(), error, low, high], rtol=1e-12)
        assert all(curve.shape == (7,) for curve in band)
    regrets = result.bands["instantaneous_regret"].mean
    assert (np.diff(regrets) >= 0).all() and regrets[0] >= 0
    assert (result.horizon, result.lookahead, result.seed) == (HORIZON, 2, 7)


@pytest.mark.parametrize(
    ("horizon", "lookahead", "checkpoints"),
    [
        (1, 1, [1]),
        (1, 3, [1]),
        (64, 1, range(1, 65)),
        (65, 1, [*range(2, 65, 2), 65]),
        (150, 2, [*range(4, 150, 4), 150]),
        (129, 2, [*range(4, 129, 4), 129]),
        (10**6, 1, [*range(1024, 10**6, 1024), 10**6]),  # segments are at most so long: memory stays bounded
    ],
)
def test_checkpoints_are_whole_lookahead_blocks_and_end_at_the_horizon(horizon, lookahead, checkpoints):
    assert layout.make_layout(horizon, lookahead).checkpoints().tolist() == list(checkpoints)


def test_round_robin_by_hand():
    """Two arms in turn: each is played at rest 1, but for arm 0 in the first round."""
    problem, horizon = jb.Problem([[0.0, 1.0, 1.0], [0.25, 0.5, 0.5]], noise=0.0), 301
    result = jb.monte_carlo(jb.policies.round_robin(2), problem, horizon=horizon, replications=2, lookahead=2)
    earned = np.where(np.arange(horizon) % 2, 0.5, 1.0)
    earned[0] = 0.0
    assert result.total_reward.tolist() == result.expected_reward.tolist() == [earned.sum()] * 2
    assert result.plays.tolist() == [[151, 150]] * 2
    assert result.instantaneous_regret.tolist() == [0.25] * 2  # arm 1 was better in the first round, never again
    assert result.lookahead_regret.tolist() == [0.75] * 2  # arm 1 and then arm 0 would have earned 1.25 instead of 0.5
    np.testing.assert_array_equal(result.bands["total_reward"].mean, np.cumsum(earned)[result.checkpoints - 1])


def test_warm_up_beyond_the_horizon_only_plays_in_turn():
    policy = jb.policies.rgp_ucb(KERNEL, K, Z_MAX, NOISE, warm_up=20)
    result = jb.monte_carlo(policy, jb.Problem(CURVES, NOISE), horizon=8, replications=3)
    assert result.plays.tolist() == [[3, 3, 2]] * 3


def test_one_arm_one_rest_one_round_one_replication_on_the_last_device():
    policy, problem, last = jb.policies.oracle(1, 0), jb.Problem([[0.5]], 0.0), jax.devices()[-1:]
    result = jb.monte_carlo(policy, problem, horizon=1, replications=1, lookahead=3, devices=last)
    assert result.total_reward.tolist() == [0.5] and result.plays.tolist() == [[1]]
    assert result.instantaneous_regret.tolist() == result.lookahead_regret.tolist() == [0.0]
    assert np.isnan(result.summary()["total_reward"].standard_error)
    assert 0.0 < result.compile_seconds <= result.wall_seconds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": []}, "devices must name at least one device"),
        ({"replications": 0}, "replications must be between 1 and 4294967296, got 0"),
        ({"replications": 1.0}, "replications must be a whole number, got 1.0"),
        ({"seed": 2**32}, "seed must be between 0 and 4294967295, got 4294967296; JAX would take it modulo"),
        ({"seed": -1}, "seed must be between 0 and 4294967295, got -1"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"horizon": 0}, "horizon must be >= 1, got 0"),
        ({"horizon": True}, "horizon must be a whole number, got True"),
        ({"horizon": 10.0}, "horizon must be a whole number, got 10.0"),
        ({"lookahead": 4, "repeats": False}, "depth must be <= num_arms without repeats, got depth 4 and 3 arms"),
        ({"lookahead": 0}, "lookahead must be >= 1, got 0"),
        ({"batch_size": 1}, "batch_size must be >= 2, got 1; one lane alone"),
        ({"batch_size": 2.0}, "batch_size must be a whole number, got 2.0"),
        ({"policy": jb.policies.random(2)}, "policy has num_arms 2 but the problem has 3"),
        ({"policy": jb.policies.oracle(3, 2)}, "policy has z_max 2 but the problem has 6"),
    ],
)
def test_refusals(options, message):
    arguments = {"policy": jb.policies.random(K), "problem": jb.Problem(CURVES), "horizon": 5, "replications": 2}
    with pytest.raises((ValueError, TypeError), match=message):
        jb.monte_carlo(**(arguments | options))


# Statistics over replications.


def test_summary_of_one_replication_has_no_standard_error():
    summary = summaries.summarize(np.array([2.5], np.float32))
    assert np.isnan(summary.standard_error)
    assert (summary.mean, summary.p05, summary.median, summary.p95) == (2.5, 2.5, 2.5, 2.5)


@pytest.mark.parametrize("pieces", [[10], [1, 9], [3, 3, 4], [1] * 10])
def test_bands_added_in_pieces_are_those_of_the_whole(pieces):
    curves = 1e6 + np.random.default_rng(0).normal(size=(10, 4)).cumsum(axis=1)  # a large mean must not cost digits
    builder = summaries.TrajectoryStats()
    for piece in np.split(curves, np.cumsum(pieces)[:-1]):
        builder.add(piece)
    band = builder.band()
    np.testing.assert_allclose(band.mean, curves.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(band.standard_error, curves.std(axis=0, ddof=1) / np.sqrt(10), rtol=1e-8)
    np.testing.assert_array_equal([band.p05, band.p95], np.percentile(curves, [5, 95], axis=0))


def test_percentiles_of_bands_come_from_the_first_replications_and_means_from_all(monkeypatch):
    monkeypatch.setattr(summaries, "BAND_REPLICATIONS", 8)
    curves = np.random.default_rng(0).normal(size=(20, 3))
    builder = summaries.TrajectoryStats()
    for piece in np.split(curves, [5, 10, 15]):
        builder.add(piece)
    band = builder.band()
    np.testing.assert_allclose(band.mean, curves.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(band.standard_error, curves.std(axis=0, ddof=1) / np.sqrt(20), rtol=1e-12)
    np.testing.assert_array_equal([band.p05, band.p95], np.percentile(curves[:8], [5, 95], axis=0))


def test_band_of_one_replication():
    builder = summaries.TrajectoryStats()
    builder.add(np.array([[1.0, 3.0]]))
    band = builder.band()
    assert np.isnan(band.standard_error).all()
    np.testing.assert_array_equal([band.mean, band.p05, band.p95], [[1.0, 3.0]] * 3)


def test_bands_do_not_hold_on_to_curves_they_no_longer_need(monkeypatch):
    monkeypatch.setattr(summaries, "BAND_REPLICATIONS", 3)  # the second piece is kept in part, the third not at all
    builder, pieces = summaries.TrajectoryStats(), [np.full((2, 4), number) for number in (0.0, 1.0, 2.0)]
    released = [weakref.ref(piece) for piece in pieces]
    while pieces:
        builder.add(pieces.pop(0))
    assert released[1]() is None and released[2]() is None


def test_what_is_kept_of_a_replication_does_not_grow_with_its_segments(monkeypatch):
    """After the bands have what they need: a few totals and the plays, no views that keep segments alive."""
    monkeypatch.setattr(summaries, "BAND_REPLICATIONS", 0)
    sums = dict.fromkeys(METRICS, np.zeros((100, 50), np.float32))
    shape = layout.make_layout(50, 2, metrics.standard(idle=False) + (metrics.lookahead(2, True),))
    collector = module._Collector(shape)
    tracemalloc.start()
    for start in range(0, 2_000, 100):
        plays, fingerprint = np.zeros((100, K), np.int32), np.zeros(100, np.float32)
        collector.add(dispatch.Measured(start, start + 100, sums, plays, {}, fingerprint))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2 * 2_000 * (8 * (len(METRICS) + 1) + 4 * K)
    assert sum(len(part) for part in collector._parts["total lookahead_regret"]) == 2_000


def test_numbers_of_plans_can_be_watched(compiled_quickly):
    """Averaged over the rounds in which there is a plan: not the warm-up, not what is played beyond the horizon."""
    kernel = jb.kernels.SquaredExponential(2.0)
    policy = jb.policies.rgp_ts(kernel, 3, 5, 0.1, planner=jb.planners.optimistic(3, 9, "paper"), warm_up=2)
    problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, 3, 5), noise=0.1)
    options, watch = {"horizon": 50, "replications": 4, "seed": 3, "batch_size": 4}, ("tree_depth", "certified")
    result = jb.monte_carlo(policy, problem, **options, watch=watch)
    assert len(np.unique(result.watched["tree_depth"])) > 1

    @jit
    def watched(replication):
        key = jax.random.fold_in(jax.random.key(3), replication)
        return jb.simulate(policy, problem, key, 50, watch=watch).watched

    for r in range(4):
        for name, values in watched(r).items():
            assert np.isnan(values[:2]).all() and np.isfinite(values[2:]).all()
            np.testing.assert_allclose(result.watched[name][r], np.mean(np.asarray(values[2:], float)), rtol=1e-6)
    assert jb.monte_carlo(policy, problem, **options).watched == {}


def test_only_numbers_of_plans_can_be_watched():
    problem = jb.Problem(np.zeros((2, 3)), noise=0.1)
    message = r"watch must name numbers that Oracle.describe gives, got 'arms'; there are value, certified\b"
    with pytest.raises(ValueError, match=message):
        jb.monte_carlo(jb.policies.oracle(2, 2), problem, horizon=5, replications=2, watch=("arms",))
    with pytest.raises(ValueError, match=r"RoundRobin.describe gives, got 'value'; it describes nothing"):
        jb.monte_carlo(jb.policies.round_robin(2), problem, horizon=5, replications=2, watch=("value",))


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_totals_do_not_depend_on_how_many_batches_a_dispatch_runs(monkeypatch, devices):
    """Seven batches, the last one padded: in one dispatch, or in dispatches of one or two batches per device."""
    case, replications = "1RGP-UCB, one problem", 6 * layout.CPU_BATCH + 5
    whole = run(case, replications, devices=1)
    for batches in (1, 2):
        monkeypatch.setattr(layout, "ROUNDS_PER_DISPATCH", batches * layout.CPU_BATCH * HORIZON)
        parts = run(case, replications, devices=devices)
        assert parts.bands.keys() == whole.bands.keys() == set(metrics.STANDARD)
        for metric in metrics.STANDARD:
            np.testing.assert_array_equal(getattr(parts, metric), getattr(whole, metric))
            np.testing.assert_allclose(parts.bands[metric].mean, whole.bands[metric].mean, rtol=1e-12)
        np.testing.assert_array_equal(parts.plays, whole.plays)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("batch_size", [2, 7, 40])
def test_totals_are_bitwise_the_same_for_any_batch_size_and_with_a_progress_bar(case, batch_size):
    usual, other = run(case, 45), run(case, 45, batch_size=batch_size, progress=True)
    for metric in (*METRICS, "plays"):
        np.testing.assert_array_equal(getattr(other, metric), getattr(usual, metric), metric)


def test_default_batches_are_narrower_for_many_arms():
    cpu = jax.devices("cpu")[0]
    assert layout.default_batch_size(cpu, 10) == layout.CPU_BATCH > layout.default_batch_size(cpu, 100)
    gpu = types.SimpleNamespace(platform="gpu")
    assert layout.default_batch_size(gpu, 10) == 16_384 > layout.default_batch_size(gpu, 100)


def test_without_lookahead_the_regret_is_instantaneous():
    """One step ahead is the default, whatever the policy's own depth."""
    policy, problem = two_step_thompson()
    result = jb.monte_carlo(policy, problem, horizon=HORIZON, replications=5, seed=7)
    assert result.lookahead == 1 and set(result.totals) == set(result.bands) == set(metrics.STANDARD)
    np.testing.assert_array_equal(result.lookahead_regret, result.instantaneous_regret)


def last_reward_squared(curves, rounds):
    """Of the last round that counts in each stretch: one number per stretch."""
    return jnp.sum(jnp.where(rounds.counted & (rounds.t == HORIZON - 1), rounds.rewards**2, 0.0))


def plays_at_rest_0(curves, rounds):
    return jnp.take_along_axis(rounds.z, rounds.arms[:, None], axis=1)[:, 0] == 0


def test_metrics_of_ones_own_are_measured_too(compiled_quickly):
    """A number per round, or one per stretch of rounds; against `simulate`."""
    for metric in (last_reward_squared, plays_at_rest_0):
        jb.register("metric", metric)
    try:
        policy, problem = jb.policies.random(K), jb.Problem(CURVES, NOISE)
        names = ("last_reward_squared", "plays_at_rest_0")
        result = jb.monte_carlo(policy, problem, horizon=HORIZON, replications=6, seed=7, metrics=names)
    finally:
        for name in names:
            registry.unregister("metric", name)
    for r in range(6):
        alone = jb.simulate(policy, problem, jax.random.fold_in(jax.random.key(7), r), HORIZON)
        z_played = alone.z[np.arange(HORIZON), alone.arms]
        assert result.totals["last_reward_squared"][r] == pytest.approx(float(alone.rewards[-1]) ** 2, rel=1e-4)
        assert result.totals["plays_at_rest_0"][r] == float((z_played == 0).sum())
    assert result.summary()["plays_at_rest_0"].mean == result.bands["plays_at_rest_0"].mean[-1]
    for name in ("total_reward", "lookahead_regret", "bound_gap"):
        with pytest.raises(ValueError, match="metrics must name further metrics"):
            jb.monte_carlo(policy, problem, horizon=5, replications=2, metrics=(name,))
    with pytest.raises(ValueError, match=r"metric must be one of .*; got 'regrets'"):
        jb.monte_carlo(policy, problem, horizon=5, replications=2, metrics=("regrets",))


def test_policies_are_compared_in_pairs(compiled_quickly):
    """The mean of the differences with Student's interval; other seeds, curves or metrics are refused."""
    problem, options = jb.Problem(drawn_curves, NOISE), {"horizon": HORIZON, "replications": 20, "seed": 7}
    greedy = jb.monte_carlo(jb.policies.oracle(K, Z_MAX), problem, **options)
    blind = jb.monte_carlo(jb.policies.round_robin(K), problem, **options)
    found = jb.compare(greedy, blind, "expected_reward", confidence=0.9)
    difference = greedy.expected_reward - blind.expected_reward
    interval = stats.ttest_1samp(difference, 0.0).confidence_interval(0.9)
    assert (found.metric, found.replications) == ("expected_reward", 20)
    np.testing.assert_allclose((found.difference, found.low, found.high), (difference.mean(), *interval), rtol=1e-9)
    other_seed = jb.monte_carlo(jb.policies.round_robin(K), problem, **(options | {"seed": 8}))
    other_curves = jb.monte_carlo(jb.policies.round_robin(K), jb.Problem(CURVES, NOISE), **options)
    for other, message in [(other_seed, "got seed 7 and 8"), (other_curves, "got different curves")]:
        with pytest.raises(ValueError, match=f"must have met the same curves and noise, {message}"):
            jb.compare(greedy, other)
    with pytest.raises(ValueError, match="metric must be one that both results have, got 'bound_gap'"):
        jb.compare(greedy, blind, "bound_gap")


def test_problems_that_have_no_bound_and_no_lookahead_regret_say_so():
    several = jb.policies.from_functions(len, len, len, K, plays=2), jb.Problem(CURVES, NOISE, plays=2)
    masked = jb.policies.random(K), jb.Problem(CURVES, NOISE, available=[0.5] * K)
    for policy, problem in (several, masked):
        with pytest.raises(ValueError, match="upper_bound must be False for problems with several plays"):
            jb.monte_carlo(policy, problem, horizon=5, replications=2, upper_bound=True)
        with pytest.raises(ValueError, match=r"lookahead must be 1 for problems with several plays.* got 2"):
            jb.monte_carlo(policy, problem, horizon=5, replications=2, lookahead=2)


def test_monte_carlo_is_not_for_use_inside_jit():
    def earned(noise):
        return jb.monte_carlo(jb.policies.random(K), jb.Problem(CURVES, noise), horizon=2, replications=2).total_reward

    with pytest.raises(
        TypeError, match=r"monte_carlo must be called outside of jit and vmap; inside, use jb\.simulate"
    ):
        jax.jit(earned)(0.1)


def test_a_problem_defined_again_compiles_nothing():
    """As when a notebook cell is run again; also another family of the same shape finds the simulation compiled."""

    def play(curves):
        return jb.monte_carlo(jb.policies.round_robin(K), jb.Problem(curves, NOISE), horizon=HORIZON, replications=4)

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    play(lambda key: 0.37 * jax.random.uniform(key, (K, Z_MAX + 1)))
    before, programs = len(compiled), dispatch._run_works._cache_size()
    assert before > 0
    play(lambda key: 0.37 * jax.random.uniform(key, (K, Z_MAX + 1)))
    assert len(compiled) == before
    play(CURVES)
    assert dispatch._run_works._cache_size() == programs
