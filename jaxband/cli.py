"""The command line: `jaxband reproduce table1` and its siblings."""

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import jax
import jaxlib

import jaxband
from jaxband import files, plots
from jaxband.experiments import paper, rewards
from jaxband.experiments.protocols import PROTOCOLS


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
    for name, what in (("table1", "total reward, l = 5 (Table 1)"), ("lengthscales", "the same for l = 2.5 and 7.5")):
        command = experiments.add_parser(name, help=what, description=f"Reproduce {what}.")
        command.set_defaults(command=_reproduce_rewards, experiment=name)
        command.add_argument(
            "--protocol", choices=PROTOCOLS, help="run only this one (default: published, as-written beside)"
        )
        command.add_argument("--replications", type=int, default=500, metavar="N")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument(
            "--out", type=Path, help="directory for the JSON file and the plots (default: results/EXPERIMENT)"
        )
        command.add_argument(
            "--json", action="store_true", help="print the results as one JSON document, and nothing else"
        )
        command.add_argument("--no-plots", action="store_true")
    return parser


def _reproduce_rewards(arguments) -> int:
    began = time.perf_counter()
    first, *beside = [arguments.protocol] if arguments.protocol else list(PROTOCOLS)
    cells = rewards.run(arguments.experiment, (first, *beside), arguments.replications, arguments.seed, _announce)
    document = {
        "experiment": arguments.experiment,
        "protocol": first,
        "replications": arguments.replications,
        "seed": arguments.seed,
        "horizon": paper.HORIZON,
        "interval": "5th and 95th percentile of the replications",
        "cells": [rewards.as_json(cell) for cell in cells[first]],
        "beside": {protocol: [rewards.as_json(cell) for cell in cells[protocol]] for protocol in beside},
        "seconds": time.perf_counter() - began,
        "versions": {"jaxband": jaxband.__version__, "jax": jax.__version__, "jaxlib": jaxlib.__version__},
        "devices": [str(device) for device in jax.devices()],
        "python": platform.python_version(),
    }
    out = arguments.out or Path("results") / arguments.experiment
    text = json.dumps(document, indent=1) + "\n"
    written = [out / "results.json"]
    files.write(written[0], text.encode())
    if not arguments.no_plots:
        for metric, ylabel in (
            ("total_reward", "cumulative reward"),
            ("instantaneous_regret", "cumulative instantaneous regret"),
        ):
            written.append(out / f"{metric}.png")
            files.write(written[-1], plots.cumulative(_panels(cells[first], metric), ylabel, f"{first} protocol"))
    if arguments.json:
        print(text, end="")
    else:
        _print_table(document, arguments.experiment)
        print(f"\n{document['seconds']:.1f} s; wrote " + ", ".join(map(str, written)))
    return 0


def _announce(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def _panels(cells, metric: str) -> dict:
    done = [cell for cell in cells if cell.result is not None]
    return {
        setting: [
            (rewards.label(cell.policy, cell.lengthscale), cell.result.checkpoints, cell.result.bands[metric])
            for cell in done
            if cell.setting == setting
        ]
        for setting in paper.FAMILIES
    }


def _print_table(document: dict, experiment: str) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        raise SystemExit(
            "tables need rich; install it with: pip install 'jaxband[experiments]', or use --json"
        ) from None
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    title = f"Total reward at T = {paper.HORIZON}, mean (5 %, 95 %) of {document['replications']} replications"
    table = Table(title=title)
    beside = document["beside"]
    for column in ("setting", "policy", "paper", f"ours, {document['protocol']}", "difference", *beside):
        table.add_column(column, justify="left" if column in ("setting", "policy") else "right")
    for index, cell in enumerate(document["cells"]):
        others = [_interval(cells[index], "mean", "low", "high") for cells in beside.values()]
        name = rewards.label(cell["policy"], cell["lengthscale"])
        printed = _interval(cell, "paper", "paper_low", "paper_high")
        ours = _interval(cell, "mean", "low", "high")
        difference = f"{cell['difference']:+.1f}" if cell["status"] == "done" else ""
        table.add_row(cell["setting"], name, printed, ours, difference, *others)
    Console(width=max(Console().width, 120) if not sys.stdout.isatty() else None).print(table)


def _interval(cell: dict, mean: str, low: str, high: str) -> str:
    if cell[mean] is None:
        return cell["status"]
    return f"{cell[mean]:.1f} ({cell[low]:.1f}, {cell[high]:.1f})"


if __name__ == "__main__":
    raise SystemExit(main())
