"""Parts of runs that wait for a model: planned once, dispatched when it is time, put to sleep, given up."""

from datetime import timedelta

from support.ledger_records import COMPANY, StoppedClock

from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Synthesis, SynthesisState
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from memcore.models.memory import MemoryCategory


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


def places(parts: tuple[Synthesis, ...]) -> list[int]:
    return [each.place for each in parts]


def test_a_plan_is_made_once_and_comes_back_whole_and_in_order(ledger: Ledger) -> None:
    ledger.syntheses.plan([part(0, sources=("z", "y")), part(1), part(2)])
    ledger.syntheses.plan([part(0), part(1), part(2), part(3)])
    ledger.syntheses.plan([])

    assert ledger.syntheses.of_run("run") == (part(0, sources=("z", "y")), part(1), part(2))
    assert ledger.syntheses.get("run", 0) == part(0, sources=("z", "y"))
    assert ledger.syntheses.get("run", 3) is None
    assert ledger.syntheses.get("other", 0) is None


def test_what_was_dispatched_for_is_dispatched_again_when_its_time_has_come(
    ledger: Ledger, clock: StoppedClock
) -> None:
    ledger.syntheses.plan([part(0), part(1)])
    assert places(ledger.syntheses.to_dispatch("run")) == [0, 1]
    ledger.syntheses.mark_dispatched("run", [0], again_at=clock() + timedelta(minutes=15))
    assert places(ledger.syntheses.to_dispatch("run")) == [1]
    clock.advance(timedelta(minutes=15))
    assert places(ledger.syntheses.to_dispatch("run")) == [0, 1]


def test_a_part_goes_from_wanted_to_ready_to_done_or_back(ledger: Ledger) -> None:
    syntheses = ledger.syntheses
    syntheses.plan([part(0), part(1)])
    syntheses.turn("run", 0, SynthesisState.READY)
    assert syntheses.states("run") == {SynthesisState.READY, SynthesisState.WANTED}
    syntheses.turn("run", 1, SynthesisState.DONE)
    assert syntheses.states("run") == {SynthesisState.READY, SynthesisState.DONE}
    syntheses.turn("run", 0, SynthesisState.WANTED, source_ids=("b", "c"))
    assert syntheses.states("run") == {SynthesisState.WANTED, SynthesisState.DONE}
    assert [(each.state, each.source_ids) for each in syntheses.of_run("run")] == [
        (SynthesisState.WANTED, ("b", "c")),
        (SynthesisState.DONE, ("a", "b")),
    ]


def test_sleep_is_for_all_wanted_parts_and_news_once(ledger: Ledger, clock: StoppedClock) -> None:
    syntheses, midnight = ledger.syntheses, clock() + timedelta(hours=12)
    syntheses.plan([part(0), part(1), part(2)])
    syntheses.turn("run", 2, SynthesisState.READY)

    assert syntheses.sleep("run", until=midnight, reason="spent")
    assert not syntheses.sleep("run", until=midnight, reason="spent")
    assert [each.is_awake(clock()) for each in syntheses.of_run("run")] == [False, False, False]
    assert syntheses.to_dispatch("run") == ()
    clock.advance(timedelta(hours=12))
    assert places(syntheses.to_dispatch("run")) == [0, 1]
    assert [each.is_awake(clock()) for each in syntheses.of_run("run")] == [True, True, False]


def test_a_refusal_gives_up_what_is_wanted_and_is_news_once(ledger: Ledger) -> None:
    ledger.syntheses.plan([part(0), part(1)])
    ledger.syntheses.turn("run", 0, SynthesisState.READY)
    assert ledger.syntheses.refuse("run", reason="401")
    assert not ledger.syntheses.refuse("run", reason="401")
    assert [(each.state, each.reason) for each in ledger.syntheses.of_run("run")] == [
        (SynthesisState.READY, None),
        (SynthesisState.REFUSED, "401"),
    ]


def test_a_dead_asker_is_noticed_once_and_its_run_dispatched_for(ledger: Ledger, clock: StoppedClock) -> None:
    syntheses, later = ledger.syntheses, clock() + timedelta(hours=1)
    syntheses.plan([part(0), part(1)])
    syntheses.mark_dispatched("run", [0, 1], again_at=later)
    lease = timedelta(seconds=45)
    ledger.answers.claim("q", company=COMPANY, agent_id="ada", run_id="run", purpose="test", lease=lease)
    ledger.answers.claim("x", company="other", agent_id="ada", run_id="theirs", purpose="test", lease=lease)
    assert syntheses.revive(COMPANY) == ()
    clock.advance(lease)

    assert syntheses.revive(COMPANY) == ("run",)
    assert places(syntheses.to_dispatch("run")) == [0, 1]
    assert syntheses.revive(COMPANY) == ()
    assert ledger.answers.get("x") is not None, "another company's sweep looks after its own"


def test_a_part_that_sleeps_for_a_reason_sleeps_on_when_an_asker_dies(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.syntheses.plan([part(0)])
    ledger.syntheses.sleep("run", until=clock() + timedelta(hours=1), reason="spent")
    lease = timedelta(seconds=45)
    ledger.answers.claim("q", company=COMPANY, agent_id="ada", run_id="run", purpose="test", lease=lease)
    clock.advance(lease)
    ledger.syntheses.revive(COMPANY)
    assert ledger.syntheses.to_dispatch("run") == ()


def test_parts_of_runs_that_have_ended_are_forgotten(ledger: Ledger, clock: StoppedClock) -> None:
    for agent_id in ("ada", "bob"):
        ledger.runs.create(NewRun(run_id=f"run-{agent_id}", company=COMPANY, agent_id=agent_id, planned_at=clock()))
        ledger.syntheses.plan([part(0, run_id=f"run-{agent_id}")])
    run = ledger.runs.claim(COMPANY, "run-bob", lease=timedelta(seconds=45))
    assert run is not None
    assert run.token is not None
    ledger.runs.finish(COMPANY, "run-bob", run.token, state=WorkState.DONE, counts={})

    assert ledger.syntheses.forget("other") == 0
    assert ledger.syntheses.forget(COMPANY) == 1
    assert ledger.syntheses.of_run("run-ada")
    assert not ledger.syntheses.of_run("run-bob")
