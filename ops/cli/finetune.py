"""``memtend finetune``: train the embedder on the fleet's own texts, stage by stage, in a worker."""

from typing import Annotated

import typer

from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError
from memcore.finetune.gather import Gathering
from memcore.finetune.plan import FineTunePlan
from memcore.finetune.preflight import PreflightResult, preflight
from memcore.finetune.run_folder import RUNS
from ops.cli import finetune_plan as told
from ops.cli.console import AsJson, say, show_facts, show_json, show_rows
from ops.cli.finetune_views import checkpoints, run_facts, runs, status, watch, watched
from ops.cli.ringing import ring_finetune
from ops.cli.session import HomeOption, backend_of, ledger_of, settings_of

_RunId = Annotated[str, typer.Argument(help="The run's id; see `memtend finetune runs`.")]

_Watch = Annotated[bool, typer.Option("--watch/--no-watch", help="Stay until the run has ended, with bars.")]

#: What a row of the checks has.
_CHECK_COLUMNS = ("name", "status", "message", "detail")


def plan(  # a command's options
    source_dir: told.SourceDir = None,
    memories: told.Memories = True,
    kind: told.Kind = "transformer",
    base_model: told.BaseModel = None,
    epochs: told.Epochs = None,
    learning_rate: told.LearningRate = None,
    temperature: told.Temperature = None,
    top_k: told.TopK = None,
    batch_size: told.BatchSize = None,
    validation_split: told.ValidationSplit = None,
    chunk_words: told.ChunkWords = None,
    queries_per_passage: told.Queries = None,
    max_pairs: told.MaxPairs = None,
    seed: told.Seed = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Look whether a run could go well on this machine, and start nothing."""
    asked = told.plan_of(
        source_dir=source_dir, uses_memories=memories, base_model=base_model, kind=kind, epochs=epochs,
        learning_rate=learning_rate, temperature=temperature, top_k=top_k, batch_size=batch_size,
        validation_split=validation_split, chunk_words=chunk_words, queries_per_passage=queries_per_passage,
        max_pairs=max_pairs, seed=seed,
    )  # fmt: skip
    _show_checks(_looked(settings_of(home), asked), as_json=as_json)


def start(  # a command's options
    source_dir: told.SourceDir = None,
    memories: told.Memories = True,
    kind: told.Kind = "transformer",
    base_model: told.BaseModel = None,
    epochs: told.Epochs = None,
    learning_rate: told.LearningRate = None,
    temperature: told.Temperature = None,
    top_k: told.TopK = None,
    batch_size: told.BatchSize = None,
    validation_split: told.ValidationSplit = None,
    chunk_words: told.ChunkWords = None,
    queries_per_passage: told.Queries = None,
    max_pairs: told.MaxPairs = None,
    seed: told.Seed = None,
    looks: Annotated[
        bool,
        typer.Option(
            "--preflight/--no-preflight", help="Look first; leave it out where the worker has another machine."
        ),
    ] = True,
    stays: _Watch = False,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Queue a run; a worker of the group finetune carries it out: `memtend worker --group finetune`."""
    settings = settings_of(home)
    asked = told.plan_of(
        source_dir=source_dir, uses_memories=memories, base_model=base_model, kind=kind, epochs=epochs,
        learning_rate=learning_rate, temperature=temperature, top_k=top_k, batch_size=batch_size,
        validation_split=validation_split, chunk_words=chunk_words, queries_per_passage=queries_per_passage,
        max_pairs=max_pairs, seed=seed,
    )  # fmt: skip
    if looks:
        _require(_looked(settings, asked))
    with ledger_of(settings) as ledger:
        run = ledger.finetune_runs.start(settings.company, asked.model_dump(mode="json"))
    ring_finetune(settings, run.run_id)
    if stays:
        watched(settings, run.run_id, as_json=as_json)
        return
    show_facts(run_facts(run), as_json=as_json)


def cancel(home: HomeOption = None, as_json: AsJson = False) -> None:
    """End the active run; its worker stops the stage within seconds, and what is finished stays for a resume."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        run = ledger.finetune_runs.cancel(settings.company)
    if run is None:
        show_facts({"run_id": None}, as_json=as_json)
        return
    if not run.stage.is_end:
        # Its worker may be dead: whoever hears it first ends it.
        ring_finetune(settings, run.run_id)
    show_facts(run_facts(run), as_json=as_json)


def resume(run_id: _RunId, stays: _Watch = False, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Let a failed or cancelled run go on behind the stages that it has finished."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        run = ledger.finetune_runs.resume(settings.company, run_id)
    ring_finetune(settings, run.run_id)
    if stays:
        watched(settings, run.run_id, as_json=as_json)
        return
    show_facts(run_facts(run), as_json=as_json)


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    group = typer.Typer(no_args_is_help=True, help="Train the embedder on the fleet's own texts.")
    for command in (plan, start, status, watch, cancel, resume, runs, checkpoints):
        group.command(command.__name__)(command)
    app.add_typer(group, name="finetune")


def _looked(settings: Settings, asked: FineTunePlan) -> PreflightResult:
    def memories(enough: int) -> int:
        with ledger_of(settings) as ledger, backend_of(settings) as (backend, runner):
            gathering = Gathering(backend, ledger, company=settings.company, alive=lambda: None)
            return runner.run(gathering.count(enough=enough))

    return preflight(asked, runs=settings.home / RUNS, memories=memories)


def _require(found: PreflightResult) -> None:
    failed = [check for check in found.checks if check.status == "fail"]
    if failed:
        told_by = "; ".join(f"{check.name}: {check.message}" for check in failed)
        raise MemoryConfigError(f"{told_by}: see `memtend finetune plan`")


def _show_checks(found: PreflightResult, *, as_json: bool) -> None:
    if as_json:
        show_json({**found.model_dump(mode="json"), "can_proceed": found.can_proceed})
        return
    show_rows([check.model_dump() for check in found.checks], columns=_CHECK_COLUMNS, as_json=False)
    if found.recommended_batch_size is not None:
        say(f"batch that this machine holds: {found.recommended_batch_size}")
    say("a run can be started" if found.can_proceed else "a run cannot be started like this")
