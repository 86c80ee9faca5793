"""``memtend finetune``: train the embedder on the fleet's own texts, stage by stage, in a worker."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import sleep
from typing import Annotated, Any

import typer

from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.finetune.preflight import PreflightResult
from memcore.ledger.collections import MAX_PAGE, Checkpoint, CollectionPointer, ReindexStage
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.organization.audit import Confirmation
from memcore.models.finetune import STAGES, FineTunePlan, FineTuneStage
from ops.cli.console import say, show_json, warn
from ops.cli.maintenance.reindex import awaited, show_reindex
from ops.cli.progress import progress_bars
from ops.cli.session import Commands, JsonCommand

app = Commands("finetune", "Train the embedder on the fleet's own texts.")

#: What the audit says where a person gives no reason: that they typed it.
TYPED = "asked for by a command"

#: Share of a stage after which another line is written, and seconds between two looks at a run that is watched.
_STEP = 0.25
_POLL_INTERVAL_SECONDS = 0.5


@dataclass(frozen=True)
class _PlanOptions:
    """The options of a plan."""

    source_dir: Annotated[
        Path | None, typer.Option("--source-dir", help="Folder of documents (*.txt, *.md, *.rst, at any depth).")
    ] = None
    uses_memories: Annotated[
        bool, typer.Option("--memories/--no-memories", help="Train on what agents remember, and their tasks, too.")
    ] = True
    kind: Annotated[
        str, typer.Option(help="transformer, static (a table of word vectors), or both: the better one is kept.")
    ] = "both"
    base_model: Annotated[str | None, typer.Option(help="What is trained further: a model's name or folder.")] = None
    epochs: Annotated[int | None, typer.Option(help="How often each pair is seen.")] = None
    learning_rate: Annotated[float | None, typer.Option(help="Above 0.")] = None
    temperature: Annotated[float | None, typer.Option(help="Of the contrastive loss, above 0.")] = None
    top_k: Annotated[int | None, typer.Option(help="Hard negatives for each pair.")] = None
    batch_size: Annotated[int | None, typer.Option(help="Pairs of a step.")] = None
    validation_split: Annotated[
        float | None, typer.Option(help="Share of the passages that is kept to measure by.")
    ] = None
    chunk_words: Annotated[int | None, typer.Option(help="Words of a passage.")] = None
    queries_per_passage: Annotated[int | None, typer.Option(help="Questions made of each passage.")] = None
    llm_questions: Annotated[
        int | None, typer.Option(help="Most passages whose questions the language model writes; 0 asks none.")
    ] = None
    max_pairs: Annotated[int | None, typer.Option(help="Most pairs that are trained on.")] = None
    minutes: Annotated[float | None, typer.Option(help="Most time that the training of a kind takes.")] = None
    seed: Annotated[int | None, typer.Option(help="Of everything that is left to chance.")] = None
    threads: Annotated[
        int | None, typer.Option(help="Of the arithmetic, 1 to 128; 1, the default, gives the same checkpoint again.")
    ] = None

    def plan(self) -> FineTunePlan:
        """Return the plan; paths count from where the command is called. Raises MemoryInputError, naming the field."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        # The worker that reads them stands elsewhere.
        if self.source_dir is not None:
            given["source_dir"] = str(self.source_dir.absolute())
        if self.base_model is not None and Path(self.base_model).is_dir():
            given["base_model"] = str(Path(self.base_model).absolute())
        return FineTunePlan.model_validate(given)


@dataclass(frozen=True)
class _Person:
    """The person who types a command."""

    by: Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")]
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept in the audit.")] = TYPED

    def confirmation(self) -> Confirmation:
        """Return the confirmation by this person. Raises MemoryInputError."""
        return Confirmation(actor=self.by, confirm=True, reason=self.reason)


_CheckpointId = Annotated[str, typer.Argument(help="The checkpoint's id; see `memtend finetune checkpoints`.")]
_RunId = Annotated[str, typer.Argument(help="The run's id; see `memtend finetune runs`.")]
_AnyRunId = Annotated[str | None, typer.Argument(help="The run's id; the active one, or else the last, when left out.")]
_Limit = Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows, newest first.")]
_Watch = Annotated[bool, typer.Option("--watch/--no-watch", help="Stay until the run has ended, with bars.")]
_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the switch, with a bar.")]


@app.command("plan")
def plan(command: JsonCommand, asked: _PlanOptions) -> None:
    """Check whether a run can work on this machine, and start nothing; exit 1 when it cannot."""
    wanted = asked.plan()
    found = command.run(lambda service: service.finetune.run_preflight(wanted))
    if command.as_json:
        show_json({**found.model_dump(mode="json"), "can_proceed": found.can_proceed})
    else:
        _show_preflight(command, found)
    if not found.can_proceed:
        raise typer.Exit(1)


def _show_preflight(command: JsonCommand, found: PreflightResult) -> None:
    command.show_rows((check.model_dump() for check in found.checks), "name", "status", "message", "detail")
    for each in found.estimates:
        say(
            f"{each.kind}: about {each.seconds / 60.0:.1f} minutes and {each.bytes / 2**30:.1f} of "
            f"{each.free_bytes / 2**30:.1f} GiB, by one measured step: {each.pairs} of {each.wanted} pairs, "
            f"{each.batch_size} a step"
        )
    say("a run can be started" if found.can_proceed else "a run cannot be started like this")


@app.command("start")
def start(
    command: JsonCommand,
    asked: _PlanOptions,
    preflight: Annotated[
        bool, typer.Option(help="Look first; leave it out where the worker has another machine.")
    ] = True,
    is_watched: _Watch = False,
) -> None:
    """Queue a run; a worker of the group finetune carries it out: `memtend worker --group finetune`."""
    wanted = asked.plan()
    with command.service() as (service, runner):
        if preflight:
            _require(runner.run(service.finetune.run_preflight(wanted)))
        run = runner.run(service.finetune.start_fine_tune(wanted))
    _show_run(command, run, is_watched=is_watched)


@app.command("status")
def status(command: JsonCommand, run_id: _AnyRunId = None) -> None:
    """Show the progress of a run."""
    run = _found(command, run_id)
    if run is None:
        command.show_facts({"run_id": None, "stage": FineTuneStage.IDLE, "progress": None, "error": None})
    else:
        command.show_facts(run_facts(run))


@app.command("watch")
def watch(command: JsonCommand, run_id: _AnyRunId = None) -> None:
    """Wait until a run has ended, with a bar for each stage; exit 1 when it did not complete."""
    run = _found(command, run_id)
    if run is None:
        say("there is no run")
    else:
        _show_run(command, run, is_watched=True)


@app.command("cancel")
def cancel(command: JsonCommand, person: _Person) -> None:
    """End the active run; its worker stops the stage within seconds, and what is finished stays for a resume."""
    with command.service() as (service, runner):
        run_id = runner.run(service.finetune.cancel_fine_tune(person.confirmation()))
        run = None if run_id is None else runner.run(service.finetune.get_run(run_id))
    command.show_facts({"run_id": None} if run is None else run_facts(run))


@app.command("resume")
def resume(command: JsonCommand, run_id: _RunId, is_watched: _Watch = False) -> None:
    """Resume a failed or cancelled run after its last finished stage."""
    _show_run(command, command.run(lambda service: service.finetune.resume_fine_tune(run_id)), is_watched=is_watched)


@app.command("runs")
def runs(
    command: JsonCommand,
    limit: _Limit = 20,
    offset: Annotated[int, typer.Option(min=0, help="Rows that are passed over.")] = 0,
) -> None:
    """Show the runs, newest first."""
    found, total = command.run(lambda service: service.finetune.list_runs(limit=limit, offset=offset))
    rows = [run_facts(run) for run in found]
    if command.as_json:
        show_json({"runs": rows, "total": total})
    else:
        command.show_rows(rows, "run_id", "stage", "fraction", "started_at", "completed_at", "error")


@app.command("checkpoints")
def checkpoints(command: JsonCommand, limit: _Limit = 20) -> None:
    """Show checkpoints, newest first: the gate's verdict on each, and which one serves, is kept, or is filled."""
    with command.service() as (service, runner):
        found, _ = runner.run(service.finetune.list_checkpoints(limit=limit, offset=0))
        pointer = runner.run(service.finetune.get_serving())
    columns = ("checkpoint_id", "run_id", "kind", "base_model", "dims", "verdict", "use", "reason", "created_at")
    command.show_rows((_checkpoint_facts(each, pointer) for each in found), *columns)


@app.command("deploy")
def deploy(
    command: JsonCommand,
    checkpoint_id: _CheckpointId,
    person: _Person,
    force: Annotated[bool, typer.Option("--force", help="Also one that the gate rejected.")] = False,
    wait: _Wait = True,
) -> None:
    """Fill a new collection with a checkpoint's vectors, then switch to it; reads and writes continue meanwhile."""
    command.run(lambda service: service.finetune.deploy_checkpoint(checkpoint_id, person.confirmation(), force=force))
    _show_switch(command, wait=wait)


@app.command("rollback")
def rollback(
    command: JsonCommand,
    person: _Person,
    checkpoint_id: Annotated[
        str | None, typer.Argument(help="The checkpoint that must be what is kept; whatever is kept when left out.")
    ] = None,
    wait: _Wait = True,
) -> None:
    """Bring the collection that served before up to date, and let it serve again."""
    command.run(lambda service: service.finetune.rollback_checkpoint(checkpoint_id, person.confirmation()))
    _show_switch(command, wait=wait)


@app.command("delete")
def delete(
    command: JsonCommand,
    checkpoint_id: _CheckpointId,
    person: _Person,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without it, only its size is told.")] = False,
) -> None:
    """Delete a checkpoint and its folder, unless it serves, is being filled, or is kept."""
    with command.service() as (service, runner):
        if not yes:
            found = runner.run(service.finetune.get_checkpoint(checkpoint_id))
            raise MemoryInputError("yes", f"would delete {found.size_bytes} bytes at {found.model_path}; say --yes")
        gone = runner.run(service.finetune.delete_checkpoint(checkpoint_id, person.confirmation()))
    command.show_facts(_checkpoint_facts(gone, None))


def _show_switch(command: JsonCommand, *, wait: bool) -> None:
    ended = awaited(command) if wait else None
    show_reindex(command)
    if ended is not None and ended.stage is not ReindexStage.DONE:
        raise typer.Exit(1)


def _require(found: PreflightResult) -> None:
    failed = [check for check in found.checks if check.status == "fail"]
    if failed:
        reasons = "; ".join(f"{check.name}: {check.message}" for check in failed)
        raise MemoryConfigError(
            f"{reasons}: see `memtend finetune plan`, or say --no-preflight where the worker has another machine"
        )


def _found(command: JsonCommand, run_id: str | None) -> FineTuneRun | None:
    with command.service() as (service, runner):
        known = runner.run(service.finetune.get_fine_tune_status(run_id))
        if known.run_id is not None:
            return runner.run(service.finetune.get_run(known.run_id))
        newest, _ = runner.run(service.finetune.list_runs(limit=1, offset=0))
        return next(iter(newest), None)


def _checkpoint_facts(checkpoint: Checkpoint, pointer: CollectionPointer | None) -> dict[str, Any]:
    return {**checkpoint.model_dump(mode="json"), "use": None if pointer is None else pointer.use_of(checkpoint)}


def run_facts(run: FineTuneRun) -> dict[str, Any]:
    """Return what a person is shown of a run."""
    return {
        "run_id": run.run_id,
        "stage": run.stage,
        "progress": run.progress,
        "fraction": run.fraction,
        "error": run.reason,
        "stages_completed": [str(stage) for stage in run.stages_completed],
        "waits_for_a_worker": not run.stage.is_end and run.token is None,
        "tries": run.attempt,
        "cancel_requested_at": run.cancel_requested_at,
        "started_at": run.started_at,
        "updated_at": run.updated_at,
        "completed_at": run.finished_at,
        "duration_seconds": None if run.duration is None else run.duration.total_seconds(),
        "plan": run.plan,
    }


def _show_run(command: JsonCommand, run: FineTuneRun, *, is_watched: bool) -> None:
    """Show a run; a watched one when it has ended, with bars until then, and exit 1 when it is not complete."""
    if is_watched:
        run = _ended(command, run.run_id)
    command.show_facts(run_facts(run))
    if is_watched and run.stage is not FineTuneStage.COMPLETE:
        raise typer.Exit(1)


def _ended(command: JsonCommand, run_id: str) -> FineTuneRun:
    with command.service() as (service, runner), run_bars(is_silent=command.as_json) as seen:
        while True:
            run = runner.run(service.finetune.get_run(run_id))
            seen(run)
            if run.stage.is_end:
                return run
            sleep(_POLL_INTERVAL_SECONDS)


@contextmanager
def run_bars(*, is_silent: bool) -> Iterator[Callable[[FineTuneRun], None]]:
    """Yield what takes the run's state again and again, unless it is to be silent.

    It draws bars on a terminal, and else writes a line for each quarter of a stage, for logs and pipes.
    """
    if is_silent:
        yield lambda _run: None
    elif sys.stderr.isatty():
        with progress_bars(is_silent=False) as progress:
            bars = {stage: progress.add_task(str(stage), total=1.0) for stage in STAGES}

            def draw(run: FineTuneRun) -> None:
                for stage, bar in bars.items():
                    progress.update(bar, completed=_done(run, stage))

            yield draw
    else:
        written: dict[FineTuneStage, int] = {}

        def write(run: FineTuneRun) -> None:
            for stage in STAGES:
                reached = int(_done(run, stage) / _STEP)
                if reached > written.get(stage, 0):
                    written[stage] = reached
                    warn(f"{stage}: {reached * _STEP:.0%}")

        yield write


def _done(run: FineTuneRun, stage: FineTuneStage) -> float:
    return 1.0 if stage in run.finished else (run.progress or 0.0) if stage is run.stage else 0.0
