"""The sweep's part in a reindex: a lost message is sent again, also after its worker's death."""

from support.active_collections import served
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock

from memcore.jobs import ReindexPayload
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.collections import ReindexKind
from memcore.ledger.work_items import REDISPATCH_AFTER
from scheduler.sweep import sweep
from workers.celery_task import perform


def test_a_lost_message_is_sent_again_until_the_reindex_has_ended(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    collection_pointers, reindexes = job_context.ledger.collection_pointers, job_context.ledger.reindexes
    first = collection_pointers.adopt("acme", served("old"))
    perform(sweep, "{}", job_context)
    begun = collection_pointers.begin(
        "acme", version=first.version, target=served("new", generation=2), kind=ReindexKind.FORWARD, total=9
    )
    reindex = reindexes.last("acme")
    assert reindex is not None
    message = ("acme", reindex.reindex_id)

    def sent() -> list[tuple[str, str]]:
        perform(sweep, "{}", job_context)
        return job_context.dispatcher.dispatched_for(ReindexPayload)

    assert sent() == []
    clock.advance(REDISPATCH_AFTER)
    assert sent() == [message]
    assert sent() == [message]

    assert reindexes.claim("acme", reindex.reindex_id, lease=LEASE_LENGTH) is not None
    assert sent() == [message], "a worker has it"
    clock.advance(LEASE_LENGTH)
    assert sent() == [message] * 2, "its worker is dead"

    collection_pointers.cancel("acme", version=begun.version)
    clock.advance(4 * REDISPATCH_AFTER)
    assert sent() == [message] * 2
