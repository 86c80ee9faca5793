"""``memtend finetune status``, ``watch``, ``runs`` and ``checkpoints``: how far runs are, and what they left."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import Annotated, Any

import typer
from rich.progress import Progress

from memcore.config.settings import Settings
from memcore.errors import FineTuneRunNotFoundError
from memcore.ledger.embedders.collections import MAX_PAGE, Checkpoint, CollectionPointer
from memcore.ledger.embedders.finetune_runs import FineTuneRun
from memcore.models.finetune import STAGES, FineTuneStage
from ops.cli.console import AsJson, say, show_facts, show_json, show_rows, warn
from ops.cli.session import HomeOption, ledger_of, memory_service_of, settings_of

#: Share of a stage after which another line is written.
_STEP = 0.25


@contextmanager
def run_bars(*, is_silent: bool) -> Iterator[Callable[[FineTuneRun], None]]:
    """Yield the run's state again and again.

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


#: Pause between two looks at a run that is watched, in seconds.
_POLL_INTERVAL_SECONDS = 0.5

_RunId = Annotated[str | None, typer.Argument(help="The run's id; the active one, or else the last, when left out.")]

_Limit = Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows, newest first.")]

#: What a row of each table has; `--json` has all.
_RUN_COLUMNS = ("run_id", "stage", "fraction", "started_at", "completed_at", "error")
_CHECKPOINT_COLUMNS = (
    "checkpoint_id",
    "run_id",
    "kind",
    "base_model",
    "dims",
    "verdict",
    "use",
    "reason",
    "created_at",
)


def status(run_id: _RunId = None, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Show the progress of a run."""
    settings = settings_of(home)
    run = _found(settings, run_id)
    if run is None:
        show_facts({"run_id": None, "stage": FineTuneStage.IDLE, "progress": None, "error": None}, as_json=as_json)
        return
    show_facts(run_facts(run), as_json=as_json)


def watch(run_id: _RunId = None, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Wait until a run has ended, with a bar for each stage; exit 1 when it did not complete."""
    settings = settings_of(home)
    run = _found(settings, run_id)
    if run is None:
        say("there is no run")
        return
    watched(settings, run.run_id, as_json=as_json)


def runs(
    limit: _Limit = 20,
    offset: Annotated[int, typer.Option(min=0, help="Rows that are passed over.")] = 0,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the runs, newest first."""
    settings = settings_of(home)
    with memory_service_of(settings) as (service, runner):
        found, total = runner.run(service.list_runs(limit=limit, offset=offset))
    if as_json:
        show_json({"runs": [run_facts(run) for run in found], "total": total})
        return
    show_rows([run_facts(run) for run in found], columns=_RUN_COLUMNS, as_json=False)


def checkpoints(limit: _Limit = 20, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Show checkpoints, newest first: the gate's verdict on each, and which one serves, is kept, or is filled."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        found = ledger.checkpoints.page(settings.company, limit=limit)
        pointer = ledger.collection_pointers.get(settings.company)
    show_rows([checkpoint_facts(each, pointer) for each in found], columns=_CHECKPOINT_COLUMNS, as_json=as_json)


def checkpoint_facts(checkpoint: Checkpoint, pointer: CollectionPointer | None) -> dict[str, Any]:
    """Return what a person is shown of a checkpoint, and what it is used for."""
    return {**checkpoint.model_dump(mode="json"), "use": None if pointer is None else pointer.use_of(checkpoint)}


def run_facts(run: FineTuneRun) -> dict[str, Any]:
    """Return what a person is shown of a run."""
    return {
        "run_id": run.run_id,
        "stage": run.stage,
        "progress": run.progress,
        "fraction": run.fraction,
        "error": run.error,
        "stages_completed": [str(stage) for stage in run.stages_completed],
        "waits_for_a_worker": not run.stage.is_end and run.token is None,
        "tries": run.tries,
        "cancel_requested_at": run.cancel_requested_at,
        "started_at": run.started_at,
        "updated_at": run.updated_at,
        "completed_at": run.completed_at,
        "duration_seconds": None if run.duration is None else run.duration.total_seconds(),
        "plan": run.plan,
    }


def watched(settings: Settings, run_id: str, *, as_json: bool) -> None:
    """Draw a run's bars until it has ended, show how, and exit with 1 when it is not complete."""
    with ledger_of(settings) as ledger, run_bars(is_silent=as_json) as seen:
        while True:
            run = ledger.finetune_runs.get(settings.company, run_id)
            if run is None:
                raise FineTuneRunNotFoundError
            seen(run)
            if run.stage.is_end:
                break
            sleep(_POLL_INTERVAL_SECONDS)
    show_facts(run_facts(run), as_json=as_json)
    if run.stage is not FineTuneStage.COMPLETE:
        raise typer.Exit(1)


def _found(settings: Settings, run_id: str | None) -> FineTuneRun | None:
    with memory_service_of(settings) as (service, runner):
        status = runner.run(service.get_fine_tune_status(run_id))
        if status.run_id is not None:
            return runner.run(service.get_run(status.run_id))
        newest, _ = runner.run(service.list_runs(limit=1, offset=0))
        return next(iter(newest), None)
