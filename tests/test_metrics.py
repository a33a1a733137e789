"""What is measured of a run, and what can be done with it: own metrics, paired comparisons, tables, text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxband as jb
from jaxband import registry
from jaxband.simulation.metrics import Stretch
from jaxband.simulation.upper_bounds import upper_bounds

K, Z_MAX, HORIZON = 3, 4, 37
PROBLEM = jb.Problem(lambda key: jax.random.uniform(key, (K, Z_MAX + 1)), noise=0.2)
OPTIONS = {"horizon": HORIZON, "replications": 9, "seed": 3}


@pytest.fixture(scope="module")
def results():
    """Two policies on the same curves and noise, with the bound."""
    return [
        jb.monte_carlo(policy, PROBLEM, **OPTIONS, upper_bound=True)
        for policy in (jb.policies.random(K), jb.policies.round_robin(K))
    ]


@pytest.fixture
def plays_of_arm_1():
    """A user's own metric: a number per round."""

    @jb.register("metric", name="plays_of_arm_1", label="plays of arm 1")
    def measure(curves, rounds):
        return rounds.arms == 1

    yield measure
    registry.unregister("metric", "plays_of_arm_1")


def test_standard_metrics_are_those_of_single_runs(results):
    """Replication by replication against `simulate` and a loop over its rounds; the horizon cuts a segment short."""
    for r in range(3):
        key = jax.random.fold_in(jax.random.key(3), r)
        run = jax.device_get(jb.simulate(jb.policies.random(K), PROBLEM, key, HORIZON))
        expected = [run.curves[arm, z[arm]] for arm, z in zip(run.arms, run.z, strict=True)]
        best = [max(run.curves[np.arange(K), z]) for z in run.z]
        assert results[0].total_reward[r] == pytest.approx(run.rewards.sum(), abs=1e-4)
        assert results[0].expected_reward[r] == pytest.approx(np.sum(expected), abs=1e-4)
        assert results[0].instantaneous_regret[r] == pytest.approx(np.sum(best) - np.sum(expected), abs=1e-4)
        bound = jb.optimum.total_reward_bound(jb.optimum.dual_bound(run.curves), np.zeros(K, int), HORIZON)
        assert results[0].upper_bound[r] == pytest.approx(float(bound), rel=1e-5)
    np.testing.assert_allclose(results[0].bound_gap, results[0].upper_bound - results[0].expected_reward)
    np.testing.assert_allclose(results[0].bound_fraction, results[0].expected_reward / results[0].upper_bound)
    assert (results[0].bound_gap > 0).all()


def test_the_bound_belongs_to_the_curves_not_to_the_policy(results):
    np.testing.assert_array_equal(results[0].upper_bound, results[1].upper_bound)
    some = upper_bounds(PROBLEM, 3, 4, 7)
    np.testing.assert_array_equal(some.at(HORIZON), results[0].upper_bound[4:7])


def test_a_metric_of_ones_own_is_added_up_over_the_horizon(plays_of_arm_1):
    result = jb.monte_carlo(jb.policies.random(K), PROBLEM, **OPTIONS, metrics=["plays_of_arm_1"])
    np.testing.assert_array_equal(result.totals["plays_of_arm_1"], result.plays[:, 1])
    assert result.bands["plays_of_arm_1"].mean[-1] == pytest.approx(result.plays[:, 1].mean())


def test_metrics_that_cannot_be_are_refused():
    call = lambda **options: jb.monte_carlo(jb.policies.random(K), PROBLEM, **OPTIONS, **options)  # noqa: E731
    with pytest.raises(ValueError, match=r"metric must be one of .*; got 'plays_of_arm_2'"):
        call(metrics=["plays_of_arm_2"])
    with pytest.raises(ValueError, match="metrics must name further metrics, got 'bound_gap'"):
        call(metrics=["bound_gap"])
    jb.register("metric", lambda curves, rounds: curves, name="wrong_shape")
    try:
        with pytest.raises(ValueError, match=r"metric 'wrong_shape' must return one number, or one per round"):
            call(metrics=["wrong_shape"])
    finally:
        registry.unregister("metric", "wrong_shape")
    with pytest.raises(ValueError, match="lookahead must be >= 1"):
        call(lookahead=0)


def test_rounds_beyond_the_horizon_count_nothing():
    stretch = Stretch(
        t=jnp.arange(4),
        z=jnp.zeros((4, K), jnp.int32),
        available=None,
        arms=jnp.array([0, 1, 2, 0]),
        rewards=jnp.array([1.0, 2.0, 4.0, 8.0]),
        counted=jnp.array([True, True, False, False]),
    )
    from jaxband.simulation.metrics import standard

    total = next(metric for metric in standard(idle=False) if metric.name == "total_reward")
    assert total.measure(jnp.zeros((K, 2)), stretch) == 3.0


def test_compare_is_the_paired_t_interval(results):
    ours = jb.compare(*results)
    difference = results[0].total_reward - results[1].total_reward
    interval = scipy.stats.ttest_1samp(difference, 0.0).confidence_interval(0.95)
    assert ours.difference == pytest.approx(difference.mean()) and ours.replications == 9
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high))
    gap, reward = (jb.compare(*results, metric).difference for metric in ("bound_gap", "expected_reward"))
    assert gap == pytest.approx(-reward)


def test_compare_refuses_what_did_not_meet_the_same_curves_and_noise(results):
    first, policy = results[0], jb.policies.random(K)
    other_curves = jb.Problem(lambda key: 1.0 - jax.random.uniform(key, (K, Z_MAX + 1)), noise=0.2)
    cases = [
        (jb.monte_carlo(policy, PROBLEM, **OPTIONS | {"seed": 4}), "got seed 3 and 4"),
        (jb.monte_carlo(policy, PROBLEM, **OPTIONS | {"horizon": 36}), "got horizon 37 and 36"),
        (jb.monte_carlo(policy, jb.Problem(PROBLEM.curves, noise=0.3), **OPTIONS), "got noise"),
        (jb.monte_carlo(policy, other_curves, **OPTIONS), "got different curves"),
    ]
    for second, message in cases:
        with pytest.raises(ValueError, match=message):
            jb.compare(first, second)
    with pytest.raises(ValueError, match="metric must be one that both results have, got 'regret'"):
        jb.compare(*results, "regret")
    with pytest.raises(TypeError, match="first must be what monte_carlo returns"):
        jb.compare(1.0, first)


def test_results_as_tables_and_text(results):
    pytest.importorskip("xarray", reason="pip install 'jaxband[results]'")
    result = results[0]
    frame, data = result.to_pandas(), result.to_xarray()
    np.testing.assert_array_equal(frame["total_reward"], result.total_reward)
    np.testing.assert_array_equal(frame[["plays_0", "plays_1", "plays_2"]], result.plays)
    np.testing.assert_array_equal(data["bound_fraction"], result.bound_fraction)
    np.testing.assert_array_equal(data["plays"].sel(arm=1), result.plays[:, 1])
    np.testing.assert_array_equal(data["total_reward_mean"], result.bands["total_reward"].mean)
    assert data.attrs["policy"] == "Random" and data["rounds"][-1] == HORIZON
    text = repr(result)
    assert (
        text.startswith("Random: 9 replications of 37 rounds, seed 3") and f"{result.total_reward.mean():.1f}" in text
    )


def test_recommended_runs_with_default_arguments():
    policy = jb.policies.recommended(jb.kernels.SquaredExponential(2.0), K, Z_MAX, 0.2)
    result = jb.monte_carlo(policy, PROBLEM, horizon=4, replications=2)
    np.testing.assert_array_equal(result.lookahead_regret, result.instantaneous_regret)


def test_monte_carlo_inside_jit_says_what_to_use():
    with pytest.raises(TypeError, match=r"outside of jit and vmap; inside, use jb\.simulate"):
        jax.jit(lambda noise: jb.monte_carlo(jb.policies.random(K), jb.Problem(jnp.ones((K, 2)), noise), **OPTIONS))(
            0.1
        )
