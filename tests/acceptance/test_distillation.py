"""kill -9 in the middle of a fleet's traces: each leaves one memory, one experience and one trajectory."""

import os
import signal
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from support.execution_traces import trace
from support.running_stack import StackAddress, running_stack, wait_until
from support.stored import history_events, jobs_in_hand, memory_ids
from support.thorough import sized

from memcore.client import DistillReceipt, MemoryClient
from memcore.ledger.ledger import Ledger
from memcore.models.execution import ExecutionTrace, TerminationReason, Turn
from ops.cli.session import ledger_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

#: Traces of the fleet, dealt to so many agents.
TRACES = sized(600, thorough=2_000)
AGENTS = 20

#: Traces captured when the worker is stopped in the middle of its work, and sent before it is killed.
BEFORE = sized(60, thorough=200)

#: What ended long ago is kept no longer.
NOW = datetime.now(UTC)

REASONS = tuple(TerminationReason)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("distillation") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text("memory:\n  level: persistent\n", encoding="utf-8")
    with running_stack(home) as address:
        yield address


def trace_of(number: int) -> ExecutionTrace:
    return trace(
        f"task-{number}",
        turns=(Turn(tokens=number, tools=("search_memory", "shell")),),
        termination_reason=REASONS[number % len(REASONS)],
        output=f"the answer of task {number}",
        ended_at=NOW,
    )


def experience_ids(ledger: Ledger, company: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for number in range(AGENTS):
        last = None
        while page := ledger.experiences.page(company, f"agent-{number}", before=last):
            found.update(each.id for each in page)
            last = page[-1]
    return found


def test_a_worker_killed_in_the_middle_of_many_traces_loses_none_and_doubles_none(stack: StackAddress) -> None:
    settings, company, part = stack.settings, stack.settings.company, "worker-store"
    pid, restarts = stack.pid(part), stack.restarts(part)
    assert pid is not None
    with (
        MemoryClient.from_settings(settings) as client,
        ledger_of(settings) as ledger,
        ThreadPoolExecutor(4) as senders,
    ):

        def send(number: int) -> DistillReceipt | None:
            return client.distill(f"agent-{number % AGENTS}", trace_of(number), track=False)

        sent = [senders.submit(send, number) for number in range(TRACES // 2)]
        wait_until(lambda: ledger.trajectories.count(company) >= BEFORE, what="some traces to be captured")
        wait_until(lambda: jobs_in_hand(settings, "store") > 0, what="jobs in the worker's hand")
        os.kill(pid, signal.SIGSTOP)
        try:
            sent += [senders.submit(send, number) for number in range(TRACES // 2, TRACES)]
            receipts = [each.result(timeout=120) for each in sent]
            assert jobs_in_hand(settings, "store") > 0
            assert ledger.trajectories.count(company) <= TRACES // 2
        finally:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: stack.restarts(part) > restarts, seconds=120, what=f"{part} to be back")
        wait_until(lambda: ledger.trajectories.count(company) == TRACES, seconds=180, what="every trajectory")
        wait_until(lambda: jobs_in_hand(settings, "store") == 0, what="the last job to be acknowledged")

        expected = {each.trace_id: 1 for each in receipts if each is not None}
        assert len(expected) == TRACES
        assert Counter(each.id for each in ledger.trajectories.stream(company)) == expected
        assert experience_ids(ledger, company) == expected
        assert ledger.dead_letters.count(company) == 0
    assert memory_ids(settings) == expected
    assert history_events(settings) == {(memory_id, "ADD"): 1 for memory_id in expected}
