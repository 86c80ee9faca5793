"""The alert drill: rules are evaluated on what a running stack's ``serve`` shows, healthy, and with a store worker
that stands still.

It takes the minute after which heartbeats and answers of workers count as missing.
"""

import os
import signal
from collections.abc import Generator
from contextlib import closing, contextmanager

import httpx
import pytest
from support.alert_rules import Scrape, firing, read_scrape
from support.memories import new_agent
from support.running_stack import StackAddress, running_stack, wait_until

from memcore import MemoryClient
from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import Publisher
from memcore.config.settings import Settings
from memcore.ids import new_id
from memcore.jobs import LessonPayload
from memcore.ledger.access.keys import Verb
from memcore.models.memory import CANARY_OWNER, MemoryCategory, MemoryStoreRequest
from ops.cli.session import ledger_of
from ops.metrics.exposition import MEDIA_TYPE
from workers.broker import broker_app

pytestmark = pytest.mark.acceptance

#: Within this time an alert's expression is true, in seconds.
SOON = 120.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("alerts") / "home") as address:
        yield address


def url_of(stack: StackAddress) -> str:
    text = (stack.home / "run" / "doors.json").read_text()
    return f"http://127.0.0.1:{httpx.Response(200, text=text).json()['serve_port']}"


def key(settings: Settings, *verbs: Verb, agents: list[str] | None = None) -> dict[str, str]:
    with ledger_of(settings) as ledger:
        made = ledger.api_keys.create(settings.company, name=new_agent("prometheus"), verbs=verbs, agents=agents)
    return {"Authorization": f"Bearer {made.token}"}


class Prometheus:
    """Scrapes as the operator's does."""

    def __init__(self, stack: StackAddress) -> None:
        self._url = f"{url_of(stack)}/metrics"
        self._headers = key(stack.settings, Verb.ADMIN, Verb.READ)

    def scrape(self) -> Scrape:
        answer = httpx.get(self._url, headers=self._headers, timeout=600).raise_for_status()
        assert answer.headers["content-type"] == MEDIA_TYPE
        return read_scrape(answer.text)

    def firing(self) -> set[str]:
        return set(firing(self.scrape()))


@pytest.fixture(scope="module")
def prometheus(stack: StackAddress) -> Prometheus:
    return Prometheus(stack)


@contextmanager
def stopped(pid: int | None) -> Generator[None]:
    """Keep a process from running, and let it go on."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def store_one(stack: StackAddress) -> None:
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="The pump in hall 3 leaks on Mondays.")
    with MemoryClient.from_settings(stack.settings) as client:
        client.store(new_agent(), request)


def total(scrape: Scrape, metric: str) -> float:
    return sum(value for _, value in scrape.get(metric, []))


def test_a_healthy_stack_gives_no_alert_and_its_canary_is_found(stack: StackAddress, prometheus: Prometheus) -> None:
    store_one(stack)
    wait_until(
        lambda: total(prometheus.scrape(), "memtend_memories_stored_total") >= 1, what="the memory to be counted"
    )
    wait_until(lambda: not prometheus.firing(), what="no alert")
    seen = prometheus.scrape()
    assert 0 < total(seen, "memtend_store_to_findable_seconds") < 30
    assert {labels["part"] for labels, _ in seen["memtend_heartbeat_age_seconds"]} == {
        *("beat", "worker-store", "worker-night")
    }
    assert {labels["group"]: value for labels, value in seen["memtend_workers"]} == {"store": 1, "night": 1}
    # The one memory that was stored: the canaries are nobody's.
    assert total(seen, "memtend_memories_stored_total") == 1
    with ledger_of(stack.settings) as ledger:
        assert CANARY_OWNER not in {agent.agent_id for agent in ledger.agents.list(stack.settings.company)}
        assert ledger.agents.counts() == {stack.settings.company: 1}


def test_a_store_worker_that_stands_still_is_an_alert_and_none_once_it_goes_on(
    stack: StackAddress, prometheus: Prometheus
) -> None:
    assert prometheus.firing() == set()
    # Else the supervisor replaces it before anybody is called.
    with stopped(stack.state.supervisor_pid), stopped(stack.pid("worker-store")):
        store_one(stack)
        wanted = {"MemtendHeartbeatOld", "MemtendWorkersGone", "MemtendStoreQueueOld"}
        wait_until(lambda: wanted <= prometheus.firing(), seconds=SOON, what="the alerts")
        found = firing(prometheus.scrape())
        assert {labels["part"] for labels in found["MemtendHeartbeatOld"]} == {"worker-store"}
        assert {labels["group"] for labels in found["MemtendWorkersGone"]} == {"store"}
        # The other groups go on.
        assert found.keys() <= wanted | {"MemtendStorePathStandsStill", "MemtendCanaryLate"}
    wait_until(lambda: not prometheus.firing(), seconds=SOON, what="the alerts to end")


async def test_a_key_sees_its_own_company_and_no_key_or_an_agents_sees_nothing(stack: StackAddress) -> None:
    async with httpx.AsyncClient(base_url=url_of(stack), timeout=600) as client:
        assert (await client.get("/metrics")).status_code == 401
        for headers in (key(stack.settings, Verb.READ, agents=["ada"]), key(stack.settings, Verb.WRITE)):
            assert (await client.get("/metrics", headers=headers)).status_code == 403
        seen = read_scrape((await client.get("/metrics", headers=key(stack.settings, Verb.READ))).text)
    assert "memtend_agents" in seen
    assert "memtend_queue_jobs" not in seen
    assert {labels["company"] for samples in seen.values() for labels, _ in samples if "part" not in labels} == {
        stack.settings.company
    }


def test_the_models_worker_sleeps_without_a_model_until_a_job_needs_it(
    stack: StackAddress, prometheus: Prometheus
) -> None:
    assert stack.state.asleep == ("worker-llm",)
    # Here nothing sends one: a lesson waits in the ledger until there is a model. An engine that has one may.
    asked = LessonPayload(company=stack.settings.company, agent_id="ada", lesson_id="unheard-of")
    job = OutgoingJob(job_id=new_id(), queue=asked.queue, payload=asked.model_dump_json(), summary="a lesson")
    with closing(broker_app(stack.settings)) as app:
        Publisher(app).publish(asked.task, [job], track=False)
    wait_until(lambda: stack.state.asleep == () and stack.is_ready("worker-llm"), what="the worker to wake")

    def counted() -> dict[str, float]:
        return {labels["group"]: value for labels, value in prometheus.scrape()["memtend_workers"]}

    wait_until(lambda: counted() == {"store": 1, "night": 1, "llm": 1}, what="the worker to be counted")
    assert not prometheus.firing()
