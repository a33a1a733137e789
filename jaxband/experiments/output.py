"""What an experiment hands to the command line: a document to keep, a table to read, pictures to look at."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Report(NamedTuple):
    document: dict  # what results.json holds, beside versions and time
    title: str  # of the table
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]  # lines beneath the table
    pictures: dict[str, Callable[[], bytes]]  # file name -> PNG, drawn only if wanted
