"""Trajectories, on each database."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from sqlalchemy import text
from support.execution_traces import TRACES, trajectory
from support.ledger_records import COMPANY
from support.memories import DAWN
from support.thorough import examples

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError, MemoryRetrievalError
from memcore.ledger.database import Database
from memcore.ledger.learning.trajectories import MAX_PAGE, Trajectory
from memcore.ledger.ledger import Ledger
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn

SECOND = timedelta(seconds=1)


def kept(ledger: Ledger, number: int, *, agent_id: str = "ada", name: str = "x") -> list[Trajectory]:
    """Append that many, each a second younger than the one before, and return them newest first."""
    made = [trajectory(f"{name}{i:03}", agent_id=agent_id, younger=i * SECOND) for i in range(number)]
    for each in made:
        assert ledger.trajectories.append(COMPANY, each)
    return made[::-1]


def test_what_comes_back_is_what_was_kept_to_the_last_character(ledger: Ledger) -> None:
    full = trajectory(
        "full",
        task_description="naïve café, 日本\x00\n",
        task_type="repair",
        turns=(Turn(tokens=3, tools=("shell", "shell")), Turn(tokens=2**53)),
        termination_reason=TerminationReason.ERROR,
        error_message='"quoted" \\ \U0001f9e0 \u2028',
        error_category="disk",
        recovery=Recovery(strategy="retry", is_recovered=True, max_retries=3, missing_capability="root"),
        retries=2,
        quality=7.25,
        started_at=DAWN - timedelta(minutes=3),
    )
    assert ledger.trajectories.append(COMPANY, full)
    assert ledger.trajectories.get(COMPANY, "full") == full


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=TRACES)
def test_whatever_an_engine_sends_is_kept(ledger: Ledger, made: ExecutionTrace) -> None:
    one = Trajectory.of(made, trace_id=str(hash(made)), agent_id="ada")
    ledger.trajectories.append(COMPANY, one)
    assert ledger.trajectories.get(COMPANY, one.id) == one


def test_a_trajectory_is_kept_once_and_never_changed(ledger: Ledger) -> None:
    first = trajectory("x", quality=1.0)
    assert ledger.trajectories.append(COMPANY, first)
    assert not ledger.trajectories.append(COMPANY, trajectory("x", quality=9.0))
    assert ledger.trajectories.get(COMPANY, "x") == first


def test_no_company_reads_or_expires_what_is_anothers(ledger: Ledger) -> None:
    store = ledger.trajectories
    kept(ledger, 1)
    assert store.get("globex", "x000") is None
    assert store.page("globex") == ()
    assert list(store.stream("globex")) == []
    assert store.count("globex") == 0
    assert store.expire("globex", before=DAWN + timedelta(days=1)) == 0
    assert store.count(COMPANY) == 1


def test_a_stream_shows_each_once_newest_first_also_those_of_one_moment(ledger: Ledger) -> None:
    made = kept(ledger, MAX_PAGE + 3) + kept(ledger, 4, agent_id="bob", name="twin")
    expected = sorted(made, key=lambda each: (each.ended_at, each.id), reverse=True)
    assert list(ledger.trajectories.stream(COMPANY)) == expected
    assert len(ledger.trajectories.page(COMPANY, limit=1_000)) == MAX_PAGE

    seen: list[Trajectory] = []
    while page := ledger.trajectories.page(COMPANY, before=seen[-1] if seen else None, limit=3):
        seen += page
    assert seen == expected
    assert [each.id for each in ledger.trajectories.stream(COMPANY, agent_id="bob")] == [
        "twin003", "twin002", "twin001", "twin000",
    ]  # fmt: skip


def test_a_window_takes_its_beginning_and_leaves_its_end(ledger: Ledger) -> None:
    kept(ledger, 5)
    since, until = DAWN + SECOND, DAWN + 3 * SECOND
    assert [each.id for each in ledger.trajectories.page(COMPANY, since=since, until=until)] == ["x002", "x001"]
    assert [each.id for each in ledger.trajectories.stream(COMPANY, since=since, until=until)] == ["x002", "x001"]
    assert ledger.trajectories.count(COMPANY, since=since, until=until) == 2


def test_what_is_old_expires_and_the_rest_stays(ledger: Ledger) -> None:
    kept(ledger, 5)
    assert ledger.trajectories.expire(COMPANY, before=DAWN + 2 * SECOND) == 2
    assert [each.id for each in ledger.trajectories.page(COMPANY)] == ["x004", "x003", "x002"]


def test_what_cannot_be_written_is_refused_by_name(ledger: Ledger) -> None:
    with pytest.raises(MemoryInputError, match=r"^trajectory: must be valid Unicode"):
        ledger.trajectories.append(COMPANY, trajectory("x", task_description="\ud800"))
    with pytest.raises(MemoryInputError, match=r"^company: "):
        ledger.trajectories.append(" ", trajectory("x"))


def test_a_newer_form_is_not_guessed_at(ledger: Ledger, urls: LedgerUrls) -> None:
    kept(ledger, 1)
    database = Database(urls.ledger, name="ledger")
    with database.write() as connection:
        connection.execute(text("UPDATE trajectories SET body = :body"), {"body": b'{"version":2}'})
    database.close()
    with pytest.raises(MemoryRetrievalError, match="form 2"):
        ledger.trajectories.page(COMPANY)
