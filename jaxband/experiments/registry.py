"""What `jaxband reproduce` can run. A new experiment is a file beside this one and an entry here."""

import functools
from collections.abc import Callable
from typing import NamedTuple

from jaxband.experiments import figure1, figure3, parametric_curves, posteriors
from jaxband.experiments.output import Report
from jaxband.experiments.protocols import PROTOCOLS


class Experiment(NamedTuple):
    what: str  # it shows
    run: Callable[..., Report]  # takes `seed`, `announce` and its options, all by name
    options: dict[str, dict]  # name -> how argparse declares it


def _replications(default: int) -> dict[str, dict]:
    return {"replications": {"type": int, "default": default, "metavar": "N"}}


def _protocol(default: str) -> dict[str, dict]:
    return {"protocol": {"choices": PROTOCOLS, "help": f"run only this one (default: {default})"}}


_FULL = {"full": {"action": "store_true", "help": "all of the paper's budgets: several times as long"}}
_TABLES = _replications(500) | _protocol("published, as-written beside")
_POSTERIORS = _replications(200) | _protocol("as-written")

EXPERIMENTS = {
    "table1": Experiment("total reward, l = 5 (Table 1)", functools.partial(parametric_curves.run, "table1"), _TABLES),
    "lengthscales": Experiment(
        "the same for l = 2.5 and 7.5", functools.partial(parametric_curves.run, "lengthscales"), _TABLES
    ),
    "figure1": Experiment("recovery functions and a lookahead tree (Figure 1)", figure1.run, {}),
    "figure2": Experiment(
        "posteriors of 1RGP-UCB and 3RGP-UCB after one run, l = 2 (Figure 2)",
        functools.partial(posteriors.run, "figure2"),
        _POSTERIORS,
    ),
    "figure3": Experiment(
        "optimistic planning: reward and depth of the tree against the budget (Figure 3)",
        figure3.run,
        _replications(100) | _FULL,
    ),
    "figure4": Experiment(
        "cumulative regret of all four policies, l = 5, 2.5 and 7.5 (Figure 4)",
        functools.partial(parametric_curves.run, "figure4"),
        _TABLES,
    ),
    "appendix": Experiment(
        "posteriors of dRGP-UCB and dRGP-TS, d = 1, 2, 3, l = 0.5, 2, 5 (appendix)",
        functools.partial(posteriors.run, "appendix"),
        _POSTERIORS,
    ),
}
