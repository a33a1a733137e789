"""The pictures of a sweep: metrics over time, heat maps over two settings, paired differences between policies."""

import collections
import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from jaxband import plots, registry
from jaxband.plots.style import LINES
from jaxband.report import labels
from jaxband.sweep import paired
from jaxband.sweep.results import Results
from jaxband.sweep.spec import settings

SHOWN = ("expected_reward", "bound_gap")  # unless other metrics are asked for
PANELS = 9  # of one picture; more make another
ALL_PAIRS = 15  # of one panel; where there are more, every policy is compared with the best
LEVEL = 0.05  # of Holm's corrected p-values


class Picture(NamedTuple):
    name: str  # of the file, without its ending
    title: str
    about: str  # how to read it
    draw: Callable[..., bytes]  # (format=...)


def pictures(
    results: Results, metrics: Iterable[str] = (), heat: tuple[str, str] | None = None, against: str | None = None
) -> list[Picture]:
    """All pictures of the given metrics. Raises ValueError for metrics or settings that are not there."""
    return [
        picture
        for metric in chosen(results, metrics)
        for picture in (
            *over_time(results, metric),
            *heat_maps(results, metric, heat),
            *differences(results, metric, against),
        )
    ]


def chosen(results: Results, metrics: Iterable[str]) -> list[str]:
    """The metrics that were asked for; by default reward and the gap to its bound, or whatever there is."""
    known = results.manifest.metrics
    for metric in metrics:
        if metric not in known:
            raise ValueError(registry.unknown("metric", metric, known))
    return list(metrics) or [metric for metric in SHOWN if metric in known] or list(known[:1])


def over_time(results: Results, metric: str) -> list[Picture]:
    """Means and bands over rounds; a panel per environment, several if it has many policies."""
    kept = [i for i, paths in enumerate(results.trajectories) if len(paths[metric])]
    if not kept:
        return []
    policies = labels.policies(results.cells)
    panels = [
        plots.Lines(
            title,
            [(policies[i], results.checkpoints(i), results.band(i, metric)) for i in places],
            results.cells[places[0]].environment,
        )
        for title, places in _panels(results, kept)
    ]
    counts = sorted({len(results.trajectories[i][metric]) for i in kept})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    about = f"Mean, and 5th to 95th percentile shaded, of the first {many} replications."
    about = f"{about} {labels.remark(metric)}".strip()
    what = f"cumulative {labels.metric(metric).removeprefix('total ')}"
    return _pages(
        f"time-{metric}", f"{_capital(what)} over time", about, panels,
        lambda page, title: functools.partial(plots.bands, page, what, title),
    )  # fmt: skip


def _panels(results: Results, places: list[int]) -> list[tuple[str, list[int]]]:
    """Cells of one environment together, but never more than can be told apart."""
    titles, panels, kept = labels.environments(results.cells), [], set(places)
    for everyone in by_environment(results).values():
        group = [i for i in everyone if i in kept]
        for extra, few in _split(results, group, []) if group else ():
            panels.append((", ".join([titles[group[0]], *extra]), few))
    return panels


def _split(results: Results, places: list[int], extra: list[str]) -> list[tuple[list[str], list[int]]]:
    """The places in as few groups as can be shown, each of one value of some setting."""
    if len(places) <= LINES:
        return [(extra, places)]
    ways = []
    for name in (n for n in settings.names_in(results.cells) if n not in settings.DEFAULT_FROM):
        groups = collections.defaultdict(list)
        for i in places:
            given = results.cells[i].settings.get(name)
            groups[labels.said(name, given) if given is not None else f"no {labels.word(name)}"].append(i)
        if len(groups) > 1:
            ways.append((max(map(len, groups.values())) > LINES, len(groups), len(ways), groups))
    if not ways:
        return [(extra, few) for few in _batched(places, LINES)]
    *_, groups = min(ways)
    return [part for text, group in groups.items() for part in _split(results, group, [*extra, text])]


def by_environment(results: Results) -> dict[str, list[int]]:
    """Places of the cells that met the same curves and noise."""
    groups = {}
    for i, cell in enumerate(results.cells):
        groups.setdefault(cell.environment, []).append(i)
    return groups


def heat_axes(results: Results, wanted: tuple[str, str] | None = None) -> tuple[str, str] | None:
    """The two settings with most values, or those that are `wanted`; None if fewer than two vary.

    Policies and problems are the last choice: they have panels of their own. Seeds are none.
    """
    axes = results.axes()
    if wanted is not None:
        for name in wanted:
            if name not in axes:
                raise ValueError(registry.unknown("setting that varies", name, axes) if axes else "no setting varies")
        if wanted[0] == wanted[1]:
            raise ValueError(f"a heat map needs two different settings, got {wanted[0]!r} twice")
        return wanted
    numbers = [name for name in axes if name not in ("policy", "problem", "seed")]
    ranked = sorted(numbers, key=lambda name: -len(axes[name])) + [n for n in ("policy", "problem") if n in axes]
    return (ranked[0], ranked[1]) if len(ranked) > 1 else None


def heat_maps(results: Results, metric: str, wanted: tuple[str, str] | None = None) -> list[Picture]:
    """The mean over two settings; a panel for every combination of the other settings that vary."""
    chosen_axes = heat_axes(results, wanted)
    if chosen_axes is None:
        return []
    x, y = chosen_axes
    axes = results.axes()
    others = [name for name in axes if name not in (x, y)]
    grids = {}
    for cell, arrays in zip(results.cells, results.totals, strict=True):
        values = cell.settings
        if x not in values and y not in values:
            continue
        key = tuple((name, values[name]) for name in others if name in values)
        _, grid = grids.setdefault(repr(key), (key, np.full((len(axes[y]), len(axes[x])), np.nan)))
        rows, columns = (
            axes[name].index(values[name]) if name in values else slice(None) for name in (y, x)
        )  # a policy that does not use a setting is the same all along it
        grid[rows, columns] = arrays[metric].mean()
    panels = [
        plots.Heat(", ".join(labels.said(*pair) for pair in key) or results.manifest.name, grid, _scale(key))
        for key, grid in grids.values()
    ]
    ticks = [[labels.value(name, given) for given in axes[name]] for name in (x, y)]
    what = f"mean {labels.metric(metric)}"
    about = (
        "Panels of the same problem have the same colours. A policy that does not use a setting is constant along it."
    )
    return _pages(
        f"heat-{metric}", f"{_capital(what)} by {labels.word(x)} and {labels.word(y)}", about, panels,
        lambda page, title: functools.partial(
            plots.heat, page, labels.axis(x), labels.axis(y), *ticks, value=what, title=title
        ),
    )  # fmt: skip


def _scale(key: tuple) -> str:
    return repr([pair for pair in key if pair[0] in settings.ENVIRONMENT])


def differences(results: Results, metric: str, against: str | None = None) -> list[Picture]:
    """What one policy earns more than another on the same curves and noise, with confidence intervals."""
    found, how = comparisons(results, metric, against)
    if not found:
        return []
    groups = {}
    for c in found:
        groups.setdefault(results.cells[c.first].environment, []).append(c)
    policies, titles, panels = labels.policies(results.cells), labels.environments(results.cells), []
    for group in groups.values():
        title, alike = titles[group[0].first], len({c.second for c in group}) == 1
        rows = [
            plots.Difference(
                policies[c.first] if alike else f"{policies[c.first]} − {policies[c.second]}",
                *(c.difference, c.low, c.high, c.p_holm < LEVEL),
            )
            for c in group
        ]
        panels.append((f"{title}: … − {policies[group[0].second]}" if alike else title, rows))
    about = f"{how} Mean and 95 % confidence interval; filled where p < {LEVEL:g} after Holm's correction."
    what = f"difference in {labels.metric(metric)}"
    better = "negative" if labels.lower_is_better(metric) else "positive"
    return _pages(
        f"differences-{metric}", f"Paired {what}", about, panels,
        lambda page, title: functools.partial(plots.differences, page, f"{what} ({better}: first is better)", title),
    )  # fmt: skip


def comparisons(results: Results, metric: str, against: str | None = None) -> tuple[list[paired.Comparison], str]:
    """All pairs, those with policy `against`, or where there are too many those with the best; and which it is."""
    values = [arrays[metric] for arrays in results.totals]
    known = sorted({cell.settings["policy"] for cell in results.cells})
    if against is not None and against not in known:
        raise ValueError(registry.unknown("policy", against, known))
    groups = by_environment(results)
    most = max((len(group) for group in groups.values()), default=0)
    if against is not None or most * (most - 1) // 2 <= ALL_PAIRS:
        how = (
            f"Against {labels.value('policy', against)}."
            if against
            else "All pairs that met the same curves and noise."
        )
        return paired.compare(values, paired.pairs(results.cells, against)), how
    sign = -1.0 if labels.lower_is_better(metric) else 1.0
    pairs = []
    for group in groups.values():
        best = max(group, key=lambda i: sign * values[i].mean())
        pairs += [(i, best) for i in group if i != best]
    return paired.compare(
        values, pairs
    ), "Every policy against the one with the best mean on the same curves and noise."


def _pages(name: str, title: str, about: str, panels: list, draw: Callable) -> list[Picture]:
    """One picture, or several if there are too many panels for one."""
    pages = _batched(panels, PANELS)
    several = len(pages) > 1
    return [
        Picture(
            f"{name}-{number}" if several else name,
            shown := f"{title} ({number} of {len(pages)})" if several else title,
            about,
            draw(list(page), shown),
        )
        for number, page in enumerate(pages, start=1)
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _batched(items: list, size: int) -> list[list]:
    return [items[i : i + size] for i in range(0, len(items), size)]
