"""``memtend reindex``: another embedder, while agents go on reading and writing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from memcore.backends.factory import create_configured_embedder, embedder_choice
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.ledger.ledger import Ledger
from memcore.ledger.serving import Serving
from memcore.reindex.factory import create_mirror
from memcore.reindex.planning import ReindexPlanning
from ops.cli.console import AsJson, show_facts
from ops.cli.reindex_views import awaited, reindex_facts
from ops.cli.ringing import ring_reindex
from ops.cli.session import HomeOption, backend_of, ledger_of, policy_of, settings_of

if TYPE_CHECKING:
    from memcore.config.policy import Policy


def reindex(  # a command's options
    *,
    status: Annotated[bool, typer.Option("--status", help="Only tell how far it has come, and what serves.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="End it before the switch; what serves goes on.")] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Bring the old collection up to date and let it serve again.")
    ] = False,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Delete the collection that is kept for a rollback.")
    ] = False,
    dense_weight: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of the vectors in the weighted fusion, switched with the embedder."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the switch, with a bar.")] = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Fill a new collection with the configured embedder, then switch to it; reads and writes go on meanwhile."""
    asked = [name for name, wanted in _asked(status, cancel, rollback, drop_old) if wanted]
    if len(asked) > 1:
        raise MemoryInputError("reindex", f"{' and '.join(asked)} are two things: ask for one")
    settings = settings_of(home)
    policy = policy_of(settings)
    if cancel or drop_old:
        _planned(settings, policy, lambda planning: planning.cancel() if cancel else planning.drop_old())
    elif not status:
        if rollback:
            _planned(settings, policy, lambda planning: planning.go_back())
        else:
            _begin(settings, policy, dense_weight)
        ring_reindex(settings)
        if wait:
            awaited(settings, as_json=as_json)
    with ledger_of(settings) as ledger:
        show_facts(reindex_facts(ledger, settings.company), as_json=as_json)


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command("reindex")(reindex)


def _asked(status: bool, cancel: bool, rollback: bool, drop_old: bool) -> list[tuple[str, bool]]:
    return [("--status", status), ("--cancel", cancel), ("--rollback", rollback), ("--drop-old", drop_old)]


def _begin(settings: Settings, policy: "Policy", dense_weight: float | None) -> None:
    # The encoder's module brings the store's client.
    from memcore.backends.mem0.build import encoder_of  # noqa: PLC0415  # see above

    # Whoever connects first writes down what serves.
    with backend_of(settings):
        pass
    embedder = create_configured_embedder(settings, policy)
    if embedder is None:
        raise MemoryConfigError("reindex: no backend of this policy embeds anything")
    _planned(
        settings,
        policy,
        lambda planning: planning.begin(
            embedder,
            choice=embedder_choice(settings, policy),
            encoder=encoder_of(policy.memory),
            text_template=policy.memory.storage.text_template,
            dense_weight=dense_weight,
        ),
    )


def _planned(settings: Settings, policy: "Policy", plan: Callable[[ReindexPlanning], Awaitable[Serving]]) -> None:
    async def run(ledger: Ledger) -> None:
        async with create_mirror(settings, policy) as mirror:
            await plan(ReindexPlanning(mirror, ledger, company=settings.company))

    with ledger_of(settings) as ledger:
        asyncio.run(run(ledger))
