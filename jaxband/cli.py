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
from jaxband import files
from jaxband.experiments import figure3, rewards
from jaxband.experiments.protocols import PROTOCOLS
from jaxband.experiments.report import Report
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
    for name, what in (
        ("table1", "total reward, l = 5 (Table 1)"),
        ("lengthscales", "the same for l = 2.5 and 7.5"),
        ("figure4", "cumulative regret of all four policies, l = 5, 2.5 and 7.5 (Figure 4)"),
    ):
        command = _add_experiment(experiments, name, what, _run_rewards, replications=500)
        command.add_argument(
            "--protocol", choices=PROTOCOLS, help="run only this one (default: published, as-written beside)"
        )
    what = "optimistic planning: reward and depth of the tree against the budget (Figure 3)"
    command = _add_experiment(experiments, "figure3", what, _run_figure3, replications=100)
    command.add_argument("--full", action="store_true", help="all of the paper's budgets: several times as long")
    sweep_commands.add_to(commands)
    report_commands.add_to(commands)
    return parser


def _add_experiment(experiments, name: str, what: str, run, replications: int) -> argparse.ArgumentParser:
    """A sub-command with the options that all experiments share; `run(arguments)` returns a Report."""
    command = experiments.add_parser(name, help=what, description=f"Reproduce {what}.")
    command.set_defaults(command=_reproduce, experiment=name, run=run)
    command.add_argument("--replications", type=int, default=replications, metavar="N")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument(
        "--out", type=Path, help="directory for the JSON file and the plots (default: results/EXPERIMENT)"
    )
    command.add_argument("--json", action="store_true", help="print the results as one JSON document, and nothing else")
    command.add_argument("--no-plots", action="store_true")
    return command


def _run_rewards(arguments) -> Report:
    return rewards.run(
        arguments.experiment, arguments.protocol, arguments.replications, arguments.seed, announce=_announce
    )


def _run_figure3(arguments) -> Report:
    return figure3.run(arguments.replications, arguments.seed, arguments.full, announce=_announce)


def _reproduce(arguments) -> int:
    began = time.perf_counter()
    report = arguments.run(arguments)
    _announce("")
    seconds = time.perf_counter() - began
    document = report.document | {
        "seconds": seconds,
        "versions": {"jaxband": jaxband.__version__, "jax": jax.__version__, "jaxlib": jaxlib.__version__},
        "devices": [str(device) for device in jax.devices()],
        "python": platform.python_version(),
    }
    out = arguments.out or Path("results") / arguments.experiment
    text = json.dumps(document, indent=1) + "\n"
    contents = {"results.json": text.encode()}
    if not arguments.no_plots:
        contents |= {name: draw() for name, draw in report.pictures.items()}
    for name, content in contents.items():
        files.write(out / name, content)
    if arguments.json:
        print(text, end="")
    else:
        _print_table(report)
        print("\n".join(["", *report.remarks, f"{seconds:.1f} s; wrote " + ", ".join(str(out / n) for n in contents)]))
    return 0


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
