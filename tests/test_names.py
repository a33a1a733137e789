"""One word per thing: names that were given up do not come back."""

import ast
import pathlib

import pytest

import jaxband

ROOT = pathlib.Path(jaxband.__file__).parent
RETIRED = {
    "commit": "replan_every",
    "learn": "refit_every",
    "learn_every": "refit_every",
    "tile": "batch_size",
    "courses": "trajectory_stats",
    "certificate": "upper_bound",
    "end_values": "terminal_values",
    "noisy_variance": "predictive_variance",
    "propose": "plan",
    "propose_from": "plan",
    "plan_points": "plan_window",
    "record": "pytree_dataclass",
    "whole_number": "integer",
    "summarise": "summarize",
}


def identifiers(tree):
    """Every name that a module defines or uses: variables, attributes, arguments, keywords, functions, imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("np", "jnp"):
            continue
        for field in ("id", "attr", "arg", "name", "asname"):
            value = vars(node).get(field)
            if isinstance(value, str):
                yield value


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_retired_names_do_not_come_back(path):
    found = set(identifiers(ast.parse(path.read_text()))) & RETIRED.keys()
    assert not found, f"say {', '.join(f'{RETIRED[name]} instead of {name}' for name in sorted(found))}"


def test_no_public_function_shares_its_modules_name():
    """`import jaxband.planners.subset as m` would bind the function."""
    for package in (
        jaxband,
        *(getattr(jaxband, name) for name in ("planners", "policies", "recovery", "optimum", "fit")),
    ):
        directory = pathlib.Path(package.__file__).parent
        modules = {path.stem for path in directory.glob("*.py")} | {
            p.parent.name for p in directory.glob("*/__init__.py")
        }
        functions = {name for name in package.__all__ if callable(getattr(package, name))}
        assert not modules & functions
