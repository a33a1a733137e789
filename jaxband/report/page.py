"""One page about a sweep, complete in itself: what was run, what came out, how sure that is, and what it took."""

import json
import math
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from jaxband.report import figures, html, labels, run_log
from jaxband.report.run_log import VERSIONS, Session
from jaxband.simulation import summaries
from jaxband.sweep import paired
from jaxband.sweep.results import Results
from jaxband.sweep.spec import settings

MOST_PICTURES = 4  # of a kind; `jaxband plot` draws them all
MOST_ROWS = 2000  # of a table; `jaxband collect` has them all
MOST_REJECTED = 20
LEADING = ("total_reward", "bound_gap")  # metrics that are shown; the others are folded
STATISTICS = ("mean", "standard error", "5 %", "median", "95 %")


def page(results: Results, directory: Path) -> str:
    """The HTML of a report."""
    name = results.manifest.name
    sections = [html.heading(1, name), html.paragraph(_summary(results)), *_warnings(results)]
    if results.cells:
        sections += [*_totals(results), *_differences(results), *_pictures(results), *_common(results)]
    sections += [*_timings(run_log.read(directory)), *_spec(results)]
    return html.document(f"{name}: a jaxband sweep", sections)


def _summary(results: Results) -> str:
    cells = results.manifest.cells
    policies = len({cell.settings["policy"] for cell in cells})
    worlds = len({cell.environment for cell in cells})
    return (
        f"{_counted(len(cells), 'cell')}: {_counted(policies, 'policy', 'policies')} in "
        f"{_counted(worlds, 'environment')}, {_counted(results.manifest.replications, 'replication')} of each. "
        f"Policies in the same environment met the same curves and the same noise, replication by replication."
    )


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _warnings(results: Results) -> Iterator[str]:
    if results.missing:
        share = results.missing / (len(results.manifest.cells) * results.manifest.replications)
        what = f"{_counted(results.missing, 'replication')} ({share:.1%}) are missing"
        absent = len(results.manifest.cells) - len(results.cells)
        more = f"; {_counted(absent, 'cell')} have no results yet" if absent else ""
        yield html.paragraph(f"Incomplete: {what}{more}. Run the sweep again to resume.", "warn")
    for _, reason in results.rejected[:MOST_REJECTED]:
        yield html.paragraph(f"Passed over: {reason}", "warn")
    if len(results.rejected) > MOST_REJECTED:
        yield html.paragraph(f"… and {len(results.rejected) - MOST_REJECTED} more files.", "warn")


def _common(results: Results) -> Iterator[str]:
    """What all cells have in common."""
    cells = [cell.settings for cell in results.manifest.cells]
    names = [n for n in settings.names_in(results.manifest.cells) if n in cells[0]]
    same = [n for n in names if len({repr(values.get(n)) for values in cells}) == 1]
    yield html.heading(2, "In common")
    yield html.definitions((labels.axis(n), labels.value(n, cells[0][n])) for n in same)


def _totals(results: Results) -> Iterator[str]:
    yield html.heading(2, "Totals")
    yield html.paragraph(
        "Mean over replications with its standard error, and percentiles of the replications. "
        "★ marks the best mean of an environment, and those that a paired test does not tell from it "
        f"(p ≥ {figures.LEVEL:g} after Holm's correction)."
    )
    known = results.manifest.metrics
    leading = [metric for metric in LEADING if metric in known] or list(known[:1])
    for metric in (*leading, *(metric for metric in known if metric not in leading)):
        text, title = _totals_of(results, metric), _capital(labels.metric(metric))
        yield html.heading(3, title) + "\n" + text if metric in leading else html.folded(title, text)


def _totals_of(results: Results, metric: str) -> str:
    environments, policies = labels.environments(results.cells), labels.policies(results.cells)
    best, lower = leaders(results, metric), labels.lower_is_better(metric)
    rows, places = [], _by_environment(results)[:MOST_ROWS]
    found = {i: summaries.summarize(results.totals[i][metric]) for i in places}
    digits = _digits([summary.standard_error for summary in found.values()])
    for i, summary in found.items():
        mean, *others = (_number(x, digits) for x in summary)
        shown = html.Cell(f"★ {mean}", "best") if i in best else mean
        rows.append([environments[i], policies[i], shown, *others, f"{len(results.totals[i][metric]):,}"])
    caption = f"{_capital(labels.metric(metric))} at the horizon; {'lower' if lower else 'higher'} is better"
    columns = ["environment", "policy", *STATISTICS, "replications"]
    remark = html.paragraph(labels.remark(metric)) + "\n" if labels.remark(metric) else ""
    return remark + html.table(columns, rows, caption + _cut(len(results.cells)), numbers=[*STATISTICS, "replications"])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def leaders(results: Results, metric: str) -> set[int]:
    """The best cell of every environment, and those that cannot be told from it."""
    sign = -1.0 if labels.lower_is_better(metric) else 1.0
    values = [arrays[metric] for arrays in results.totals]
    found, pairs = set(), []
    for group in figures.by_environment(results).values():
        best = max(group, key=lambda i: sign * values[i].mean())
        found.add(best)
        pairs += [(i, best) for i in group if i != best]
    return found | {c.first for c in paired.compare(values, pairs) if c.p_holm >= figures.LEVEL}


def _by_environment(results: Results) -> list[int]:
    return [i for group in figures.by_environment(results).values() for i in group]


def _differences(results: Results) -> Iterator[str]:
    metric = figures.chosen(results, ())[0]
    found, how = figures.comparisons(results, metric)
    if not found:
        return
    environments, policies = labels.environments(results.cells), labels.policies(results.cells)
    numbers = ["difference", "standard error", "95 % from", "to", "p", "p, Holm", "replications"]
    digits = _digits([c.standard_error for c in found])
    rows = [
        [
            *(environments[c.first], policies[c.first], policies[c.second]),
            _number(c.difference, digits, "+"),
            _number(c.standard_error, digits),
            *(_number(x, digits, "+") for x in (c.low, c.high)),
            *map(_probability, (c.p, c.p_holm)),
            f"{c.replications:,}",
        ]
        for c in found[:MOST_ROWS]
    ]
    yield html.heading(2, "Paired differences")
    yield html.paragraph(
        f"{how} What two policies share cancels in the difference, so that it is known better than either mean. "
        f"Intervals are of each difference by itself; p-values also corrected for all {len(found):,} (Holm)."
    )
    caption = f"First − second, {labels.metric(metric)}{_cut(len(found))}"
    yield html.table(["environment", "first", "second", *numbers], rows, caption, numbers)


def _pictures(results: Results) -> Iterator[str]:
    yield html.heading(2, "Pictures")
    metrics = figures.chosen(results, ())
    kinds = [figures.over_time(results, metric) for metric in metrics]
    kinds += [figures.heat_maps(results, metrics[0]), figures.differences(results, metrics[0])]
    for kind in kinds:
        for picture in kind[:MOST_PICTURES]:
            yield html.figure(picture.draw(format="svg"), picture.title, f"{picture.title}. {picture.about}")
        if len(kind) > MOST_PICTURES:
            yield html.paragraph(f"{len(kind) - MOST_PICTURES} more of this kind: jaxband plot draws them all.", "dim")
    if not any(kinds):
        yield html.paragraph("There is nothing to draw: one cell, and no trajectories were kept.", "dim")


def _timings(log: list[Session]) -> Iterator[str]:
    yield html.heading(2, "How it was run")
    if not log:
        yield html.paragraph("There is no log.", "dim")
        return
    columns = ["started (UTC)", "missing units", "done", "seconds", "units per second", "end", *VERSIONS, "devices"]
    rows = [
        [
            time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(s.started)),
            *(f"{s.wanted:,}", f"{s.done:,}", f"{s.seconds:,.1f}"),
            f"{s.done / s.seconds:,.2f}" if s.done and s.seconds > 0 else "–",
            s.end,
            *(s.versions.get(name, "–") for name in VERSIONS),
            _devices(s.devices),
        ]
        for s in log
    ]
    again = _counted(len(log) - 1, "time")
    caption = f"Started once, resumed {again}" if len(log) > 1 else "Started once"
    units, seconds = sum(s.done for s in log), sum(s.seconds for s in log)
    yield html.paragraph(f"{_counted(units, 'unit')} of work in {seconds:,.1f} seconds, over all sessions.")
    yield html.table(columns, rows, caption, numbers=columns[1:5])


def _devices(devices: list[str]) -> str:
    kinds = [device.rsplit(" ", 1)[0] for device in devices]
    return ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds)) or "–"


def _spec(results: Results) -> Iterator[str]:
    yield html.heading(2, "The spec")
    text = json.dumps(json.loads(results.manifest.to_bytes()), indent=1, ensure_ascii=False)
    yield html.folded("The spec as it is kept: problems, and every cell with all its settings", html.preformatted(text))


def _number(value: float, digits: int, sign: str = "") -> str:
    """With so many digits after the point; a dash for nan."""
    return f"{value:{sign},.{digits}f}".replace("-", "−") if math.isfinite(value) else "–"


def _digits(errors: list[float]) -> int:
    """After the point, so that a typical standard error has two that count."""
    known = [error for error in errors if math.isfinite(error) and error > 0]
    return min(max(1 - math.floor(math.log10(statistics.median(known))), 0), 6) if known else 1


def _probability(p: float) -> str:
    return f"{p:.2g}" if p >= 1e-4 else "< 0.0001"


def _cut(rows: int) -> str:
    return f"; the first {MOST_ROWS:,} of {rows:,}, jaxband collect prints all" if rows > MOST_ROWS else ""
