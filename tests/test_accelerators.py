"""Accelerators: a whole simulation of every policy lowers for CUDA and TPU from here, and what is computed in another
way there gives the same results: run here, on a CPU, in that way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxband as jb
from jaxband import registry
from jaxband.posterior import updates

K, Z_MAX, NOISE, HORIZON = 3, 6, 0.1, 20
KERNEL = jb.kernels.SquaredExponential(2.0)
SHAPE = (KERNEL, K, Z_MAX, NOISE)
POLICIES = {
    "rgp_ucb": lambda: jb.policies.rgp_ucb(*SHAPE),
    "rgp_ucb, exhaustive": lambda: jb.policies.rgp_ucb(*SHAPE, planner=jb.planners.exhaustive(2), replan_every=1),
    "rgp_ucb, subset": lambda: jb.policies.rgp_ucb(*SHAPE, planner=jb.planners.subset(2)),
    "rgp_ts": lambda: jb.policies.rgp_ts(*SHAPE),
    "rgp_ts, subset": lambda: jb.policies.rgp_ts(*SHAPE, planner=jb.planners.subset(3)),
    "rgp_ts, optimistic": lambda: jb.policies.rgp_ts(*SHAPE, planner=jb.planners.optimistic(2, 20)),
    "ucb_z": lambda: jb.policies.ucb_z(K, Z_MAX, NOISE, horizon=HORIZON),
    "rgp_ts, learning": lambda: jb.policies.rgp_ts(*SHAPE, refit_every=3),
    "rgp_pointwise": lambda: jb.policies.rgp_pointwise(*SHAPE, planner=jb.planners.subset(2)),
    "recommended": lambda: jb.policies.recommended(*SHAPE, horizon=HORIZON),
    "rogue_ucb_tuned": lambda: jb.policies.rogue_ucb_tuned("gamma", K, Z_MAX, NOISE),
    "oracle": lambda: jb.policies.oracle(K, Z_MAX, planner=jb.planners.subset(2)),
    "rgp_ucb, warmed up": lambda: jb.policies.rgp_ucb(*SHAPE, warm_up=5),
    "random": lambda: jb.policies.random(K),
    "round_robin": lambda: jb.policies.round_robin(K),
}


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_whole_simulation_lowers(name, platform):
    policy = POLICIES[name]()
    problem = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, K, Z_MAX), noise=NOISE)
    play = jax.jit(jax.vmap(lambda key: jb.simulate(policy, problem, key, HORIZON).rewards))
    keys = jax.ShapeDtypeStruct((4,), jax.random.key(0).dtype)
    exported = export.export(play, platforms=[platform])(keys)
    assert exported.platforms == (platform,)
    assert exported.out_avals[0].shape == (4, HORIZON)


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_a_problem_with_masks_lowers(platform):
    problem = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, K, Z_MAX), noise=NOISE, available=[0.5] * K)
    play = jax.jit(jax.vmap(lambda key: jb.simulate(POLICIES["rgp_ts"](), problem, key, HORIZON).rewards))
    exported = export.export(play, platforms=[platform])(jax.ShapeDtypeStruct((4,), jax.random.key(0).dtype))
    assert exported.platforms == (platform,)


@pytest.fixture
def as_on_accelerators(monkeypatch):
    """Called, it makes programs from there on those of accelerators, but for the compiler."""

    def call():
        jax.clear_caches()
        monkeypatch.setattr(jax.lax, "platform_dependent", lambda *inputs, default, **_: default(*inputs))

    yield call
    monkeypatch.undo()
    jax.clear_caches()


@pytest.mark.parametrize("compensate", [True, False])
def test_a_play_teaches_the_same_on_accelerators(as_on_accelerators, compensate):
    def plays():
        belief = jb.posterior.prior(KERNEL, K, Z_MAX)
        for arm, z, reward in [(0, 3, 0.5), (2, 1, -0.3), (2, 0, 0.1), (0, 3, 0.7)]:
            belief = jb.posterior.observe(belief, arm, z, reward, NOISE, compensate=compensate)
        return belief

    here = plays()
    as_on_accelerators()
    for name, one, other in zip(here._fields, here, plays(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("write", [updates.replace_row, updates.add_to_row])
def test_rows_out_of_range_are_written_nowhere(as_on_accelerators, write):
    table, new, rows = jnp.arange(6.0).reshape(3, 2), jnp.full((1, 2), 9.0), jnp.asarray([-2, -1, 3, 1])

    def written():
        return jax.jit(jax.vmap(lambda row: write(table, row, new)))(rows)

    here = written()
    np.testing.assert_array_equal(here[:3], jnp.stack([table] * 3))
    assert not jnp.array_equal(here[3], table)
    as_on_accelerators()
    np.testing.assert_array_equal(written(), here)


@pytest.mark.parametrize("name", ["rgp_ucb", "rgp_ucb, subset", "rgp_ts, subset", "rgp_ts, optimistic", "recommended"])
def test_runs_are_the_same_on_accelerators(as_on_accelerators, name):
    policy = POLICIES[name]()
    problem = jb.Problem(lambda key: jb.recovery.gp(key, KERNEL, K, Z_MAX), noise=NOISE)

    def play():
        return jb.monte_carlo(policy, problem, horizon=HORIZON, replications=8).total_reward

    here = play()
    as_on_accelerators()
    np.testing.assert_allclose(play(), here, rtol=1e-5)


@pytest.mark.parametrize("shape", [(3, 7), (10, 31)])
def test_the_dual_bound_is_as_tight_on_accelerators(as_on_accelerators, shape):
    curves = jax.random.normal(jax.random.key(1), (200, *shape))
    bounds = jax.vmap(jb.optimum.dual_bound)
    here = jax.jit(bounds)(curves)
    as_on_accelerators()
    there = jax.jit(bounds)(curves)
    np.testing.assert_allclose(there.average, here.average, rtol=1e-5)
    np.testing.assert_allclose(there.price, here.price, rtol=1e-4, atol=1e-5)


def test_every_policy_is_in_the_table():
    ours = {
        name for name, entry in registry.entries("policy").items() if entry.factory.__module__.startswith("jaxband.")
    }
    factories = {name for name in jb.policies.__all__ if callable(getattr(jb.policies, name))}
    assert factories - ours == {"from_functions", "with_warm_up"}, "what is no policy of its own"
    assert ours <= {name.split(",")[0] for name in POLICIES}
