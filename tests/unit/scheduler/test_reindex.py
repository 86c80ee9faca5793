"""The sweep's part in a reindex: a lost message is sent again, also after its worker's death."""

from datetime import timedelta

from support.active_collections import served
from support.job_contexts import ScriptedCrew
from support.ledger_records import StoppedClock

from memcore.ledger.embedders.reindexes import ReindexKind
from memcore.reindex.service import LEASE
from scheduler.sweep import REINDEX_UNHEARD, sweep

A_SECOND = timedelta(seconds=1)


def test_a_lost_message_is_sent_again_until_the_reindex_has_ended(crew: ScriptedCrew, clock: StoppedClock) -> None:
    servings, reindexes = crew.ledger.servings, crew.ledger.reindexes
    first = servings.adopt("acme", served("old"))
    sweep("{}", crew)
    begun = servings.begin(
        "acme", version=first.version, target=served("new", generation=2), kind=ReindexKind.FORWARD, total=9
    )
    sweep("{}", crew)
    assert crew.bell.reindexes == []
    clock.advance(REINDEX_UNHEARD + A_SECOND)
    sweep("{}", crew)
    sweep("{}", crew)
    assert crew.bell.reindexes == ["acme"]

    assert reindexes.take("acme", lease=LEASE) is not None
    clock.advance(REINDEX_UNHEARD + A_SECOND)
    sweep("{}", crew)
    assert crew.bell.reindexes == ["acme"], "a worker has it"
    clock.advance(LEASE)
    sweep("{}", crew)
    assert crew.bell.reindexes == ["acme", "acme"], "its worker is dead"

    servings.cancel("acme", version=begun.version)
    clock.advance(REINDEX_UNHEARD + LEASE)
    sweep("{}", crew)
    assert crew.bell.reindexes == ["acme", "acme"]
