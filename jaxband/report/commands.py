"""`jaxband plot` and `jaxband report`: a sweep's results as pictures, and as one page.

0 done · 2 an argument that makes no sense · 3 done, but the sweep is incomplete
"""

import sys
from pathlib import Path

from jaxband._runtime import atomic_files
from jaxband.plots.style import FORMATS
from jaxband.report import figures
from jaxband.report.page import page
from jaxband.sweep import results
from jaxband.sweep.results import Results

DONE, INCOMPLETE = 0, 3


def add_to(commands) -> None:
    """Add the two commands to the parser's sub-commands."""
    plot = commands.add_parser("plot", help="draw the results of a sweep", description="Draw the results of a sweep.")
    plot.set_defaults(command=_plot)
    plot.add_argument("directory", type=Path, metavar="DIR")
    plot.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go (default: DIR/plots)")
    plot.add_argument("--format", default="png", metavar="F", help="png, svg, or png,svg (default: png)")
    plot.add_argument("--metric", action="append", default=[], metavar="M", help="draw this one; may be repeated")
    plot.add_argument("--heat", nargs=2, metavar=("X", "Y"), help="settings of the heat map (default: most values)")
    plot.add_argument("--against", metavar="POLICY", help="differences from this policy only")
    report = commands.add_parser("report", help="the results of a sweep as one HTML page")
    report.set_defaults(command=_report)
    report.add_argument("directory", type=Path, metavar="DIR")
    report.add_argument("--out", type=Path, metavar="FILE.html", help="default: DIR/report.html")


def _plot(arguments) -> int:
    formats = list(dict.fromkeys(arguments.format.split(",")))
    for name in formats:
        if name not in FORMATS:
            raise ValueError(f"--format must be png, svg or both as png,svg; got {arguments.format!r}")
    found = _load(arguments.directory)
    heat = tuple(arguments.heat) if arguments.heat else None
    drawn = figures.pictures(found, arguments.metric, heat, arguments.against)
    if not drawn:
        raise ValueError("there is nothing to draw: one cell, and no trajectories were kept (trajectories = 0)")
    out = arguments.out or arguments.directory / "plots"
    for picture in drawn:
        for name in formats:
            path = out / f"{picture.name}.{name}"
            atomic_files.write_atomic(path, picture.draw(format=name))
            print(path)
    _say_what_is_not_there(found, heat)
    return _code(found)


def _report(arguments) -> int:
    found = results.load(arguments.directory)
    out = arguments.out or arguments.directory / "report.html"
    atomic_files.write_atomic(out, page(found, arguments.directory).encode())
    print(out)
    return _code(found)


def _load(directory: Path) -> Results:
    found = results.load(directory)
    if not found.cells:
        raise ValueError(f"{directory} has no results yet; run the sweep first")
    return found


def _say_what_is_not_there(found: Results, heat: tuple[str, str] | None) -> None:
    if not found.manifest.trajectories:
        print("nothing over time: the spec has trajectories = 0", file=sys.stderr)
    if heat is None and figures.heat_axes(found) is None:
        print("no heat map: fewer than two settings vary", file=sys.stderr)


def _code(found: Results) -> int:
    for _, reason in found.rejected:
        print(f"passed over: {reason}", file=sys.stderr)
    if found.missing:
        print(f"incomplete: {found.missing} replications are missing; run the sweep again", file=sys.stderr)
    return INCOMPLETE if found.missing else DONE
