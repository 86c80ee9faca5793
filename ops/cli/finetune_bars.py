"""How far a fine-tune run is, while a person looks on: a bar for each stage, or lines where nothing can be drawn."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress

from memcore.finetune_models import STAGES, FineTuneStage
from memcore.ledger.finetune_run import FineTuneRun
from ops.cli.console import warn

#: Share of a stage after which another line is written.
_STEP = 0.25


@contextmanager
def run_bars(*, is_silent: bool) -> Iterator[Callable[[FineTuneRun], None]]:
    """Yield what is told of the run again and again.

    Args:
        is_silent: whether nothing is drawn or written.
    """
    if is_silent:
        yield lambda _run: None
    elif sys.stderr.isatty():
        with Progress() as progress:
            bars = {stage: progress.add_task(str(stage), total=1.0) for stage in STAGES}

            def draw(run: FineTuneRun) -> None:
                for stage, bar in bars.items():
                    progress.update(bar, completed=_done(run, stage))

            yield draw
    else:
        yield StageLines().write


class StageLines:
    """Write a line to the standard error for each quarter of a stage, for logs and pipes."""

    def __init__(self) -> None:
        self._written: dict[FineTuneStage, int] = {}

    def write(self, run: FineTuneRun) -> None:
        """Write what has been reached since the last look."""
        for stage in STAGES:
            reached = int(_done(run, stage) / _STEP)
            if reached > self._written.get(stage, 0):
                self._written[stage] = reached
                warn(f"{stage}: {reached * _STEP:.0%}")


def _done(run: FineTuneRun, stage: FineTuneStage) -> float:
    return 1.0 if stage in run.finished else (run.progress or 0.0) if stage is run.stage else 0.0
