from datetime import timedelta
from typing import Any

import pytest
from support.job_contexts import ScriptedCrew
from support.ledger_records import StoppedClock, make_record

from memcore.config.policy import Policy
from memcore.config.settings import SWEEP_SECONDS, TICK_SECONDS
from memcore.jobs.outcomes import Done, Skipped
from memcore.jobs.queues import Queue
from memcore.ledger.agents import AgentSpec
from memcore.ledger.control import Tick
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import RunState
from memcore.models.archival import ArchivalMode
from memcore.models.memory import ConsolidationInterval, MemoryCategory
from scheduler import sweep as sweeping
from scheduler import tick as ticking
from scheduler.sweep import QUEUED_TOO_LONG, sweep
from scheduler.tick import tick


def due(crew: ScriptedCrew, count: int) -> list[str]:
    """Make agents known, each due one second after the one before, all of them now."""
    names = [f"agent-{number:03}" for number in range(count)]
    crew.ledger.agents.register("acme", names, interval=ConsolidationInterval.DAILY)
    for number, name in enumerate(names):
        crew.ledger.agents.set_due("acme", name, crew.clock() - timedelta(seconds=count - number))
    return names


def test_a_tick_rings_for_every_due_agent_oldest_first_and_once(crew: ScriptedCrew) -> None:
    names = due(crew, 5)
    assert tick("{}", crew) == Done(facts={"sent": 5})
    assert [run.agent_id for run in crew.bell.rung] == names
    assert tick("{}", crew) == Done(facts={"sent": 0})


def test_a_tick_goes_on_in_batches_up_to_its_cap(crew: ScriptedCrew, monkeypatch: pytest.MonkeyPatch) -> None:
    names = due(crew, 10)
    monkeypatch.setattr(ticking, "CLAIM_BATCH", 3)
    monkeypatch.setattr(ticking, "CLAIM_CAP", 6)
    assert tick("{}", crew) == Done(facts={"sent": 6})
    assert tick("{}", crew) == Done(facts={"sent": 4})
    assert [run.agent_id for run in crew.bell.rung] == names


def test_paused_agents_and_those_that_never_want_a_night_are_left_alone(crew: ScriptedCrew) -> None:
    due(crew, 2)
    crew.ledger.agents.pause("acme", "agent-000")
    crew.ledger.agents.put(AgentSpec(company="acme", agent_id="agent-001", interval=ConsolidationInterval.NEVER))
    assert tick("{}", crew) == Done(facts={"sent": 0})


def test_while_all_is_paused_nobody_is_claimed_and_the_due_stay_due(crew: ScriptedCrew) -> None:
    names = due(crew, 2)
    crew.ledger.switches.pause("acme")
    assert isinstance(tick("{}", crew), Skipped)
    crew.ledger.switches.resume("acme")
    assert tick("{}", crew) == Done(facts={"sent": 2})
    assert [run.agent_id for run in crew.bell.rung] == names


def test_whoever_looks_sees_when_the_last_tick_ended_even_while_all_is_paused(
    crew: ScriptedCrew, clock: StoppedClock
) -> None:
    due(crew, 3)
    tick("{}", crew)
    assert crew.ledger.ticks.last("acme") == Tick(ended_at=clock(), sent=3)
    clock.advance(timedelta(seconds=10))
    crew.ledger.switches.pause("acme")
    tick("{}", crew)
    assert crew.ledger.ticks.last("acme") == Tick(ended_at=clock(), sent=0)


def test_a_bell_that_breaks_loses_no_run(crew: ScriptedCrew, clock: StoppedClock) -> None:
    names = due(crew, 3)
    crew.bell.error = OSError("the broker is away")
    with pytest.raises(OSError, match="away"):
        tick("{}", crew)
    crew.bell.error = None
    assert sweep("{}", crew) == Done(facts={"rung": 0, "expired": 0, "unarchived": 0})
    clock.advance(QUEUED_TOO_LONG)
    assert sweep("{}", crew) == Done(facts={"rung": 3, "expired": 0, "unarchived": 0})
    assert sorted(run.agent_id for run in crew.bell.rung) == names
    # those rung for are left alone for a while
    assert sweep("{}", crew) == Done(facts={"rung": 0, "expired": 0, "unarchived": 0})


def test_a_sweep_rings_for_a_run_whose_worker_died(crew: ScriptedCrew, clock: StoppedClock) -> None:
    due(crew, 1)
    tick("{}", crew)
    (run,) = crew.bell.rung
    lease = timedelta(seconds=45)
    assert crew.ledger.runs.claim(run.run_id, lease=lease) is not None
    clock.advance(lease - timedelta(seconds=1))
    assert sweep("{}", crew) == Done(facts={"rung": 0, "expired": 0, "unarchived": 0})
    clock.advance(timedelta(seconds=1))
    assert sweep("{}", crew) == Done(facts={"rung": 1, "expired": 0, "unarchived": 0})
    assert crew.bell.rung[-1].run_id == run.run_id
    assert crew.bell.rung[-1].state is RunState.RUNNING


def test_the_scheduler_is_two_entries_that_do_not_pile_up() -> None:
    assert ticking.TICK.queue is sweeping.SWEEP.queue is Queue.CONTROL
    assert timedelta(seconds=TICK_SECONDS) < ticking.TICK.limits.hard
    assert timedelta(seconds=SWEEP_SECONDS) < sweeping.SWEEP.limits.hard


def test_a_sweep_tends_approvals_and_facts(crew: ScriptedCrew) -> None:
    sweep("{}", crew)
    assert (crew.tended, crew.tended_org) == (1, 1)


@pytest.mark.parametrize(("keep_days", "unarchived"), [(None, 0), (30, 1)])
def test_a_sweep_lets_go_of_what_the_archive_has_kept_long_enough(
    crew: ScriptedCrew, clock: StoppedClock, keep_days: int | None, unarchived: int
) -> None:
    archival = {"enabled": True, "keep_days": keep_days}
    crew.policy = Policy.model_validate({"memory": {"consolidation": {"archival": archival}}})
    crew.ledger.archive.put("acme", make_record("old"), mode=ArchivalMode.EXTRACTIVE, archived_at=clock())
    clock.advance(timedelta(days=29))
    crew.ledger.archive.put("acme", make_record("new"), mode=ArchivalMode.EXTRACTIVE, archived_at=clock())
    clock.advance(timedelta(days=2))
    assert sweep("{}", crew) == Done(facts={"rung": 0, "expired": 0, "unarchived": unarchived})
    assert crew.ledger.archive.find("acme", "ada", "new") is not None
    assert (crew.ledger.archive.find("acme", "ada", "old") is None) == bool(unarchived)


def test_a_sweep_follows_a_dead_asker_and_forgets_answers_and_parts_that_are_over(
    crew: ScriptedCrew, clock: StoppedClock
) -> None:
    due(crew, 1)
    tick("{}", crew)
    (run,) = crew.bell.rung
    held = crew.ledger.runs.claim(run.run_id, lease=timedelta(seconds=45))
    assert held is not None
    assert held.token is not None
    wanted = Synthesis(
        run_id=run.run_id,
        place=0,
        company="acme",
        agent_id=run.agent_id,
        category=MemoryCategory.SEMANTIC,
        source_ids=("a", "b"),
    )
    crew.ledger.syntheses.plan([wanted])
    crew.ledger.syntheses.plan([wanted.model_copy(update={"run_id": "long over"})])
    crew.ledger.runs.give_back(run.run_id, held.token, reason="waits", wake_at=clock() + timedelta(days=1))
    lease = timedelta(seconds=45)
    about: Any = {"company": "acme", "agent_id": run.agent_id, "purpose": "test", "lease": lease}
    crew.ledger.answers.take("dead", run_id=run.run_id, **about)
    answered = crew.ledger.answers.take("old", run_id="long over", **about)
    assert answered is not None
    assert answered.token is not None
    crew.ledger.answers.answered("old", answered.token, "x")

    clock.advance(lease)
    sweep("{}", crew)

    assert [each.run_id for each in crew.bell.rung] == [run.run_id, run.run_id], "the night is rung for once more"
    assert crew.ledger.answers.get("dead") is None
    assert crew.ledger.syntheses.of_run(run.run_id)
    assert not crew.ledger.syntheses.of_run("long over")
    assert crew.ledger.answers.get("old") is not None
    clock.advance(timedelta(days=crew.policy.memory.consolidation.journal_days))
    sweep("{}", crew)
    assert crew.ledger.answers.get("old") is None
