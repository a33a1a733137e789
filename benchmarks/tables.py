"""What the benchmarks share: a table on the terminal, and a JSON file that says where it was measured."""

import json
import os
import platform
from pathlib import Path

import jax


def show(rows: list[dict], file: Path | None = None, **facts) -> None:
    """Print rows as an aligned table; write them, with machine and versions, if a file is named."""
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    if file:
        write(rows, file, **facts)


def write(rows: list[dict], file: Path, **facts) -> None:
    """Rows as JSON, with machine and versions."""
    file.write_text(json.dumps({"machine": machine() | facts, "rows": rows}, indent=1) + "\n")


def machine() -> dict:
    """Where this was measured."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "devices": [str(device) for device in jax.local_devices()],
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": jax.lib.__version__,
    }


def _cell(value) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "–" if value is None else str(value)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
