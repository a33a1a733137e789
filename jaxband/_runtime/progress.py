"""A progress bar for the host loop; silent unless standard error is a terminal."""

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(what: str, total: int, enabled: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Yields a function that is told how many units are newly done. `enabled` None: only on a terminal with rich."""
    progress = _rich_progress() if enabled or (enabled is None and sys.stderr.isatty()) else None
    if progress is None:
        yield lambda done: None
        return
    with progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


def _rich_progress():
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None

    class Rate(progress.ProgressColumn):
        def render(self, task) -> str:
            speed = task.finished_speed or task.speed
            return (f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s") if speed else ""

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        Rate(),
        progress.TimeRemainingColumn(),
    )
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)
