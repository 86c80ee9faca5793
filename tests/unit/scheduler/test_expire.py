"""The expiry: each company keeps what its own policy says, and no longer."""

from datetime import timedelta

import pytest
from support.execution_traces import trace
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock
from support.old_rows import run
from support.webhook_world import add_hook, happened

from memcore.config.policy import Policy
from memcore.jobs import AppliedPayload, Done
from memcore.ledger.learning.trajectories import Trajectory
from scheduler.expire import expire
from workers.celery_task import perform


def test_what_is_older_than_the_policy_keeps_goes(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.policy = Policy.model_validate({"memory": {"procedural": {"evolver": {"keep_days": 40}}}})

    def learned(name: str) -> None:
        made = Trajectory.of(trace(ended_at=clock()), trace_id=name, agent_id="ada")
        job_context.ledger.trajectories.append("acme", made, lesson_at=clock())
        applied = AppliedPayload(
            company="acme", agent_id="ada", application_id=name, skill_id="s", outcome="success", applied_at=clock()
        )
        assert job_context.ledger.skills.apply(applied, skill_id="s")

    learned("old")
    clock.advance(timedelta(days=1))
    learned("new")
    clock.advance(timedelta(days=39, seconds=1))
    perform(expire, "{}", job_context)
    assert job_context.ledger.trajectories.get("acme", "old") is None
    assert job_context.ledger.lessons.get("acme", "old") is None
    assert job_context.ledger.trajectories.get("acme", "new") is not None
    assert job_context.ledger.lessons.get("acme", "new") is not None
    # The single application is forgotten, and stays counted.
    assert job_context.ledger.skills.expire_applications("acme", before=clock()) == 1
    assert job_context.ledger.skills.applications("acme", ["s"])["s"].applications == 2


def test_each_company_keeps_its_rows_as_long_as_its_own_policy_says(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    for company, keep_days in (("bolt", 40), ("cog", 80), ("gone", 40)):
        evolver = {"memory": {"procedural": {"evolver": {"keep_days": keep_days}}}}
        job_context.ledger.companies.add(company, policy=evolver)
    names = ("acme", "bolt", "cog", "gone")
    for company in names:
        made = Trajectory.of(trace(ended_at=clock()), trace_id="t", agent_id="ada")
        job_context.ledger.trajectories.append(company, made)
    job_context.ledger.companies.remove("gone")
    clock.advance(timedelta(days=60))
    perform(expire, "{}", job_context)
    kept = [company for company in names if job_context.ledger.trajectories.get(company, "t")]
    assert kept == ["acme", "cog", "gone"], "a removed company's rows wait until it is erased, or comes back"


def test_a_job_that_is_short_of_time_leaves_old_rows_to_the_next_one(
    job_context: ScriptedContext, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_of_run = run(job_context.ledger, clock, "end_session", scope_id="s")
    clock.advance(timedelta(days=8))
    monkeypatch.setattr("scheduler.expire.STEPS_FOR", timedelta(0))
    assert perform(expire, "{}", job_context) == Done(facts={"expired": 0, "rows": 0})
    assert job_context.ledger.runs.get("acme", end_of_run.run_id) is not None
    monkeypatch.undo()
    assert perform(expire, "{}", job_context) == Done(facts={"expired": 0, "rows": 1})
    assert job_context.ledger.runs.get("acme", end_of_run.run_id) is None


def test_counts_of_jobs_that_were_lost_go(job_context: ScriptedContext, clock: StoppedClock) -> None:
    job_context.ledger.attempts.begin("lost")
    clock.advance(timedelta(days=30))
    perform(expire, "{}", job_context)
    assert job_context.ledger.attempts.count("lost") == 1
    clock.advance(timedelta(seconds=1))
    perform(expire, "{}", job_context)
    assert job_context.ledger.attempts.count("lost") == 0


def test_deliveries_of_webhooks_that_have_ended_go_after_thirty_days(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    deliveries = job_context.ledger.deliveries
    add_hook(job_context.ledger, "https://hooks.example/", company="acme")
    for _ in range(2):
        happened(job_context.ledger, company="acme")
    open_one, failed = (each.delivery_id for each in deliveries.page("acme"))
    claimed = deliveries.claim("acme", failed, lease=timedelta(minutes=1))
    assert claimed is not None
    deliveries.give_up("acme", failed, claimed.token or "", status=500, error="no")
    clock.advance(timedelta(days=30))
    perform(expire, "{}", job_context)
    assert len(deliveries.page("acme")) == 2
    clock.advance(timedelta(seconds=1))
    perform(expire, "{}", job_context)
    assert [each.delivery_id for each in deliveries.page("acme")] == [open_one]
