"""Parts of runs that wait for a model: planned once, dispatched when it is time, put to sleep, given up."""

from datetime import timedelta

from support.ledger_records import COMPANY, StoppedClock, places_due
from support.present import present

from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from memcore.models.memory import MemoryCategory

LEASE = timedelta(seconds=45)


def part(place: int, *, run_id: str = "run", sources: tuple[str, ...] = ("a", "b")) -> Synthesis:
    return Synthesis(
        run_id=run_id,
        place=place,
        company=COMPANY,
        agent_id="ada",
        category=MemoryCategory.SOCIAL,
        source_ids=sources,
        kept_id="k",
    )


def held(ledger: Ledger, place: int) -> Synthesis:
    return present(ledger.syntheses.claim(COMPANY, part(place).key, lease=LEASE))


def states(ledger: Ledger) -> list[WorkState]:
    return [each.state for each in ledger.syntheses.of_run(COMPANY, "run")]


def test_a_plan_is_made_once_and_comes_back_whole_and_in_order(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.syntheses.plan([part(0, sources=("z", "y")), part(1), part(2)])
    ledger.syntheses.plan([part(0), part(1), part(2), part(3)])
    ledger.syntheses.plan([])

    made = [part(0, sources=("z", "y")), part(1), part(2)]
    due = [each.model_copy(update={"dispatch_after": clock()}) for each in made]
    assert list(ledger.syntheses.of_run(COMPANY, "run")) == due
    assert ledger.syntheses.get(COMPANY, "run.0") == due[0]
    assert ledger.syntheses.get(COMPANY, "run.3") is None
    assert ledger.syntheses.of_run("other", "run") == ()


def test_a_part_is_asked_about_then_replaced_or_asked_about_again(ledger: Ledger) -> None:
    syntheses = ledger.syntheses
    syntheses.plan([part(0), part(1)])
    assert places_due(ledger, "run") == [0, 1]
    first, second = held(ledger, 0), held(ledger, 1)
    assert syntheses.claim(COMPANY, "run.0", lease=LEASE) is None
    assert not syntheses.finish(first)
    assert syntheses.finish(second), "none is open"
    assert [each.is_ready for each in syntheses.of_run(COMPANY, "run")] == [True, True]
    syntheses.replaced(second)
    syntheses.ask_again(first, ("b", "c"))
    again, done = syntheses.of_run(COMPANY, "run")
    assert (again.state, again.source_ids) == (WorkState.AVAILABLE, ("b", "c"))
    assert (done.state, done.is_ready, done.source_ids) == (WorkState.DONE, False, ("a", "b"))
    assert places_due(ledger, "run") == [0]


def test_a_spent_budget_is_waited_for_by_all_that_nobody_holds(ledger: Ledger, clock: StoppedClock) -> None:
    syntheses, midnight = ledger.syntheses, clock() + timedelta(hours=12)
    syntheses.plan([part(0), part(1), part(2), part(3)])
    syntheses.finish(held(ledger, 3))
    held(ledger, 2)

    syntheses.wait_together(held(ledger, 0), until=midnight, reason="spent")
    assert states(ledger) == [WorkState.WAITING, WorkState.WAITING, WorkState.LEASED, WorkState.DONE]
    clock.advance(LEASE)
    assert places_due(ledger, "run") == [2], "a dead asker's part is dispatched after its lease"
    clock.now = midnight
    assert places_due(ledger, "run") == [0, 1, 2]
    assert states(ledger) == [WorkState.AVAILABLE, WorkState.AVAILABLE, WorkState.LEASED, WorkState.DONE]


def test_the_first_failure_counts_until_the_model_is_back(ledger: Ledger, clock: StoppedClock) -> None:
    syntheses, first_at = ledger.syntheses, clock()
    syntheses.plan([part(0), part(1), part(2)])
    first, second = held(ledger, 0), held(ledger, 1)
    assert syntheses.away(COMPANY) is None
    syntheses.wait_together(first, until=clock(), reason="away", away_since=first_at)
    later = clock.advance(timedelta(seconds=9))
    # It was asked at the same time, and its server took longer to say nothing.
    syntheses.wait_together(second, until=clock(), reason="away", away_since=later)

    parts = syntheses.of_run(COMPANY, "run")
    assert [(each.away_since, each.attempt) for each in parts] == [(first_at, 0)] * 3
    assert syntheses.away(COMPANY) == (1, first_at)
    assert syntheses.away("other") is None
    assert not syntheses.finish(held(ledger, 0), is_back=False)
    assert {each.away_since for each in syntheses.of_run(COMPANY, "run")} == {first_at}
    assert not syntheses.finish(held(ledger, 1))
    assert {each.away_since for each in syntheses.of_run(COMPANY, "run")} == {None}


def test_a_refusal_gives_up_all_that_is_open(ledger: Ledger) -> None:
    ledger.syntheses.plan([part(0), part(1), part(2)])
    ledger.syntheses.finish(held(ledger, 0))
    ledger.syntheses.refuse_together(held(ledger, 1), reason="401")
    assert [(each.state, each.reason) for each in ledger.syntheses.of_run(COMPANY, "run")] == [
        (WorkState.DONE, None),
        (WorkState.FAILED, "401"),
        (WorkState.FAILED, "401"),
    ]


def test_parts_of_runs_that_have_ended_are_forgotten(ledger: Ledger, clock: StoppedClock) -> None:
    for agent_id in ("ada", "bob"):
        ledger.runs.create(NewRun(run_id=f"run-{agent_id}", company=COMPANY, agent_id=agent_id, planned_at=clock()))
        ledger.syntheses.plan([part(0, run_id=f"run-{agent_id}")])
    run = present(ledger.runs.claim(COMPANY, "run-bob", lease=timedelta(seconds=45)))
    ledger.runs.finish(COMPANY, "run-bob", present(run.token), state=WorkState.DONE, counts={})

    assert ledger.syntheses.forget("other") == 0
    assert ledger.syntheses.forget(COMPANY) == 1
    assert ledger.syntheses.of_run(COMPANY, "run-ada")
    assert not ledger.syntheses.of_run(COMPANY, "run-bob")
