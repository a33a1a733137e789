"""Policies: what to play next. A new one is one file that fulfils `base.Policy` and one line here."""

from jaxband.policies import confidence
from jaxband.policies.baselines import random, round_robin
from jaxband.policies.oracle import oracle
from jaxband.policies.recommended import recommended
from jaxband.policies.rgp_pointwise import rgp_pointwise
from jaxband.policies.rgp_ts import rgp_ts
from jaxband.policies.rgp_ucb import rgp_ucb
from jaxband.policies.rogue import rogue_ucb_tuned
from jaxband.policies.ucb_z import ucb_z

__all__ = [
    "confidence",
    "oracle",
    "random",
    "recommended",
    "rgp_pointwise",
    "rgp_ts",
    "rgp_ucb",
    "rogue_ucb_tuned",
    "round_robin",
    "ucb_z",
]
