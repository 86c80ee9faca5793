"""What ``memtend doctor`` says of the collection that serves, and of a reindex."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from memcore.backends.factory import create_configured_embedder, embedder_choice, followed_row
from memcore.config.settings import Settings
from memcore.embedding.protocol import Embedder
from memcore.ledger.serving import ServedCollection
from ops.cli.finding import Finding, require_answer
from ops.cli.session import ledger_of, policy_of

#: How long nobody may have had a reindex in hand that has not ended: a dead worker's lease and two sweeps.
_STUCK = timedelta(minutes=3)


def embedder(settings: Settings) -> Iterator[Finding]:
    """Say which embedder is configured, and whether it is the one that serves; a deployed checkpoint always may."""
    policy = policy_of(settings)
    with ledger_of(settings) as ledger:
        serving = ledger.servings.get(settings.company)
    now = None if serving is None else serving.current
    if now is not None and now.checkpoint_id is not None:
        yield _deployed(now, followed_row(settings, policy).load(now.choice))
        return
    if (server := embedder_choice(settings, policy).url) is not None:
        require_answer(server)
    configured = create_configured_embedder(settings, policy)
    if configured is None:
        return  # the backend embeds nothing
    configured.embed_query("is anybody there")
    seen = f"{configured.name}, {configured.dims} dimensions ({configured.kind})"
    wanted = (configured.name, configured.dims, policy.memory.storage.text_template)
    same = now is None or (now.identity.name, now.identity.dims, now.text_template) == wanted
    yield Finding(
        check="embedder",
        ok=same,
        seen=seen if same or now is None else f"{seen} is configured, and {now.identity.label} serves",
        mend="`memtend reindex` changes over to what is configured; or configure what serves",
    )


def reindex(settings: Settings) -> Iterator[Finding]:
    """Say how far a reindex has come, and whether it gets on."""
    with ledger_of(settings) as ledger:
        found, serving = ledger.reindexes.get(settings.company), ledger.servings.get(settings.company)
    if found is not None and found.finished_at is None:
        held = found.lease_until or found.rung_at
        is_stuck = found.trouble is not None or datetime.now(UTC) - held > _STUCK
        yield Finding(
            check="reindex",
            ok=not is_stuck,
            seen=f"{found.stage}, {found.fraction:.0%}" + (f", {found.trouble}" if found.trouble else ""),
            mend="does a worker take memory.reindex, is maintenance paused? `memtend reindex --cancel` ends it",
        )
    elif serving is not None and serving.previous is not None:
        yield Finding(
            check="reindex",
            ok=True,
            seen=f"{serving.previous.name} is kept for `memtend reindex --rollback`; `--drop-old` frees its space",
        )


def _deployed(now: ServedCollection, here: Embedder) -> Finding:
    here.embed_query("is anybody there")
    same = (here.name, here.dims) == (now.identity.name, now.identity.dims)
    return Finding(
        check="embedder",
        ok=same,
        seen=f"checkpoint {now.checkpoint_id} serves, {now.identity.label}"
        + ("" if same else f"; here is {here.name}"),
        mend=f"put {now.choice.model} back as it was, or `memtend finetune rollback`",
    )
