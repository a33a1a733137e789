"""1RGP-UCB and 1RGP-TS under the `published` protocol, as a plain Python loop over GPy models.

One GPy regression per arm, built anew on the arm's whole history after each play; hyperparameters
are fixed. This is the cost of the authors' way of running the experiments of the paper
(Pike-Burke & Grünewälder, Recovering Bandits, section Experimental Results), on one thread.

    python gpy_loop.py --curves curves.json --kernel-lengthscale 5 --noise 0.1 --policy ucb

It needs only requirements-gpy.txt, in a virtual environment of its own.
"""

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"  # read by the BLAS when NumPy is first imported

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import GPy  # noqa: E402
import numpy as np  # noqa: E402


def main():
    options = parse_options()
    curves = read_curves(options.curves)
    seeds = np.random.SeedSequence(options.seed).spawn(options.replications)
    settings = options.kernel_lengthscale, options.noise, options.horizon, options.policy
    start = time.perf_counter()
    total_reward = [replicate(np.random.default_rng(seed), curves, *settings) for seed in seeds]
    seconds = (time.perf_counter() - start) / options.replications
    report = {"seconds_per_replication": seconds, "total_reward": total_reward}
    json.dump(report | {"gpy": GPy.__version__, "numpy": np.__version__}, sys.stdout)
    print()


def replicate(rng, curves, lengthscale, noise, horizon, policy):
    """Total observed reward Σ_t y_t of one run; `curves` is [K, G], `noise` its deviation σ."""
    K, G = curves.shape
    z = np.zeros(K, dtype=int)
    histories = [([], []) for _ in range(K)]  # per arm: z when played, rewards observed
    models = [None] * K
    total = 0.0
    for t in range(horizon):
        # Warm-up: rounds 0..K−1 play arms 0..K−1 in order.
        arm = t if t < K else int(np.argmax(scores(rng, models, z, t, G - 1, policy)))
        reward = curves[arm, z[arm]] + noise * rng.standard_normal()
        played_at, observed = histories[arm]
        played_at.append(z[arm])
        observed.append(reward)
        models[arm] = fit(played_at, observed, lengthscale, noise)
        total += reward
        z = np.minimum(z + 1, G - 1)
        z[arm] = 0
    return total


def scores(rng, models, z, t, z_max, policy):
    """Index of each arm at its own z: μ + α_t s for UCB, a draw from N(μ, s²) for TS.

    α_t = √(2 ln(t² z_max K)) with t from zero; s² = σ_t² + σ², since `predict` adds the noise.
    """
    inputs = z.astype(float)[:, None, None]  # each arm's z as the [1, 1] array GPy expects
    predictions = [model.predict(at) for model, at in zip(models, inputs, strict=True)]
    mean, variance = np.array(predictions).reshape(len(models), 2).T
    if policy == "ucb":
        weight = np.sqrt(2 * (2 * np.log(t) + np.log(z_max) + np.log(len(models))))
    else:
        weight = rng.standard_normal(len(models))
    return mean + weight * np.sqrt(variance)


def fit(played_at, observed, lengthscale, noise):
    """A new GP regression on one arm's whole history, k(z, z') = exp(−(z − z')²/2l²)."""
    kernel = GPy.kern.RBF(1, variance=1.0, lengthscale=lengthscale)
    inputs = np.array(played_at, dtype=float)[:, None]
    return GPy.models.GPRegression(inputs, np.array(observed)[:, None], kernel, noise_var=noise**2)


def read_curves(path):
    """The [K, G] curves of a .npy file, or of {"curves": [[...], ...]} in JSON, file or stdin."""
    if path.endswith(".npy"):
        return np.load(path)
    with sys.stdin if path == "-" else open(path) as file:
        return np.array(json.load(file)["curves"], dtype=float)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curves", default="-", help="JSON or .npy file; - reads JSON from stdin")
    parser.add_argument("--kernel-lengthscale", type=float, default=5.0)
    parser.add_argument("--noise", type=float, default=0.1, help="standard deviation of rewards")
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--replications", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", choices=["ucb", "ts"], default="ucb")
    return parser.parse_args()


if __name__ == "__main__":
    main()
