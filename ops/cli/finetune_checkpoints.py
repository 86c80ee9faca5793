"""``memtend finetune deploy``, ``rollback`` and ``delete``: which checkpoint serves is a person's word."""

from typing import Annotated

import typer

from memcore.config.settings import Settings
from memcore.errors import MemoryInputError
from memcore.ledger.reindex import ReindexStage
from ops.cli.console import AsJson, show_facts
from ops.cli.finetune_service import TYPED, By, Reason, memory_service_of, word
from ops.cli.finetune_views import checkpoint_facts
from ops.cli.reindex_views import awaited, reindex_facts
from ops.cli.session import HomeOption, ledger_of, settings_of

_CheckpointId = Annotated[str, typer.Argument(help="The checkpoint's id; see `memtend finetune checkpoints`.")]

_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the switch, with a bar.")]


def deploy(  # a command's options
    checkpoint_id: _CheckpointId,
    by: By,
    reason: Reason = TYPED,
    force: Annotated[bool, typer.Option("--force", help="Also one that the gate rejected.")] = False,
    wait: _Wait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Fill a new collection with a checkpoint, then switch to it; reads and writes go on meanwhile."""
    settings = settings_of(home)
    with memory_service_of(settings) as (service, runner):
        runner.run(service.deploy_checkpoint(checkpoint_id, word(by, reason), is_forced=force))
    _seen_through(settings, wait=wait, as_json=as_json)


def rollback(
    by: By,
    checkpoint_id: Annotated[
        str | None, typer.Argument(help="The checkpoint that must be what is kept; whatever is kept when left out.")
    ] = None,
    reason: Reason = TYPED,
    wait: _Wait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Bring what served before up to date, and let it serve again."""
    settings = settings_of(home)
    with memory_service_of(settings) as (service, runner):
        runner.run(service.rollback_checkpoint(checkpoint_id, word(by, reason)))
    _seen_through(settings, wait=wait, as_json=as_json)


def delete(
    checkpoint_id: _CheckpointId,
    by: By,
    reason: Reason = TYPED,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without it, only its size is told.")] = False,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Delete a checkpoint and its folder; one that serves, is being filled, or is kept is refused."""
    with memory_service_of(settings_of(home)) as (service, runner):
        if not yes:
            found = runner.run(service.get_checkpoint(checkpoint_id))
            raise MemoryInputError("yes", f"would delete {found.size_bytes} bytes at {found.model_path}; say --yes")
        gone = runner.run(service.delete_checkpoint(checkpoint_id, word(by, reason)))
    show_facts(checkpoint_facts(gone, None), as_json=as_json)


def _seen_through(settings: Settings, *, wait: bool, as_json: bool) -> None:
    ended = awaited(settings, as_json=as_json) if wait else None
    with ledger_of(settings) as ledger:
        show_facts(reindex_facts(ledger, settings.company), as_json=as_json)
    if ended is not None and ended.stage is not ReindexStage.DONE:
        raise typer.Exit(1)
