"""Beat alone begins the runs; the kill switch holds all of them."""

import socket
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.running_stack import quick_stack, wait_until
from support.stored import memory_ids

from memcore.client import MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.config.settings import Settings
from memcore.jobs import TaskName
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run, RunState
from memcore.models.memory import MemoryCategory
from workers.app import create_app

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("beat") / "home"


@pytest.fixture(scope="module")
def settings(home: Path) -> Generator[Settings]:
    with quick_stack(home, tick_seconds=0.5, sweep_seconds=1.0) as found:
        yield found


@pytest.fixture
def ledger(settings: Settings) -> Generator[Ledger]:
    opened = Ledger.open(settings.ledger_urls)
    yield opened
    opened.close()


def fill(settings: Settings, ledger: Ledger, agent_id: str) -> set[str]:
    """Give an agent five memories, two of them past their retention, and runs that are far away."""
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
        assert [status.state for status in client.wait(receipt.job_ids, timeout_seconds=60)] == ["done"]
    return set(receipt.memory_ids)


def runs_of(settings: Settings, ledger: Ledger, agent_id: str) -> tuple[Run, ...]:
    return ledger.runs.list(settings.company, agent_id=agent_id)


def test_a_due_agent_has_its_run_without_anybody_asking(settings: Settings, ledger: Ledger) -> None:
    ids = fill(settings, ledger, "early")
    assert runs_of(settings, ledger, "early") == ()
    ledger.agents.set_due(settings.company, "early", datetime.now(UTC))
    wait_until(lambda: is_done(settings, ledger, "early"), what="the night's end")
    (run,) = runs_of(settings, ledger, "early")
    assert run.origin == "scheduled"
    assert len(ids & set(memory_ids(settings))) == 8
    agent = ledger.agents.get(settings.company, "early")
    assert agent is not None
    assert agent.last_run_at is not None
    assert agent.next_due_at is not None
    assert agent.next_due_at > datetime.now(UTC)


def ticks(settings: Settings) -> int:
    """Count the ticks that the maintenance worker has taken on since it began."""
    app = create_app(settings)
    try:
        (stats,) = app.control.inspect([f"night@{socket.gethostname()}"], timeout=60.0).stats().values()
    finally:
        app.close()
    return int(stats["total"].get(str(TaskName.TICK), 0))


def test_the_kill_switch_holds_every_run_until_it_is_released(settings: Settings, ledger: Ledger, home: Path) -> None:
    memtend = CommandLine(home=home)
    asked, due = fill(settings, ledger, "asked"), fill(settings, ledger, "due")
    memtend.ok("pause")
    before = ticks(settings)
    ledger.agents.set_due(settings.company, "due", datetime.now(UTC))
    memtend.ok("maintain", "asked", "--no-wait")

    def is_given_back() -> bool:
        return [run.reason for run in runs_of(settings, ledger, "asked")] == ["maintenance is paused for all agents"]

    wait_until(is_given_back, what="the worker to meet the switch")
    wait_until(lambda: ticks(settings) >= before + 4, what="four more ticks")
    assert asked | due <= set(memory_ids(settings))
    assert runs_of(settings, ledger, "due") == ()
    assert [run.state for run in runs_of(settings, ledger, "asked")] == [RunState.QUEUED]
    memtend.ok("resume")
    for agent_id, ids in (("asked", asked), ("due", due)):
        wait_until(partial(is_done, settings, ledger, agent_id), what=f"the night of {agent_id}")
        assert len(ids & set(memory_ids(settings))) == 8


def is_done(settings: Settings, ledger: Ledger, agent_id: str) -> bool:
    return [run.state for run in runs_of(settings, ledger, agent_id)] == [RunState.DONE]
