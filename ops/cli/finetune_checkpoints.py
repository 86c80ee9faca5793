"""``memtend finetune deploy``, ``rollback`` and ``delete``: which checkpoint serves is a person's word."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from memcore.config.settings import Settings
from memcore.errors import CheckpointNotFoundError, MemoryInputError
from memcore.finetune.factory import create_deployment
from memcore.ledger.ledger import Ledger
from memcore.ledger.reindex import ReindexStage
from memcore.reindex.factory import create_mirror
from ops.cli.console import AsJson, show_facts
from ops.cli.finetune_views import checkpoint_facts
from ops.cli.reindex_views import awaited, reindex_facts
from ops.cli.ringing import ring_reindex
from ops.cli.session import HomeOption, backend_of, ledger_of, policy_of, settings_of

if TYPE_CHECKING:
    from memcore.finetune.deployment import CheckpointDeployment
    from memcore.ledger.checkpoint import Checkpoint

_T = TypeVar("_T")

_CheckpointId = Annotated[str, typer.Argument(help="The checkpoint's id; see `memtend finetune checkpoints`.")]

_By = Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")]

_Reason = Annotated[str | None, typer.Option("--reason", help="Why; it is kept in the audit.")]

_Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the switch, with a bar.")]


def deploy(  # a command's options
    checkpoint_id: _CheckpointId,
    by: _By,
    reason: _Reason = None,
    force: Annotated[bool, typer.Option("--force", help="Also one that the gate rejected.")] = False,
    wait: _Wait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Fill a new collection with a checkpoint, then switch to it; reads and writes go on meanwhile."""
    settings = settings_of(home)
    # Whoever connects first writes down what serves.
    with backend_of(settings):
        pass
    _carried_out(
        settings, lambda deployment: deployment.deploy(checkpoint_id, actor=by, reason=reason, is_forced=force)
    )
    _seen_through(settings, wait=wait, as_json=as_json)


def rollback(
    by: _By,
    checkpoint_id: Annotated[
        str | None, typer.Argument(help="The checkpoint that must be what is kept; whatever is kept when left out.")
    ] = None,
    reason: _Reason = None,
    wait: _Wait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Bring what served before up to date, and let it serve again."""
    settings = settings_of(home)
    _carried_out(settings, lambda deployment: deployment.rollback(checkpoint_id, actor=by, reason=reason))
    _seen_through(settings, wait=wait, as_json=as_json)


def delete(
    checkpoint_id: _CheckpointId,
    by: _By,
    reason: _Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without it, only its size is told.")] = False,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Delete a checkpoint and its folder; one that serves, is being filled, or is kept is refused."""
    settings = settings_of(home)
    if not yes:
        with ledger_of(settings) as ledger:
            found = ledger.checkpoints.get(settings.company, checkpoint_id)
        if found is None:
            raise CheckpointNotFoundError
        raise MemoryInputError("yes", f"would delete {found.size_bytes} bytes at {found.model_path}; say --yes")
    gone: Checkpoint = _carried_out(
        settings, lambda deployment: deployment.delete(checkpoint_id, actor=by, reason=reason)
    )
    show_facts(checkpoint_facts(gone, None), as_json=as_json)


def _carried_out(settings: Settings, deed: Callable[["CheckpointDeployment"], Awaitable[_T]]) -> _T:
    policy = policy_of(settings)

    async def run(ledger: Ledger) -> _T:
        async with create_mirror(settings, policy) as mirror:
            return await deed(create_deployment(settings, policy, ledger, mirror))

    with ledger_of(settings) as ledger:
        return asyncio.run(run(ledger))


def _seen_through(settings: Settings, *, wait: bool, as_json: bool) -> None:
    ring_reindex(settings)
    ended = awaited(settings, as_json=as_json) if wait else None
    with ledger_of(settings) as ledger:
        show_facts(reindex_facts(ledger, settings.company), as_json=as_json)
    if ended is not None and ended.stage is not ReindexStage.DONE:
        raise typer.Exit(1)
