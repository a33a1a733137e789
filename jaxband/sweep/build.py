"""The policy of a cell, made from its settings."""

import functools

from jaxband import kernels, planners, policies
from jaxband.base import Planner, Policy
from jaxband.sweep import problems, settings


def policy(cell: dict) -> Policy:
    """What the cell's settings say. All its numbers are leaves."""
    num_arms, z_max = cell["num_arms"], cell["z_max"]
    planned = {"planner": planner(cell), "commit": cell["commit"]} if "planner" in cell else {}
    gaussian = {name: cell[name] for name in ("noisy_variance", "warm_up", "beta", "end_values") if name in cell}
    gaussian |= {"learn": cell["learn"] or None} if "learn" in cell else {}
    match cell["policy"]:
        case "rgp_ucb":
            alpha = {"alpha": getattr(policies.confidence, cell["alpha"]), "alpha_scale": cell["alpha_scale"]}
            return policies.rgp_ucb(
                _kernel(cell), num_arms, z_max, cell["policy_noise"], **planned, **gaussian, **alpha
            )
        case "rgp_ts":
            return policies.rgp_ts(_kernel(cell), num_arms, z_max, cell["policy_noise"], **planned, **gaussian)
        case "rgp_pointwise":
            known = {"horizon": cell["horizon"]} if cell["fade"] else {}
            return policies.rgp_pointwise(
                _kernel(cell), num_arms, z_max, cell["policy_noise"], **planned, **gaussian, **known
            )
        case "recommended":
            return policies.recommended(
                _kernel(cell), num_arms, z_max, cell["policy_noise"], cell["horizon"], **gaussian
            )
        case "rogue_ucb_tuned":
            return policies.rogue_ucb_tuned(cell["family"], num_arms, z_max, cell["policy_noise"])
        case "ucb_z":
            return policies.ucb_z(num_arms, z_max, cell["policy_noise"], horizon=cell["horizon"])
        case "oracle":
            return policies.oracle(num_arms, z_max, **planned)
        case name:
            return getattr(policies, name)(num_arms)


def planner(cell: dict) -> Planner:
    options = {name: cell[name] for name in settings.PLANNER_USES[cell["planner"]]}
    return getattr(planners, cell["planner"])(**options)


def check(cell: dict) -> None:
    """Refuse what the library would refuse, without the cost of a posterior on the whole grid."""
    structure = settings.SETTINGS.keys() - {"problem", "seed", "alpha_scale", *settings.KERNEL_SETTINGS, *_SMALL}
    _check(tuple(sorted((name, value) for name, value in cell.items() if name in structure)))


_SMALL = {"z_max": 8, "noise": 1.0, "policy_noise": 1.0, "alpha_scale": 1.0, "horizon": 1}


@functools.lru_cache(maxsize=4096)
def _check(structure: tuple) -> None:
    policy(dict(structure) | _SMALL)


def _kernel(cell: dict) -> kernels.Kernel:
    return problems.kernel(cell) if "kernel" in cell else kernels.Constant()
