"""A run that needs a language model, in a real stack: its worker dies while it asks; nothing is lost or paid again.

The model is the stub, which bills a question once by its key.
"""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.running_stack import MEMTEND, StackAddress, clean_environ, running_stack, wait_until
from support.stored import memory_ids
from support.stub_llm_process import StubLLM, stub_llm

from examples.demo.balance import balance
from memcore.client import MemoryClient, StoreReceipt
from memcore.client.envelopes import ImportRecord
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run, RunState
from memcore.models.memory import MemoryCategory

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

AGENT = "chronicler"

#: Memories of the agent; one of each category stays, the others become summaries of five.
SIZE = 32

POLICY = """\
memory:
  level: persistent
  llm:
    model: stub
{more}
  consolidation:
    strategy: llm
    categories: [episodic, semantic]
    group_max_entries: 5
    max_removed_fraction: 1.0
"""


@pytest.fixture(scope="module")
def model() -> Generator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, model: StubLLM) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("model-nights") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY.format(more=""), encoding="utf-8")
    with running_stack(home, MEMTEND_LLM_URL=model.url) as address:
        yield address


def imported(client: MemoryClient, now: datetime) -> StoreReceipt:
    receipt = client.import_many(
        ImportRecord(
            agent_id=AGENT,
            category=MemoryCategory.EPISODIC if number % 2 else MemoryCategory.SEMANTIC,
            content=f"on day {number} the ferry {number} came {number * 7} minutes late",
            created_at=now - timedelta(days=100 - number),
        )
        for number in range(SIZE)
    )
    assert all(status.state == "done" for status in client.wait(receipt.job_ids, timeout_seconds=120))
    return receipt


def test_a_worker_killed_while_it_asks_costs_no_memory_and_no_second_bill(stack: StackAddress, model: StubLLM) -> None:
    settings, now = stack.settings, datetime.now(UTC)
    ledger = Ledger.open(settings.ledger_urls)
    with MemoryClient.from_settings(settings) as client:
        receipt = imported(client, now)
        model.order(seconds=3600.0)
        run_id = client.maintain_now(AGENT).job_id

    def run() -> Run:
        found = ledger.runs.get(run_id)
        assert found is not None
        return found

    wait_until(lambda: len(model.log()) >= 3, what="the model to be asked")
    waiting = run()
    assert (waiting.state, waiting.lease_until) == (RunState.QUEUED, None), "nobody holds the night meanwhile"
    worker, restarts = stack.pid("worker-llm"), stack.restarts("worker-llm")
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    model.order()
    wait_until(lambda: stack.restarts("worker-llm") > restarts, what="the worker to be back")
    wait_until(lambda: run().state not in {RunState.QUEUED, RunState.RUNNING}, seconds=240, what="the night's end")

    assert run().state is RunState.DONE
    assert run().counts["summaries"] == 6
    assert run().counts["consolidated"] == SIZE - 2
    keys = model.keys()
    assert len(set(keys)) == 6, "one question a group, however often it was asked"
    assert all(sum(each["billed_tokens"] > 0 for each in model.log() if each["key"] == key) == 1 for key in set(keys))
    tally = ledger.journal.tally(settings.company, AGENT)
    stored = frozenset(receipt.memory_ids)
    live = [memory_id for memory_id in memory_ids(settings) if memory_id in stored | set(tally.created)]
    assert balance(stored=stored, tally=tally, live=live).is_exact
    ledger.close()


def test_with_a_budget_of_0_the_run_waits_nothing_goes_and_the_doctor_says_so(tmp_path: Path, model: StubLLM) -> None:
    home = tmp_path / "home"
    home.mkdir()
    policy = POLICY.format(more="  budgets:\n    tokens_per_agent_per_day: 0")
    (home / "policy.yaml").write_text(policy, encoding="utf-8")
    model.forget()
    with running_stack(home, MEMTEND_LLM_URL=model.url) as stack:
        settings = stack.settings
        ledger = Ledger.open(settings.ledger_urls)
        with MemoryClient.from_settings(settings) as client:
            receipt = imported(client, datetime.now(UTC))
            run_id = client.maintain_now(AGENT).job_id

        def reason() -> str:
            found = ledger.runs.get(run_id)
            return (found.reason if found else None) or ""

        wait_until(lambda: "budget" in reason(), seconds=120, what="the night to give itself back")
        run = ledger.runs.get(run_id)
        assert run is not None
        assert run.state is RunState.QUEUED
        assert sorted(memory_ids(settings)) == sorted(receipt.memory_ids)
        assert model.log() == []
        doctor = subprocess.run(
            [MEMTEND, "doctor", "--json", "--home", str(home)],
            capture_output=True, text=True, check=False, env=clean_environ(),
        )  # fmt: skip
        ledger.close()
    budget = next(each for each in json.loads(doctor.stdout) if each["check"] == "model budget")
    assert not budget["ok"]
    assert "0 tokens: every step that asks a model waits" in budget["seen"]
