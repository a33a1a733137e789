"""What to run, as a TOML file or as this dataclass; both have the same names.

name = "lengthscales"
horizon = 1000
replications = 500
num_arms = 10
z_max = 30

[problems.smooth]          # gp, logistic, gamma or table
family = "gp"
lengthscale = 4.0          # left out: the cell's own

[grid]                     # every combination; or [[cell]] tables, each with values or lists
policy = ["rgp_ucb", "rgp_ts", "random"]
lengthscale = [2.0, 4.0, 8.0]
"""

import dataclasses
import tomllib
from pathlib import Path

from jaxband import checks
from jaxband.monte_carlo import METRICS
from jaxband.sweep import problems, settings
from jaxband.sweep.cells import Cell, expand
from jaxband.sweep.problems import KeyedError
from jaxband.sweep.toml_lines import line_of

SHARED = ("horizon", "seed", "noise", "num_arms", "z_max")  # at the top of a spec; cells may say otherwise


class SpecError(ValueError):
    """A spec that cannot be run: what is wrong, in which entry, and in a file on which line."""

    def __init__(self, message: str, path: tuple = (), value=None) -> None:
        super().__init__(message)
        self.path, self.value = path, value


@dataclasses.dataclass(frozen=True)
class Spec:
    """A sweep: problems × policies × settings, `replications` of each.

    >>> problem = {"family": "table", "rows": [[0.0, 1.0], [0.4, 0.5]]}
    >>> spec = Spec("tiny", replications=10, horizon=5, problems={"p": problem}, grid={"policy": ["random", "oracle"]})
    >>> [cell.settings["policy"] for cell in spec.cells()]
    ['random', 'oracle']
    """

    name: str
    replications: int
    problems: dict[str, dict]
    grid: dict | None = None  # setting -> value or list of values
    cell: tuple[dict, ...] = ()  # the same, several times
    horizon: int | None = None
    seed: int | None = None
    noise: float | None = None
    num_arms: int | None = None
    z_max: int | None = None
    metrics: tuple[str, ...] = METRICS
    trajectories: int = 512  # replications whose course over time is kept, the first of every cell; 0: totals only
    unit: int | None = None  # replications per result file; None: about a million rounds, several per cell
    directory: Path = Path()  # where CSV files are looked for

    def cells(self) -> list[Cell]:
        """All combinations, without repetition. Raises SpecError."""
        return list(self._cells)

    def __post_init__(self):
        object.__setattr__(self, "metrics", self._checked_metrics())
        if not isinstance(self.name, str) or not self.name:
            raise SpecError(f"name must be a word, got {self.name!r}", ("name",))
        self._check("replications", lambda: checks.whole_number("replications", self.replications, 1, 2**32))
        self._check("trajectories", lambda: checks.whole_number("trajectories", self.trajectories, 0, 2**32))
        if self.unit is not None:
            self._check("unit", lambda: checks.whole_number("unit", self.unit, 1))
        if bool(self.grid) == bool(self.cell):
            raise SpecError("a spec needs either a [grid] or [[cell]] tables, and not both", ("grid",))
        object.__setattr__(self, "_cells", self._expand())

    def _check(self, key: str, make):
        try:
            return make()
        except (ValueError, TypeError) as error:
            raise SpecError(str(error), (key,)) from None

    def _checked_metrics(self) -> tuple[str, ...]:
        if not isinstance(self.metrics, list | tuple) or not self.metrics:
            raise SpecError(f"metrics must list some of {', '.join(METRICS)}", ("metrics",))
        for metric in self.metrics:
            if metric not in METRICS:
                raise SpecError(settings.unknown("metric", metric, METRICS), ("metrics",), metric)
        return tuple(metric for metric in METRICS if metric in self.metrics)

    def _expand(self) -> list[Cell]:
        shared = {name: getattr(self, name) for name in SHARED if getattr(self, name) is not None}
        for name, value in shared.items():
            if isinstance(value, list | tuple):
                raise SpecError(f"{name} must be one value here, got {value!r}; lists go into [grid]", (name,))
            self._check(name, lambda n=name, v=value: settings.checked(n, v))
        tables = [self.grid] if self.grid else list(self.cell)
        try:
            return expand(tables, shared, self._definitions(), (self.metrics, self.trajectories))
        except KeyedError as error:
            number, key = error.key
            table = ("grid",) if self.grid else ("cell", number)
            value = next((v for v in _values(tables[number].get(key)) if repr(v) in str(error)), None)
            path = (*table, key) if key in tables[number] or key not in shared else (key,)
            raise SpecError(str(error), path, value) from None

    def _definitions(self) -> dict[str, dict]:
        if not isinstance(self.problems, dict) or not self.problems:
            raise SpecError("a spec needs at least one [problems.NAME] table", ("problems",))
        definitions = {}
        for name, raw in self.problems.items():
            if not isinstance(raw, dict):
                raise SpecError(f"problems.{name} must be a table with a family", ("problems", name))
            try:
                definitions[name] = problems.define(raw, self.directory)
            except ValueError as error:
                key = getattr(error, "key", "family")
                raise SpecError(f"problem {name!r}: {error}", ("problems", name, key)) from None
        return definitions


def read(path: Path | str) -> Spec:
    """The spec in a TOML file. A SpecError names the file and the line."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{path}: {error}") from None
    try:
        return _from_document(document, path.parent)
    except SpecError as error:
        line = line_of(text, error.path, error.value)
        raise SpecError(f"{path}:{line}: {error}" if line else f"{path}: {error}", error.path, error.value) from None


def _from_document(document: dict, directory: Path) -> Spec:
    names = [field.name for field in dataclasses.fields(Spec) if field.name != "directory"]
    for key in document:
        if key not in names:
            raise SpecError(settings.unknown("entry", key, names), (key,))
    for key in ("name", "replications", "problems"):
        if key not in document:
            raise SpecError(f"{key} is missing", (key,))
    if not isinstance(document.get("grid", {}), dict):
        raise SpecError("grid must be a table: [grid]", ("grid",))
    cells = document.get("cell", [])
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise SpecError("cell must be tables: [[cell]]", ("cell",))
    return Spec(**(document | {"cell": tuple(cells), "directory": directory}))


def _values(entry) -> list:
    return list(entry) if isinstance(entry, list | tuple) else [entry]
