"""Rows as CSV, the same bytes for the same rows, or as a Parquet file."""

import csv
import io
from pathlib import Path

from jaxband._runtime import atomic_files


def to_csv(rows: list[dict]) -> str:
    """One line per row beneath a line of names; numbers to full precision, nothing where there is no value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    if rows:
        writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def write_parquet(rows: list[dict], path: Path) -> None:
    """The same rows with their types."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow; install it with: pip install 'jaxband[results]'") from None
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    atomic_files.write_atomic(Path(path), buffer.getvalue())


def _cell(value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def aligned(rows: list[dict]) -> str:
    """Text for a terminal, columns under their names."""
    lines = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)] if rows else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines)
