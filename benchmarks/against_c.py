"""How far from hand-written C: 1RGP-UCB and 1RGP-TS, per round and core, ours against benchmarks/against_c.c.

    python benchmarks/against_c.py [--replications 2000] [--horizon 1000] [--json FILE]

The C program is compiled here (cc -O3 -march=native -ffast-math) for exactly this problem and plays the same curves
with the same random numbers, one thread per core. Both sides are timed in turn and the best of several is kept. Most
replications must agree to rounding: that is what makes it the same arithmetic.
"""

import argparse
import concurrent.futures
import ctypes
import itertools
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import tables

import jaxband as jb

ARMS, Z_MAX, NOISE, LENGTHSCALE = 10, 30, 0.1, 5.0
FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each, of which the best counts")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    kernel = jb.kernels.SquaredExponential(LENGTHSCALE)
    problem = jb.Problem(lambda key: jb.recovery.gp(key, kernel, ARMS, Z_MAX), noise=NOISE)
    rows = [
        compare(name, policy(kernel, ARMS, Z_MAX, NOISE), problem, arguments)
        for name, policy in (("1RGP-UCB", jb.policies.rgp_ucb), ("1RGP-TS", jb.policies.rgp_ts))
    ]
    tables.show(rows, arguments.json, cores=jax.local_device_count())


def compare(name: str, policy, problem, arguments) -> dict:
    by_hand = Reference(policy, problem, arguments.replications, arguments.horizon)
    ours, reference = [], []
    for _ in range(arguments.repeats + 1):  # the first one compiles
        ours.append(jb.monte_carlo(policy, problem, horizon=arguments.horizon, replications=arguments.replications))
        reference.append(by_hand.run())
    agree = np.isclose(ours[0].total_reward, reference[0]["total_reward"], rtol=1e-4, atol=1e-2)
    error = jb.aggregate.summarize(ours[0].total_reward).standard_error
    difference = abs(ours[0].total_reward.mean() - reference[0]["total_reward"].mean())
    if agree.mean() < 0.5 or difference > 2 * error:
        raise SystemExit(
            f"{name}: {agree.mean():.0%} of the replications agree with C; this is not the same arithmetic"
        )
    core_rounds = arguments.horizon * arguments.replications / jax.local_device_count()
    seconds = min(result.wall_seconds for result in ours[1:])
    by_hand_seconds = min(result["seconds"] for result in reference)
    return {
        "policy": name,
        "jaxband, µs per round and core": 1e6 * seconds / core_rounds,
        "C, µs per round and core": 1e6 * by_hand_seconds / core_rounds,
        "ratio": seconds / by_hand_seconds,
        "mean reward, jaxband": float(ours[0].total_reward.mean()),
        "mean reward, C": float(reference[0]["total_reward"].mean()),
        "replications that agree": float(agree.mean()),
    }


class Reference:
    """The C program, compiled, with the curves and keys that `monte_carlo` uses for seed 0."""

    def __init__(self, policy, problem, replications: int, horizon: int) -> None:
        self.horizon, self.replications = horizon, replications
        self.root = np.asarray(policy.prior.root[0], np.float32)
        self.thompson = not hasattr(policy, "alpha")
        self.schedule = (0.0, 0.0) if self.thompson else (policy.alpha.log_count, policy.alpha.first_round)
        keys = jax.vmap(lambda r: jax.random.split(jax.random.fold_in(jax.random.key(0), r), 4))(
            np.arange(replications)
        )
        self.curves = np.asarray(jax.jit(jax.vmap(problem.draw))(keys[:, 0]), np.float32)
        self.key_noise, self.key_plan = (np.ascontiguousarray(jax.random.key_data(keys[:, i])) for i in (2, 3))
        self.library = compile_c(arms=ARMS, points=Z_MAX + 1, rank=self.root.shape[1])

    def run(self) -> dict:
        """All replications, one thread per core."""
        out = np.zeros((self.replications, 3))
        plays = np.zeros((self.replications, ARMS), np.int32)
        cores = jax.local_device_count()
        cuts = np.linspace(0, self.replications, cores + 1).astype(int)
        began = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(cores) as pool:
            list(pool.map(lambda span: self._play(*span, out, plays), itertools.pairwise(cuts)))
        return {"seconds": time.perf_counter() - began, "total_reward": out[:, 0]}

    def _play(self, first: int, last: int, out: np.ndarray, plays: np.ndarray) -> None:
        number, pointer = ctypes.c_float, lambda x: ctypes.c_void_p(x[first:].ctypes.data)
        self.library.run(
            int(self.thompson),
            int(last - first),
            self.horizon,
            pointer(self.curves),
            ctypes.c_void_p(self.root.ctypes.data),
            pointer(self.key_noise),
            pointer(self.key_plan),
            number(NOISE),
            *(number(float(x)) for x in self.schedule),
            pointer(out),
            pointer(plays),
        )


def compile_c(**sizes: int) -> ctypes.CDLL:
    source = Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "against_c.so"
        defines = [f"-D{name.upper()}={size}" for name, size in sizes.items()]
        subprocess.run(["cc", *FLAGS, *defines, "-o", library, source, "-lm"], check=True)
        return ctypes.CDLL(str(library))


if __name__ == "__main__":
    main()
