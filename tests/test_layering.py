"""Imports point one way: a module knows only its own layer and those before it."""

import ast
import pathlib

import pytest

import jaxband

ROOT = pathlib.Path(jaxband.__file__).parent
LAYERS = [
    ("checks", "pytree", "registry"),
    ("_runtime", "_compiled"),
    ("calls",),
    ("base",),
    ("kernels",),
    ("posterior",),
    ("fit",),
    ("recovery",),
    ("problem",),
    ("planners",),
    ("optimum",),
    ("policies",),
    ("regret",),
    ("simulation",),
    ("testing",),
    ("theory",),
    ("sweep",),
    ("plots",),
    ("report",),
    ("experiments",),
    ("cli",),
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = sorted(
    path.relative_to(ROOT)
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0] not in ("__init__.py", "__main__.py")
)


def layer_of(path):
    """The first part of a module's name below jaxband."""
    return path.with_suffix("").parts[0]


def imported_layers(source, package):
    """The layers that a module of `package` (a dotted name) imports, also those imported inside functions."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{origin}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("jaxband.")}


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_every_module_has_a_layer_and_imports_none_above_it(path):
    assert layer_of(path) in LEVEL, f"give {path} a place in LAYERS"
    package = ".".join(["jaxband", *path.parent.parts])
    imported = imported_layers((ROOT / path).read_text(), package)
    unknown = imported - LEVEL.keys()
    assert not unknown, f"{path} imports {unknown} from jaxband itself; import from the module that defines it"
    above = {name for name in imported if LEVEL[name] > LEVEL[layer_of(path)]}
    assert not above, f"{path} imports {above}, which come later"


@pytest.mark.parametrize(
    ("source", "package", "layers"),
    [
        ("import jaxband.regret", "jaxband", {"regret"}),
        ("from jaxband import checks, posterior", "jaxband", {"checks", "posterior"}),
        ("from jaxband.kernels.base import Kernel", "jaxband", {"kernels"}),
        ("from . import checks", "jaxband", {"checks"}),
        ("from .slot_sets import rests", "jaxband.planners", {"planners"}),
        ("from .. import cli", "jaxband.planners", {"cli"}),
        ("from ..posterior import prior", "jaxband.planners", {"posterior"}),
        ("def f():\n    from jaxband.cli import main", "jaxband", {"cli"}),
        ("import numpy as np\nfrom jax import Array", "jaxband", set()),
    ],
)
def test_imports_are_seen_however_they_are_written(source, package, layers):
    assert imported_layers(source, package) == layers
