"""Groups that runs judged: kept once, decided once, known again by their memories, and gone in time."""

from datetime import timedelta
from typing import Any

import pytest
from support.ledger_records import COMPANY, StoppedClock, make_record

from memcore.ledger.consolidation_groups import (
    ConsolidationGroup,
    GroupState,
    answer_proposed,
    packed_summary,
    withdraw_proposed,
)
from memcore.ledger.ledger import Ledger
from memcore.models.archival import ArchivalMode
from memcore.models.memory import MemoryCategory

PROPOSED, APPROVED, DISMISSED = GroupState.PROPOSED, GroupState.APPROVED, GroupState.DISMISSED


def group(*source_ids: str, run_id: str = "run", state: GroupState = PROPOSED, **more: Any) -> ConsolidationGroup:
    return ConsolidationGroup.model_validate(
        {
            "company": COMPANY,
            "run_id": run_id,
            "agent_id": "ada",
            "category": MemoryCategory.EPISODIC,
            "strategy": "condense",
            "state": state,
            "source_ids": source_ids,
            "body": b"text",
            **more,
        }
    )


def answered(ledger: Ledger, state: GroupState, places: list[int] | None, run_id: str = "run") -> tuple[int, ...]:
    clock, database = ledger.consolidation_groups._clock, ledger.consolidation_groups._database
    with database.write() as connection:
        return answer_proposed(connection, COMPANY, run_id, state, by="person:Ada", at=clock(), places=places)


def states(ledger: Ledger, run_id: str = "run") -> list[tuple[int, GroupState, bytes | None]]:
    return [(each.place, each.state, each.body) for each in ledger.consolidation_groups.of_run(COMPANY, run_id)]


def test_a_group_comes_back_whole_and_keeps_its_place(ledger: Ledger, clock: StoppedClock) -> None:
    groups, summary = ledger.consolidation_groups, make_record("s")
    figures = {"probes": 9, "found_before": 9, "found_after": 7}
    first = group("a", "b", kept_id="k", mode=ArchivalMode.ABSTRACTIVE, seen="h", body=packed_summary(summary))
    groups.note([first, group("c", "d")])
    groups.note(
        [group("c", "d", state=GroupState.REFUSED, body=None, reason="loses names", **figures), group("e", "f")]
    )
    groups.note([])

    one, two, three = groups.of_run(COMPANY, "run")
    assert one == first.model_copy(update={"place": 1, "created_at": clock()})
    assert one.summary is not None
    assert (one.summary.entry, one.summary.vectors) == (summary.entry, None)
    assert (two.place, two.state, two.found_after, two.summary) == (2, GroupState.REFUSED, 7, None)
    assert (three.place, three.source_ids) == (3, ("e", "f"))
    assert "body" not in repr(one)
    assert groups.of_run("other", "run") == groups.of_run(COMPANY, "other") == ()
    assert groups.of_run(COMPANY, "run", state=GroupState.REFUSED) == (two,)


def test_a_person_decides_once_and_a_worker_says_what_became_of_it(ledger: Ledger, clock: StoppedClock) -> None:
    groups = ledger.consolidation_groups
    groups.note([group(name, "x") for name in "abcd"])
    assert answered(ledger, APPROVED, [1, 2, 9]) == (1, 2)
    assert answered(ledger, DISMISSED, [1, 3]) == (3,), "what was adopted cannot be dismissed"
    assert answered(ledger, APPROVED, [1, 3]) == ()
    groups.decide(COMPANY, "run", [1, 3, 4], GroupState.ADOPTED)
    groups.decide(COMPANY, "run", [2], PROPOSED, reason="a memory has changed")
    assert states(ledger) == [
        (1, GroupState.ADOPTED, None),
        (2, PROPOSED, b"text"),
        (3, DISMISSED, None),
        (4, PROPOSED, b"text"),
    ]
    one, two, *_ = groups.of_run(COMPANY, "run")
    assert (one.decided_by, one.decided_at, two.reason) == ("person:Ada", clock(), "a memory has changed")
    assert answered(ledger, APPROVED, None) == (2, 4)
    assert groups.of_run(COMPANY, "run")[1].reason is None


def test_groups_are_known_again_by_their_memories_and_strategy(ledger: Ledger) -> None:
    groups = ledger.consolidation_groups
    refused, proposed = group("a", "b", state=GroupState.REFUSED), group("c", "d")
    groups.note([refused, proposed])
    keys = [each.group_key for each in (refused, proposed)]
    assert group("b", "a").group_key == keys[0] != group("a", "b", strategy="simple").group_key
    assert groups.judged(COMPANY, "ada", keys, states=[GroupState.REFUSED, DISMISSED]) == {keys[0]}
    assert groups.judged(COMPANY, "ada", keys, states=[PROPOSED]) == {keys[1]}
    for company, agent_id in (("other", "ada"), (COMPANY, "bob")):
        assert groups.judged(company, agent_id, keys, states=GroupState) == frozenset()


def test_newer_proposals_take_the_place_of_older_ones_with_their_text(ledger: Ledger) -> None:
    for run_id in ("old", "run"):
        ledger.consolidation_groups.note([group("a", "b", run_id=run_id), group("c", "d", run_id=run_id)])
    answered(ledger, DISMISSED, [1], run_id="old")
    with ledger.consolidation_groups._database.write() as connection:
        withdraw_proposed(connection, COMPANY, ["old"])
    assert states(ledger, "old") == [(1, DISMISSED, None)]
    assert len(states(ledger)) == 2


@pytest.mark.parametrize("decided", [False, True])
def test_old_groups_go_unless_somebody_has_just_decided(ledger: Ledger, clock: StoppedClock, decided: bool) -> None:
    ledger.consolidation_groups.note([group("a", "b")])
    clock.advance(timedelta(days=7))
    if decided:
        answered(ledger, APPROVED, None)
    assert ledger.consolidation_groups.expire(COMPANY, before=clock() - timedelta(days=7)) == 0
    clock.advance(timedelta(days=1))
    assert ledger.consolidation_groups.expire("other", before=clock()) == 0
    assert ledger.consolidation_groups.expire(COMPANY, before=clock() - timedelta(days=7)) == (not decided)
