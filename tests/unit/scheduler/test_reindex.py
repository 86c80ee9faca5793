"""The sweep's part in a reindex: a lost message is sent again, also after its worker's death."""

from datetime import timedelta

from support.active_collections import served
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock

from memcore.ledger.collections import ReindexKind
from memcore.reindex import LEASE
from scheduler.sweep import REINDEX_REDISPATCH_AFTER, sweep

A_SECOND = timedelta(seconds=1)


def test_a_lost_message_is_sent_again_until_the_reindex_has_ended(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    collection_pointers, reindexes = job_context.ledger.collection_pointers, job_context.ledger.reindexes
    first = collection_pointers.adopt("acme", served("old"))
    sweep("{}", job_context)
    begun = collection_pointers.begin(
        "acme", version=first.version, target=served("new", generation=2), kind=ReindexKind.FORWARD, total=9
    )
    sweep("{}", job_context)
    assert job_context.dispatcher.reindexes == []
    clock.advance(REINDEX_REDISPATCH_AFTER + A_SECOND)
    sweep("{}", job_context)
    sweep("{}", job_context)
    assert job_context.dispatcher.reindexes == ["acme"]

    assert reindexes.claim("acme", lease=LEASE) is not None
    clock.advance(REINDEX_REDISPATCH_AFTER + A_SECOND)
    sweep("{}", job_context)
    assert job_context.dispatcher.reindexes == ["acme"], "a worker has it"
    clock.advance(LEASE)
    sweep("{}", job_context)
    assert job_context.dispatcher.reindexes == ["acme", "acme"], "its worker is dead"

    collection_pointers.cancel("acme", version=begun.version)
    clock.advance(REINDEX_REDISPATCH_AFTER + LEASE)
    sweep("{}", job_context)
    assert job_context.dispatcher.reindexes == ["acme", "acme"]
