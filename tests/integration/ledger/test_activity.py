"""What happened to agents: in which order, since when, for which company, and never more than was asked for."""

import dataclasses
import uuid
from collections import Counter
from datetime import datetime, timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry
from support.present import present

from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState
from memcore.ledger.journal import EntryReason, IncomingKind
from memcore.ledger.ledger import Ledger
from memcore.ledger.monitoring.activity import RETURNED, AgentActivity, RunTests
from memcore.ledger.runs import NewRun, RunStep
from memcore.ledger.work_items import WorkState
from memcore.models.archival import ArchivalMode
from memcore.models.memory import MemoryCategory

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def some_ids(count: int) -> tuple[str, ...]:
    return tuple(str(uuid.uuid4()) for _ in range(count))


def run_of(ledger: Ledger, agent_id: str, at: datetime, state: WorkState = WorkState.DONE) -> str:
    made = present(ledger.runs.create(NewRun(company=COMPANY, agent_id=agent_id, planned_at=at)))
    token = present(present(ledger.runs.claim(COMPANY, made.run_id, lease=HOUR)).token)
    ledger.runs.finish(COMPANY, made.run_id, token, state=state, counts={}, step=RunStep.CONSOLIDATION)
    return made.run_id


def moved(
    ledger: Ledger,
    agent_id: str,
    run_id: str,
    *,
    gone: int = 0,
    came: int = 0,
    reason: EntryReason = "retention",
    kind: IncomingKind = "created",
    archived: int = 0,
) -> None:
    outgoing = some_ids(gone)
    entry = make_journal_entry(
        uuid.uuid4().hex,
        run_id=run_id,
        agent_id=agent_id,
        seq=ledger.journal.next_seq(run_id),
        incoming=some_ids(came),
        outgoing=outgoing,
        incoming_kind=kind,
        reason=reason,
    )
    kept = dict.fromkeys(outgoing[:archived], ArchivalMode.EXTRACTIVE)
    entry = dataclasses.replace(entry, archived=kept)
    ledger.journal.prepare(entry)
    ledger.journal.settle(entry.booking_id)


def refused(ledger: Ledger, agent_id: str, run_id: str) -> None:
    group = ConsolidationGroup(
        company=COMPANY,
        run_id=run_id,
        agent_id=agent_id,
        category=MemoryCategory.SOCIAL,
        strategy="condense",
        state=GroupState.REFUSED,
        source_ids=some_ids(2),
    )
    ledger.consolidation_groups.note([group])


def test_each_agent_has_a_line_with_what_became_of_its_memories(ledger: Ledger, clock: StoppedClock) -> None:
    since = clock()
    run_id = run_of(ledger, "ada", clock.advance(HOUR))
    moved(ledger, "ada", run_id, gone=4, came=1, reason="consolidated", archived=3)
    moved(ledger, "ada", run_id, gone=2)
    moved(ledger, "ada", run_id, gone=1, reason="expired")
    moved(ledger, "ada", run_id, came=1, reason="restored", kind="restored")
    refused(ledger, "ada", run_id)
    found = ledger.activity.recent(COMPANY, since=since, most=5)
    assert found.agents == (
        AgentActivity(
            agent_id="ada",
            at=clock(),
            run_id=run_id,
            moved=Counter({"merged": 4, "expired": 3, RETURNED: 1}),
            archived=3,
            refused=1,
        ),
    )
    assert (found.others, found.held) == (0, 0)


def test_what_lies_before_the_time_is_left_out(ledger: Ledger, clock: StoppedClock) -> None:
    moved(ledger, "ada", run_of(ledger, "ada", clock()), gone=1, archived=1)
    refused(ledger, "ada", "a run")
    clock.advance(2 * DAY)
    assert ledger.activity.recent(COMPANY, since=clock() - DAY, most=5).agents == ()
    run_id = run_of(ledger, "ada", clock())
    (only,) = ledger.activity.recent(COMPANY, since=clock() - DAY, most=5).agents
    assert (only.run_id, only.moved, only.archived, only.refused) == (run_id, Counter(), 0, 0)


def test_first_come_those_that_need_a_person_then_those_whose_memories_moved(
    ledger: Ledger, clock: StoppedClock
) -> None:
    held_id = run_of(ledger, "held", clock(), WorkState.HELD)
    since = clock.advance(3 * DAY)
    moved(ledger, "early", run_of(ledger, "early", clock.advance(HOUR)), gone=1)
    moved(ledger, "late", run_of(ledger, "late", clock.advance(HOUR)), gone=1)
    failed_id = run_of(ledger, "failed", clock.advance(HOUR), WorkState.FAILED)
    for number in range(3):
        run_of(ledger, f"idle-{number}", clock.advance(HOUR))
    found = ledger.activity.recent(COMPANY, since=since, most=5)
    assert [each.agent_id for each in found.agents] == ["held", "failed", "late", "early", "idle-2"]
    # It was held before the time, and waits still.
    assert [each.held_id for each in found.agents] == [held_id, None, None, None, None]
    assert [each.failed_id for each in found.agents] == [None, failed_id, None, None, None]
    assert (found.others, found.held) == (2, 1)


def test_a_run_that_was_done_since_makes_good_one_that_failed(ledger: Ledger, clock: StoppedClock) -> None:
    since = clock()
    run_of(ledger, "ada", clock.advance(HOUR), WorkState.FAILED)
    run_of(ledger, "ada", clock.advance(HOUR))
    (only,) = ledger.activity.recent(COMPANY, since=since, most=5).agents
    assert only.failed_id is None


def test_only_agents_that_are_wanted_and_not_hidden_are_looked_at(ledger: Ledger, clock: StoppedClock) -> None:
    since = clock()
    for name, state in (("ada", WorkState.DONE), ("bob", WorkState.HELD), ("cy", WorkState.DONE)):
        moved(ledger, name, run_of(ledger, name, clock.advance(HOUR), state), gone=1)
    only = ledger.activity.recent(COMPANY, since=since, most=5, among={"ada"})
    assert ([each.agent_id for each in only.agents], only.others, only.held) == (["ada"], 0, 0)
    seen = ledger.activity.recent(COMPANY, since=since, most=5, without={"bob", "cy"})
    assert ([each.agent_id for each in seen.agents], seen.others, seen.held) == (["ada"], 0, 0)
    assert ledger.activity.recent("globex", since=since, most=5).agents == ()


@pytest.mark.parametrize("most", [0, 1, 3])
def test_no_more_agents_are_shown_than_asked_for_and_the_rest_is_counted(
    ledger: Ledger, clock: StoppedClock, most: int
) -> None:
    since = clock()
    for number in range(4):
        run_of(ledger, f"agent-{number}", clock.advance(HOUR))
    found = ledger.activity.recent(COMPANY, since=since, most=most)
    assert (len(found.agents), found.others) == (most, 4 - most)


def test_removals_come_in_order_of_time_without_what_did_not_go(ledger: Ledger, clock: StoppedClock) -> None:
    since = clock()
    run_id = run_of(ledger, "ada", since)
    moved(ledger, "ada", run_id, gone=2, reason="enforced")
    first = clock()
    moved(ledger, "bob", run_of(ledger, "bob", since), gone=5)
    later = clock.advance(DAY)
    moved(ledger, "ada", run_id, gone=3, came=1, reason="consolidated")
    moved(ledger, "ada", run_id, gone=1, came=1, reason="updated")
    stayed = make_journal_entry(
        uuid.uuid4().hex, run_id=run_id, seq=ledger.journal.next_seq(run_id), outgoing=some_ids(1)
    )
    ledger.journal.prepare(stayed)
    assert ledger.activity.removed(COMPANY, "ada", since=since, until=later) == (
        (first, "over the limit", 2),
        (later, "merged", 3),
    )
    ledger.journal.settle(stayed.booking_id, missing_out=stayed.outgoing_ids)
    assert len(ledger.activity.removed(COMPANY, "ada", since=since, until=later)) == 2
    assert ledger.activity.removed(COMPANY, "ada", since=since, until=later - HOUR) == ((first, "over the limit", 2),)


def test_the_archive_is_counted_as_it_was(ledger: Ledger, clock: StoppedClock) -> None:
    begin = clock()
    run_id = run_of(ledger, "ada", begin)
    moved(ledger, "ada", run_id, gone=3, reason="consolidated", archived=3)
    middle = clock.advance(DAY)
    assert ledger.activity.archived_at(COMPANY, "ada", [begin - HOUR, begin, middle]) == (0, 3, 3)
    assert ledger.activity.archived_at(COMPANY, "ada", []) == ()
    assert ledger.activity.archived_at("globex", "ada", [middle]) == (0,)


def test_the_newest_runs_of_a_time_come_oldest_first_and_say_whether_they_can_be_undone(
    ledger: Ledger, clock: StoppedClock
) -> None:
    runs = [run_of(ledger, "ada", clock.advance(HOUR)) for _ in range(4)]
    run_of(ledger, "bob", clock())
    moved(ledger, "ada", runs[3], gone=1)
    activity = ledger.activity
    found = activity.runs_between(COMPANY, "ada", since=clock() - 2 * HOUR, until=clock(), most=2)
    assert [(each.run_id, each.at) for each in found] == [(runs[2], clock() - HOUR), (runs[3], clock())]
    assert activity.undoable(runs) == {runs[3]}
    assert activity.first_run_at(COMPANY, "ada") == clock() - 3 * HOUR
    assert activity.first_run_at(COMPANY, "nobody") is None
    clock.advance(10 * DAY)
    assert ledger.journal.expire(COMPANY, before=clock()) == 1
    assert activity.undoable(runs) == frozenset()


def test_what_came_of_tests_is_of_the_runs_that_asked_any_newest_first(ledger: Ledger, clock: StoppedClock) -> None:
    def asked(agent_id: str, **counts: int) -> datetime:
        run_id = run_of(ledger, agent_id, clock())
        ledger.runs.add_counts(COMPANY, run_id, counts)
        at = clock()
        clock.advance(HOUR)
        return at

    asked("ada", tests_asked=9)
    since = asked("ada", tests_asked=3, tests_passed=2, tests_failed=1)
    asked("bob", merged=2)
    last = asked("bob", tests_asked=1, tests_error=1)
    activity = ledger.activity
    ada, bob = RunTests(since, 3, 1, 0), RunTests(last, 1, 0, 1)
    assert activity.tested(COMPANY, since=since, most=9) == (bob, ada)
    assert activity.tested(COMPANY, since=since, most=1) == (bob,)
    assert activity.tested(COMPANY, since=since, most=9, among=["ada"]) == (ada,)
    assert activity.tested(COMPANY, since=since, most=9, without=["ada"]) == (bob,)
    assert activity.tested("globex", since=since, most=9) == ()


def test_counts_that_are_added_behind_a_run_leave_the_others(ledger: Ledger, clock: StoppedClock) -> None:
    run_id = run_of(ledger, "ada", clock())
    ledger.runs.add_counts(COMPANY, run_id, {"tests_asked": 2})
    ledger.runs.add_counts(COMPANY, run_id, {"tests_asked": 1, "tests_failed": 1})
    ledger.runs.add_counts("globex", run_id, {"tests_asked": 9})
    assert present(ledger.runs.get(COMPANY, run_id)).counts == {"tests_asked": 3, "tests_failed": 1}
    ledger.runs.add_counts(COMPANY, "none", {"tests_asked": 1})
