"""`jaxband sweep` and `jaxband collect`: their arguments, what they print, and their exit codes.

0 done · 2 a spec or an argument that cannot be run · 3 incomplete: run the same command again · 130 interrupted
"""

import sys
from pathlib import Path

from jaxband._runtime import atomic_files
from jaxband.base import PolicyError
from jaxband.sweep import estimate, results, tables
from jaxband.sweep._run import run
from jaxband.sweep.engines.local import local_engine
from jaxband.sweep.engines.ray_cluster import ray_engine
from jaxband.sweep.spec import spec
from jaxband.sweep.storage.results_directory import DirectoryBusyError

DONE, INCOMPLETE = 0, 3


def add_to(commands) -> None:
    """Add the two commands to the parser's sub-commands."""
    sweep = commands.add_parser("sweep", help="run a spec, or what is left of it", description=__doc__)
    sweep.set_defaults(command=_sweep)
    sweep.add_argument("spec", type=Path, metavar="SPEC.toml")
    sweep.add_argument("--out", type=Path, metavar="DIR", help="results directory; the same one resumes")
    sweep.add_argument("--engine", choices=("local", "ray"), default="local")
    sweep.add_argument("--address", metavar="A", help="of a Ray cluster: auto, or host:port (default: start one here)")
    sweep.add_argument("--dry-run", action="store_true", help="print cells, compiles and an estimate; run nothing")
    collect = commands.add_parser("collect", help="the results of a sweep as a table")
    collect.set_defaults(command=_collect)
    collect.add_argument("directory", type=Path, metavar="DIR")
    where = collect.add_mutually_exclusive_group()
    where.add_argument("--csv", type=Path, metavar="FILE", nargs="?", help="write CSV there (default: standard output)")
    where.add_argument("--parquet", type=Path, metavar="FILE")
    collect.add_argument(
        "--paired", metavar="METRIC", help="differences between policies instead, with Holm's correction"
    )
    collect.add_argument("--against", metavar="POLICY", help="with --paired: compare with this policy only")


def _sweep(arguments) -> int:
    wanted = spec.read_spec(arguments.spec)
    if arguments.dry_run:
        print(estimate.describe(wanted, arguments.out))
        return DONE
    if arguments.out is None:
        raise ValueError("--out DIR is missing: where the results go")
    try:
        outcome = run(wanted, arguments.out, engine=_engine(arguments))
    except NotADirectoryError:
        raise  # will not be one the next time either
    except (OSError, DirectoryBusyError) as error:
        print(f"jaxband: {error}\n{arguments.out} is incomplete; run the same command to resume", file=sys.stderr)
        return INCOMPLETE
    except PolicyError as error:
        print(
            f"jaxband: {error}\n{arguments.out} is incomplete; mend it, run the same command to resume", file=sys.stderr
        )
        return INCOMPLETE
    except KeyboardInterrupt:
        print("what is done is kept; run the same command to resume", file=sys.stderr)
        raise
    for _, reason in outcome.rejected:
        print(f"set aside and computed again: {reason}", file=sys.stderr)
    what = f"{outcome.done} of {outcome.units} missing units in {outcome.seconds:.1f} s; results in {arguments.out}"
    print(f"{'done' if outcome.complete else 'incomplete'}: {what}", file=sys.stderr)
    return DONE if outcome.complete else INCOMPLETE


def _engine(arguments):
    if arguments.engine == "local":
        if arguments.address:
            raise ValueError(f"--address {arguments.address} needs --engine ray")
        return local_engine
    try:
        return ray_engine(arguments.address)
    except ImportError as error:
        raise ValueError(str(error)) from None


def _collect(arguments) -> int:
    if arguments.against and not arguments.paired:
        raise ValueError("--against needs --paired METRIC")
    found = results.load(arguments.directory)
    rows = found.paired(arguments.paired, arguments.against) if arguments.paired else found.rows()
    if arguments.parquet:
        try:
            tables.write_parquet(rows, arguments.parquet)
        except ImportError as error:
            raise ValueError(str(error)) from None
    elif arguments.csv:
        atomic_files.write_atomic(arguments.csv, tables.to_csv(rows).encode())
    else:
        print(tables.to_csv(rows), end="")
    for _, reason in found.rejected:
        print(f"passed over: {reason}", file=sys.stderr)
    if found.missing:
        print(f"incomplete: {found.missing} replications are missing; run the sweep again", file=sys.stderr)
    return INCOMPLETE if found.missing else DONE
