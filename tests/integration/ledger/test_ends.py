"""Runs that end something: what the ledger says of them."""

from datetime import timedelta

import pytest
from support.ledger_records import StoppedClock
from support.present import present

from memcore.errors import MemoryInputError
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, RunKind
from memcore.ledger.work_items import WorkState

LEASE = timedelta(seconds=45)


def finished(ledger: Ledger, clock: StoppedClock, kind: RunKind, scope_id: str | None, **more: str) -> str:
    run = present(
        ledger.runs.create(
            NewRun.model_validate(
                {
                    "company": "acme",
                    "agent_id": "ada",
                    "kind": kind,
                    "planned_at": clock(),
                    "scope_id": scope_id,
                    **more,
                }
            )
        )
    )
    claimed = present(ledger.runs.claim(run.company, run.run_id, lease=LEASE))
    ledger.runs.finish(run.company, run.run_id, present(claimed.token), state=WorkState.DONE, counts={})
    return run.run_id


def test_the_last_end_of_each_scope_counts(ledger: Ledger, clock: StoppedClock) -> None:
    finished(ledger, clock, "end_session", "s")
    clock.advance(timedelta(hours=1))
    finished(ledger, clock, "end_session", "s")
    last = clock()
    finished(ledger, clock, "end_project", "s")

    assert ledger.runs.ended("acme", "ada", "end_session", ["s", "other"]) == {"s": last}
    assert ledger.runs.ended("acme", "bob", "end_session", ["s"]) == {}
    assert ledger.runs.ended("other", "ada", "end_session", ["s"]) == {}
    assert ledger.runs.ended("acme", "ada", "end_task", ["s"]) == {}
    assert ledger.runs.ended("acme", "ada", "end_session", []) == {}


def test_an_end_that_was_undone_is_none(ledger: Ledger, clock: StoppedClock) -> None:
    end = finished(ledger, clock, "end_session", "s")
    clock.advance(timedelta(seconds=1))
    finished(ledger, clock, "undo", None, undo_of=end)

    assert ledger.runs.ended("acme", "ada", "end_session", ["s"]) == {}


def test_an_end_that_has_not_run_is_none(ledger: Ledger, clock: StoppedClock) -> None:
    run = present(
        ledger.runs.create(NewRun(company="acme", agent_id="ada", kind="end_session", planned_at=clock(), scope_id="s"))
    )
    assert (run.scope_id, run.step) == ("s", "end")

    assert ledger.runs.ended("acme", "ada", "end_session", ["s"]) == {}


@pytest.mark.parametrize(("kind", "scope_id"), [("end_session", None), ("maintenance", "s"), ("undo", "s")])
def test_a_run_names_what_ends_exactly_when_it_ends_something(
    clock: StoppedClock, kind: str, scope_id: str | None
) -> None:
    with pytest.raises(MemoryInputError, match="scope_id"):
        NewRun.model_validate(
            {
                "company": "acme",
                "agent_id": "ada",
                "kind": kind,
                "planned_at": clock(),
                "scope_id": scope_id,
                "undo_of": "r" if kind == "undo" else None,
            }
        )
