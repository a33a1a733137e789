"""The paper's parametric experiments as data: settings, and the totals its tables print (Table 1 and the appendix)."""

import functools
import importlib.resources
import json
from typing import NamedTuple

from jax import Array

from jaxband import recovery

HORIZON = 1000
NOISE = 0.1
Z_MAX = 30
NUM_ARMS = 10
FAMILIES = {"logistic": recovery.logistic, "gamma": recovery.gamma}
POLICIES = ("1RGP-UCB", "1RGP-TS", "RogueUCB-Tuned", "UCB-Z")


class Printed(NamedTuple):
    """A cell of the paper's tables: the mean over 500 replications and the 5th and 95th percentile."""

    mean: float
    low: float
    high: float


# (setting, policy, lengthscale of the policy's kernel or None) -> what is printed
TOTAL_REWARD = {
    ("logistic", "1RGP-UCB", 2.5): Printed(448.6, 441.1, 456.6),
    ("logistic", "1RGP-UCB", 5.0): Printed(461.7, 454.3, 468.9),
    ("logistic", "1RGP-UCB", 7.5): Printed(465.1, 457.3, 472.9),
    ("logistic", "1RGP-TS", 2.5): Printed(452.5, 443.7, 460.3),
    ("logistic", "1RGP-TS", 5.0): Printed(462.6, 455.7, 469.3),
    ("logistic", "1RGP-TS", 7.5): Printed(465.1, 457.4, 472.7),
    ("logistic", "RogueUCB-Tuned", None): Printed(446.2, 438.2, 453.5),
    ("logistic", "UCB-Z", None): Printed(242.6, 229.6, 256.0),
    ("gamma", "1RGP-UCB", 2.5): Printed(145.1, 138.5, 151.5),
    ("gamma", "1RGP-UCB", 5.0): Printed(145.6, 139.6, 151.7),
    ("gamma", "1RGP-UCB", 7.5): Printed(145.2, 139.8, 151.0),
    ("gamma", "1RGP-TS", 2.5): Printed(155.8, 148.8, 162.5),
    ("gamma", "1RGP-TS", 5.0): Printed(156.5, 149.6, 163.0),
    ("gamma", "1RGP-TS", 7.5): Printed(155.8, 149.0, 162.5),
    ("gamma", "RogueUCB-Tuned", None): Printed(132.7, 111.0, 144.5),
    ("gamma", "UCB-Z", None): Printed(116.8, 108.4, 125.5),
}


def curves(setting: str) -> Array:
    """The recovery curves of the 'logistic' or 'gamma' setting, [10, 31]."""
    return FAMILIES[setting](_theta()[setting], Z_MAX)


@functools.cache
def _theta() -> dict:
    return json.loads(importlib.resources.files("jaxband").joinpath("experiments/theta.json").read_text())
