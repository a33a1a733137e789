"""What to run, as a TOML file or as this dataclass; both have the same names.

name = "lengthscales"
horizon = 1000
replications = 500
num_arms = 10
z_max = 30

[problems.smooth]          # gp, logistic, gamma or table; or factory = "module:function"
family = "gp"
lengthscale = 4.0          # left out: the cell's own

[policies.mine]            # a policy of your own, from a module beside this file
factory = "my_policies:make"

[grid]                     # every combination; or [[cell]] tables, each with values or lists
policy = ["rgp_ucb", "rgp_ts", "random", "mine"]
lengthscale = [2.0, 4.0, 8.0]
"""

import dataclasses
import tomllib
from collections.abc import Callable
from pathlib import Path

from jaxband import checks, registry
from jaxband.planners import subset
from jaxband.simulation.metrics import BOUND, LOOKAHEAD, STANDARD
from jaxband.sweep.spec import catalog, problems, settings, user_code
from jaxband.sweep.spec.cells import Cell, expand
from jaxband.sweep.spec.settings import SettingError
from jaxband.sweep.spec.toml_location import line_of

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
    problems: dict[str, dict | Callable]
    policies: dict[str, dict | Callable] = dataclasses.field(default_factory=dict)  # of one's own
    grid: dict | None = None  # setting -> value or list of values
    cell: tuple[dict, ...] = ()  # the same, several times
    horizon: int | None = None
    seed: int | None = None
    noise: float | None = None
    num_arms: int | None = None
    z_max: int | None = None
    lookahead: int | None = None  # rounds per block of the lookahead regret; None: it is not taken
    metrics: tuple[str, ...] | None = None  # None: reward, expected reward, regret, and what a bound says
    trajectories: int = 512  # replications whose course over time is kept, the first of every cell; 0: totals only
    replications_per_unit: int | None = None  # per result file; None: about a million rounds, several per cell
    directory: Path = Path()  # where CSV files and modules are looked for

    def cells(self) -> list[Cell]:
        """All combinations, without repetition. Raises SpecError."""
        return list(self._cells)

    def check_can_be_kept(self) -> None:
        """Refuse functions whose results could not be told from those of other code."""
        for cell in self._cells:
            own = [metric for metric in cell.metrics if metric not in (*STANDARD, LOOKAHEAD, *BOUND)]
            named = [("metric", metric, code) for metric, code in zip(own, cell.metric_code, strict=True)]
            for kind, name, code in (("policy", cell.settings["policy"], cell.code), *named):
                if code == "":
                    what = f"{kind} {name!r} is made by a closure, a lambda or a function without a file"
                    raise SpecError(f"{what}; define it at the top of a file, so that its results can be told apart")

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name:
            raise SpecError(f"name must be a word, got {self.name!r}", ("name",))
        self._check("replications", lambda: checks.integer("replications", self.replications, 1, 2**32))
        self._check("trajectories", lambda: checks.integer("trajectories", self.trajectories, 0, 2**32))
        if self.lookahead is not None:
            self._check("lookahead", lambda: checks.integer("lookahead", self.lookahead, 2))
        if self.replications_per_unit is not None:
            size = self.replications_per_unit
            self._check("replications_per_unit", lambda: checks.integer("replications_per_unit", size, 1))
        metrics, code = self._checked_metrics()
        object.__setattr__(self, "metrics", metrics)
        if bool(self.grid) == bool(self.cell):
            raise SpecError("a spec needs either a [grid] or [[cell]] tables, and not both", ("grid",))
        object.__setattr__(self, "_cells", self._expand(code))

    def _check(self, key: str, make):
        try:
            return make()
        except (ValueError, TypeError) as error:
            raise SpecError(str(error), (key,)) from None

    def _checked_metrics(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The metrics in order, and the digests of the user's own."""
        own = (*STANDARD, *BOUND) if self.lookahead is None else (*STANDARD, LOOKAHEAD, *BOUND)
        if self.metrics is None:
            return own, ()
        if not isinstance(self.metrics, list | tuple) or not self.metrics:
            raise SpecError(f"metrics must list some of {', '.join(own)}", ("metrics",))
        chosen, code = [metric for metric in own if metric in self.metrics], []
        for metric in self.metrics:
            if metric in own or metric in chosen:
                continue
            if metric == LOOKAHEAD:
                what = "metrics has 'lookahead_regret' but no lookahead is given; add lookahead = d"
                raise SpecError(what, ("metrics",), metric)
            if isinstance(metric, str) and ":" in metric:
                code.append(self._metric_code(metric))
            elif metric in registry.names("metric"):
                code.append(catalog.code_of(registry.entry("metric", metric).factory))
            else:
                known = [*own, *(name for name in registry.names("metric") if name not in own)]
                raise SpecError(registry.unknown("metric", metric, known), ("metrics",), metric)
            chosen.append(metric)
        return tuple(chosen), tuple(code)

    def _metric_code(self, reference: str) -> str:
        try:
            return user_code.from_reference(reference, self.directory).digest
        except user_code.UserCodeError as error:
            raise SpecError(f"metric {reference!r}: {error}", ("metrics",), reference) from None

    def _expand(self, metric_code: tuple[str, ...]) -> list[Cell]:
        shared = {name: getattr(self, name) for name in SHARED if getattr(self, name) is not None}
        for name, value in shared.items():
            if isinstance(value, list | tuple):
                raise SpecError(f"{name} must be one value here, got {value!r}; lists go into [grid]", (name,))
            self._check(name, lambda n=name, v=value: settings.RULES[n](n, v))
        tables = [self.grid] if self.grid else list(self.cell)
        kept = self.metrics, metric_code, self.trajectories, self.lookahead or 1
        definitions, policies = self._definitions(), self._policies()
        try:
            cells = expand(tables, shared, definitions, policies, kept)
        except SettingError as error:
            number, key = error.key
            if isinstance(key, tuple):  # in a table of a policy or problem
                raise SpecError(str(error), key) from None
            table = ("grid",) if self.grid else ("cell", number)
            value = next((v for v in _values(tables[number].get(key)) if repr(v) in str(error)), None)
            path = (*table, key) if key in tables[number] or key not in shared else (key,)
            raise SpecError(str(error), path, value) from None
        for cell in cells:
            self._check_metrics_of(cell)
        return cells

    def _check_metrics_of(self, cell: Cell) -> None:
        """Can the metrics be taken on its problem?"""
        if self.lookahead:
            self._check("lookahead", lambda: _check_lookahead(self.lookahead, cell.settings["num_arms"]))
        if "factory" not in cell.problem:
            return
        problem = problems.build(cell.problem, cell.settings)
        impossible = [metric for metric in (LOOKAHEAD, *BOUND) if metric in cell.metrics]
        if impossible and (problem.plays not in (None, 1) or problem.may_idle):
            what = f"metrics must be without {', '.join(impossible)} for problem {cell.settings['problem']!r}"
            raise SpecError(f"{what}, which has several plays, idle rounds or masks", ("metrics",))

    def _definitions(self) -> dict[str, dict]:
        if not isinstance(self.problems, dict) or not self.problems:
            raise SpecError("a spec needs at least one [problems.NAME] table", ("problems",))
        definitions = {}
        for name, raw in self.problems.items():
            raw = {"factory": raw} if callable(raw) else raw
            if not isinstance(raw, dict):
                raise SpecError(f"problems.{name} must be a table with a family or a factory", ("problems", name))
            try:
                definitions[name] = problems.define(raw, self.directory)
            except SettingError as error:
                raise SpecError(f"problem {name!r}: {error}", ("problems", name, error.key)) from None
        return definitions

    def _policies(self) -> dict[str, catalog.Known]:
        if not isinstance(self.policies, dict):
            raise SpecError("policies must be tables: [policies.NAME]", ("policies",))
        try:
            return catalog.catalog(self.policies, self.directory)
        except SettingError as error:
            raise SpecError(str(error), ("policies", *error.key)) from None


def _check_lookahead(lookahead: int, num_arms: int) -> None:
    try:
        subset(lookahead).check(num_arms)
    except ValueError as error:
        raise ValueError(f"lookahead: {error}") from None


def read_spec(path: Path | str) -> Spec:
    """The spec in a TOML file. A SpecError names the file and the line."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{path}: {error}") from None
    except RecursionError:
        raise SpecError(f"{path}: brackets are nested too deeply") from None
    try:
        return _from_document(document, path.parent)
    except SpecError as error:
        line = line_of(text, error.path, error.value)
        raise SpecError(f"{path}:{line}: {error}" if line else f"{path}: {error}", error.path, error.value) from None


def _from_document(document: dict, directory: Path) -> Spec:
    names = [field.name for field in dataclasses.fields(Spec) if field.name != "directory"]
    for key in document:
        if key not in names:
            raise SpecError(registry.unknown("entry", key, names), (key,))
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
