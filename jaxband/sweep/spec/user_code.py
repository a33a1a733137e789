"""A user's own functions in a sweep: where they are found, and the sources that their results depend on.

A reference is "module:function". A module beside the spec file is found there; its sources are its own file and every
module that it imports from the same directory. Their digest is part of a cell's identity, so that results of edited
code are never mixed with older ones. The sources travel to the workers of a cluster.
"""

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import json
import sys
import tempfile
import traceback
from collections.abc import Callable
from inspect import getsourcefile
from pathlib import Path
from typing import NamedTuple

import jax

import jaxband.base
from jaxband.base import PolicyError

LIBRARIES = tuple(str(Path(module.__file__).parent) for module in (importlib, jax, jaxband.base))
_LIBRARY_NAMES = {"jaxband", "jax", "jaxlib", "numpy", *sys.stdlib_module_names}


class UserCodeError(ValueError):
    """A reference that cannot be used: what is wrong, and what to do."""


class UserCode(NamedTuple):
    """A function, and all that must be known to have it again elsewhere."""

    reference: str  # "module:function"
    sources: tuple[tuple[str, str], ...]  # (path relative to its directory, content), sorted
    installed: bool  # is it imported by name from an installed package?

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.reference, self.sources]).encode()).hexdigest()


_functions: dict[str, Callable] = {}  # by digest: what this process has imported
_codes: dict[str, UserCode] = {}


def from_reference(reference: str, directory: Path) -> UserCode:
    """The function that "module:function" names, its module looked for beside the spec first."""
    module_name, separator, name = reference.partition(":") if isinstance(reference, str) else ("", "", "")
    if not (separator and module_name and name and all(part.isidentifier() for part in module_name.split("."))):
        raise UserCodeError(f'a function is named as "module:function", got {reference!r}')
    directory = Path(directory).resolve()
    beside = _file_of(module_name, directory)
    module = _import(module_name, directory, beside)
    function = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise UserCodeError(f"module {module_name!r} has no function {name!r}")
    if beside is None:
        file = Path(module.__file__) if module.__file__ else None
        if file is None:
            raise UserCodeError(f"module {module_name!r} has no source file; put the function into a file")
        return _remember(UserCode(reference, ((file.name, file.read_text()),), installed=True), function)
    return _remember(UserCode(reference, _sources(beside, directory), installed=False), function)


def from_function(function: Callable) -> UserCode:
    """The code of a function that a Python script hands over; it must stand at the top of a file."""
    title = getattr(function, "__qualname__", repr(function))
    remedy = "define it at the top of a file"
    if not callable(function):
        raise UserCodeError(f'a function is needed, or its name as "module:function", got {function!r}')
    if "<" in title or getattr(function, "__closure__", None):
        raise UserCodeError(f"{title} is a closure or a lambda, whose results cannot be told apart; {remedy}")
    try:
        file = Path(getsourcefile(function)).resolve()
        file.read_text()
    except (TypeError, OSError):
        raise UserCodeError(f"{title} has no source file; {remedy}") from None
    module_name = function.__module__
    if module_name == "__main__":
        module_name = file.stem
    directory = file.parents[module_name.count(".") + (file.name == "__init__.py")]
    installed = "site-packages" in file.parts
    sources = ((file.name, file.read_text()),) if installed else _sources(file, directory)
    return _remember(UserCode(f"{module_name}:{title}", sources, installed), function)


def function_of(digest: str) -> Callable:
    """The function that was imported for a digest in this process."""
    try:
        return _functions[digest]
    except KeyError:
        raise UserCodeError("the user's code of this cell was not imported; run the sweep from its spec") from None


def code_of(digest: str) -> UserCode:
    """What `receive` needs in another process."""
    function_of(digest)
    return _codes[digest]


def receive(code: UserCode) -> None:
    """Make the function available in this process: a worker that was sent the sources."""
    if code.digest in _functions:
        return
    if code.installed:
        found = from_reference(code.reference, Path("/nonexistent"))
    else:
        directory = Path(tempfile.mkdtemp(prefix="jaxband-code-"))
        for path, content in code.sources:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(content)
        found = from_reference(code.reference, directory)
    if found.digest != code.digest:
        raise UserCodeError(f"{code.reference} is other code on this node; install the same on all")


def guarded(who: str, function: Callable, *arguments, **named):
    """function(*arguments), whose exception is told as the user's."""
    try:
        return function(*arguments, **named)
    except Exception as error:
        refusal = PolicyError(told(who, error))
        refusal.original = error
        raise refusal from None


def told(who: str, error: Exception) -> str:
    """What was raised, where in the user's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(("<", *LIBRARIES))]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{who} raised {type(error).__name__}{where}: {(str(error).strip().splitlines() or [''])[0]}"


def _remember(code: UserCode, function: Callable) -> UserCode:
    _functions[code.digest], _codes[code.digest] = function, code
    return code


def _file_of(module_name: str, directory: Path) -> Path | None:
    """The module's file, if it lies in the directory."""
    base = directory.joinpath(*module_name.split("."))
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


def _import(module_name: str, directory: Path, beside: Path | None):
    """The module, imported anew if a file beside the spec has changed since."""
    if beside is not None:
        if module_name.partition(".")[0] in sys.stdlib_module_names:
            raise UserCodeError(f"module {module_name!r} has the name of one of Python's own; rename {beside.name}")
        _forget_modules(directory, beside)
    with _first_on_path(directory):
        try:
            return importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name == module_name.partition(".")[0] or error.name == module_name:
                what = f"module {module_name!r} was found neither in {directory} nor among installed packages"
                raise UserCodeError(what) from None
            raise UserCodeError(f"module {module_name!r}: {error}") from None
        except Exception as error:
            raise UserCodeError(told(f"importing {module_name!r}", error)) from None


def _forget_modules(directory: Path, beside: Path) -> None:
    """Drop what was imported from the directory before, and modules of other directories with the same names."""
    try:
        paths = [Path(path) for path, _ in _sources(beside, directory)]
    except SyntaxError:  # importing it will tell
        paths = [beside.relative_to(directory)]
    names = {".".join((p.parent if p.name == "__init__.py" else p.with_suffix("")).parts) for p in paths}
    for name, module in list(sys.modules.items()):
        file = vars(module).get("__file__") if module is not None and name != "__main__" else None
        own = isinstance(file, str) and Path(file).is_relative_to(directory) and "site-packages" not in file
        if (own or name in names) and name.partition(".")[0] not in _LIBRARY_NAMES:
            del sys.modules[name]
    importlib.invalidate_caches()


@contextlib.contextmanager
def _first_on_path(directory: Path):
    """Modules of the directory are found first; nothing is written into it."""
    before = sys.dont_write_bytecode
    sys.path.insert(0, str(directory))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        sys.dont_write_bytecode = before


def _sources(file: Path, directory: Path) -> tuple[tuple[str, str], ...]:
    """The file and all that it imports from the directory, directly or not."""
    found, waiting = {}, [file]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = path.read_text()
        waiting += _imported(found[path], path, directory)
    return tuple(sorted((str(path.relative_to(directory)), text) for path, text in found.items()))


def _imported(text: str, path: Path, directory: Path) -> list[Path]:
    """Files of the directory that a module imports, also inside functions."""
    names = set()
    package = path.relative_to(directory).parent.parts
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*base, *(node.module.split(".") if node.module else [])])
            names |= {origin} | {f"{origin}.{alias.name}".strip(".") for alias in node.names}
    parents = {".".join(name.split(".")[:i]) for name in names for i in range(1, name.count(".") + 1)}
    return [file for name in names | parents if name and (file := _file_of(name, directory)) is not None]
