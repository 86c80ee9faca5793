from datetime import timedelta

import pytest
from support.fake_summarizer import FakeSummarizer
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock
from support.present import present

from memcore.config.settings import SWEEP_SECONDS, TICK_SECONDS
from memcore.jobs import Done, Queue, Skipped, SweepPayload, company_of
from memcore.ledger.agents import AgentSpec, Tick
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.work_items import REDISPATCH_AFTER, WorkState
from memcore.models.memory import ConsolidationInterval, MemoryCategory
from scheduler import tick as ticking
from scheduler.expire import expire
from scheduler.sweep import sweep
from scheduler.tick import tick
from tasks.maintain import maintain
from workers.celery_task import perform


def due(job_context: ScriptedContext, count: int, company: str = "acme") -> list[str]:
    """Make agents known, each due one second after the one before, all of them now."""
    names = [f"agent-{number:03}" for number in range(count)]
    job_context.ledger.companies.register(company)
    job_context.ledger.agents.register(company, names, interval=ConsolidationInterval.DAILY)
    for number, name in enumerate(names):
        job_context.ledger.agents.set_due(company, name, job_context.clock() - timedelta(seconds=count - number))
    return names


def test_a_tick_dispatches_every_due_agent_oldest_first_and_once(job_context: ScriptedContext) -> None:
    names = due(job_context, 5)
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 5})
    assert [run.agent_id for run in job_context.dispatcher.items] == names
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 0})


def test_a_tick_goes_on_in_batches_up_to_its_cap(job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch) -> None:
    names = due(job_context, 10)
    monkeypatch.setattr(ticking, "CLAIM_BATCH", 3)
    monkeypatch.setattr(ticking, "CLAIM_CAP", 6)
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 6})
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 4})
    assert [run.agent_id for run in job_context.dispatcher.items] == names


def test_companies_take_turns_whoever_has_most_due(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticking, "CLAIM_BATCH", 4)
    monkeypatch.setattr(ticking, "CLAIM_CAP", 6)
    due(job_context, 20, "acme")
    due(job_context, 2, "globex")
    due(job_context, 1, "initech")
    job_context.ledger.companies.register("hooli")
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 8})
    companies = [run.company for run in job_context.dispatcher.items]
    assert sorted(companies[:3]) == ["acme", "globex", "initech"]
    assert companies[3:6].count("globex") == 1


def test_a_company_that_is_paused_removed_or_wrongly_configured_delays_no_other(
    job_context: ScriptedContext, caplog: pytest.LogCaptureFixture
) -> None:
    for company in ("acme", "broken", "globex", "paused", "removed"):
        due(job_context, 1, company)
    job_context.ledger.companies.pause("paused")
    job_context.ledger.companies.remove("removed")
    job_context.ledger.companies.add("broken", policy={"memory": {"levle": "none"}})
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 2})
    assert [run.company for run in job_context.dispatcher.items] == ["acme", "globex"]
    assert [vars(each)["company"] for each in caplog.records] == ["broken"]
    assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 0})


def test_agents_follow_the_interval_of_their_companys_own_policy(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    for company, interval in (("often", "hourly"), ("never", "never")):
        job_context.ledger.companies.add(company, policy={"memory": {"consolidation": {"interval": interval}}})
        due(job_context, 1, company)
    perform(sweep, "{}", job_context)
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 1})
    clock.advance(timedelta(hours=1))
    assert job_context.ledger.agents.due(default=ConsolidationInterval.DAILY) == {"often": "hourly"}
    job_context.ledger.companies.add("often", policy={})
    perform(sweep, "{}", job_context)
    assert job_context.ledger.companies.list()[-1].interval is ConsolidationInterval.DAILY


def test_paused_agents_and_those_that_never_want_a_run_are_left_alone(job_context: ScriptedContext) -> None:
    due(job_context, 2)
    job_context.ledger.agents.pause("acme", "agent-000")
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="agent-001", interval=ConsolidationInterval.NEVER))
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 0})


def test_while_all_is_paused_nobody_is_claimed_and_the_due_stay_due(job_context: ScriptedContext) -> None:
    names = due(job_context, 2)
    job_context.ledger.companies.pause("acme")
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 0})
    job_context.ledger.companies.resume("acme")
    assert perform(tick, "{}", job_context) == Done(facts={"sent": 2})
    assert [run.agent_id for run in job_context.dispatcher.items] == names


def test_whoever_looks_sees_when_the_last_tick_ended_even_while_all_is_paused(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    due(job_context, 3)
    perform(tick, "{}", job_context)
    assert job_context.ledger.ticks.last("acme") == Tick(ended_at=clock(), sent=3)
    clock.advance(timedelta(seconds=10))
    job_context.ledger.companies.pause("acme")
    perform(tick, "{}", job_context)
    assert job_context.ledger.ticks.last("acme") == Tick(ended_at=clock(), sent=0)


def test_a_dispatcher_that_breaks_loses_no_run(job_context: ScriptedContext, clock: StoppedClock) -> None:
    names = due(job_context, 3)
    job_context.dispatcher.error = OSError("the broker is away")
    with pytest.raises(OSError, match="away"):
        perform(tick, "{}", job_context)
    job_context.dispatcher.error = None
    assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 0})
    clock.advance(REDISPATCH_AFTER)
    assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 3})
    assert sorted(str(run.agent_id) for run in job_context.dispatcher.items) == names
    # those dispatched are left alone for a while
    assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 0})


def test_a_sweep_dispatches_a_run_whose_worker_died(job_context: ScriptedContext, clock: StoppedClock) -> None:
    due(job_context, 1)
    perform(tick, "{}", job_context)
    (run,) = job_context.dispatcher.items
    lease = timedelta(seconds=45)
    assert job_context.ledger.runs.claim("acme", run.key, lease=lease) is not None
    clock.advance(lease - timedelta(seconds=1))
    assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 0})
    clock.advance(timedelta(seconds=1))
    assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 1})
    assert [each.key for each in job_context.dispatcher.items] == [run.key, run.key]
    assert job_context.dispatcher.items[-1].state is WorkState.LEASED


def test_the_scheduler_is_three_entries_that_do_not_pile_up() -> None:
    assert tick.queue is sweep.queue is expire.queue is Queue.CONTROL
    assert timedelta(seconds=TICK_SECONDS) < tick.limits.hard
    assert timedelta(seconds=SWEEP_SECONDS) < sweep.limits.hard


def test_a_sweep_dispatches_all_companies_lost_runs_and_a_sweep_for_each_of_the_others(
    job_context: ScriptedContext, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.sweep.COMPANIES_AT_ONCE", 2)
    names = {"globex", "hooli", "initech"}
    for company in ("acme", *names, "removed"):
        due(job_context, 1, company)
    job_context.ledger.companies.remove("removed")
    perform(tick, "{}", job_context)
    job_context.dispatcher.items.clear()
    clock.advance(REDISPATCH_AFTER)
    assert perform(sweep, "{}", job_context) == Done(facts={"dispatched": 4})
    runs = [item for item in job_context.dispatcher.items if item.kind == maintain.name]
    assert {run.company for run in runs} == {"acme", *names}
    seen = set[str]()
    for _ in range(20):
        job_context.dispatcher.items[:] = [item for item in job_context.dispatcher.items if item.kind == sweep.name]
        others = [item.company for item in job_context.dispatcher.items]
        assert len(set(others)) == len(others) == 2
        seen.update(others)
        assert {company_of(item.payload or "") for item in job_context.dispatcher.items} == set(others)
        job_context.dispatcher.items.clear()
        clock.advance(timedelta(seconds=SWEEP_SECONDS))
        perform(sweep, "{}", job_context)
    assert seen == names


def test_a_sweep_of_one_company_looks_after_that_one_alone(job_context: ScriptedContext, clock: StoppedClock) -> None:
    due(job_context, 1, "globex")
    perform(tick, "{}", job_context)
    clock.advance(REDISPATCH_AFTER)
    assert isinstance(perform(sweep, SweepPayload(company="acme").model_dump_json(), job_context), Done)
    assert [item.kind for item in job_context.dispatcher.items] == [maintain.name], "what the tick sent"
    assert job_context.swept_organization == 1


def test_a_sweep_tends_approvals_and_facts(job_context: ScriptedContext) -> None:
    perform(sweep, "{}", job_context)
    assert (job_context.swept, job_context.swept_organization, job_context.expired_archives) == (3, 1, 1)


def test_a_dead_asker_is_followed_and_answers_and_parts_that_are_over_are_forgotten(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    due(job_context, 1)
    job_context.model = FakeSummarizer()
    perform(tick, "{}", job_context)
    (run,) = job_context.dispatcher.items
    held = present(job_context.ledger.runs.claim("acme", run.key, lease=timedelta(seconds=45)))
    wanted = Synthesis(
        run_id=run.key,
        place=0,
        company="acme",
        agent_id="agent-000",
        category=MemoryCategory.SEMANTIC,
        source_ids=("a", "b"),
    )
    job_context.ledger.syntheses.plan([wanted])
    job_context.ledger.syntheses.plan([wanted.model_copy(update={"run_id": "long over"})])
    job_context.ledger.runs.wait(
        "acme", run.key, present(held.token), until=clock() + timedelta(days=1), reason="waits"
    )
    lease = timedelta(seconds=45)
    job_context.ledger.syntheses.claim("acme", wanted.key, lease=lease)
    answered = present(
        job_context.ledger.answers.claim_question(
            "acme", "old", agent_id="agent-000", run_id="long over", purpose="test", lease=lease
        )
    )
    job_context.ledger.answers.finish("acme", "old", present(answered.token), "x")

    clock.advance(lease)
    perform(sweep, "{}", job_context)
    perform(expire, "{}", job_context)

    assert wanted.key in {each.key for each in job_context.dispatcher.items}
    assert job_context.ledger.syntheses.of_run("acme", run.key)
    assert not job_context.ledger.syntheses.of_run("acme", "long over")
    assert job_context.ledger.answers.get("acme", "old") is not None
    clock.advance(timedelta(days=job_context.policy.memory.consolidation.journal_days))
    perform(expire, "{}", job_context)
    assert job_context.ledger.answers.get("acme", "old") is None


def test_after_a_clock_that_was_ahead_no_open_work_waits_for_its_time(
    job_context: ScriptedContext, clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    ledger, right = job_context.ledger, clock()
    due(job_context, 2)
    perform(tick, "{}", job_context)
    clock.advance(timedelta(days=400))
    perform(tick, "{}", job_context)
    leased, waiting = (each.key for each in job_context.dispatcher.items[:2])
    assert ledger.runs.claim("acme", leased, lease=timedelta(seconds=45)) is not None
    claimed = present(ledger.runs.claim("acme", waiting, lease=timedelta(seconds=45)))
    ledger.runs.wait("acme", waiting, present(claimed.token), until=clock() + timedelta(hours=1), reason="no model")
    clock.now = right + timedelta(minutes=1)
    perform(tick, "{}", job_context)
    clock.advance(REDISPATCH_AFTER)
    assert {each.key for each in ledger.work.take_due(limit=9)} == {leased, waiting}
    assert all(ledger.runs.claim("acme", key, lease=timedelta(seconds=45)) for key in (leased, waiting))
    assert [each.message for each in caplog.records].count("scheduler.clock.jumped") == 2


def test_while_the_clock_is_doubted_nothing_expires(job_context: ScriptedContext, clock: StoppedClock) -> None:
    perform(tick, "{}", job_context)
    clock.advance(timedelta(days=400))
    for _ in range(7):
        perform(tick, "{}", job_context)
        assert isinstance(perform(expire, "{}", job_context), Skipped)
        clock.advance(timedelta(days=1))
    perform(tick, "{}", job_context)
    assert isinstance(perform(expire, "{}", job_context), Done)
