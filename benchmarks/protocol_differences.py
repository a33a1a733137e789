"""Which option makes the two protocols differ? Total reward and instantaneous regret with one option changed at a time.

python benchmarks/protocol_differences.py [--replications 500]
"""

import argparse

import jaxband as jb
from jaxband.experiments import paper
from jaxband.experiments.protocols import published

POLICIES = {"1RGP-UCB": "rgp_ucb", "1RGP-TS": "rgp_ts"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=500)
    replications = parser.parse_args().replications
    kernel = jb.kernels.SquaredExponential(lengthscale=5.0)
    print(f"{'setting':<10}{'policy':<10}{'changed from as-written':<32}{'reward':>8}{'± se':>6}{'regret':>8}")
    for setting in paper.FAMILIES:
        problem = jb.Problem(paper.curves(setting), noise=paper.NOISE)
        for name, factory in POLICIES.items():
            options = published(paper.NUM_ARMS)[factory]
            for changed in ([], *([option] for option in options), list(options)):
                policy = getattr(jb.policies, factory)(
                    kernel, paper.NUM_ARMS, paper.Z_MAX, paper.NOISE, **{option: options[option] for option in changed}
                )
                result = jb.monte_carlo(policy, problem, horizon=paper.HORIZON, replications=replications)
                reward, regret = result.summary()["total_reward"], result.summary()["instantaneous_regret"]
                what = ", ".join(changed) or "nothing"
                print(
                    f"{setting:<10}{name:<10}{what:<32}{reward.mean:>8.1f}{reward.standard_error:>6.1f}{regret.mean:>8.1f}"
                )


if __name__ == "__main__":
    main()
