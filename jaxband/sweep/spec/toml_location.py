"""Where in a TOML file something is written: `tomllib` tells what a file says, but not on which line."""

import re

HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=""")


def line_of(text: str, path: tuple, value=None) -> int | None:
    """The line of the entry at `path`, such as ("cell", 1, "depth"); of the given `value` within it, if it is there.

    None if neither the entry nor a table around it is found.

    >>> line_of('name = "a"\\n[grid]\\npolicy = [\\n  "rgp_tss",\\n]', ("grid", "policy"), "rgp_tss")
    4
    """
    lines = _entries(text)
    while path and path not in lines:
        path = path[:-1]
    if not path:
        return None
    return _line_of_value(text.splitlines(), lines, lines[path], value) if value is not None else lines[path]


def _entries(text: str) -> dict[tuple, int]:
    """The line of every table header and every key."""
    lines, table, counts = {}, (), {}

    def note(path: tuple, number: int) -> None:
        for depth in range(1, len(path) + 1):  # [a.b] makes a too
            lines.setdefault(path[:depth], number)

    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            note(table, number)
        elif key := KEY.match(line):
            note((*table, *_parts(key[1])), number)
    return lines


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def _line_of_value(text: list[str], lines: dict[tuple, int], first: int, value) -> int:
    """The first line from `first` on, before the next entry, that contains the value."""
    stop = min((number for number in lines.values() if number > first), default=len(text) + 1)
    written = {str(value), str(value).lower()}
    return next((n for n in range(first, stop) if any(w in text[n - 1] for w in written)), first)
