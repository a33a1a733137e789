"""How long until a first result? The README's examples of two commits, in fresh processes, in turn.

    python benchmarks/first_result.py A B [--repeats 3] [--json FILE]

Every example runs with an empty cache (cold) and then with the cache that it left (warm). Times are processor seconds,
all threads, Python's start and imports included, the best of the repeats; stderr is what it printed there, in bytes.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import tables

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = {"simulate and compare": 0, "choose and update by hand": 1}  # the README's code blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        trees = [checkout(commit, Path(folder) / str(i)) for i, commit in enumerate(arguments.commits)]
        try:
            for name, number in EXAMPLES.items():
                runs = [[cold_and_warm(tree, number) for tree in trees] for _ in range(arguments.repeats)]
                for which, state in enumerate(("cold", "warm")):
                    seconds = [min(run[tree][which][0] for run in runs) for tree in range(2)]
                    printed = [max(run[tree][which][1] for run in runs) for tree in range(2)]
                    row = {"example": name, "cache": state, "A, s": seconds[0], "B, s": seconds[1]}
                    rows.append(
                        row | {"B / A": seconds[1] / seconds[0], "A, stderr": printed[0], "B, stderr": printed[1]}
                    )
        finally:
            for tree in trees:
                subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    tables.show(rows, arguments.json, commits=arguments.commits)


def checkout(commit: str, directory: Path) -> Path:
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(directory), commit], cwd=ROOT, check=True)
    return directory


def cold_and_warm(tree: Path, number: int) -> list[tuple[float, int]]:
    """(processor seconds, bytes on stderr) with an empty and with a filled cache."""
    code = re.findall(r"```python\n(.*?)```", (tree / "README.md").read_text(), re.DOTALL)[number]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PYTHONPATH": str(tree), "JAXBAND_CACHE": cache}
        return [run(code, tree, environment) for _ in range(2)]


def run(code: str, tree: Path, environment: dict[str, str]) -> tuple[float, int]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, len(done.stderr)


if __name__ == "__main__":
    main()
