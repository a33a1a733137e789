"""How often does the subset planner certify its upper-confidence plans in real runs, and how large is the gap if not?

python benchmarks/certified.py [--replications 64] [--horizon 1000] [--labels 16]
"""

import argparse

import jaxband as jb

NUM_ARMS, Z_MAX, NOISE = 10, 30, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=64)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--labels", type=int, default=16)
    arguments = parser.parse_args()
    print(f"{'lengthscale':>11}{'depth':>7}{'certified':>11}{'worst run':>11}{'mean gap':>10}{'seconds':>9}")
    for lengthscale in (1.0, 2.0, 4.0):
        kernel = jb.kernels.SquaredExponential(lengthscale)
        problem = jb.Problem(lambda key, kernel=kernel: jb.recovery.gp(key, kernel, NUM_ARMS, Z_MAX), noise=NOISE)
        for depth in (3, 4):
            planner = jb.planners.subset(depth, max_labels=arguments.labels)
            policy = jb.policies.rgp_ucb(kernel, NUM_ARMS, Z_MAX, NOISE, planner=planner)
            result = jb.monte_carlo(
                policy,
                problem,
                horizon=arguments.horizon,
                replications=arguments.replications,
                watch=("certified", "gap"),
            )
            certified, gap = result.watched["certified"], result.watched["gap"]
            print(
                f"{lengthscale:>11g}{depth:>7}{certified.mean():>11.2%}{certified.min():>11.2%}{gap.mean():>10.1e}"
                f"{result.wall_seconds:>9.1f}"
            )


if __name__ == "__main__":
    main()
