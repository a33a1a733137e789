"""Two ways to run the same policies: as the paper's text defines them, and as its printed tables were made.

They differ in options of the policies, nothing else; docs/reproduction.md says what each difference does.
"""

from collections.abc import Callable

from jaxband.policies import confidence


def as_written(num_arms: int) -> dict[str, dict]:
    """The algorithm of the text: no warm-up, latent variances, the paper's α_t. The defaults of the library."""
    return {"rgp_ucb": {}, "rgp_ts": {}, "rogue_ucb_tuned": {"warm_up": 0}}


def published(num_arms: int) -> dict[str, dict]:
    """What made the printed tables (depth 1): every arm played once first, predictive variances, a smaller α_t."""
    both = {"predictive_variance": True, "warm_up": num_arms}
    return {
        "rgp_ucb": both | {"alpha": confidence.published},
        "rgp_ts": both,
        "rogue_ucb_tuned": {"warm_up": num_arms},
    }


PROTOCOLS: dict[str, Callable[[int], dict[str, dict]]] = {"published": published, "as-written": as_written}
