"""What a scrape shows of a ledger, whom, and what is left when a part is away."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.alert_rules import firing, read_scrape
from support.ledger_records import StoppedClock
from support.present import present

from memcore import ids
from memcore.clock import utc_now
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError
from memcore.jobs import LessonPayload
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import CallState, Caps, NewCall, Spent
from memcore.ledger.monitoring.measures import MeasureName
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkKey, WorkState, add_items, new_item
from memcore.llm.protocol import CHECK_PURPOSE
from memcore.models.memory_test import MemoryTest, NamedMemory, Outcome
from ops.http.routes.metrics import CACHE_SECONDS, KeptScrapes
from ops.metrics import collector as collecting
from ops.metrics.collector import MOST_COMPANIES, Collector
from ops.metrics.families import FAMILIES, WORKERS
from ops.metrics.latency import ServeTimes
from workers.groups import GROUPS
from workers.health import Heartbeat
from workers.stack.home import StackState, write_state

MINUTE = timedelta(minutes=1)

#: What a look at the present leaves out.
OF_A_DAY = {
    *("memtend_agents", "memtend_agents_late", "memtend_runs_24h", "memtend_memories_removed_24h"),
    *("memtend_summaries_24h", "memtend_budget_spent_agents", "memtend_memory_tests_failed"),
    *("memtend_embed_seconds", "memtend_search_seconds"),
}


@pytest.fixture
def ledger(ledger: Ledger) -> Ledger:
    ledger.companies.register("acme")
    return ledger


class Seconds:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def collector(ledger: Ledger, clock: StoppedClock, tmp_path: Path, seconds: Seconds) -> Collector:
    settings = Settings(
        # Nobody listens there.
        broker_url="redis://127.0.0.1:1/0", database_url="sqlite:////x", qdrant_url="http://127.0.0.1:2",
        home=tmp_path, company="acme",
    )  # fmt: skip
    policies = CompanyPolicies(settings, Policy())
    return Collector(settings, policies, ledger, ServeTimes(), clock=clock, monotonic=seconds)


def values(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    return {
        family.name if family.type != "counter" else f"{family.name}_total": {
            frozenset(sample.labels.items()): sample.value for sample in family.samples
        }
        for family in text_string_to_metric_families(text)
    }


def labels(**given: str) -> frozenset[tuple[str, str]]:
    return frozenset({"company": "acme", **given}.items())


def _run(ledger: Ledger, clock: StoppedClock, company: str, agent: str, *, ends: WorkState | None) -> None:
    made = present(ledger.runs.create(NewRun(company=company, agent_id=agent, planned_at=clock())))
    held = present(ledger.runs.claim(company, made.run_id, lease=5 * MINUTE))
    if ends is not None:
        ledger.runs.finish(
            company, made.run_id, str(held.token), state=ends, counts={"consolidated": 4, "summaries": 1}
        )


def test_a_look_at_the_present_says_the_same_without_agents_and_the_last_day(
    collector: Collector, ledger: Ledger, clock: StoppedClock
) -> None:
    ledger.measures.add("acme", MeasureName.MEMORIES_STORED, 12)
    ledger.measures.note("acme", MeasureName.CANARY_SENT, 0, at=clock())
    ledger.measures.note("acme", MeasureName.CANARY_FOUND, 0.125, at=clock())
    ledger.ticks.note("acme", sent=0)
    _run(ledger, clock, "acme", "bob", ends=WorkState.HELD)
    _run(ledger, clock, "acme", "cy", ends=None)
    ledger.runs.create(NewRun(company="acme", agent_id="dee", planned_at=clock()))
    clock.advance(7 * MINUTE)
    look, scrape = (
        values(found.text(FAMILIES)) for found in (collector.gather_present("acme"), collector.gather(None))
    )
    left_out = {name for name, found in scrape.items() if found and not look[name]}
    assert left_out == OF_A_DAY
    assert {name: found for name, found in scrape.items() if name not in left_out} == {
        name: found for name, found in look.items() if name not in left_out
    }
    assert look["memtend_jobs_running"] == {labels(job="memory.maintenance.run"): 1}


def test_a_scrape_says_what_the_ledger_knows(collector: Collector, ledger: Ledger, clock: StoppedClock) -> None:
    ledger.measures.add("acme", MeasureName.MEMORIES_STORED, 12)
    ledger.measures.add("acme", MeasureName.SUSPECT_STORED, 3)
    ledger.measures.note("acme", MeasureName.CANARY_SENT, 0, at=clock())
    ledger.measures.note("acme", MeasureName.CANARY_FOUND, 0.125, at=clock())
    ledger.ticks.note("acme", sent=0)
    test = MemoryTest(agent="ada", name="lift", question="who?", finds=(NamedMemory(text="Rosa"),))
    ledger.memory_tests.register("acme", [test], notes=[])
    failed = [each.model_copy(update={"outcome": Outcome.FAILED}) for each in ledger.memory_tests.list("acme")]
    ledger.memory_tests.keep("acme", failed)
    _run(ledger, clock, "acme", "ada", ends=WorkState.DONE)
    _run(ledger, clock, "acme", "bob", ends=WorkState.HELD)
    _run(ledger, clock, "acme", "cy", ends=None)
    ledger.runs.create(NewRun(company="acme", agent_id="dee", planned_at=clock()))
    clock.advance(7 * MINUTE)
    seen = values(collector.gather(None).text(FAMILIES))
    assert seen["memtend_memories_stored_total"] == {labels(): 12}
    assert seen["memtend_suspect_memories_total"] == {labels(): 3}
    assert seen["memtend_canary_age_seconds"] == {labels(): 420}
    assert seen["memtend_store_to_findable_seconds"] == {labels(): 0.125}
    assert seen["memtend_tick_age_seconds"] == {frozenset(): 420}
    assert seen["memtend_runs_held"] == {labels(): 1}
    assert seen["memtend_memory_tests_failed"] == {labels(): 1}
    run = {"kind": "maintenance"}
    assert seen["memtend_runs_24h"] == {
        labels(**run, outcome="done"): 1,
        labels(**run, outcome="held"): 1,
        labels(**run, outcome="leased"): 1,
        labels(**run, outcome="available"): 1,
    }
    assert seen["memtend_memories_removed_24h"][labels(reason="consolidated")] == 8
    assert seen["memtend_summaries_24h"] == {labels(): 2}
    job = {"job": "memory.maintenance.run"}
    assert seen["memtend_job_running_seconds"] == {labels(**job): 420}
    # Its worker should have renewed it two minutes ago.
    assert seen["memtend_lease_lapsed_seconds"] == {labels(**job): 120}
    assert seen["memtend_queue_oldest_seconds"] == {frozenset({("queue", "memory.maintenance")}): 420}


def _call(ledger: Ledger, state: CallState, *, purpose: str = "p", model: str = "m", **failure: Any) -> None:
    new = NewCall(
        company="acme", agent_id="a", run_id=None, question_id="q", purpose=purpose, model=model, most=Spent()
    )
    reserved = ledger.spending.reserve(new, caps=Caps())
    ledger.spending.settle(str(reserved.call_id), state, spent=None, attempts=1, **failure)


def test_a_model_that_has_answered_nothing_since_it_failed_is_shown_with_status_and_type(
    collector: Collector, ledger: Ledger, clock: StoppedClock
) -> None:
    def failing() -> dict[frozenset[tuple[str, str]], float]:
        return values(collector.gather(None).text(FAMILIES))["memtend_model_failing_seconds"]

    _call(ledger, CallState.FAILED, purpose=CHECK_PURPOSE, status=401)
    _call(ledger, CallState.ANSWERED)
    clock.advance(MINUTE)
    _call(ledger, CallState.FAILED, status=503, error_kind="overloaded_error")
    _call(ledger, CallState.FAILED, model="other", error_kind="timeout")
    clock.advance(MINUTE)
    _call(ledger, CallState.FAILED, status=400, error_kind="invalid_request_error")
    _call(ledger, CallState.ANSWERED, model="other")
    clock.advance(15 * MINUTE)
    assert failing() == {labels(status="400", reason="invalid_request_error"): 960}
    assert "MemtendModelFails" in firing(read_scrape(collector.gather(None).text(FAMILIES)))
    _call(ledger, CallState.ANSWERED)
    assert failing() == {}


def test_answers_that_could_not_be_read_are_counted_by_purpose(collector: Collector, ledger: Ledger) -> None:
    for question in ("q", f"q{ids.ASKED_AGAIN}0123"):
        about: dict[str, Any] = {"company": "acme", "agent_id": "ada", "run_id": None, "purpose": "extract"}
        call = NewCall(**about, question_id=question, model="m", most=Spent())
        ledger.spending.reserve(call, caps=Caps())
    calls = values(collector.gather(None).text(FAMILIES))["memtend_model_calls_today"]
    assert calls[labels(purpose="extract", outcome="calls")] == 2
    assert calls[labels(purpose="extract", outcome="asked_again")] == 1


def test_each_family_is_named_even_where_it_has_no_value(collector: Collector) -> None:
    text = collector.gather(None).text(FAMILIES)
    assert [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")] == [
        family.name for family in FAMILIES
    ]


def test_a_company_sees_itself_and_the_operator_all(
    collector: Collector, ledger: Ledger, clock: StoppedClock, tmp_path: Path
) -> None:
    Heartbeat.of(tmp_path, "beat").touch()
    ledger.companies.add("bolt")
    ledger.companies.add("gone")
    ledger.companies.remove("gone")
    _run(ledger, clock, "bolt", "ada", ends=WorkState.DONE)
    mine, whole = values(collector.gather("bolt").text(FAMILIES)), values(collector.gather(None).text(FAMILIES))
    assert mine["memtend_agents"].keys() == {labels(company="bolt")}
    assert whole["memtend_agents"].keys() == {labels(), labels(company="bolt")}
    assert mine["memtend_part_up"] == {frozenset({("part", "ledger")}): 1}
    assert {name for name, found in mine.items() if any("company" not in dict(each) for each in found)} == {
        "memtend_part_up"
    }
    assert whole["memtend_heartbeat_age_seconds"].keys() == {frozenset({("part", "beat")})}
    assert MOST_COMPANIES == 200


def test_a_part_that_is_away_costs_its_own_figures_alone(
    collector: Collector, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = values(collector.gather(None).text(FAMILIES))
    up = {dict(each)["part"]: value for each, value in seen["memtend_part_up"].items()}
    assert up == {"ledger": 1, "broker": 0}
    assert not seen["memtend_queue_jobs"]
    assert seen["memtend_agents"]
    monkeypatch.setattr(ledger._databases[0], "read", _locked)
    monkeypatch.setattr(ledger._databases[0], "rows", _locked)
    seen = values(collector.gather(None).text(FAMILIES))
    assert {dict(each)["part"]: value for each, value in seen["memtend_part_up"].items()} == {"ledger": 0, "broker": 0}


def test_a_group_that_sleeps_is_not_counted_and_one_that_is_gone_is_0(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(collecting, "read_queues", lambda _: ({}, 0))
    monkeypatch.setattr(collecting, "answering", lambda _: Counter(store=2))

    def counted() -> dict[str, float]:
        samples = collector.gather(None)
        return {name: samples.value(WORKERS, group=name) for name in GROUPS if samples.is_set(WORKERS, group=name)}

    assert counted() == {"store": 2, "night": 0, "llm": 0}
    me, now = psutil.Process(), utc_now()
    state = StackState(
        supervisor_pid=me.pid, supervisor_born=me.create_time(), started_at=now, seen_at=now, peak_resident_bytes=0,
        parts=(), asleep=("worker-llm",),
    )  # fmt: skip
    (tmp_path / "run").mkdir()
    write_state(tmp_path, state)
    assert counted() == {"store": 2, "night": 0}


def _locked(*_args: Any) -> Any:
    raise MemoryConnectionError("locked")


async def test_a_scrape_is_given_again_for_seconds(collector: Collector, ledger: Ledger, seconds: Seconds) -> None:
    kept = KeptScrapes(collector, monotonic=seconds)
    first = await kept.text("acme")
    ledger.measures.add("acme", MeasureName.MEMORIES_STORED, 1)
    seconds.now += CACHE_SECONDS - 0.1
    assert await kept.text("acme") == first
    assert await kept.text(None) != first
    seconds.now += 0.2
    assert await kept.text("acme") != first


def test_what_waits_for_a_model_that_is_not_connected_is_not_late(
    collector: Collector, ledger: Ledger, clock: StoppedClock
) -> None:
    lesson = LessonPayload(company="acme", agent_id="ada", lesson_id="one")
    with ledger.work._database.write() as connection:
        add_items(connection, [new_item(WorkKey("acme", lesson.task, "one"), lesson, now=clock())])
    clock.advance(MINUTE)
    assert ledger.figures.oldest_due() == {str(lesson.queue): MINUTE}
    assert values(collector.gather(None).text(FAMILIES))["memtend_queue_oldest_seconds"] == {}
