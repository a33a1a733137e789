"""The reference against tables small enough to check by hand."""

import math

import numpy as np
import pytest
import reference
from reference import (
    alpha,
    best_sequence,
    best_ucb_sequence,
    dense_posterior,
    gamma,
    gram,
    instantaneous_regret,
    leaf_mean,
    leaf_moments,
    logistic,
    lookahead_regret,
    path,
    run_rgp_ts,
    run_rgp_ucb,
    run_ucb_z,
    sequences,
    step,
    ucb_values,
    ucb_z_index,
)

TWO_ARMS = np.array([[0.0, 1.0], [0.4, 0.4]])  # z_max = 1


@pytest.mark.parametrize(
    ("kernel", "options", "expected"),
    [
        ("squared_exponential", {"lengthscale": 1.0}, math.exp(-2.0)),
        ("squared_exponential", {"lengthscale": 2.0, "variance": 3.0}, 3.0 * math.exp(-0.5)),
        ("matern", {"nu": 0.5, "lengthscale": 2.0}, math.exp(-1.0)),
        ("matern", {"nu": 1.5, "lengthscale": 2 * 3**0.5}, 2.0 * math.exp(-1.0)),
        ("matern", {"nu": 2.5, "lengthscale": 2 * 5**0.5}, (7 / 3) * math.exp(-1.0)),
        ("linear", {"variance": 2.0, "offset": 2.0}, -2.0),
        ("periodic", {"period": 4.0, "lengthscale": 1.0}, math.exp(-2.0)),
        ("periodic", {"period": 2.0, "lengthscale": 1.0}, 1.0),
        ("constant", {"variance": 5.0}, 5.0),
    ],
)
def test_kernel_at_one_and_three(kernel, options, expected):
    value = getattr(reference, kernel)(1.0, 3.0, **options)
    assert value == pytest.approx(expected, rel=1e-14)


def test_gram_is_the_table_of_the_kernel():
    np.testing.assert_array_equal(gram(reference.linear, 2), [[0, 0, 0], [0, 1, 2], [0, 2, 4]])


def test_logistic_is_half_its_height_at_the_midpoint():
    curves = logistic([[0.8, 0.5, 10.0]], 30)
    assert curves.shape == (1, 31)
    assert curves[0, 10] == pytest.approx(0.4)
    assert curves[0, 12] == pytest.approx(0.8 / (1 + math.exp(-1.0)))


def test_gamma_peaks_at_31_minus_exponent_over_rate():
    curves = gamma([[6.0, 0.5, 0.7], [5.0, 0.25, 0.2]], 30)
    assert list(curves.argmax(axis=1)) == [31 - 12, 31 - 20]
    np.testing.assert_allclose(curves.max(axis=1), [0.7, 0.2], rtol=1e-14)
    # One step of w from the peak at 12 to 11: (11/12)^6 e^(1/2).
    assert curves[0, 20] / curves[0, 19] == pytest.approx((11 / 12) ** 6 * math.exp(0.5))


def test_step_resets_the_played_arm_and_saturates_the_others():
    np.testing.assert_array_equal(step([0, 3, 5], 1, 5), [1, 0, 5])


def test_path_of_a_repeated_arm():
    z_played, z = path([2, 0], (0, 0, 1, 0), z_max=3)
    assert z_played == [2, 0, 2, 1]
    np.testing.assert_array_equal(z, [0, 1])


def test_sequences_are_lexicographic():
    assert list(sequences(2, 2, True)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert list(sequences(3, 2, False)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


def test_posterior_of_one_observation():
    prior = np.array([[1.0, 0.5], [0.5, 1.0]])
    mean, covariance = dense_posterior(prior, [0], [2.0], noise=1.0)
    np.testing.assert_allclose(mean, [1.0, 0.5])
    np.testing.assert_allclose(covariance, [[0.5, 0.25], [0.25, 0.875]])


def test_posterior_of_two_observations_at_one_point_is_that_of_their_average():
    mean, covariance = dense_posterior(np.eye(1), [0, 0], [1.0, 5.0], noise=1.0)
    np.testing.assert_allclose([mean[0], covariance[0, 0]], [2.0, 1.0 / 3.0])


def test_leaf_of_a_repeated_arm():
    curves = np.array([[1.0, 2.0, 4.0], [10.0, 20.0, 30.0]])
    assert leaf_mean(curves, [2, 0], (0, 0, 1)) == 4.0 + 1.0 + 30.0
    assert best_sequence(curves, [0, 0], 2, True) == ((0, 1), 21.0)
    assert best_sequence(curves, [0, 2], 2, True) == ((1, 1), 40.0)
    assert best_sequence(curves, [0, 2], 2, False) == ((1, 0), 32.0)


def test_ties_go_to_the_first_sequence_whatever_the_order_of_the_sum():
    curves = np.array([[0.1], [0.2], [0.3]])  # 0.1 + 0.2 + 0.3 ≠ 0.3 + 0.2 + 0.1 in floats
    assert best_sequence(curves, [0, 0, 0], 3, False)[0] == (0, 1, 2)


def test_variance_of_a_leaf_counts_the_covariance_of_a_repeat_twice():
    means = np.array([[1.0, 2.0], [3.0, 5.0]])
    covariances = np.array([[[1.0, 0.5], [0.5, 1.0]], [[2.0, 0.0], [0.0, 3.0]]])
    assert leaf_moments(means, covariances, [1, 0], (0, 0)) == (3.0, 1 + 1 + 2 * 0.5)
    assert leaf_moments(means, covariances, [1, 0], (0, 1)) == (2.0 + 5.0, 1.0 + 3.0)
    assert leaf_moments(means, covariances, [0, 0], (1, 1)) == (6.0, 4 * 2.0)
    values = ucb_values(means, covariances, [1, 0], 2, True, alpha=2.0, extra_variance=1.0)
    expected = [3 + 2 * 4**0.5, 7 + 2 * 5**0.5, 5 + 2 * 4**0.5, 6 + 2 * 9**0.5]
    np.testing.assert_allclose(values, expected)  # (1, 0): z = 0, 1, means 3 + 2, variance 2 + 1
    best = best_ucb_sequence(means, covariances, [1, 0], 2, True, alpha=2.0, extra_variance=1.0)
    assert best == ((1, 1), 12.0)


@pytest.mark.parametrize(
    ("protocol", "t", "depth", "inside"),
    [
        ("as-written", 1, 1, 2 * 3),
        ("as-written", 3, 2, (2 * 3) ** 2 * 4**2),
        ("published", 3, 1, 3**2 * 2 * 2),
        ("published", 3, 2, 4**2 * 2 * 2**2),
        ("published", 0, 2, 1**2 * 2 * 2**2),
        ("published", 0, 1, 1),
    ],
)
def test_alpha_with_two_arms_and_three_points(protocol, t, depth, inside):
    assert alpha(protocol, t, 2, 3, depth) == pytest.approx(math.sqrt(2 * math.log(inside)))


def test_regret_of_two_arms():
    arms = [0, 0, 1, 0]  # at z = (0, 0), (0, 1), (0, 1), (1, 0)
    np.testing.assert_allclose(instantaneous_regret(TWO_ARMS, 0, arms), [0.4, 0.4, 0.0, 0.0])
    # The best pair from (0, 0) and from (0, 1) is arm 1, then arm 0: 0.4 + 1.
    np.testing.assert_allclose(lookahead_regret(TWO_ARMS, 0, arms, 2, True), [1.4, 0.0])
    # The last block has one round, at z = (1, 0), and its best value is 1.
    np.testing.assert_allclose(lookahead_regret(TWO_ARMS, 0, arms, 3, True), [1.4, 0.0])
    np.testing.assert_allclose(lookahead_regret(TWO_ARMS, 0, arms, 1, True), instantaneous_regret(TWO_ARMS, 0, arms))


def test_three_step_best_value_by_hand():
    # From (0, 0): 1, 0, 1 gives 0.4 + 1 + 0.4; nothing beats it, as arm 0 needs a rest to pay 1.
    assert best_sequence(TWO_ARMS, [0, 0], 3, True) == ((1, 0, 1), pytest.approx(1.8))


def test_ucb_explores_independent_points_in_turn():
    # Zero curves, k = 1 on the diagonal only, σ = 1: the variance at a point is 1 / (1 + plays).
    result = run_rgp_ucb(np.zeros((2, 2)), np.eye(2), 1.0, np.zeros(6))
    np.testing.assert_array_equal(result["arms"], [0, 1, 0, 0, 1, 1])
    np.testing.assert_array_equal(result["z_played"], [0, 1, 1, 0, 1, 0])


def test_published_warm_up_plays_each_arm_once_and_blocks_follow():
    curves, shocks = np.zeros((3, 2)), np.arange(6.0)
    result = run_rgp_ucb(curves, np.eye(2), 0.5, shocks, depth=2, protocol="published")
    np.testing.assert_array_equal(result["arms"][:3], [0, 1, 2])
    np.testing.assert_array_equal(result["z_played"][:3], [0, 1, 1])
    np.testing.assert_array_equal(result["rewards"], 0.5 * shocks)
    assert len(result["arms"]) == 6  # 3 + 2 + 1: the last block is cut short


@pytest.mark.parametrize(
    ("protocol", "arms", "blocks"),
    [("as-written", [1, 0, 1, 0, 1], [0, 1, 2]), ("published", [0, 1, 0, 1, 0], [0, 1])],
)
def test_thompson_sampling_that_draws_the_truth_is_the_lookahead_oracle(protocol, arms, blocks):
    # From (0, 0) and (0, 1) the best pair is 1, 0; from (1, 0) it is 0, 1, tied with 1, 0.
    seen = []

    def sampler(means, covariances, block_index):
        seen.append(block_index)
        return TWO_ARMS

    result = run_rgp_ts(TWO_ARMS, np.eye(2), 0.1, np.zeros(5), sampler, 2, True, protocol)
    np.testing.assert_array_equal(result["arms"], arms)
    assert seen == blocks


def test_published_one_step_sampler_gets_the_predictive_covariance():
    def sampler(means, covariances, block_index):
        np.testing.assert_allclose(covariances[0], np.diag([0.5 + 1.0, 1.0 + 1.0]))
        return means

    run_rgp_ts(np.zeros((1, 2)), np.eye(2), 1.0, np.zeros(2), sampler, 1, True, "published")


def test_ucb_z_index():
    assert ucb_z_index(0.0, 0, 1.0, 10) == math.inf
    assert ucb_z_index(6.0, 2, 1.0, 1) == 3.0 + 1.0  # √((2 + 6 ln 1) / 2)


def test_ucb_z_sees_every_pair_then_follows_the_index():
    curves = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    result = run_ucb_z(curves, 0.0, np.zeros(10), lambda t, arm: 1 - arm, 10)
    # Arm 0 at 0, wait, at 1, wait, wait, at 2; arm 1 was seen at 0 and 1: wait, at 2; then greedy.
    np.testing.assert_array_equal(result["arms"], [0, 1, 0, 1, 1, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(result["z_played"], [0, 1, 1, 1, 0, 2, 0, 2, 0, 0])


def test_ucb_z_plays_an_arm_that_is_past_the_wanted_z():
    result = run_ucb_z(np.zeros((2, 3)), 0.1, np.zeros(6), lambda t, arm: 1 - arm, 6, z_init=[2, 0])
    np.testing.assert_array_equal(result["arms"], [0, 0, 1, 0, 1, 1])
    np.testing.assert_array_equal(result["z_played"], [2, 0, 2, 1, 1, 0])


def test_ucb_z_with_one_arm_plays_it():
    result = run_ucb_z(np.ones((1, 3)), 0.1, np.zeros(4), None, 4)
    np.testing.assert_array_equal(result["arms"], [0, 0, 0, 0])
