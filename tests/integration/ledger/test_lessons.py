"""Lessons: opened with their task, dispatched until they are drawn, drawn once, read by those who learn from them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest
from support.execution_traces import trajectory
from support.ledger_records import COMPANY, StoppedClock, finish_lesson, open_lesson
from support.memories import DAWN
from support.present import present

from memcore.errors import LeaseLostError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkState
from memcore.models.execution import TerminationReason, Turn
from memcore.models.memory import MAX_KEY_CHARS

MINUTES = timedelta(minutes=2)
DAY = timedelta(days=1)


def test_a_lesson_is_opened_once_and_drawn_once(ledger: Ledger, clock: StoppedClock) -> None:
    assert open_lesson(ledger, COMPANY, "ada", "l-1")
    assert not open_lesson(ledger, COMPANY, "ada", "l-1")
    opened = present(ledger.lessons.get(COMPANY, "l-1"))
    assert (opened.outcome, opened.attempt, opened.created_at) == (None, 0, clock())
    clock.advance(DAY)
    drawn = finish_lesson(ledger, COMPANY, "l-1", "stored", memory_id="m", confidence=0.5, text='{"a": "naïve 日本"}')
    assert ledger.lessons.claim(COMPANY, "l-1", lease=MINUTES) is None
    assert drawn == ledger.lessons.get(COMPANY, "l-1")
    assert (drawn.outcome, drawn.memory_id, drawn.confidence) == ("stored", "m", 0.5)
    assert (drawn.text, drawn.drawn_at) == ('{"a": "naïve 日本"}', clock())
    assert "日本" not in repr(drawn)


def test_of_many_who_draw_a_lesson_at_once_one_does(ledger: Ledger) -> None:
    open_lesson(ledger, COMPANY, "ada", "l-1")
    with ThreadPoolExecutor(8) as workers:
        claimed = list(workers.map(lambda _: ledger.lessons.claim(COMPANY, "l-1", lease=MINUTES), range(8)))
    (ours,) = filter(None, claimed)
    with pytest.raises(LeaseLostError):
        ledger.lessons.finish(COMPANY, "l-1", "another", "malformed")
    assert ours.token is not None
    assert ledger.lessons.finish(COMPANY, "l-1", ours.token, "stored").outcome == "stored"
    with pytest.raises(MemoryNotFoundError):
        ledger.lessons.finish(COMPANY, "forgotten", ours.token, "stored")


def test_a_key_that_is_too_long_is_refused_by_name(ledger: Ledger) -> None:
    with pytest.raises(MemoryInputError, match="lesson_id"):
        open_lesson(ledger, COMPANY, "ada", "x" * (MAX_KEY_CHARS + 1))


def test_a_trajectory_and_its_lesson_come_together_or_not_at_all(ledger: Ledger, clock: StoppedClock) -> None:
    assert ledger.trajectories.append(COMPANY, trajectory("taught"), lesson_at=clock())
    assert ledger.trajectories.append(COMPANY, trajectory("untaught"))
    assert ledger.lessons.get(COMPANY, "taught") is not None
    assert ledger.lessons.get(COMPANY, "untaught") is None
    # FleetFact again it is known already, and teaches nothing more.
    assert not ledger.trajectories.append(COMPANY, trajectory("untaught"), lesson_at=clock())
    assert ledger.lessons.get(COMPANY, "untaught") is None
    with pytest.raises(MemoryInputError):
        ledger.trajectories.append("x" * (MAX_KEY_CHARS + 1), trajectory("other"), lesson_at=clock())


def test_two_sweeps_at_once_dispatch_once(ledger: Ledger, clock: StoppedClock) -> None:
    names = [f"l-{number:02}" for number in range(40)]
    for name in names:
        open_lesson(ledger, COMPANY, "ada", name)
    clock.advance(MINUTES)
    with ThreadPoolExecutor(4) as sweeps:
        taken = list(sweeps.map(lambda _: ledger.work.take_due(limit=99), range(8)))
    assert sorted(each.key for each in chain.from_iterable(taken)) == names


def test_only_an_attempt_that_was_used_counts(ledger: Ledger, clock: StoppedClock) -> None:
    open_lesson(ledger, COMPANY, "ada", "l-1")
    for is_unused, attempt in ((True, 0), (False, 1), (True, 1)):
        claimed = present(ledger.lessons.claim(COMPANY, "l-1", lease=MINUTES))
        until = clock() + DAY
        ledger.lessons.wait(COMPANY, "l-1", present(claimed.token), until=until, reason="later", is_unused=is_unused)
        found = ledger.lessons.item(COMPANY, "l-1")
        assert (found.state, found.attempt, found.reason) == (WorkState.WAITING, attempt, "later")
        clock.advance(DAY - MINUTES)
        assert ledger.work.take_due(limit=9) == ()
        clock.advance(MINUTES)
        assert [each.key for each in ledger.work.take_due(limit=9)] == ["l-1"]


def test_what_was_stored_is_passed_on_once(ledger: Ledger, clock: StoppedClock) -> None:
    for name, memory_id in (("a", "m-a"), ("b", None), ("c", "m-c")):
        open_lesson(ledger, COMPANY, "ada", name)
        finish_lesson(ledger, COMPANY, name, "stored" if memory_id else "malformed", memory_id=memory_id)
        clock.advance(MINUTES)
    open_lesson(ledger, COMPANY, "bob", "d")
    finish_lesson(ledger, COMPANY, "d", "stored", memory_id="m-d")
    found = ledger.lessons.unpropagated(COMPANY, "ada", limit=9)
    assert [each.memory_id for each in found] == ["m-a", "m-c"]
    assert [each.lesson_id for each in ledger.lessons.unpropagated(COMPANY, "ada", limit=1)] == ["a"]
    ledger.lessons.propagated(COMPANY, ["a"])
    assert [each.lesson_id for each in ledger.lessons.unpropagated(COMPANY, "ada", limit=9)] == ["c"]


def test_the_evolver_reads_the_surest_of_each_agent_on_a_category_or_a_chain_in_its_window(
    ledger: Ledger, clock: StoppedClock
) -> None:
    for agent_id in ("ada", "bob", "eve"):
        ledger.agents.put(AgentSpec(company=COMPANY, agent_id=agent_id))
    failed: dict[str, Any] = {"termination_reason": TerminationReason.ERROR, "error_category": "disk"}
    tools: dict[str, Any] = {"turns": (Turn(tools=("search", "write")),)}
    tasks = {
        "invented": trajectory("invented", agent_id="mallory", **failed),
        "sure": trajectory("sure", **failed),
        "unsure": trajectory("unsure", agent_id="bob", **failed),
        "less": trajectory("less", agent_id="bob", **failed),
        "mute": trajectory("mute", **failed),
        "late": trajectory("late", younger=DAY, **failed),
        "other": trajectory("other", termination_reason=TerminationReason.TIMEOUT),
        "good": trajectory("good", **tools),
        "bad": trajectory("bad", agent_id="eve", **tools, **failed),
    }
    sure = {
        "invented": 0.99,
        "sure": 0.9,
        "unsure": 0.6,
        "less": 0.5,
        "bad": 0.7,
        "late": 0.95,
        "other": 0.9,
        "good": 0.8,
        "mute": None,
    }
    for name, made in tasks.items():
        ledger.trajectories.append(COMPANY, made, lesson_at=clock())
        text = None if name == "mute" else "{}"
        finish_lesson(ledger, COMPANY, name, "stored", confidence=sure[name], text=text)
    window = {"since": DAWN, "until": DAWN + DAY}
    failures = ledger.lessons.of_pattern(COMPANY, PatternKind.FAILURE, "disk", **window, limit=9)
    assert [each.lesson_id for each in failures] == ["sure", "bad", "unsure"]
    assert len(ledger.lessons.of_pattern(COMPANY, PatternKind.FAILURE, "disk", **window, limit=1)) == 1
    key = present(tasks["good"].tools_key)
    successes = ledger.lessons.of_pattern(COMPANY, PatternKind.SUCCESS, key, **window, limit=9)
    assert [each.lesson_id for each in successes] == ["good"]


def test_an_agents_lessons_are_paged_newest_first_with_their_tasks(ledger: Ledger, clock: StoppedClock) -> None:
    for number in range(5):
        ledger.trajectories.append(COMPANY, trajectory(f"l-{number}", task_id=f"t-{number}"), lesson_at=clock())
        clock.advance(timedelta(seconds=number % 2))
    open_lesson(ledger, COMPANY, "ada", "taskless")
    open_lesson(ledger, COMPANY, "bob", "another's")
    seen, last = [], None
    while page := ledger.lessons.page(COMPANY, "ada", before=last, limit=2):
        seen += [(each.lesson_id, each.task_id) for each in page]
        last = page[-1]
    assert seen == [("taskless", None), *((f"l-{number}", f"t-{number}") for number in reversed(range(5)))]


def test_outcomes_are_counted(ledger: Ledger) -> None:
    for number, outcome in enumerate(("stored", "stored", "malformed", None)):
        open_lesson(ledger, COMPANY, "ada" if number else "bob", f"l-{number}")
        if outcome:
            finish_lesson(ledger, COMPANY, f"l-{number}", outcome)
    assert ledger.lessons.outcomes(COMPANY) == {"stored": 2, "malformed": 1, None: 1}


def test_old_lessons_go_and_the_rest_stays(ledger: Ledger, clock: StoppedClock) -> None:
    for name, agent_id in (("old", "ada"), ("new", "ada"), ("bobs", "bob")):
        open_lesson(ledger, COMPANY, agent_id, name)
        clock.advance(DAY)
    assert ledger.lessons.expire(COMPANY, before=clock() - 2 * DAY) == 1
    assert ledger.lessons.get(COMPANY, "old") is None
    assert ledger.lessons.outcomes(COMPANY) == {None: 2}


@pytest.mark.parametrize(("quality", "rank"), [(3.0, (0, 4)), (4.0, (1, 4)), (7.0, (3, 4)), (9.5, (4, 4))])
def test_the_rank_of_a_quality_counts_the_agents_own_recent_successes(
    ledger: Ledger, quality: float, rank: tuple[int, int]
) -> None:
    for number, each in enumerate((4.0, 7.0, 7.0, 9.5)):
        ledger.trajectories.append(COMPANY, trajectory(f"t-{number}", quality=each))
    ledger.trajectories.append(COMPANY, trajectory("unseen"))
    ledger.trajectories.append(COMPANY, trajectory("failed", quality=1.0, termination_reason=TerminationReason.ERROR))
    ledger.trajectories.append(COMPANY, trajectory("bobs", quality=1.0, agent_id="bob"))
    ledger.trajectories.append(COMPANY, trajectory("old", quality=1.0, younger=-DAY))
    assert ledger.trajectories.quality_rank(COMPANY, "ada", quality, since=DAWN) == rank
