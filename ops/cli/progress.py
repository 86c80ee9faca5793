"""Progress bars on standard error, for a person who waits: none with ``--json``, in a pipe or in a log."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TaskProgressColumn, TimeRemainingColumn
from rich.text import Text

from ops.cli.console import cell, plain


class _What(ProgressColumn):
    """What goes on, in one line: it may name what others have chosen."""

    def render(self, task: Task) -> Text:
        return plain(cell(task.description))


@dataclass(frozen=True)
class Bar:
    """One bar."""

    progress: Progress
    task: TaskID

    def advance(self, count: float = 1) -> None:
        """Say that so much more is done."""
        self.progress.update(self.task, advance=count)

    def reached(self, done: float, total: float) -> None:
        """Say how much is done in all, and of how much."""
        self.show(done=done, total=total)

    def show(self, *, done: float | None = None, total: float | None = None, what: str | None = None) -> None:
        """Say how much is done in all, of how much, and what goes on; what is left out stays."""
        self.progress.update(self.task, completed=done, total=total, description=what)


def progress_bars(*, is_silent: bool) -> Progress:
    """Return the place of several bars, for a with block; their commands print results to standard output meanwhile."""
    # Its own redirection would draw on standard error what a command writes to standard output.
    return Progress(
        _What(),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, markup=False, highlight=False),
        redirect_stdout=False,
        disable=is_silent or not sys.stderr.isatty(),
    )


@contextmanager
def progress_bar(what: str, *, total: float | None, is_silent: bool) -> Iterator[Bar]:
    """Yield a bar for the block; without a total it only shows that something goes on."""
    with progress_bars(is_silent=is_silent) as progress:
        yield Bar(progress, progress.add_task(what, total=total))
