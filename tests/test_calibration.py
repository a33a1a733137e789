"""Adaptive play does not bias the posterior: the truth is where the final posterior says it is, as often as it says.

Curves are drawn from the prior and a policy plays them. Whatever it chose to see, the whitened error of the final
posterior, W (f − μ) with W Σ Wᵀ = I, is then standard normal, independently over points, arms and replications.
Two tests of that (Kolmogorov-Smirnov for the shape, χ² for the spread) for each of four policies fail by chance with
probability 1e-4 in all, if the seed were drawn anew.
"""

import jax
import numpy as np
import pytest
from quick import jit
from scipy import stats

import jaxband as jb
from jaxband.planners import exhaustive

pytestmark = pytest.mark.as_users

K, Z_MAX, NOISE, HORIZON, REPLICATIONS = 3, 8, 0.5, 60, 400
KERNEL = jb.kernels.SquaredExponential(2.0)
POLICIES = [(jb.policies.rgp_ucb, 1), (jb.policies.rgp_ucb, 2), (jb.policies.rgp_ts, 1), (jb.policies.rgp_ts, 2)]
FALSE_ALARM = 1e-4 / (2 * len(POLICIES))


@jit
def play(policy, keys):
    problem = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, K, Z_MAX), noise=NOISE)
    run = jax.vmap(lambda key: jb.simulate(policy, problem, key, HORIZON))(keys)
    return run.curves, run.state.posterior


@pytest.mark.parametrize(("family", "depth"), POLICIES)
def test_the_truth_is_a_draw_from_the_final_posterior(family, depth):
    policy = family(KERNEL, K, Z_MAX, NOISE, planner=exhaustive(depth))
    curves, belief = jax.device_get(play(policy, jax.random.split(jax.random.key(depth), REPLICATIONS)))
    root = belief.root.astype(np.float64)
    variances, directions = np.linalg.eigh(np.einsum("nkgr,nkhr->nkgh", root, root))
    errors = np.einsum("nkgh,nkg->nkh", directions, curves.astype(np.float64) - belief.mean)
    residuals = (errors / np.sqrt(variances)).ravel()
    assert stats.kstest(residuals, "norm").pvalue > FALSE_ALARM
    tail = stats.chi2.sf(np.sum(residuals**2), residuals.size)
    assert min(tail, 1.0 - tail) > FALSE_ALARM / 2
