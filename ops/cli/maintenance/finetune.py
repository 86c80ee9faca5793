"""``memtend finetune``: train the embedder on the fleet's own texts, stage by stage, in a worker."""

from typing import Annotated

import typer

from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.finetune.preflight import PreflightResult
from memcore.ledger.embedders.reindexes import ReindexStage
from ops.cli.console import AsJson, say, show_facts, show_json, show_rows
from ops.cli.maintenance import finetune_plan as reported
from ops.cli.maintenance.finetune_views import checkpoint_facts, checkpoints, run_facts, runs, status, watch, watched
from ops.cli.maintenance.reindex import awaited, reindex_facts
from ops.cli.session import (
    TYPED,
    By,
    HomeOption,
    Reason,
    confirmation_phrase,
    ledger_of,
    memory_service_of,
    settings_of,
)

_CheckpointId = Annotated[str, typer.Argument(help="The checkpoint's id; see `memtend finetune checkpoints`.")]

_FrozenWait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the switch, with a bar.")]


def deploy(  # a command's options
    checkpoint_id: _CheckpointId,
    by: By,
    reason: Reason = TYPED,
    force: Annotated[bool, typer.Option("--force", help="Also one that the gate rejected.")] = False,
    wait: _FrozenWait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Fill a new collection with a checkpoint's vectors, then switch to it; reads and writes continue meanwhile."""
    settings = settings_of(home)
    with memory_service_of(settings) as (service, runner):
        runner.run(service.deploy_checkpoint(checkpoint_id, confirmation_phrase(by, reason), is_forced=force))
    _seen_through(settings, wait=wait, as_json=as_json)


def rollback(
    by: By,
    checkpoint_id: Annotated[
        str | None, typer.Argument(help="The checkpoint that must be what is kept; whatever is kept when left out.")
    ] = None,
    reason: Reason = TYPED,
    wait: _FrozenWait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Bring the collection that served before up to date, and let it serve again."""
    settings = settings_of(home)
    with memory_service_of(settings) as (service, runner):
        runner.run(service.rollback_checkpoint(checkpoint_id, confirmation_phrase(by, reason)))
    _seen_through(settings, wait=wait, as_json=as_json)


def delete(
    checkpoint_id: _CheckpointId,
    by: By,
    reason: Reason = TYPED,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without it, only its size is told.")] = False,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Delete a checkpoint and its folder, unless it serves, is being filled, or is kept."""
    with memory_service_of(settings_of(home)) as (service, runner):
        if not yes:
            found = runner.run(service.get_checkpoint(checkpoint_id))
            raise MemoryInputError("yes", f"would delete {found.size_bytes} bytes at {found.model_path}; say --yes")
        gone = runner.run(service.delete_checkpoint(checkpoint_id, confirmation_phrase(by, reason)))
    show_facts(checkpoint_facts(gone, None), as_json=as_json)


def _seen_through(settings: Settings, *, wait: bool, as_json: bool) -> None:
    ended = awaited(settings, as_json=as_json) if wait else None
    with ledger_of(settings) as ledger:
        show_facts(reindex_facts(ledger, settings.company), as_json=as_json)
    if ended is not None and ended.stage is not ReindexStage.DONE:
        raise typer.Exit(1)


_RunId = Annotated[str, typer.Argument(help="The run's id; see `memtend finetune runs`.")]

_Watch = Annotated[bool, typer.Option("--watch/--no-watch", help="Stay until the run has ended, with bars.")]

#: What a row of the checks has.
_CHECK_COLUMNS = ("name", "status", "message", "detail")


def plan(  # a command's options
    source_dir: reported.SourceDir = None,
    memories: reported.Memories = True,
    kind: reported.Kind = "transformer",
    base_model: reported.BaseModel = None,
    epochs: reported.Epochs = None,
    learning_rate: reported.LearningRate = None,
    temperature: reported.Temperature = None,
    top_k: reported.TopK = None,
    batch_size: reported.BatchSize = None,
    validation_split: reported.ValidationSplit = None,
    chunk_words: reported.ChunkWords = None,
    queries_per_passage: reported.Queries = None,
    llm_questions: reported.LlmQuestions = None,
    max_pairs: reported.MaxPairs = None,
    seed: reported.Seed = None,
    threads: reported.Threads = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a run can work on this machine; start nothing."""
    asked = reported.plan_of(
        source_dir=source_dir, uses_memories=memories, base_model=base_model, kind=kind, epochs=epochs,
        learning_rate=learning_rate, temperature=temperature, top_k=top_k, batch_size=batch_size,
        validation_split=validation_split, chunk_words=chunk_words, queries_per_passage=queries_per_passage,
        llm_questions=llm_questions, max_pairs=max_pairs, seed=seed, threads=threads,
    )  # fmt: skip
    with memory_service_of(settings_of(home)) as (service, runner):
        found = runner.run(service.run_preflight(asked))
    _show_checks(found, as_json=as_json)


def start(  # a command's options
    source_dir: reported.SourceDir = None,
    memories: reported.Memories = True,
    kind: reported.Kind = "transformer",
    base_model: reported.BaseModel = None,
    epochs: reported.Epochs = None,
    learning_rate: reported.LearningRate = None,
    temperature: reported.Temperature = None,
    top_k: reported.TopK = None,
    batch_size: reported.BatchSize = None,
    validation_split: reported.ValidationSplit = None,
    chunk_words: reported.ChunkWords = None,
    queries_per_passage: reported.Queries = None,
    llm_questions: reported.LlmQuestions = None,
    max_pairs: reported.MaxPairs = None,
    seed: reported.Seed = None,
    threads: reported.Threads = None,
    health_checks: Annotated[
        bool,
        typer.Option(
            "--preflight/--no-preflight", help="Look first; leave it out where the worker has another machine."
        ),
    ] = True,
    survives_retention: _Watch = False,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Queue a run; a worker of the group finetune carries it out: `memtend worker --group finetune`."""
    settings = settings_of(home)
    asked = reported.plan_of(
        source_dir=source_dir, uses_memories=memories, base_model=base_model, kind=kind, epochs=epochs,
        learning_rate=learning_rate, temperature=temperature, top_k=top_k, batch_size=batch_size,
        validation_split=validation_split, chunk_words=chunk_words, queries_per_passage=queries_per_passage,
        llm_questions=llm_questions, max_pairs=max_pairs, seed=seed, threads=threads,
    )  # fmt: skip
    with memory_service_of(settings) as (service, runner):
        if health_checks:
            _require(runner.run(service.run_preflight(asked)))
        run = runner.run(service.start_fine_tune(asked))
    if survives_retention:
        watched(settings, run.run_id, as_json=as_json)
        return
    show_facts(run_facts(run), as_json=as_json)


def cancel(by: By, reason: Reason = TYPED, home: HomeOption = None, as_json: AsJson = False) -> None:
    """End the active run; its worker stops the stage within seconds, and what is finished stays for a resume."""
    with memory_service_of(settings_of(home)) as (service, runner):
        run_id = runner.run(service.cancel_fine_tune(confirmation_phrase(by, reason)))
        run = None if run_id is None else runner.run(service.get_run(run_id))
    show_facts({"run_id": None} if run is None else run_facts(run), as_json=as_json)


def resume(
    run_id: _RunId, survives_retention: _Watch = False, home: HomeOption = None, as_json: AsJson = False
) -> None:
    """Resume a failed or cancelled run after its last finished stage."""
    settings = settings_of(home)
    with memory_service_of(settings) as (service, runner):
        run = runner.run(service.resume_fine_tune(run_id))
    if survives_retention:
        watched(settings, run.run_id, as_json=as_json)
        return
    show_facts(run_facts(run), as_json=as_json)


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    group = typer.Typer(no_args_is_help=True, help="Train the embedder on the fleet's own texts.")
    for command in (plan, start, status, watch, cancel, resume, runs, checkpoints, deploy, rollback, delete):
        group.command(command.__name__)(command)
    app.add_typer(group, name="finetune")


def _require(found: PreflightResult) -> None:
    failed = [check for check in found.checks if check.status == "fail"]
    if failed:
        reasons = "; ".join(f"{check.name}: {check.message}" for check in failed)
        raise MemoryConfigError(
            f"{reasons}: see `memtend finetune plan`, or say --no-preflight where the worker has another machine"
        )


def _show_checks(found: PreflightResult, *, as_json: bool) -> None:
    if as_json:
        show_json({**found.model_dump(mode="json"), "can_proceed": found.can_proceed})
        return
    show_rows([check.model_dump() for check in found.checks], columns=_CHECK_COLUMNS, as_json=False)
    if found.recommended_batch_size is not None:
        say(f"batch that this machine holds: {found.recommended_batch_size}")
    say("a run can be started" if found.can_proceed else "a run cannot be started like this")
