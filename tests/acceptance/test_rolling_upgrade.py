"""A rolling upgrade over one release: engines and workers of both share an installation; nothing is lost or doubled.

The last release comes out of the history of git. Its engine asks for an undo and the end of a task while only its own
workers run, on a database that has been migrated: those wait for a worker of this release. At the end a release after
this one writes rows and messages.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from celery import Celery
from sqlalchemy import select, update
from support import engine_of_release
from support.engine_of_release import EXPIRED, FILLED
from support.ledger_records import postgres_database
from support.plain_processes import Fleet, fleet
from support.repository import ROOT
from support.running_stack import wait_until
from support.store_servers import store_server
from support.stored import history_events, jobs_in_hand, jobs_waiting, memory_ids
from support.stub_llm_process import stub_llm
from support.thorough import also_thorough
from support.valkey_servers import valkey_server

from memcore import MemoryClient
from memcore.jobs import StorePayload
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import OPEN_WORK, pointer, work_items
from memcore.ledger.work_items import WorkState

pytestmark = pytest.mark.acceptance

#: The last commit of the release before this one.
LAST_RELEASE = "9787124"

#: Tasks of each engine from which a lesson is drawn, in each phase.
TASKS = 2

POLICY = """\
memory:
  level: persistent
  llm:
    model: stub
  consolidation:
    retention:
      rules: [{category: working, retention_days: 1}]
  procedural:
    evolver:
      enabled: true
"""


@pytest.fixture(scope="module")
def last_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the last release."""
    folder = tmp_path_factory.mktemp("last-release")
    archive = folder / "tree.tar"
    made = subprocess.run(
        ["git", "archive", f"--output={archive}", LAST_RELEASE],  # noqa: S607  # git, wherever it is
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"git has no commit {LAST_RELEASE} here: a shallow clone, or none")
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)  # noqa: S607  # as git
    return folder


@dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine of one release, and what it was promised."""

    process: subprocess.Popen[str]
    jobs: list[str] = field(default_factory=list)
    memories: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)

    def ask(self, *words: str) -> list[str]:
        """Give an order, and return the ids of its jobs."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{' '.join(words)}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.jobs.extend(answer["jobs"])
        (self.traces if words[0] == "distill" else self.memories).extend(answer["memories"])
        jobs: list[str] = answer["jobs"]
        return jobs


@contextmanager
def engine(installation: Fleet) -> Generator[Engine]:
    with subprocess.Popen(
        [sys.executable, "-P", str(engine_of_release.__file__)],
        env=installation.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Engine(process=process)
        finally:
            process.kill()


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Both releases on one broker, one store and one database."""

    old: Fleet
    new: Fleet
    old_engine: Engine
    new_engine: Engine
    client: MemoryClient
    ledger: Ledger

    def has_run(self, run_id: str) -> bool:
        return self.ledger.runs.get(self.new.settings.company, run_id) is not None

    def wait(self, jobs: Iterable[str], what: str) -> None:
        """Wait until the jobs are done, of the old client or the new one."""
        jobs = list(jobs)
        try:
            states = Counter(str(each.state) for each in self.client.wait(jobs, timeout_seconds=600))
        except TimeoutError:
            pytest.fail(f"{what}: {[self.client.status(each) for each in jobs]}, {self.old.logs()}, {self.new.logs()}")
        assert states == {"done": len(jobs)}, what

    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        with self.ledger.work._database.read() as connection:
            is_open = connection.execute(select(work_items.c.key).where(OPEN_WORK).limit(1)).first()
        return is_open is None and not jobs_waiting(self.new.settings) and not jobs_in_hand(self.new.settings)


# Several hosts, which alone are upgraded one by one, need PostgreSQL.
@pytest.fixture(params=[*also_thorough("sqlite"), pytest.param("postgresql", marks=pytest.mark.service)])
def installation(request: pytest.FixtureRequest, tmp_path: Path, last_release: Path) -> Generator[Installation]:
    """An installation of the last release, which has memories and runs, with nothing of this one but an engine."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            databases = {
                f"{name}_url": f"sqlite:///{tmp_path / name}.db" for name in ("database", "journal", "history")
            }
        else:
            url = stack.enter_context(postgres_database(request.getfixturevalue("postgres")))
            databases = {"database_url": url}
        broker, store = (
            stack.enter_context(valkey_server(tmp_path / "broker")),
            stack.enter_context(store_server(tmp_path / "store")),
        )
        policy = tmp_path / "policy.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        variables = {
            "broker_url": broker.url,
            "qdrant_url": store.url,
            "qdrant_api_key": store.api_key,
            "policy_path": str(policy),
            "llm_url": stack.enter_context(stub_llm()).url,
            "tick_seconds": "1",
            "sweep_seconds": "1",
            **databases,
        }
        old = stack.enter_context(fleet(tmp_path / "old", **variables))
        old.extra["PYTHONPATH"] = str(last_release)
        new = stack.enter_context(fleet(tmp_path / "new", **variables))
        old.memtend("migrate")
        old.start_all("worker-store", "worker-night", "beat")
        old_engine = stack.enter_context(engine(old))
        new_engine = stack.enter_context(engine(new))
        client = stack.enter_context(MemoryClient.from_settings(new.settings))
        ledger = Ledger.open(new.settings.ledger_urls)
        stack.callback(ledger.close)
        yield Installation(old=old, new=new, old_engine=old_engine, new_engine=new_engine, client=client, ledger=ledger)


def test_engines_and_workers_of_two_releases_lose_and_double_nothing(installation: Installation) -> None:
    here, old, new = installation, installation.old_engine, installation.new_engine
    # The last release alone.
    for agent in ("ada", "bob"):
        here.wait(old.ask("fill", agent), "memories of the last release")
    runs = {agent: old.ask("maintain", agent)[0] for agent in ("ada", "bob")}
    here.wait(runs.values(), "runs of the last release")

    # Its workers alone on the migrated database.
    here.new.memtend("migrate")
    here.wait([*old.ask("fill", "cy"), *new.ask("fill", "dan")], "memories that the last release writes")
    undos = {"ada": old.ask("undo", "ada", runs["ada"])[0], "bob": new.ask("undo", "bob", runs["bob"])[0]}
    ends = {"cy": old.ask("end", "cy")[0], "dan": new.ask("end", "dan")[0]}
    old.ask("distill", "cy", str(TASKS))
    new.ask("distill", "dan", str(TASKS))
    asked = {*undos.values(), *ends.values()}
    wait_until(lambda: all(map(here.has_run, asked)), what="the runs that an old worker inserts")

    # Both.
    here.new.start_all("worker-store", "worker-night", "worker-llm")
    here.wait([*old.ask("fill", "eve"), *new.ask("fill", "fay")], "memories that both releases write")
    runs |= {"eve": old.ask("maintain", "eve")[0], "fay": new.ask("maintain", "fay")[0]}
    old.ask("distill", "eve", str(TASKS))
    new.ask("distill", "fay", str(TASKS))
    for part in tuple(here.old.processes):
        assert here.old.stop(part) == 0
    # Beat last: it sends jobs that a worker of the last release does not know.
    here.new.start_all("beat")

    # This release alone. What an old worker gave up waits minutes for its next message: let them pass.
    here.ledger.work.hasten(here.new.settings.company)
    here.wait([*old.jobs, *new.jobs], "the rest")
    wait_until(here.is_idle, what=f"nothing to be left: {here.new.logs()}")
    assert_accounted(here, runs, undos, ends)

    # A release after this one writes rows and messages that have more fields, while workers of this one start.
    assert here.new.stop("worker-store") == 0
    with here.ledger.work._database.write() as connection:
        current = connection.execute(select(pointer.c.current)).scalar_one()
        current = {**current, "of_tomorrow": 1, "choice": {**current["choice"], "of_tomorrow": 1}}
        connection.execute(update(pointer).values(current=current))
    here.new.start_all("worker-store")
    here.wait(new.ask("fill", "gil"), "memories beside rows of a later release")
    here.wait(new.ask("maintain", "gil"), "a run beside rows of a later release")
    payload = json.loads((ROOT / "tests/fixtures/payloads/store-1.json").read_text())
    payload |= {"company": here.new.settings.company, "of_tomorrow": 1}
    with Celery(broker=here.new.settings.broker_url, set_as_current=False) as app:
        sent = app.send_task(StorePayload.task, args=[json.dumps(payload)], queue=str(StorePayload.queue))
    here.wait([sent.id], "a message of a later release")
    assert {each["id"] for each in payload["items"]} <= memory_ids(here.new.settings).keys()


def assert_accounted(here: Installation, runs: dict[str, str], undos: dict[str, str], ends: dict[str, str]) -> None:
    """Each memory is there once or was removed once, each run was done once, each task left one lesson."""
    settings, ledger = here.new.settings, here.ledger
    company = settings.company
    found = {(each.agent_id, each.kind): each for each in ledger.runs.list(company, limit=100)}
    assert len(found) == len(runs) + len(undos) + len(ends) == len(ledger.runs.list(company, limit=100))
    assert {each.state for each in found.values()} == {WorkState.DONE}
    for agent in runs:
        assert found[agent, "maintenance"].counts["retention"] == EXPIRED
    assert [found[agent, "end_task"].counts["ended"] for agent in ends] == [1] * len(ends)
    assert ledger.dead_letters.count(company) == 0

    sent = [*here.old_engine.memories, *here.new_engine.memories]
    traces = [*here.old_engine.traces, *here.new_engine.traces]
    assert len(set(sent)) == len(sent) == 6 * (FILLED + 1)
    assert len(set(traces)) == len(traces) == 4 * TASKS
    assert Counter(each.id for each in ledger.trajectories.stream(company)) == Counter(traces)
    lessons = [each for agent in ("cy", "dan", "eve", "fay") for each in ledger.lessons.page(company, agent)]
    assert Counter(each.outcome for each in lessons) == {"stored": len(traces)}
    held, learned = memory_ids(settings), {*traces, *(str(each.memory_id) for each in lessons)}
    assert set(held.values()) == {1}
    assert held.keys() - set(sent) == learned
    # Runs that nobody undid, and the ends.
    assert len(set(sent) - held.keys()) == EXPIRED * (len(runs) - len(undos)) + len(ends)
    added = Counter({key: number for (key, event), number in history_events(settings).items() if event == "ADD"})
    assert {added[key] for key in learned} == {1}
    # What an undo brought back was added twice.
    assert Counter(added[key] for key in sent)[2] == EXPIRED * len(undos)
