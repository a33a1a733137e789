"""What should a round cost on a GPU? Nothing is run on one: programs are compiled for it without a device, and counted.

    python benchmarks/gpu_program.py [--policies NAME ... | all] [--gpus NAME ...] [--json FILE]

Needs jaxband's extra `gpu-program`, best in an environment of its own, and no GPU. Of the loop over rounds in the
compiled program of `monte_carlo` it tells, per round: how many kernels are started, how many bytes they read and write
per replication (every kernel what it needs of its arrays, once; writes of rows in place only these rows), and how
often the host has to wait for an answer of the GPU (loops of unknown length, counted once with one step, and branches,
counted with the dearest). From these a roofline: bytes by the bandwidth of the memory, and so many microseconds per
kernel and per answer, shared by the replications side by side. Caches and arithmetic are left out: kernels whose
arrays are still in the second-level cache are faster than this, those that compute much are slower.
"""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

os.environ["JAX_PLATFORMS"] = "cpu"  # with the wheels for CUDA in place JAX would look for a GPU
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import hlo_cost
import jax
import numpy as np
import tables
from jax.experimental import topologies
from jax.sharding import Mesh

import jaxband as jb
from jaxband.simulation import dispatch, layout

NOTHING_WAS_RUN = "Nothing was run on a GPU: programs were compiled for one without a device, and counted."
K, Z_MAX, NOISE, HORIZON = 10, 30, 0.1, 1088
KERNEL = jb.kernels.SquaredExponential(5.0)
SHAPE = KERNEL, K, Z_MAX, NOISE
POLICIES = {
    "1RGP-UCB": lambda: jb.policies.rgp_ucb(*SHAPE),
    "1RGP-TS": lambda: jb.policies.rgp_ts(*SHAPE),
    "3RGP-TS, every round": lambda: jb.policies.rgp_ts(*SHAPE, planner=jb.planners.subset(3), replan_every=1),
    "recommended": lambda: jb.policies.recommended(*SHAPE, horizon=HORIZON),
    "3RGP-TS": lambda: jb.policies.rgp_ts(*SHAPE, planner=jb.planners.subset(3)),
    "3RGP-UCB, exhaustive": lambda: jb.policies.rgp_ucb(*SHAPE, planner=jb.planners.exhaustive(3), replan_every=1),
    "3RGP-UCB, subset": lambda: jb.policies.rgp_ucb(*SHAPE, planner=jb.planners.subset(3), replan_every=1),
    "3RGP-TS, optimistic": lambda: jb.policies.rgp_ts(*SHAPE, planner=jb.planners.optimistic(3, 100), replan_every=1),
    "RGP-pointwise": lambda: jb.policies.rgp_pointwise(*SHAPE),
    "1RGP-UCB, refitting": lambda: jb.policies.rgp_ucb(*SHAPE, refit_every=250),
    "UCB-Z": lambda: jb.policies.ucb_z(K, Z_MAX, NOISE, horizon=HORIZON),
    "RogueUCB-Tuned": lambda: jb.policies.rogue_ucb_tuned("logistic", K, Z_MAX, NOISE),
    "oracle": lambda: jb.policies.oracle(K, Z_MAX),
    "random": lambda: jb.policies.random(K),
    "round robin": lambda: jb.policies.round_robin(K),
}
USUAL = list(POLICIES)[:4]

LAUNCHES = {"in graphs": 2.0, "one by one": 5.0}  # assumed microseconds per kernel
ANSWER = 20.0  # assumed microseconds until the host has read a number and gone on


class Gpu(NamedTuple):
    """What the compiler wants to know, from NVIDIA's data sheets."""

    name: str
    capability: int
    cores: int
    lanes: int  # per core
    shared_memory: int  # bytes per core; a block may use 1024 less
    bandwidth: float  # bytes per second
    cache: int  # bytes, second level
    clock: float  # GHz

    def target(self) -> str:
        """As XLA's `GpuTargetConfigProto` in text."""
        return f"""
            gpu_device_info {{
              threads_per_block_limit: 1024  threads_per_warp: 32  threads_per_core_limit: 2048
              thread_dim_limit_x: 1024  thread_dim_limit_y: 1024  thread_dim_limit_z: 64
              block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
              registers_per_core_limit: 65536  registers_per_block_limit: 65536
              shared_memory_per_block: 49152  shared_memory_per_core: {self.shared_memory}
              shared_memory_per_block_optin: {self.shared_memory - 1024}
              core_count: {self.cores}  fpus_per_core: {self.lanes}  clock_rate_ghz: {self.clock}
              memory_bandwidth: {self.bandwidth:.0f}  device_memory_size: {80 * 2**30}  l2_cache_size: {self.cache}
              cuda_compute_capability {{ major: {self.capability} }}
            }}
            platform_name: "CUDA"  dnn_version_info {{ major: 9 minor: 8 }}  device_description_str: "{self.name}"
        """


GPUS = {
    "H100": Gpu("NVIDIA H100 80GB HBM3", 9, 132, 128, 228 * 2**10, 3.35e12, 50 * 2**20, 1.98),
    "A100": Gpu("NVIDIA A100-SXM4-80GB", 8, 108, 64, 164 * 2**10, 2.0e12, 40 * 2**20, 1.41),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policies", nargs="+", default=USUAL, choices=[*POLICIES, "all"], metavar="NAME")
    parser.add_argument("--gpus", nargs="+", default=list(GPUS), choices=GPUS, metavar="NAME")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    names = POLICIES if "all" in arguments.policies else arguments.policies
    print(NOTHING_WAS_RUN, flush=True)
    rows = [measure(name, gpu) for name in names for gpu in arguments.gpus]
    tables.show(rows, arguments.json, note=NOTHING_WAS_RUN, launch_microseconds=LAUNCHES, answer_microseconds=ANSWER)
    launches = ", ".join(f"{cost:g} µs per kernel {how}" for how, cost in LAUNCHES.items())
    print(f"Bytes and time per replication, {layout.ACCELERATOR_BATCH:,} side by side; K = {K}, G = {Z_MAX + 1}.")
    print(f"Assumed: {launches}, {ANSWER:g} µs per host sync; all arrays come from memory.")


def measure(policy: str, gpu: str) -> dict:
    """Kernels, bytes and host syncs per round of a policy, and the time they should take."""
    shape = layout.make_layout(HORIZON, batch_size=layout.ACCELERATOR_BATCH)
    found = cost_of_round(compiled_text(POLICIES[policy](), GPUS[gpu], shape), shape)
    row = {
        "policy": policy,
        "GPU": gpu,
        "kernels": found.kernels,
        "KB": found.bytes / shape.batch_size / 1e3,
        "host syncs": found.syncs,
    }
    for how, launch in LAUNCHES.items():
        shared = 1e3 * (launch * found.kernels + ANSWER * found.syncs) / shape.batch_size
        row[f"ns {how}"] = 1e9 * found.bytes / shape.batch_size / GPUS[gpu].bandwidth + shared
    return row


def compiled_text(policy: jb.Policy, gpu: Gpu, shape: layout.Layout) -> str:
    """The compiled program of `monte_carlo`, optimised and scheduled, as text."""
    problem = jb.Problem(np.zeros((K, Z_MAX + 1)), noise=NOISE)
    devices = topologies.get_topology_desc("one", "cuda", target_config=gpu.target(), topology="1x1x1").devices
    job = dispatch.make_job(policy, problem, 0, shape)
    leaves = tuple(jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype) for leaf in job.leaves)
    curves = jax.ShapeDtypeStruct((shape.batches_per_dispatch, shape.batch_size, K, Z_MAX + 1), np.float32)
    number, mesh = jax.ShapeDtypeStruct((1,), np.int32), Mesh(np.array(devices), ("works",))
    return dispatch._run_works.lower(leaves, curves, number, number, job.structure, shape, mesh).compile().as_text()


def cost_of_round(text: str, shape: layout.Layout) -> hlo_cost.Cost:
    """Of the loop over a segment's rounds, which is in the loop over segments; what is drawn ahead has its share."""
    program = hlo_cost.parse(text)
    segments = [i for body in program.values() for i in body if i.trip_count == shape.num_segments]
    for segment in segments:
        body = program[segment.called("body")]
        loops = [i for i in body if i.trip_count == shape.rounds_per_segment]
        if loops:
            rounds = max(loops, key=lambda loop: hlo_cost.cost_of(program, program[loop.called("body")]).kernels)
            per_round = hlo_cost.cost_of(program, program[rounds.called("body")])
            ahead = hlo_cost.cost_of(program, [i for i in body if i is not rounds])
            return per_round + ahead * (1 / shape.rounds_per_segment)
    raise ValueError("no loop over rounds was found in the compiled program")


if __name__ == "__main__":
    main()
