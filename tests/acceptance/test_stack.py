"""What a running stack does and promises, on one stack that all tests of this file share.

It was installed from the wheel and started in the folder of a project whose own names are ours; it asks the stub as its
model, and lies on a small disk where one may be mounted. The last two tests leave it changed.
"""

import asyncio
import base64
import http.client
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from sqlalchemy import create_engine, text
from support.command_line import CommandLine
from support.execution_traces import trace
from support.installed_extras import library_folder
from support.ledger_records import postgres_database
from support.registered_checkpoints import DIMS, WEIGHT, registered
from support.repository import PRODUCT_FOLDERS, ROOT
from support.running_stack import MEMTEND, StackAddress, clean_environ, running_stack, wait_until
from support.shared_failures import FAILURES, share_failures
from support.store_servers import store_server
from support.stored import memory_ids
from support.stub_llm_process import StubLLM, stub_llm
from support.wheel_project import Project, wheel_project

from memcore import MemoryClient
from memcore.backends.factory import create_engine_backend
from memcore.client.envelopes import ImportRecord
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError, MemoryDiskFullError
from memcore.finetune.run_folder import runs_of
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate
from memcore.ledger.work_items import WorkState
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest
from ops.cli.maintenance.finetune import TYPED
from ops.cli.session import ledger_of
from workers.stack.home import create_folders, reserve_addresses

pytestmark = pytest.mark.acceptance

#: Room for the stack, its tests and little more: on such a disk each file of the vectors takes its whole size.
DISK_MIB = 800

#: Writes a line for every process that asks for torch, whether it is installed or not.
SPY = """
import os, sys
class Spy:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            with open(os.environ["TORCH_SPY"], "a") as out:
                print(sys.argv, name, file=out)
        return None
sys.meta_path.insert(0, Spy())
def note():
    with open(os.environ["TORCH_SPY"] + ".seen", "a") as out:
        print(os.getpid(), file=out)
note()
os.register_at_fork(after_in_child=note)
"""

SECRET_TEXT = "zyzzyva whispers at midnight"

#: Lessons that one agent draws, and so many each agent keeps.
DRAWN, KEPT = 4, 3

POLICY = f"""\
memory:
  level: persistent
  llm:
    model: stub
  consolidation:
    interval: weekly
    experience_compressor:
      enabled: true
    wiki_export:
      enabled: true
      export_root: wiki
      trigger: on_consolidation
  procedural:
    evolver:
      enabled: true
    pruning:
      type: pareto
      max_entries: {KEPT}
    propagation:
      type: role
"""

WITHOUT_BUDGET = """\
memory:
  level: persistent
  llm:
    model: stub
  budgets:
    tokens_per_agent_per_day: 0
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
def disk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A small disk of its own; an ordinary folder where none may be mounted."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "memtend-test", str(folder)]
    with suppress(OSError):
        subprocess.run(mount, capture_output=True, check=False)
    yield folder
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607  # it stands where mount does


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, disk: Path) -> Project:
    return wheel_project(tmp_path_factory.mktemp("wheel"), disk / "home")


@pytest.fixture(scope="module")
def spy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spy")
    (folder / "sitecustomize.py").write_text(SPY)
    return folder / "torch"


@pytest.fixture(scope="module")
def stack(disk: Path, project: Project, spy: Path, model: StubLLM) -> Generator[StackAddress]:
    """A stack that has done each kind of its work once; its agents had learned before it was started."""
    home = disk / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    _learn(home)
    environ = project.environ | {
        "PYTHONPATH": f"{project.environ['PYTHONPATH']}:{spy.parent}",
        "TORCH_SPY": str(spy),
        "MEMTEND_LLM_URL": model.url,
    }
    with running_stack(home, project.python.with_name("memtend"), project.folder, **environ) as address:
        memtend = CommandLine(home=home)
        memtend.ok("store", "keeper", SECRET_TEXT)
        run_id = memtend.ok("maintain", "keeper", "--json").value["run_id"]
        memtend.ok("runs", "undo", run_id)
        yield address


def _learn(home: Path) -> None:
    """Let agents have learned before the slot that has begun last, which the first cycle is planned for."""
    create_folders(home)
    settings = reserve_addresses(home).settings(home, tick_seconds=1.0, sweep_seconds=1.0)
    migrate(settings.ledger_urls)
    with ledger_of(settings) as ledger:
        share_failures(ledger, settings.company, at=datetime.now(UTC) - timedelta(weeks=1))


@pytest.fixture(scope="module")
def memtend(stack: StackAddress) -> CommandLine:
    return CommandLine(home=stack.home)


@pytest.fixture(scope="module")
def ledger(stack: StackAddress) -> Generator[Ledger]:
    with ledger_of(stack.settings) as opened:
        yield opened


def request(content: str) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=content)


def test_the_wheel_adds_memcore_alone_to_what_can_be_imported(project: Project) -> None:
    installed = Distribution.at(next(project.site.glob("memtend-*.dist-info")))
    names = {path.parts[0] for path in installed.files or () if path.parts[0] not in {"..", installed.name}}
    assert {name for name in names if not name.endswith(".dist-info")} == {"memcore"}
    code = f"import importlib.util as util; print([name for name in {PRODUCT_FOLDERS!r} if util.find_spec(name)])"
    found = subprocess.run([project.python, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['memcore']"


@pytest.mark.usefixtures("stack")
def test_the_stack_works_and_imports_nothing_of_the_project(project: Project) -> None:
    words = "The payment queue pages at 500 messages."
    stored = project.run("memtend", "store", "oncall", words)
    assert stored.returncode == 0, stored.stderr
    found = project.run("memtend", "search", "oncall", "when does payments page?")
    assert words in found.stdout, found.stderr
    maintained = project.run("memtend", "maintain", "oncall")
    assert maintained.returncode == 0, maintained.stderr
    assert not project.import_marker.exists(), project.import_marker.read_text()


def test_the_same_workers_serve_two_companies_and_neither_sees_the_other(stack: StackAddress, ledger: Ledger) -> None:
    async def found(settings: Settings) -> list[str]:
        backend = create_engine_backend(settings, Policy())
        await backend.connect()
        entries = await backend.retrieve("guard", MemoryQuery(text="vault"))
        await backend.disconnect()
        return [entry.content for entry in entries]

    ledger.companies.add("globex")
    companies = {
        name: stack.settings.model_copy(update={"company": name}) for name in (stack.settings.company, "globex")
    }
    for name, settings in companies.items():
        with MemoryClient.from_settings(settings) as client:
            stored = client.store("guard", request(f"the vault of {name} opens at nine")).job_ids
            ended = client.wait([*stored, client.maintain_now("guard").job_id], timeout_seconds=600)
            assert [str(each.state) for each in ended] == ["done", "done"]
    for name, settings in companies.items():
        assert asyncio.run(found(settings)) == [f"the vault of {name} opens at nine"]


@pytest.mark.usefixtures("stack")
def test_an_engine_of_the_project_stores_and_reads_with_what_its_extra_installs(
    project: Project, tmp_path: Path
) -> None:
    libraries = library_folder(tmp_path / "lib", "engine", ours=project.site)
    engine = subprocess.run(
        [project.python, "-S", ROOT / "examples" / "quickstart.py"],
        cwd=project.folder,
        env={**project.environ, "PYTHONPATH": str(libraries)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "The payment queue pages at 500 messages." in engine.stdout, engine.stderr
    assert not project.import_marker.exists(), project.import_marker.read_text()


def test_a_plug_in_that_only_pythonpath_knows_is_still_found(project: Project) -> None:
    (project.folder / "lib" / "their_plug_in.py").write_text("print('found')\n", encoding="utf-8")
    asked = project.run("python", "-P", "-m", "memcore.programs", "their_plug_in")
    assert asked.stdout.strip() == "found", asked.stderr


def test_a_cycle_comes_by_itself_once_a_slot_and_people_see_it(
    stack: StackAddress, memtend: CommandLine, ledger: Ledger
) -> None:
    company = stack.settings.company
    wait_until(lambda: ledger.skill_cycles.last_finished(company) is not None, what="the first cycle")
    first = ledger.skill_cycles.last_finished(company)
    assert first is not None
    assert first.origin == "scheduled"
    assert first.report is not None
    assert first.report["proposals_emitted"] == len(FAILURES)
    ticks = set[datetime]()

    def has_ticked() -> bool:
        tick = ledger.ticks.last(company)
        ticks.update({tick.ended_at} if tick else ())
        return len(ticks) > 2

    wait_until(has_ticked, what="more ticks")
    slots = [each.planned_at for each in ledger.skill_cycles.page(company) if each.origin == "scheduled"]
    # A slot may begin while the test runs.
    assert slots in ([first.planned_at], [first.planned_at + timedelta(weeks=1), first.planned_at])
    details = [each.proposal.details for each in ledger.approvals.page(company)]
    assert Counter(each["cycle_id"] for each in details) == {first.cycle_id: len(FAILURES)}
    assert len({each["pattern_id"] for each in details}) == len(FAILURES)

    waiting = memtend.ok("approvals", "list", "--state", "pending", "--limit", "100", "--json").value
    assert sum(each["action"] == "skill_evolver:org_promotion" for each in waiting) >= len(FAILURES)
    listed = memtend.ok("skills", "cycles", "--json").value
    assert first.cycle_id in {each["cycle_id"] for each in listed if each["finished_at"]}
    (seen,) = [each for each in memtend("doctor", "--json").value if each["check"] == "skill evolver"]
    assert seen["ok"]
    assert seen["seen"].startswith("last cycle finished ")
    again = memtend.ok("skills", "evolve", "--json").value
    assert (again["origin"], again["report"]["proposals_emitted"]) == ("manual", 0)
    assert again["report"]["skipped_known"] == len(FAILURES)


def test_what_was_told_is_found_as_a_lesson_after_the_run_and_stands_in_the_wiki(
    stack: StackAddress, memtend: CommandLine, ledger: Ledger, model: StubLLM
) -> None:
    agent, company = "nightly", stack.settings.company
    # Repeated so many times, so that a lesson is shorter.
    prompt = "The nightly import failed at row 4711 with ENOSPC on the machine called walrus. " * 20
    model.forget()
    with MemoryClient.from_settings(stack.settings) as client:
        receipts = [
            client.record_experience(agent, prompt=prompt, output="The disk was full.", task_id=task)
            for task in ("t-1", "t-2", "t-1")
        ]
        done = {each.job_id: each for each in client.wait([each.job_id for each in receipts], timeout_seconds=600)}
        assert sum(done[each.job_id].facts["recorded"] for each in receipts) == 2
    assert memtend.ok("search", agent, "walrus", "--json").value == []

    memtend.ok("maintain", agent)
    wiki = stack.home / "wiki" / agent
    wait_until(lambda: ledger.experiences.count(company, agent).compressed == 2, what="both to be compressed")
    wait_until(lambda: len(list(wiki.glob("wiki/*.md"))) == 2, what="the wiki to have both")
    assert not ledger.experiences.has_raw(company, agent)
    asked = len(model.log())
    assert asked == len(set(model.keys())) == 2

    found = memtend.ok("search", agent, "walrus ENOSPC", "--json").value
    assert {each["metadata"]["source"] for each in found} == {receipts[0].experience_id, receipts[1].experience_id}
    assert all(each["metadata"]["tags"] == ["compressed_experience"] for each in found)
    assert {path.name for path in wiki.glob("raw/*.md")} == {f"{each.experience_id}.md" for each in receipts}
    assert f"[{agent}]({agent}/index.md) | 2 | 2 |" in (stack.home / "wiki" / "index.md").read_text(encoding="utf-8")

    memtend.ok("maintain", agent)
    assert len(model.log()) == asked, "the next run asks nothing again"


def failed(number: int) -> ExecutionTrace:
    return trace(
        f"task-{number}",
        ended_at=datetime.now(UTC),
        termination_reason=TerminationReason.ERROR,
        error_category=f"walrus_{number}",
        error_message="no space left on device",
        recovery=Recovery(strategy="retry"),
        turns=(Turn(tools=("deploy", "deploy")),),
    )


def lessons(memtend: CommandLine, agent: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = memtend.ok(
        "search", agent, "--category", "procedural", "--limit", "99", "--json"
    ).value
    return found


def test_a_run_forgets_what_is_too_much_and_passes_on_the_rest(stack: StackAddress, memtend: CommandLine) -> None:
    for agent, role in (("ada", "clerk"), ("bob", "clerk"), ("cy", "pilot")):
        memtend.ok("agents", "add", agent, "--role", role, "--interval", "never")
    with MemoryClient.from_settings(stack.settings) as client:
        for number in range(DRAWN):
            client.distill("ada", failed(number))
    wait_until(lambda: len(lessons(memtend, "ada")) == DRAWN, what="the lessons to be drawn")

    plan = memtend.ok("maintain", "ada", "--dry-run")
    assert "1 of them are lessons that memory.procedural.pruning forgets" in plan.out
    maintenance_run = memtend.ok("maintain", "ada", "--json").value

    assert maintenance_run["counts"]["pruned"] == 1
    wait_until(lambda: len(lessons(memtend, "bob")) == KEPT, what="the lessons to be passed on")
    mine, copies = lessons(memtend, "ada"), lessons(memtend, "bob")
    assert {each["text"] for each in copies} == {each["text"] for each in mine}
    assert all("propagated:ada" in each["metadata"]["tags"] for each in copies)
    assert {each["id"] for each in copies}.isdisjoint(each["id"] for each in mine)
    assert lessons(memtend, "cy") == []
    undone = memtend.ok("runs", "undo", maintenance_run["run_id"], "--json").value
    assert undone["counts"]["restored"] == 1
    assert len(lessons(memtend, "ada")) == DRAWN


def test_no_process_of_the_stack_imports_torch(stack: StackAddress, spy: Path) -> None:
    family = stack.family()
    watched = set(map(int, Path(f"{spy}.seen").read_text().split()))
    python = {process.pid for process in family if "python" in process.name()}
    assert len(python & watched) >= 6
    assert not spy.exists(), spy.read_text()
    for process in family:
        assert "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text()


def test_nothing_of_the_stack_listens_beyond_loopback(stack: StackAddress) -> None:
    listening = [
        each
        for process in stack.family()
        for each in process.net_connections(kind="inet")
        if each.status == psutil.CONN_LISTEN
    ]
    # Broker, store server, Flower and serve.
    assert len({each.laddr.port for each in listening}) == 4
    assert {each.laddr.ip for each in listening} == {"127.0.0.1"}


def test_a_second_stack_on_the_same_folder_is_refused_in_one_sentence(stack: StackAddress) -> None:
    before = {(part.name, part.pid) for part in stack.state.parts}
    second = subprocess.run(
        [MEMTEND, "up", "--home", stack.home],
        env=clean_environ(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert second.returncode == 2
    assert second.stderr == (
        f"memtend: a stack runs at {stack.home} already: stop it first, or choose another --home\n"
    )
    assert {(part.name, part.pid) for part in stack.state.parts} == before
    assert stack.process.poll() is None


def test_flower_asks_for_its_password_and_shows_no_word_of_a_memory(stack: StackAddress, memtend: CommandLine) -> None:
    url = urlsplit(stack.settings.flower_url or "")
    assert url.hostname is not None

    def get(path: str, credentials: str | None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=600)
        try:
            headers = (
                {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"} if credentials else {}
            )
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    own = f"{url.username}:{url.password}"
    for path in ("/", "/api/tasks", "/api/workers", "/tasks"):
        assert get(path, None)[0] == 401
        assert get(path, "memtend:guess")[0] == 401
        assert get(path, own)[0] == 200
    for number in range(3):
        memtend.ok("store", "keeper", f"{SECRET_TEXT} {number}")
    wait_until(lambda: "memory.store.write" in get("/api/tasks", own)[1], what="Flower to hear of a job")
    shown = get("/api/tasks", own)[1]
    assert "1 memories" in shown
    assert "zyzzyva" not in shown
    assert "zyzzyva" not in get("/tasks", own)[1]


OUTSIDE = """
memory:
  level: persistent
  storage: {vector_store: qdrant-external, history_store: postgresql}
"""

TEXTS = ("The physician treated the child.", "Interest rates went up again.", "The kettle is in the cupboard.")


@pytest.mark.service
def test_memories_go_over_to_a_stack_of_another_embedder_whose_stores_lie_outside(
    memtend: CommandLine, tmp_path: Path, postgres: str
) -> None:
    file, home = tmp_path / "memories.jsonl", tmp_path / "home"
    for words in TEXTS:
        memtend.ok("store", "archivist", words)
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("MEMTEND_EMBEDDER", "minilm")
        assert memtend.ok("search", "archivist", "kettle", "--json").value[0]["text"] == TEXTS[2]
        health_checks = {health_check["check"]: health_check for health_check in memtend("doctor", "--json").value}
    assert not health_checks["embedder"]["ok"]
    for part in ("wordllama-256-tempered", "all-MiniLM-L6-v2-int8", "memtend reindex"):
        assert part in health_checks["embedder"]["seen"] + health_checks["embedder"]["mend"]
    memtend.ok("export", str(file), "--agent", "archivist")

    home.mkdir(mode=0o700)
    (home / "policy.yaml").write_text(OUTSIDE)
    with store_server(tmp_path / "outside") as store, postgres_database(postgres) as history_url:
        environment = {
            "MEMTEND_EMBEDDER": "minilm",
            "MEMTEND_QDRANT_URL": store.url,
            "MEMTEND_QDRANT_API_KEY": store.api_key,
            "MEMTEND_HISTORY_URL": history_url,
        }
        with running_stack(home, **environment) as stack:
            other = CommandLine(home=home)
            imported = other.ok("import", str(file), "--json").value
            assert imported["lines"] == imported["memories"] == len(TEXTS)
            assert imported["unknown_supersedes"] == 0
            found = other.ok("search", "archivist", "a doctor helped a kid", "--json").value
            assert found[0]["text"] == TEXTS[0]
            assert other.ok("export").out == file.read_text(encoding="utf-8")
            assert "store-server" not in {part.name for part in stack.state.parts}
            assert sum(memory_ids(stack.settings).values()) == len(TEXTS)
        engine = create_engine(history_url)
        with engine.connect() as connection:
            rows = [tuple(row) for row in connection.execute(text("SELECT event, new_memory FROM history"))]
        engine.dispose()
        # The row of a canary goes with it.
        written = [row for row in rows if not str(row[1]).startswith("The canary of ")]
        assert sorted(written) == sorted(("ADD", words) for words in TEXTS)
    assert not (home / "data" / "history.db").exists()


def test_an_embedder_serves_and_the_one_before_serves_again(memtend: CommandLine) -> None:
    assert memtend.ok("reindex", "--status", "--json").value["fills"] is None
    memtend.ok("store", "embedder-keeper", "The kettle is in the cupboard.")
    assert "serves already" in memtend("reindex").err
    assert "--cancel and --rollback are two things" in memtend("reindex", "--cancel", "--rollback").err
    assert "no old collection" in memtend("reindex", "--rollback").err

    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("MEMTEND_EMBEDDER", "static-mean")
        there = memtend.ok("reindex", "--dense-weight", "0.5", "--json").value
    assert (there["serves"]["embedder"], there["serves"]["dense_weight"]) == ("wordllama-256-mean", 0.5)
    assert (there["kept"]["embedder"], there["fraction"]) == ("wordllama-256-tempered", 1.0)
    memtend.ok("store", "embedder-keeper", "The ladder is behind the door.")

    back = memtend.ok("reindex", "--rollback", "--json").value
    assert (back["serves"]["embedder"], back["kind"]) == ("wordllama-256-tempered", "back")
    found = memtend.ok("search", "embedder-keeper", "ladder", "--json").value
    assert found[0]["text"] == "The ladder is behind the door."
    assert "kept" in memtend.ok("reindex", "--drop-old").out
    assert "no old collection" in memtend("reindex", "--drop-old").err


def test_a_checkpoint_serves_is_gone_back_from_and_deleted(
    stack: StackAddress, memtend: CommandLine, ledger: Ledger
) -> None:
    def uses() -> dict[str, str | None]:
        return {each["checkpoint_id"]: each["use"] for each in memtend.ok("finetune", "checkpoints", "--json").value}

    checkpoint = registered(ledger, stack.settings.company, runs_of(stack.home, stack.settings.company))
    wanted = checkpoint.checkpoint_id
    memtend.ok("store", "checkpoint-keeper", "a tidy garden with tea")
    assert uses()[wanted] is None
    assert memtend("finetune", "deploy", wanted).code == 2, "nobody said so"
    unknown = memtend("finetune", "deploy", "another", "--by", "ada")
    assert (unknown.code, "names no checkpoint" in unknown.err) == (1, True)

    there = memtend.ok("finetune", "deploy", wanted, "--by", "ada", "--reason", "it leads", "--json").value
    assert (there["serves"]["checkpoint_id"], there["serves"]["dims"]) == (wanted, DIMS)
    assert (there["serves"]["dense_weight"], there["stage"]) == (WEIGHT, "done")
    assert there["kept"]["checkpoint_id"] is None
    assert memtend.ok("search", "checkpoint-keeper", "tea", "--json").value[0]["text"] == "a tidy garden with tea"
    assert uses()[wanted] == "serves"
    assert "serves" in memtend.ok("finetune", "checkpoints").out
    health_checks = {health_check["check"]: health_check for health_check in memtend("doctor", "--json").value}
    assert health_checks["embedder"]["ok"]
    assert f"checkpoint {wanted} serves" in health_checks["embedder"]["seen"]
    in_use = memtend("finetune", "delete", wanted, "--by", "ada", "--yes")
    assert (in_use.code, "memtend finetune rollback" in in_use.err) == (1, True)

    back = memtend.ok("finetune", "rollback", "--by", "ada", "--json").value
    assert (back["serves"]["checkpoint_id"], back["kept"]["checkpoint_id"]) == (None, wanted)
    assert memtend("finetune", "deploy", wanted, "--by", "ada").code == 1
    memtend.ok("reindex", "--drop-old")
    unsure = memtend("finetune", "delete", wanted, "--by", "ada")
    assert (unsure.code, "say --yes" in unsure.err) == (2, True)
    assert Path(checkpoint.model_path).is_dir()
    memtend.ok("finetune", "delete", wanted, "--by", "ada", "--yes")
    assert not Path(checkpoint.model_path).exists()
    assert wanted not in uses()
    lines = memtend.ok("audit", "--actor", "ada", "--json").value
    assert [line["action"] for line in lines] == ["finetune.delete", "finetune.rollback", "finetune.deploy"]
    assert [line["reason"] for line in lines] == [TYPED, TYPED, "it leads"]


def test_with_a_budget_of_0_the_run_waits_nothing_goes_and_the_doctor_says_so(
    stack: StackAddress, ledger: Ledger, model: StubLLM
) -> None:
    (stack.home / "policy.yaml").write_text(WITHOUT_BUDGET, encoding="utf-8")
    parts = ("worker-night", "worker-llm")
    before = {part: stack.restarts(part) for part in parts}
    for part in parts:
        psutil.Process(stack.pid(part)).terminate()
    wait_until(lambda: all(stack.restarts(part) > before[part] for part in parts), what="the new policy to be read")
    model.forget()
    with MemoryClient.from_settings(stack.settings) as client:
        receipt = client.import_many(
            ImportRecord(
                agent_id="chronicler",
                category=MemoryCategory.EPISODIC if number % 2 else MemoryCategory.SEMANTIC,
                content=f"on day {number} the ferry {number} came {number * 7} minutes late",
                created_at=datetime.now(UTC) - timedelta(days=100 - number),
            )
            for number in range(32)
        )
        assert all(status.state == "done" for status in client.wait(receipt.job_ids, timeout_seconds=600))
        run_id = client.maintain_now("chronicler").job_id

    def waits() -> bool:
        # Its last part wakes it once more: it is leased for a moment, and waits again.
        found = ledger.runs.get(stack.settings.company, run_id)
        return found is not None and found.state is WorkState.WAITING and "budget" in (found.reason or "")

    wait_until(waits, what="the run to wait for its budget")
    assert set(receipt.memory_ids) <= set(memory_ids(stack.settings))
    assert model.log() == []
    doctor = subprocess.run(
        [MEMTEND, "doctor", "--json", "--home", stack.home],
        capture_output=True, text=True, check=False, env=clean_environ(),
    )  # fmt: skip
    budget = next(each for each in json.loads(doctor.stdout) if each["check"] == "model budget")
    assert not budget["ok"]
    assert "0 tokens: every step that asks a model waits" in budget["seen"]


@contextmanager
def full(disk: Path) -> Generator[None]:
    """Leave not one byte free."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(2**16))
        except OSError:
            pass
    try:
        yield
    finally:
        filler.unlink()


def test_a_full_disk_refuses_stores_and_ends_nothing(disk: Path, stack: StackAddress) -> None:
    if not disk.is_mount():
        pytest.skip("a disk may not be mounted here")
    before = set(memory_ids(stack.settings))
    with MemoryClient.from_settings(stack.settings) as client:
        accepted = set(client.store_many("eve", [request(f"fact number {each}") for each in range(300)]).memory_ids)
        with full(disk):
            with pytest.raises(MemoryDiskFullError, match=r"the disk of .*/home/data/broker is full: 0 MiB are free"):
                client.store("eve", request("no room for this"))
            dead = [stack.pid("broker"), stack.pid("store-server")]
            for pid in filter(None, dead):
                if psutil.pid_exists(pid):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not any(map(alive, filter(None, dead))), what="both to be seen dead")
            with pytest.raises(MemoryDiskFullError):
                client.store("eve", request("nor for this"))
            assert stack.process.poll() is None
        freed = datetime.now(UTC)

        def all_ready() -> bool:
            # What was written before the disk was full says nothing.
            return stack.state.seen_at > freed and all(part.ready for part in stack.state.parts)

        wait_until(all_ready, what="every part to be back")
        assert stack.restarts("broker") > 0
        wait_until(lambda: accepted <= set(memory_ids(stack.settings)), what="all that was accepted")

        def stores_again() -> bool:
            try:
                accepted.update(client.store("eve", request("there is room again")).memory_ids)
            except MemoryConnectionError:
                return False
            return True

        wait_until(stores_again, what="a store")
        wait_until(lambda: accepted == set(memory_ids(stack.settings)) - before, what="the new one, and nothing twice")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
