"""The same code on one's own servers: workers and beat as single processes, configured by MEMTEND_* variables alone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import certifi
import pytest
from support.ledger_records import postgres_database
from support.plain_processes import Fleet, fleet
from support.postgres_server import postgres_server
from support.rabbitmq import rabbitmq
from support.repository import ROOT
from support.running_stack import MEMTEND, wait_until
from support.store_servers import store_server
from support.stored import history_events, memory_ids
from support.thorough import sized
from support.tls_proxy import tls_proxy
from support.valkey_servers import valkey_server

from examples.demo.balance import Balance, balance, tally_of
from memcore import MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.config.settings import Settings
from memcore.jobs import Queue, TickPayload
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run
from memcore.ledger.work_items import WorkState
from memcore.models.memory import ConsolidationInterval, MemoryCategory, MemoryStoreRequest
from workers.app import create_app
from workers.broker import waiting
from workers.health import STALE_SECONDS, Heartbeat

pytestmark = pytest.mark.acceptance

AGENT = "keeper"

#: Agents that are due at once, three times.
AGENTS = sized(16, thorough=40)

#: Memories that a worker is killed over: thirty times what it holds at once.
KILL_SIZE = 2_000


@contextmanager
def broker_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "valkey":
        with valkey_server(folder) as address, tls_proxy(address.port, folder) as proxy:
            yield f"rediss://:{address.password}@localhost:{proxy.port}/0?ssl_ca_certs={proxy.ca_file}"
    else:
        with rabbitmq() as url:
            yield url


@contextmanager
def store_of(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield the address of a store server behind TLS, its key, and the authority that vouches for it."""
    with store_server(folder) as store, tls_proxy(urlsplit(store.url).port or 0, folder) as proxy:
        yield f"https://localhost:{proxy.port}", store.api_key, proxy.ca_file


@pytest.fixture(scope="module", params=["valkey", pytest.param("rabbitmq", marks=pytest.mark.service)])
def installation(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Fleet]:
    """A broker, PostgreSQL and a store server, migrated, with one worker of each kind and a beat.

    Valkey and the store speak TLS with authorities of their own.
    """
    folder = tmp_path_factory.mktemp("distributed")
    with (
        broker_of(request.param, folder / "broker") as broker,
        postgres_server() as server,
        postgres_database(server) as database,
        store_of(folder / "store") as (store_url, store_key, authority),
        fleet(
            folder / "home",
            broker_url=broker,
            # RabbitMQ keeps no results.
            result_url=broker if request.param == "valkey" else f"db+{database}",
            database_url=database,
            qdrant_url=store_url,
            qdrant_api_key=store_key,
            tick_seconds="0.5",
            sweep_seconds="1",
        ) as made,
        pytest.MonkeyPatch.context() as environ,
    ):
        # The standard way to name an authority to Python's TLS, which the store's client reads too.
        made.extra["SSL_CERT_FILE"] = str(authority)
        environ.setenv("SSL_CERT_FILE", str(authority))
        made.memtend("migrate")
        made.memtend("migrate")
        made.start_all("worker-store", "worker-night", "beat")
        yield made


#: For TLS, which only this broker has here, and for what depends on no broker: RabbitMQ would show the same again.
on_one_broker = pytest.mark.parametrize("installation", ["valkey"], indirect=True)


@pytest.fixture
def ledger(installation: Fleet) -> Generator[Ledger]:
    opened = Ledger.open(installation.settings.ledger_urls)
    yield opened
    opened.close()


def fact(number: int) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"fact number {number} of the day")


def account(installation: Fleet, ledger: Ledger, stored: list[str]) -> Balance:
    company = installation.settings.company
    live = [one for one in memory_ids(installation.settings) if one in stored]
    return balance(stored=stored, tally=tally_of(ledger, company, AGENT), live=live)


@on_one_broker
def test_a_broker_with_an_outsiders_certificate_is_not_spoken_to(installation: Fleet) -> None:
    address = installation.settings.broker_url
    # Commands in processes of their own: this one keeps its connections to an address, however they were trusted.
    outsider = replace(
        installation, variables=installation.variables | {"MEMTEND_BROKER_URL": address.partition("?")[0]}
    )
    assert set(waiting(outsider.settings).values()) == {None}
    outsider.memtend("store", AGENT, "nobody should hear this", code=1)


@on_one_broker
def test_a_store_with_an_outsiders_certificate_is_not_spoken_to(installation: Fleet) -> None:
    trusted = installation.extra["SSL_CERT_FILE"]
    installation.extra["SSL_CERT_FILE"] = certifi.where()
    try:
        installation.memtend("search", AGENT, "reserve key", code=1)
    finally:
        installation.extra["SSL_CERT_FILE"] = trusted


def test_a_memory_goes_the_whole_way_and_back(installation: Fleet, ledger: Ledger) -> None:
    settings, now = installation.settings, datetime.now(UTC)
    installation.memtend("store", AGENT, "the reserve key hangs behind the clock")
    found = json.loads(installation.memtend("search", AGENT, "where is the reserve key", "--json"))
    assert "the reserve key hangs behind the clock" in json.dumps(found)

    ledger.agents.put(
        AgentSpec(company=settings.company, agent_id=AGENT, retention_overrides={MemoryCategory.WORKING: 1})
    )
    ledger.agents.set_due(settings.company, AGENT, now + timedelta(hours=5))
    with MemoryClient.from_settings(settings) as client:
        receipt = client.import_many(
            ImportRecord(
                agent_id=AGENT,
                category=MemoryCategory.WORKING,
                content=f"note {number}",
                created_at=now - timedelta(days=9 if number < 40 else 0),
            )
            for number in range(100)
        )
        assert {status.state for status in client.wait(receipt.job_ids, timeout_seconds=600)} == {"done"}
        stored = list(receipt.memory_ids)
        assert len(set(stored) & set(memory_ids(settings))) == 100

        # Beat, the scheduler's tick and the maintenance worker find the agent by themselves.
        ledger.agents.set_due(settings.company, AGENT, datetime.now(UTC))
        wait_until(
            lambda: [run.state for run in ledger.runs.list(settings.company, agent_id=AGENT)] == [WorkState.DONE],
            what=f"the night: {installation.logs()}",
        )
        (maintenance_run,) = ledger.runs.list(settings.company, agent_id=AGENT)
        assert maintenance_run.origin == "scheduled"
        agent = ledger.agents.get(settings.company, AGENT)
        assert agent is not None
        assert agent.last_run_at is not None
        assert agent.next_due_at is not None
        assert agent.next_due_at > datetime.now(UTC)
        after = account(installation, ledger, stored)
        assert (after.live.total(), after.is_exact) == (60, True), after.equation()

        undo = client.undo(AGENT, maintenance_run.run_id)
        (status,) = client.wait([undo.job_id], timeout_seconds=600)
        assert status.state == "done"
    undone = account(installation, ledger, stored)
    assert (undone.live.total(), undone.is_exact) == (100, True), undone.equation()


@on_one_broker
def test_the_example_of_the_readme_finds_its_memory_where_no_policy_is_named(installation: Fleet) -> None:
    assert "MEMTEND_POLICY_PATH" not in installation.environ
    example = ROOT / "examples" / "quickstart.py"
    done = subprocess.run(
        [sys.executable, str(example)], env=installation.environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "pages at 500 messages" in done.stdout) == (0, True), (done.stdout, done.stderr)


def test_the_doctor_misses_no_worker_that_nobody_needs(installation: Fleet) -> None:
    # No model is set, so that nobody needs the worker that asks one.
    def is_well() -> bool:
        asked = subprocess.run([MEMTEND, "doctor"], env=installation.environ, capture_output=True, check=False)
        return asked.returncode == 0

    wait_until(is_well, what="a well installation")
    status = json.loads(installation.memtend("status", "--json"))
    # Beat sends on the queue control all the time.
    assert {**status["queues"], str(Queue.CONTROL): 0} == {str(queue): 0 for queue in Queue}
    assert status["parts"] == []


def test_what_waits_is_counted_while_no_worker_takes_it(installation: Fleet) -> None:
    assert installation.stop("worker-store") == 0
    try:
        with MemoryClient.from_settings(installation.settings) as client:
            client.store(AGENT, MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="to be kept for later"))
        queues = json.loads(installation.memtend("status", "--json"))["queues"]
        # The minute's canary may wait beside it.
        assert sum(count for queue, count in queues.items() if queue.startswith("memory.store")) in {1, 2}
    finally:
        installation.start_all("worker-store")
    wait_until(
        lambda: "kept for later" in installation.memtend("search", AGENT, "kept for later"), what="the waiting memory"
    )


@on_one_broker
def test_a_worker_that_hangs_is_not_well_although_it_runs(installation: Fleet) -> None:
    process = installation.processes["worker-store"]
    heartbeat = Heartbeat.of(installation.home, "worker-store")
    process.send_signal(signal.SIGSTOP)
    try:
        long_ago = time.time() - 2 * STALE_SECONDS
        os.utime(heartbeat.path, (long_ago, long_ago))
        assert installation.health("worker-store") == 1
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGCONT)
    wait_until(lambda: installation.health("worker-store") == 0, what="a beat of the worker")
    assert installation.health("beat") == 0


def filled(settings: Settings, ledger: Ledger, agent_id: str) -> set[str]:
    """Give an agent ten memories, two of them past their retention, and runs that are far away."""
    now = datetime.now(UTC)
    retain = {MemoryCategory.WORKING: 1}
    ledger.agents.put(AgentSpec(company=settings.company, agent_id=agent_id, retention_overrides=retain))
    ledger.agents.set_due(settings.company, agent_id, now + timedelta(hours=5))
    with MemoryClient.from_settings(settings) as client:
        receipt = client.import_many(
            ImportRecord(
                agent_id=agent_id,
                category=MemoryCategory.WORKING,
                content=f"{agent_id} notes {number}",
                created_at=now - timedelta(days=9 if number < 2 else 0),
            )
            for number in range(10)
        )
        assert [status.state for status in client.wait(receipt.job_ids, timeout_seconds=600)] == ["done"]
    return set(receipt.memory_ids)


@on_one_broker
def test_the_kill_switch_holds_every_run_until_it_is_released(installation: Fleet, ledger: Ledger) -> None:
    settings = installation.settings
    asked, due = filled(settings, ledger, "asked"), filled(settings, ledger, "due")

    def runs_of(agent_id: str) -> tuple[Run, ...]:
        return ledger.runs.list(settings.company, agent_id=agent_id)

    def is_done(agent_id: str) -> bool:
        return [run.state for run in runs_of(agent_id)] == [WorkState.DONE]

    installation.memtend("pause")
    (before,) = ticks(settings)
    ledger.agents.set_due(settings.company, "due", datetime.now(UTC))
    with MemoryClient.from_settings(settings) as client:
        client.maintain_now("asked")
    wait_until(
        lambda: [run.reason for run in runs_of("asked")] == ["maintenance is paused for all agents"],
        what="the worker to meet the switch",
    )
    wait_until(lambda: ticks(settings)[0] >= before + 4, what="four more ticks")
    assert asked | due <= set(memory_ids(settings))
    assert runs_of("due") == ()
    assert [run.state for run in runs_of("asked")] == [WorkState.WAITING]
    installation.memtend("resume")
    for agent_id, ids in (("asked", asked), ("due", due)):
        wait_until(partial(is_done, agent_id), what=f"the run of {agent_id}")
        assert len(ids & set(memory_ids(settings))) == 8


def ticks(settings: Settings) -> list[int]:
    """Count the ticks that each maintenance worker has taken since it began; all of them answer to one name."""
    app = create_app(settings)
    try:
        answers = app.control.broadcast("stats", reply=True, timeout=1.0)
    finally:
        app.close()
    total = [stats["total"] for answer in answers or () for name, stats in answer.items() if name.startswith("night@")]
    return [int(each.get(TickPayload.task, 0)) for each in total]


@on_one_broker
def test_two_beats_and_two_schedulers_double_no_run(installation: Fleet, ledger: Ledger) -> None:
    company = installation.settings.company
    agents = [f"agent-{number:02}" for number in range(AGENTS)]
    for agent_id in agents:
        ledger.agents.put(AgentSpec(company=company, agent_id=agent_id, interval=ConsolidationInterval.WEEKLY))
    slots = set[datetime]()

    def planned() -> list[Run]:
        # An agent's own hour of the week may come while the test lasts.
        return [run for run in ledger.runs.list(company, limit=1_000) if run.planned_at in slots]

    def wave() -> None:
        # An hour apart, as if the maintenance workers had slept through them: catching up is one run, not many.
        slot = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=len(slots))
        slots.add(slot)
        for agent_id in agents:
            ledger.agents.set_due(company, agent_id, slot)
        wanted = len(slots) * len(agents)
        wait_until(
            lambda: sum(run.state is WorkState.DONE for run in planned()) == wanted,
            what=f"{wanted} runs: {installation.logs()}",
        )

    installation.start("second-worker", "worker", "--group", "night")
    installation.start("second-beat", "beat")
    wait_until(lambda: len(counts := ticks(installation.settings)) == 2 and all(counts), what="both workers to tick")
    wave()
    installation.kill("beat")
    wave()
    installation.start_all("beat")
    installation.kill("second-beat")
    wave()
    assert installation.stop("second-worker") == 0

    runs = planned()
    assert {(run.agent_id, run.planned_at) for run in runs} == {(agent, slot) for agent in agents for slot in slots}
    assert len(runs) == len(agents) * len(slots)
    assert {(run.state, run.attempt, run.origin) for run in runs} == {(WorkState.DONE, 1, "scheduled")}


@pytest.mark.service
@pytest.mark.parametrize("installation", ["rabbitmq"], indirect=True)
def test_what_a_killed_worker_held_on_rabbitmq_is_stored_by_its_successor(installation: Fleet) -> None:
    # On Valkey the same is proved by test_kills.py, on the embedded stack.
    settings = installation.settings
    before = memory_ids(settings)
    worker = installation.processes["worker-store"]
    worker.send_signal(signal.SIGSTOP)
    with MemoryClient.from_settings(settings) as client:
        sent = [
            client.store(f"agent-{number % 7}", fact(number), track=False).memory_ids[0] for number in range(KILL_SIZE)
        ]
    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: memory_ids(settings) != before, what="the first of them")
    stored = (memory_ids(settings) - before).total()
    installation.kill("worker-store")
    assert stored < KILL_SIZE
    installation.start_all("worker-store")
    wait_until(lambda: memory_ids(settings) - before == Counter(sent), what=f"all of them: {installation.logs()}")
    assert {key: count for key, count in history_events(settings).items() if key[0] in sent} == {
        (memory_id, "ADD"): 1 for memory_id in sent
    }
