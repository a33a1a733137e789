"""The command line: `jaxband reproduce table1` and its siblings, `jaxband sweep`, `collect`, `plot` and `report`."""

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import jax
import jaxlib

import jaxband
from jaxband._runtime import atomic_files
from jaxband.experiments.output import Report
from jaxband.experiments.registry import EXPERIMENTS
from jaxband.report import commands as report_commands
from jaxband.sweep import commands as sweep_commands


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return arguments.command(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        print(f"jaxband: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jaxband", description="Recovering bandits in JAX.")
    parser.add_argument("--version", action="version", version=f"jaxband {jaxband.__version__}")
    commands = parser.add_subparsers(required=True)
    reproduce = commands.add_parser("reproduce", help="the paper's tables and figures, next to what the paper prints")
    experiments = reproduce.add_subparsers(required=True, metavar="EXPERIMENT")
    for name, experiment in EXPERIMENTS.items():
        _add_experiment(experiments, name, experiment.what, experiment.options)
    every = {name: how for experiment in EXPERIMENTS.values() for name, how in experiment.options.items()}
    every["replications"] = {"type": int, "metavar": "N", "help": "of every experiment (default: as many as its own)"}
    every["protocol"] = every["protocol"] | {"help": "run only this one (default: as each experiment's own)"}
    _add_experiment(experiments, "all", "all of these, each into a directory of its own", every)
    sweep_commands.add_to(commands)
    report_commands.add_to(commands)
    return parser


def _add_experiment(experiments, name: str, what: str, options: dict[str, dict]) -> None:
    """A sub-command with its own options and those that all experiments share."""
    command = experiments.add_parser(name, help=what, description=f"Reproduce {what}.")
    command.set_defaults(command=_reproduce, experiment=name)
    for option, how in options.items():
        command.add_argument(f"--{option}", **how)
    command.add_argument("--seed", type=int, default=0)
    where = "results" if name == "all" else f"results/{name}"
    command.add_argument("--out", type=Path, default=Path(where), help=f"for JSON files and plots (default: {where})")
    command.add_argument("--json", action="store_true", help="print the results as one JSON document, and nothing else")
    command.add_argument("--no-plots", action="store_true")


def _reproduce(arguments) -> int:
    """One experiment; or all, which share what they have in common."""
    if arguments.experiment != "all":
        document = _run_experiment(arguments.experiment, arguments, arguments.out)
    else:
        documents = {name: _run_experiment(name, arguments, arguments.out / name) for name in EXPERIMENTS}
        seconds = sum(document["seconds"] for document in documents.values())
        document = {"experiment": "all", "seconds": seconds, "experiments": documents}
    if arguments.json:
        print(_as_text(document), end="")
    return 0


def _run_experiment(name: str, arguments, out: Path) -> dict:
    """Run one, write what it made into `out`, print its table unless JSON is wanted; its document."""
    began = time.perf_counter()
    experiment = EXPERIMENTS[name]
    given = {option: getattr(arguments, option) for option in experiment.options}
    defaults = {option: how.get("default") for option, how in experiment.options.items()}
    options = {option: defaults[option] if value is None else value for option, value in given.items()}
    report = experiment.run(seed=arguments.seed, announce=lambda what: _announce(f"{name}: {what}"), **options)
    _announce("")
    seconds = time.perf_counter() - began
    document = report.document | {
        "seconds": seconds,
        "versions": {"jaxband": jaxband.__version__, "jax": jax.__version__, "jaxlib": jaxlib.__version__},
        "devices": [str(device) for device in jax.devices()],
        "python": platform.python_version(),
    }
    contents = {"results.json": _as_text(document).encode()}
    if not arguments.no_plots:
        contents |= {picture: draw() for picture, draw in report.pictures.items()}
    for file, content in contents.items():
        atomic_files.write_atomic(out / file, content)
    if not arguments.json:
        _print_table(report)
        print("\n".join(["", *report.remarks, f"{seconds:.1f} s; wrote " + ", ".join(str(out / n) for n in contents)]))
    return document


def _as_text(document: dict) -> str:
    return json.dumps(document, indent=1) + "\n"


def _announce(what: str) -> None:
    """Show on the terminal what is being run, in place of what was there."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def _print_table(report: Report) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        raise SystemExit(
            "tables need rich; install it with: pip install 'jaxband[experiments]', or use --json"
        ) from None
    table = Table(title=report.title)
    for column in report.columns:
        table.add_column(column, justify="left" if column in ("setting", "policy") else "right")
    for row in report.rows:
        table.add_row(*row)
    Console(width=max(Console().width, 120) if not sys.stdout.isatty() else None).print(table)


if __name__ == "__main__":
    raise SystemExit(main())
