"""Nothing in compiled code is for CPUs only: a whole simulation of every policy lowers for CUDA and TPU from here."""

import jax
import pytest
from jax import export

import jaxband as jb
from jaxband import registry

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


def test_every_policy_is_in_the_table():
    ours = {
        name for name, entry in registry.entries("policy").items() if entry.factory.__module__.startswith("jaxband.")
    }
    factories = {name for name in jb.policies.__all__ if callable(getattr(jb.policies, name))}
    assert factories - ours == {"from_functions", "with_warm_up"}, "what is no policy of its own"
    assert ours <= {name.split(",")[0] for name in POLICIES}
