"""kill -9 of every part while work of every kind is under way: nothing is lost, doubled or paid twice (SPEC S1).

One stack is sent stores, traces, whose lessons a model is asked for, a maintenance run, another that asks the model,
and a cycle of the evolver; each part is killed while it works on them. A test for each kind waits for its end and
accounts for it. The last two use the stack as it was left: a reindex whose worker is killed, and Ctrl-C under load.
"""

import threading
from collections import Counter
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic

import psutil
import pytest
from support.command_line import CommandLine
from support.execution_traces import trace
from support.present import present
from support.reindex_load import constant_load, filled, kill_run
from support.running_stack import StackAddress, end_stack, running_stack, start_stack, wait_until
from support.shared_failures import many_failures, share_failures
from support.skill_format import problems_of
from support.stored import history_events, jobs_in_hand, jobs_waiting, memory_ids
from support.stub_llm_process import StubLLM, stub_llm
from support.thorough import THOROUGH, sized

from examples.demo.balance import balance, tally_of
from memcore import MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.errors import MemoryConnectionError
from memcore.jobs import LessonPayload, ReindexPayload, SynthesisPayload
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run
from memcore.ledger.tables import work_items
from memcore.ledger.work_items import WorkState
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from ops.cli.session import ledger_of

pytestmark = pytest.mark.acceptance

#: Memories of one round of stores; half of them are accepted while the part that is killed does not work.
ROUND = sized(400, thorough=2_500)

#: Memories of one call in bulk.
BULK = 25

#: The agents whose tasks are distilled.
FLEET = ("ada", "bob", "cleo")

#: Tasks of the fleet: of six, four fail, one goes well with tools, and one goes well and says too little.
TASKS = sized(48, thorough=300)

#: Tasks sent while the model answers, and tasks sent by the time it has fallen silent.
ANSWERED, SILENT = 6, 12

#: Memories of the agent whose run expires nine of ten.
SLEEPER, SLEEPER_SIZE = "sleeper", sized(1_000, thorough=1_500)

#: Memories of the agent whose run asks the model; one stays, the others become summaries of five.
CHRONICLER, CHRONICLER_SIZE, SUMMARIES = "chronicler", 31, 6

#: Patterns of the cycle; some of their proposals must be filed when its worker is killed, and not all.
PATTERNS = 80

#: Memories of the agents that read during the reindex: each finds as many as it asks for.
FILLED = 100

#: What ended long ago is kept no longer.
NOW = datetime.now(UTC)

#: The embedder of the reindex, and its name: that of the full size has vectors of another length, and is slow.
EMBEDDER, EMBEDDER_NAME = ("minilm", "all-MiniLM-L6-v2-int8") if THOROUGH else ("static-mean", "wordllama-256-mean")

#: What the model's worker holds.
OF_MODEL = work_items.c.kind.in_([LessonPayload.task, SynthesisPayload.task, "question"])

POLICY = f"""\
memory:
  level: persistent
  llm:
    model: stub
  consolidation:
    strategy: llm
    categories: [semantic]
    # The stub's summaries say little: the gate would refuse most of them.
    gate:
      enabled: false
    group_max_entries: 5
    max_removed_fraction: 1.0
  procedural:
    skill_md_directory: skills
    evolver:
      enabled: true
      max_proposals_per_cycle: {PATTERNS}
"""


@pytest.fixture(scope="module")
def model() -> Generator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, model: StubLLM) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("kills") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with running_stack(home, MEMTEND_LLM_URL=model.url) as address:
        yield address


@pytest.fixture(scope="module")
def ledger(stack: StackAddress) -> Generator[Ledger]:
    with ledger_of(stack.settings) as opened:
        yield opened


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """The work whose workers were killed.

    Attributes:
        stored: the ids of all stores that were accepted.
        traces: the ids of the tasks.
        slept: what the sleeper had, before its run.
        chronicled: what the chronicler had, before its run.
        while_asking: the chronicler's run while the model was asked.
        cycle_at_kill: the evolver's cycle when its worker was dead.
        filed: how many proposals were filed by then.
    """

    stored: tuple[str, ...]
    traces: tuple[str, ...]
    slept: frozenset[str]
    sleeper_run: str
    chronicled: frozenset[str]
    while_asking: Run
    cycle_at_kill: Cycle
    filed: int


class Senders:
    """Sends work through one client, with four threads."""

    def __init__(self, client: MemoryClient, pool: ThreadPoolExecutor) -> None:
        self._client = client
        self._pool = pool
        self._stores: list[Future[tuple[str, ...]]] = []
        self._traces: list[Future[str]] = []

    def store(self, name: str, numbers: range) -> None:
        """Send memories, a fifth of them singly."""
        singly = numbers[: len(numbers) // 5]
        bulk = numbers[len(singly) :]
        self._stores += [self._pool.submit(self._store, name, range(each, each + 1)) for each in singly]
        self._stores += [self._pool.submit(self._store, name, bulk[at : at + BULK]) for at in range(0, len(bulk), BULK)]

    def distill(self, numbers: range) -> None:
        self._traces += [self._pool.submit(self._distill, number) for number in numbers]

    def stored(self) -> tuple[str, ...]:
        """Wait until all is accepted, and return the ids."""
        return tuple(memory_id for each in self._stores for memory_id in each.result(timeout=600))

    def traces(self) -> tuple[str, ...]:
        """The same of the tasks."""
        return tuple(each.result(timeout=600) for each in self._traces)

    def _store(self, name: str, numbers: range) -> tuple[str, ...]:
        requests = [request(f"{name}: fact number {number} of the day") for number in numbers]
        agent_id = f"agent-{numbers.start % 7}"
        if len(requests) == 1:
            return self._client.store(agent_id, requests[0], track=False).memory_ids
        return self._client.store_many(agent_id, requests, track=False).memory_ids

    def _distill(self, number: int) -> str:
        receipt = present(self._client.distill(FLEET[number % 3], task(number), track=False))
        return receipt.trace_id


def request(content: str) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=content)


def task(number: int) -> ExecutionTrace:
    if number % 6 >= 4:
        tools = ("search", "write_file") if number % 6 == 4 else ()
        return trace(f"task-{number}", ended_at=NOW, turns=(Turn(tools=tools),))
    return trace(
        f"task-{number}",
        ended_at=NOW,
        termination_reason=TerminationReason.ERROR,
        error_category=f"walrus_{number}",
        error_message="no space left on device",
        recovery=Recovery(strategy="retry"),
        turns=(Turn(tools=("deploy", "deploy")),),
        prompt="a word that no model may read: Zanzibar-4711",
    )


def imported(client: MemoryClient, agent_id: str, category: MemoryCategory, ages_days: Iterable[int]) -> frozenset[str]:
    receipt = client.import_many(
        ImportRecord(
            agent_id=agent_id,
            category=category,
            content=f"on day {number} the ferry {number} came {number * 7} minutes late",
            created_at=NOW - timedelta(days=days),
        )
        for number, days in enumerate(ages_days)
    )
    assert all(status.state == "done" for status in client.wait(receipt.job_ids, timeout_seconds=600))
    return frozenset(receipt.memory_ids)


@contextmanager
def killed_at_work(stack: StackAddress, part: str) -> Generator[None]:
    """Hold a part while the store worker has jobs in its hand, and kill it after the block."""
    process, restarts = psutil.Process(stack.pid(part)), stack.restarts(part)

    def is_held() -> bool:
        process.suspend()
        if jobs_in_hand(stack.settings, "store"):
            return True
        process.resume()
        return False

    wait_until(is_held, what="jobs in the worker's hand")
    try:
        yield
    finally:
        process.kill()
    wait_until(lambda: stack.restarts(part) > restarts and stack.is_ready(part), what=f"{part} to be back")


@pytest.fixture(scope="module")
def interrupted(stack: StackAddress, model: StubLLM, ledger: Ledger) -> Interrupted:
    """Work of every kind, under way when the part that does it was killed."""
    retention = {MemoryCategory.EPISODIC: 30}
    ledger.agents.put(AgentSpec(company=stack.settings.company, agent_id=SLEEPER, retention_overrides=retention))
    with MemoryClient.from_settings(stack.settings) as client, ThreadPoolExecutor(4) as pool:
        senders = Senders(client, pool)
        ages = (200 if number % 10 else 1 for number in range(SLEEPER_SIZE))
        slept = imported(client, SLEEPER, MemoryCategory.EPISODIC, ages)
        chronicled = imported(client, CHRONICLER, MemoryCategory.SEMANTIC, range(100, 100 - CHRONICLER_SIZE, -1))
        while_asking = _kill_who_asks(stack, model, ledger, client, senders)
        senders.store("first", range(ROUND // 2))
        senders.distill(range(SILENT, TASKS // 2))
        with killed_at_work(stack, "worker-store"):
            senders.store("first", range(ROUND // 2, ROUND))
            senders.distill(range(TASKS // 2, TASKS))
            senders.stored()
            senders.traces()
        cycle, filed = _kill_who_evolves(stack, ledger, client)
        sleeper_run = _kill_who_maintains(stack, ledger, client)
        senders.store("second", range(ROUND // 2))
        with killed_at_work(stack, "store-server"):
            senders.store("second", range(ROUND // 2, ROUND))
            senders.stored()
        return Interrupted(
            stored=senders.stored(),
            traces=senders.traces(),
            slept=slept,
            sleeper_run=sleeper_run,
            chronicled=chronicled,
            while_asking=while_asking,
            cycle_at_kill=cycle,
            filed=filed,
        )


def _kill_who_asks(stack: StackAddress, model: StubLLM, ledger: Ledger, client: MemoryClient, senders: Senders) -> Run:
    """Kill the worker that waits for the model, with a run's questions and lessons in its hand."""
    senders.distill(range(ANSWERED))
    wait_until(lambda: sum(map(bool, outcomes(ledger, stack).values())) >= ANSWERED // 2, what="some lessons")
    wait_until(lambda: len(model.log()) == ANSWERED, what="no lesson to be asked for")
    model.order(seconds=3600.0)
    run_id = client.maintain_now(CHRONICLER).job_id
    wait_until(lambda: len(model.log()) == ANSWERED + SUMMARIES, what="the run's questions")
    senders.distill(range(ANSWERED, SILENT))
    wait_until(lambda: len(model.log()) > ANSWERED + SUMMARIES, what="a lesson to be asked for")
    while_asking = present(ledger.runs.get(stack.settings.company, run_id))
    worker, restarts = psutil.Process(stack.pid("worker-llm")), stack.restarts("worker-llm")
    worker.kill()
    stack.lapse(OF_MODEL)
    model.order()
    wait_until(lambda: stack.restarts("worker-llm") > restarts, what="the model's worker to be back")
    return while_asking


def _kill_who_evolves(stack: StackAddress, ledger: Ledger, client: MemoryClient) -> tuple[Cycle, int]:
    """Kill the maintenance worker and its children in the middle of a cycle."""
    company = stack.settings.company
    share_failures(ledger, company, at=datetime.now(UTC), failures=many_failures("killed", PATTERNS))
    worker, restarts = psutil.Process(stack.pid("worker-night")), stack.restarts("worker-night")
    family = [worker, *worker.children()]
    cycle_id = client.evolve_now().job_id
    deadline = monotonic() + 120
    while ledger.approvals.count(company) < 3:  # without a pause: the rest is filed within a second
        assert monotonic() < deadline
    # Killed before anything is asked: a process that is only stopped may hold the ledger's lock for ever.
    for process in family:
        process.kill()
    cycle, filed = ledger.skill_cycles.get(company, cycle_id), ledger.approvals.count(company)
    assert cycle is not None
    wait_until(lambda: stack.restarts("worker-night") > restarts, what="the maintenance worker to be back")
    wait_until(lambda: stack.is_ready("worker-night"), what="the maintenance worker to be ready")
    stack.lapse(work_items.c.key == cycle_id)
    return cycle, filed


def _kill_who_maintains(stack: StackAddress, ledger: Ledger, client: MemoryClient) -> str:
    """Kill the maintenance worker's children, and not itself, while a run goes."""
    children = psutil.Process(stack.pid("worker-night")).children()
    assert children
    run_id = client.maintain_now(SLEEPER, allow_large=True).job_id

    def is_running() -> bool:
        run = ledger.runs.get(stack.settings.company, run_id)
        return run is not None and run.state is WorkState.LEASED

    wait_until(is_running, what="the run to begin")
    for child in children:
        child.kill()
    return run_id


def run_of(ledger: Ledger, stack: StackAddress, run_id: str) -> Run:
    return present(ledger.runs.get(stack.settings.company, run_id))


def ended(ledger: Ledger, stack: StackAddress, run_id: str) -> Run:
    active = {WorkState.AVAILABLE, WorkState.WAITING, WorkState.LEASED}
    wait_until(lambda: run_of(ledger, stack, run_id).state not in active, what="the run's end")
    return run_of(ledger, stack, run_id)


def outcomes(ledger: Ledger, stack: StackAddress) -> dict[str, str | None]:
    """Return what became of the lesson of each task."""
    pages = (ledger.lessons.page(stack.settings.company, agent_id) for agent_id in FLEET)
    return {str(each.task_id): each.outcome for page in pages for each in page}


def lesson_ids(ledger: Ledger, stack: StackAddress) -> list[str]:
    pages = (ledger.lessons.page(stack.settings.company, agent_id) for agent_id in FLEET)
    return [each.memory_id for page in pages for each in page if each.memory_id]


def held(stack: StackAddress, ids: Iterable[str]) -> Counter[str]:
    """Count those of the ids that the store has."""
    wanted = set(ids)
    return Counter({key: number for key, number in memory_ids(stack.settings).items() if key in wanted})


def assert_added_once(stack: StackAddress, ids: Iterable[str]) -> None:
    """Each id is one memory, and one event of the history."""
    wanted = set(ids)
    assert held(stack, wanted) == Counter(wanted)
    events = {key: number for key, number in history_events(stack.settings).items() if key[0] in wanted}
    assert events == {(memory_id, "ADD"): 1 for memory_id in wanted}


def is_drained(stack: StackAddress) -> bool:
    return not jobs_waiting(stack.settings) and not jobs_in_hand(stack.settings, "store")


def test_every_store_that_was_accepted_is_there_once(stack: StackAddress, interrupted: Interrupted) -> None:
    wait_until(lambda: is_drained(stack), what="the queues to drain")
    assert len(interrupted.stored) == len(set(interrupted.stored)) == 2 * ROUND
    assert_added_once(stack, interrupted.stored)


def test_every_task_leaves_one_memory_one_experience_and_one_trajectory(
    stack: StackAddress, ledger: Ledger, interrupted: Interrupted
) -> None:
    company = stack.settings.company
    traces = Counter(interrupted.traces)
    assert len(traces) == TASKS
    ours = (each.id for each in ledger.trajectories.stream(company) if each.agent_id in FLEET)
    assert Counter(ours) == traces
    experiences = Counter[str]()
    for agent_id in FLEET:
        last = None
        while page := ledger.experiences.page(company, agent_id, before=last):
            experiences.update(each.id for each in page)
            last = page[-1]
    assert experiences == traces
    assert_added_once(stack, traces)


def test_every_lesson_is_drawn_once_and_paid_once(
    stack: StackAddress, model: StubLLM, ledger: Ledger, interrupted: Interrupted
) -> None:
    assert len(interrupted.traces) == TASKS
    wait_until(
        lambda: len(found := outcomes(ledger, stack)) == TASKS and all(found.values()),
        what="every lesson to be drawn",
    )

    def expected(number: int) -> str:
        return "low_confidence" if number % 6 == 5 else "stored"

    drawn = outcomes(ledger, stack)
    # Of those that say the same, whichever was settled first is stored.
    first = {task_id: "stored" if outcome == "repeated" else outcome for task_id, outcome in drawn.items()}
    assert first == {f"task-{number}": expected(number) for number in range(TASKS)}
    taught = lesson_ids(ledger, stack)
    assert len(taught) == TASKS * 5 // 6
    stored = set(taught)
    assert len(stored) == Counter(drawn.values())["stored"]
    assert Counter(drawn.values())["repeated"] == len(taught) - len(stored) > 0
    assert_added_once(stack, stored)
    # Successes of equal turns and tools differ by their tasks alone, which the model does not see.
    assert bills(model, of_lessons=True) == [1] * TASKS
    assert "Zanzibar" not in str(model.log())

    memtend = CommandLine(home=stack.home)
    found = memtend.ok("search", "ada", "walrus_3 fails with deploy", "--json").value
    assert found[0]["metadata"]["source"] == "failure:task-3"
    assert found[0]["category"] == "procedural"
    assert "Do not repeat deploy at once" in found[0]["text"]
    listed = memtend.ok("agents", "lessons", "ada", "--limit", "128", "--json").value
    assert {each["task_id"]: each["outcome"] for each in listed} == {
        task_id: drawn[task_id] for task_id in (f"task-{number}" for number in range(0, TASKS, 3))
    }
    # Beside them lies the file that names their company.
    folders = [each for each in (stack.home / "skills").iterdir() if each.is_dir()]
    assert len(folders) == len(stored)
    assert [problems_of(folder) for folder in folders if problems_of(folder)] == []


def bills(model: StubLLM, *, of_lessons: bool) -> list[int]:
    """Return how often each question, of lessons or of runs, was billed."""
    asked = [each for each in model.log() if ("response_format" in each["body"]) is of_lessons]
    return [sum(each["billed_tokens"] > 0 for each in asked if each["key"] == key) for key in {e["key"] for e in asked}]


def test_a_run_that_was_asking_the_model_ends_and_pays_no_question_twice(
    stack: StackAddress, model: StubLLM, ledger: Ledger, interrupted: Interrupted
) -> None:
    waiting = interrupted.while_asking
    assert (waiting.state, waiting.lease_until) == (WorkState.WAITING, None), "nobody holds the run meanwhile"
    run = ended(ledger, stack, waiting.run_id)
    assert run.state is WorkState.DONE
    assert (run.counts["summaries"], run.counts["consolidated"]) == (SUMMARIES, CHRONICLER_SIZE - 1)
    assert bills(model, of_lessons=False) == [1] * SUMMARIES
    tally = tally_of(ledger, stack.settings.company, CHRONICLER)
    live = held(stack, interrupted.chronicled | set(tally.created))
    assert balance(stored=interrupted.chronicled, tally=tally, live=live).is_exact


def test_a_run_whose_worker_child_was_killed_ends_and_its_account_balances(
    stack: StackAddress, ledger: Ledger, interrupted: Interrupted
) -> None:
    run = ended(ledger, stack, interrupted.sleeper_run)
    assert run.state is WorkState.DONE
    assert run.attempt >= 2
    tally = tally_of(ledger, stack.settings.company, SLEEPER)
    agents = {journal_entry.agent_id for journal_entry in ledger.journal.journal_entries(run.run_id)}
    assert agents == {SLEEPER}
    assert tally.removed.total() >= SLEEPER_SIZE * 0.9
    live = held(stack, interrupted.slept | set(tally.created))
    assert balance(stored=interrupted.slept, tally=tally, live=live).is_exact


def test_a_cycle_whose_worker_was_killed_is_finished_and_proposes_each_pattern_once(
    stack: StackAddress, ledger: Ledger, interrupted: Interrupted
) -> None:
    company, cycle_id = stack.settings.company, interrupted.cycle_at_kill.cycle_id
    assert interrupted.cycle_at_kill.finished_at is None
    assert 3 <= interrupted.filed < PATTERNS

    def cycle() -> Cycle:
        return present(ledger.skill_cycles.get(company, cycle_id))

    wait_until(lambda: cycle().finished_at is not None, what="the cycle to be finished")
    assert (cycle().report or {})["proposals_emitted"] == PATTERNS
    assert ledger.approvals.count(company) == PATTERNS
    proposed, last = list[tuple[object, object]](), None
    while page := ledger.approvals.page(company, before=last):
        proposed += [(each.proposal.details["cycle_id"], each.proposal.details["pattern_id"]) for each in page]
        last = page[-1]
    assert {of_cycle for of_cycle, _ in proposed} == {cycle_id}
    assert len({pattern_id for _, pattern_id in proposed}) == PATTERNS


def test_nothing_else_is_there_and_nothing_was_given_up(
    stack: StackAddress, ledger: Ledger, interrupted: Interrupted
) -> None:
    company = stack.settings.company
    expected = {*interrupted.stored, *interrupted.traces, *lesson_ids(ledger, stack)}
    for agent_id, before in ((SLEEPER, interrupted.slept), (CHRONICLER, interrupted.chronicled)):
        tally = tally_of(ledger, company, agent_id)
        expected |= (before | set(tally.created)) - set(tally.removed)
    assert memory_ids(stack.settings) == Counter(expected)
    assert ledger.dead_letters.count(company) == 0


def served(stack: StackAddress) -> Counter[str]:
    """Count the ids of the collection that a reindex switched to."""
    with ledger_of(stack.settings) as ledger:
        pointer = ledger.collection_pointers.get(stack.settings.company)
    assert pointer is not None
    return memory_ids(stack.settings, pointer.current.name)


@pytest.mark.usefixtures("interrupted")
def test_a_reindex_under_load_loses_nothing_and_outlives_its_worker(stack: StackAddress, ledger: Ledger) -> None:
    memtend = CommandLine(home=stack.home)
    filled(stack, FILLED)
    before = memory_ids(stack.settings)

    def fraction() -> float:
        reindex = ledger.reindexes.last(stack.settings.company)
        return 0.0 if reindex is None else reindex.fraction

    with constant_load(stack, pause_seconds=0.5) as load:
        with pytest.MonkeyPatch.context() as environ:
            environ.setenv("MEMTEND_EMBEDDER", EMBEDDER)
            memtend.ok("reindex", "--no-wait")
        deadline = monotonic() + 120
        while fraction() < 0.2:  # without a pause: the rest takes seconds
            assert monotonic() < deadline
        kill_run(stack)
        stack.lapse(work_items.c.kind == ReindexPayload.task)
        assert fraction() < 0.9
        wait_until(lambda: fraction() == 1.0, what="the reindex")
        seen = len(load.reads)
        wait_until(lambda: len(load.reads) > seen + 20, what="reads behind the switch")

    assert load.failed == []
    assert len(load.spaces) == 2
    wait_until(lambda: is_drained(stack), what="the last memories")
    assert served(stack) == before + Counter(each for ids in load.stored.values() for each in ids)
    status = memtend.ok("reindex", "--status", "--json").value
    assert (status["serves"]["embedder"], status["stage"]) == (EMBEDDER_NAME, "done")
    assert status["kept"]["embedder"] == "wordllama-256-tempered"
    memtend.ok("reindex", "--drop-old")
    assert memtend.ok("reindex", "--status", "--json").value["kept"] is None


def test_ctrl_c_under_load_loses_nothing(stack: StackAddress, model: StubLLM) -> None:
    family, before, accepted = stack.family(), served(stack), list[str]()
    stopped = threading.Event()

    def talk() -> None:
        with MemoryClient.from_settings(stack.settings) as client:
            while not stopped.wait(0.1 if len(accepted) >= ROUND else 0.0):
                at = len(accepted)
                batch = [request(f"sentence {number}") for number in range(at, at + BULK)]
                try:
                    accepted.extend(client.store_many("talker", batch, track=False).memory_ids)
                except MemoryConnectionError:
                    return

    talker = threading.Thread(target=talk)
    talker.start()
    # Held, the worker cannot keep up, however slowly this client is given its turns on a busy machine.
    worker = psutil.Process(stack.pid("worker-store"))
    worker.suspend()
    wait_until(lambda: len(accepted) >= ROUND, what="a backlog")
    worker.resume()
    assert stack.interrupt() == 0
    stopped.set()
    talker.join()
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family)
    again = start_stack(stack.home, MEMTEND_LLM_URL=model.url)
    try:
        wait_until(lambda: is_drained(again), what="what was left to be stored")
        found, known = served(again), before + Counter(accepted)
        assert known - found == Counter()
        # The broker may have had the last batch on disk when its answer was lost.
        assert len(more := found - known) in {0, BULK}
        assert set(more.values()) <= {1}
    finally:
        end_stack(again.home, again.process)
