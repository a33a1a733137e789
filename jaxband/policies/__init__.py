"""Policies: what to play next. A new one is one file with a subclass of `base.Policy` and one line here."""

from jaxband.policies import confidence
from jaxband.policies._from_functions import from_functions
from jaxband.policies._oracle import oracle
from jaxband.policies._recommended import recommended
from jaxband.policies._rgp_pointwise import rgp_pointwise
from jaxband.policies._rgp_ts import rgp_ts
from jaxband.policies._rgp_ucb import rgp_ucb
from jaxband.policies._ucb_z import ucb_z
from jaxband.policies.baselines import random, round_robin
from jaxband.policies.rogue.policy import rogue_ucb_tuned
from jaxband.policies.warm_up import with_warm_up

__all__ = [
    "confidence",
    "from_functions",
    "oracle",
    "random",
    "recommended",
    "rgp_pointwise",
    "rgp_ts",
    "rgp_ucb",
    "rogue_ucb_tuned",
    "round_robin",
    "ucb_z",
    "with_warm_up",
]
