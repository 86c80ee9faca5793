"""The keys of what each command prints with ``--json``: programs read them, so none may vanish or change its name."""

import dataclasses
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.execution_traces import trajectory
from support.frozen import key_paths, require_frozen
from support.kept_conversations import arc, fact, hold, keep, rule
from support.ledger_records import make_record
from support.lessons import lesson
from support.memories import new_agent
from support.present import present
from support.registered_checkpoints import registered
from support.running_stack import StackAddress

from memcore import ids
from memcore.clock import utc_now
from memcore.config.learning import ApprovalsConfig
from memcore.finetune.run_folder import runs_of
from memcore.jobs import Queue, UsePayload
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import CallState, Caps, NewCall, Spent
from memcore.ledger.runs import NewRun, RunStep
from memcore.ledger.work_items import WorkState
from memcore.models.archival import ArchivalMode
from memcore.models.conversation import (
    ClassifierPath,
    CrisisLevel,
    CrisisLogRecord,
    FeedbackLabel,
    FeedbackSource,
    Owner,
    SessionFeedbackRecord,
)
from memcore.models.memory import MemoryCategory
from memcore.skills.publication import ORG_PROMOTION, promotion

pytestmark = pytest.mark.timeout(600)

#: Keys below which there is data, or what other tests of this stack have left.
OPEN = frozenset(
    {
        "queues",
        "value",
        "retention_overrides",
        "figures",
        "counts",
        "conflict_list",
        "runs",
        "parts",
        "jobs",
        "canary",
        "plan",
        "report",
        "estimates",
        "asked",
        "templates",
    }
)


class Keys:
    """Types commands and keeps the keys of what they print."""

    def __init__(self, memtend: CommandLine) -> None:
        self._memtend = memtend
        self.found: dict[str, str] = {}

    def __call__(
        self, *words: str, name: str, stdin: bytes = b"", may_fail: bool = False, opened: str = ""
    ) -> dict[str, str]:
        """Type a command with ``--json``; return the keys of its first row or object that hold text.

        Args:
            words: the command.
            name: what it is called in the snapshot.
            stdin: what it reads.
            may_fail: whether its exit code may be other than 0.
            opened: one of the open keys whose own keys are looked at all the same.
        """
        answer = self._memtend(*words, "--json", stdin=stdin)
        assert may_fail or answer.code == 0, answer
        value = answer.value
        assert value, f"{name}: nothing was printed"
        self.found |= dict.fromkeys(key_paths(value, name, open_maps=OPEN - {opened}), "key")
        first = value[0] if isinstance(value, list) else value
        return {key: each for key, each in first.items() if isinstance(each, str)}


@pytest.fixture
def ledger(stack: StackAddress) -> Iterator[Ledger]:
    opened = Ledger.open(stack.settings.ledger_urls)
    yield opened
    opened.close()


def test_json_keys_of_every_command_stay(
    memtend: CommandLine, stack: StackAddress, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(memtend)
    company, agent = stack.settings.company, new_agent("keys")
    memories(keys, memtend, agent, tmp_path / "tests.json")
    proposals(keys, ledger, company)
    archive(keys, ledger, company, agent)
    dead_letters(keys, ledger, company)
    approvals(keys)
    organisation(keys, ledger, company, agent)
    skills(keys, ledger, company)
    fine_tuning(keys, stack, ledger, tmp_path)
    conversations(keys, ledger, company, agent)
    webhooks(keys)
    spend(ledger, company, agent)
    keys("usage", name="usage")
    keys("usage", "--forecast", name="usage forecast")
    keys("status", name="status", opened="parts")
    keys("top", name="top", opened="parts")
    keys("config", "show", name="config show")
    keys("reindex", "--status", name="reindex --status")
    keys("embedder", "try", "static-mean", name="embedder try")
    keys("doctor", name="doctor", may_fail=True)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        f"memory: {{consolidation: {{wiki_export: {{enabled: true, export_root: {tmp_path / 'wiki'}}}}}}}\n", "utf-8"
    )
    monkeypatch.setenv("MEMTEND_POLICY_PATH", str(policy))
    keys("wiki", "export", "--agent", agent, "--dry-run", name="wiki export")
    require_frozen("json_keys", keys.found, renew="tests/integration/cli/test_frozen_json.py")


#: What a person decides about two facts.
DECIDED = (("supersede", "keys-f", "keys-g"), ("both-hold", "keys-f", "keys-g"))


def conversations(keys: Keys, ledger: Ledger, company: str, agent: str) -> None:
    person, now = Owner(agent_id=agent, subject="user:keys"), utc_now()
    named = {**person.model_dump(), "session_id": "keys", "at": now, "record_id": agent}
    other = fact("keys-g", "I row", at=now).model_copy(update={"unsure_with": ("keys-f",)})
    kept = (
        fact("keys-f", "I sail", at=now),
        other,
        rule("keys-r", "Be brief.", at=now),
        arc("keys", "They talked.", at=now),
    )
    keep(ledger, person, *kept, company=company)
    hold(ledger, person, "keys", "I feel low", at=now, company=company)
    level, path, label, source = CrisisLevel.HIGH, ClassifierPath.MODEL, FeedbackLabel.HELPFUL, FeedbackSource.PERSON
    ledger.crises.record(company, CrisisLogRecord(level=level, path=path, action="called", **named))
    ledger.feedback.record(company, SessionFeedbackRecord(label=label, source=source, **named))
    keys("conversation", "subjects", "--agent", agent, name="conversation subjects")
    for command in ("status", "facts", "rules", "sessions", "export", "crises", "feedback", "conflicts"):
        keys("conversation", command, "--agent", agent, "--user", "keys", name=f"conversation {command}")
    for words in (("recall", "off"), ("forget", "keys-f"), ("restore", "keys-f"), *DECIDED):
        keys("conversation", *words, "--agent", agent, "--user", "keys", name=f"conversation {words[0]}")
    keys("why", "keys-f", "--agent", agent, name="why FACT")


def webhooks(keys: Keys) -> None:
    made = ("https://hooks.invalid/", "--event", "run.held", "--name", "keys")
    keys("webhooks", "add", *made, "--by", "Ada", name="webhooks add")
    keys("webhooks", "list", name="webhooks list")
    keys("webhooks", "test", "keys", "--by", "Ada", name="webhooks test", may_fail=True)
    keys("webhooks", "deliveries", "--webhook", "keys", name="webhooks deliveries")
    keys("webhooks", "replay", "--failed", "--webhook", "keys", "--by", "Ada", name="webhooks replay")
    for command in ("rotate", "disable", "enable", "remove"):
        keys("webhooks", command, "keys", "--by", "Ada", name=f"webhooks {command}")


def spend(ledger: Ledger, company: str, agent: str) -> None:
    new = NewCall(
        company=company, agent_id=agent, run_id="keys", question_id="keys", purpose="merge", model="m", most=Spent()
    )
    call_id = present(ledger.spending.reserve(new, caps=Caps()).call_id)
    spent = Spent(prompt_tokens=80, completion_tokens=20, cost=0.5)
    ledger.spending.settle(call_id, CallState.ANSWERED, spent=spent, attempts=1)


def memories(keys: Keys, memtend: CommandLine, agent: str, tests: Path) -> None:
    keys("agents", "add", agent, "--role", "keeper", name="agents add")
    keys("agents", "set", agent, "--max-memories", "100", name="agents set")
    keys("agents", "list", name="agents list")
    keys("store", agent, "The lift is out of order.", "--session", "s", name="store")
    keys("search", agent, "lift", name="search")
    asked = {"name": "lift", "agent": agent, "question": "lift", "finds": ["stairs"]}
    tests.write_text(json.dumps({"tests": [asked]}))
    keys("test", "run", str(tests), name="test run", may_fail=True)
    start = datetime.now(UTC) - timedelta(days=40)
    lines = [
        {
            "agent_id": agent,
            "category": "episodic",
            "content": f"Old note about the payments queue and its alarms{'!' * number}",
            "created_at": (start + timedelta(hours=number)).isoformat(),
        }
        for number in range(6)
    ]
    keys("import", "-", name="import", stdin="\n".join(map(json.dumps, lines)).encode())
    exported = memtend.ok("export", "--agent", agent).out.splitlines()
    keys.found |= dict.fromkeys(key_paths([json.loads(line) for line in exported], "export"), "key")
    keys("maintain", agent, "--dry-run", name="maintain --dry-run")
    run_id = keys("maintain", agent, "--allow-large", name="maintain", opened="counts")["run_id"]
    keys("maintain", agent, "--no-wait", name="maintain --no-wait")
    keys("runs", "list", "--agent", agent, name="runs list")
    keys("runs", "show", run_id, name="runs show", opened="counts")
    (summary,) = memtend.ok("runs", "show", run_id, "--json").value["summaries"]
    # Ids are data.
    keys.found = {path: form for path, form in keys.found.items() if summary not in path}
    keys("why", summary, "--text", name="why")
    keys("runs", "undo", run_id, "--dry-run", name="runs undo --dry-run")
    keys("runs", "undo", run_id, name="runs undo", opened="counts")
    keys("end", "session", agent, "s", name="end session")


def proposals(keys: Keys, ledger: Ledger, company: str) -> None:
    agent = new_agent("proposed")
    run = present(ledger.runs.create(NewRun(company=company, agent_id=agent, planned_at=utc_now())))
    claimed = present(ledger.runs.claim(company, run.run_id, lease=timedelta(minutes=1)))
    group = ConsolidationGroup(
        company=company,
        run_id=run.run_id,
        agent_id=agent,
        category=MemoryCategory.EPISODIC,
        strategy="condense",
        state=GroupState.PROPOSED,
        source_ids=(ids.new_id(), ids.new_id()),
        kept_id=ids.new_id(),
    )
    ledger.consolidation_groups.note([group])
    held, step = WorkState.HELD, RunStep.ADOPTION
    ledger.runs.finish(company, run.run_id, claimed.token or "", state=held, counts={}, reason="look", step=step)
    keys("runs", "diff", run.run_id, name="runs diff")
    keys("runs", "adopt", run.run_id, name="runs adopt")


def archive(keys: Keys, ledger: Ledger, company: str, agent: str) -> None:
    record = make_record(str(uuid.uuid4()), agent_id=agent, at=datetime(2026, 1, 5, tzinfo=UTC))
    record = dataclasses.replace(record, vectors=None)
    ledger.archive.put(
        company, record, mode=ArchivalMode.EXTRACTIVE, archived_at=record.entry.created_at + timedelta(days=1)
    )
    keys("archive", "list", agent, name="archive list")
    keys("archive", "search", agent, record.entry.content, name="archive search")
    keys("archive", "show", agent, record.entry.id, name="archive show")
    keys("archive", "restore", agent, record.entry.id, name="archive restore")


def dead_letters(keys: Keys, ledger: Ledger, company: str) -> None:
    job_id = ids.new_id()
    payload = json.dumps({"version": 1, "company": company, "batch_id": "keys", "uses": []})
    ledger.dead_letters.put(
        NewDeadLetter(
            job_id=job_id,
            company=company,
            job=UsePayload.task,
            queue=str(Queue.CONTROL),
            payload=payload,
            reason="4 workers died while they ran it",
            attempts=1,
        )
    )
    keys("dead", "list", name="dead list")
    keys("dead", "show", job_id, "--content", name="dead show")
    keys("dead", "purge", job_id, "--yes", name="dead purge")


def approvals(keys: Keys) -> None:
    def proposed(text: str) -> str:
        return keys("approvals", "propose", "--text", text, "--by", "Grace", name="approvals propose")["id"]

    wanted, refused = proposed("The ferry leaves at nine."), proposed("The ferry leaves at ten.")
    keys("approvals", "list", name="approvals list")
    keys("approvals", "show", wanted, name="approvals show")
    keys("approvals", "approve", wanted, "--by", "Ada", name="approvals approve")
    keys("approvals", "undo", wanted, "--by", "Ada", name="approvals undo")
    keys("approvals", "reject", refused, "--by", "Ada", name="approvals reject")


def organisation(keys: Keys, ledger: Ledger, company: str, agent: str) -> None:
    shared = keys("shared", "publish", agent, "The canteen opens at noon.", name="shared publish")["id"]
    keys("shared", "search", "canteen", name="shared search")
    keys("shared", "list", name="shared list")
    keys("shared", "retract", agent, shared, name="shared retract")
    fact = keys("org", "write", "Marmalade at four", "--by", "Grace", name="org write")["id"]
    keys("org", "list", name="org list")
    keys("org", "search", "marmalade", name="org search")
    keys("org", "show", fact, name="org show")
    keys("org", "log", fact, name="org log")
    keys("org", "retract", fact, "--by", "Grace", name="org retract")
    keys("audit", "--actor", "Grace", name="audit")
    made = trajectory(f"keys-{agent}", task_id="ticket", task_title="The lift").model_copy(update={"agent_id": agent})
    ledger.trajectories.append(company, made, lesson_at=utc_now())
    keys("agents", "lessons", agent, name="agents lessons AGENT")
    keys("agents", "lessons", name="agents lessons")


def skills(keys: Keys, ledger: Ledger, company: str) -> None:
    proposal = promotion(
        lesson(discovery="The hydrant freezes."),
        title="A skill for all agents",
        pattern_id="pattern of keys",
        cycle_id="cycle-keys",
        figures={"agents": 4},
        supersedes=[],
    )
    approval_id = ids.approval_id(company=company, action=ORG_PROMOTION, cause="keys")
    assert ledger.approvals.file(company, approval_id, proposal, lasts=ApprovalsConfig().lasts)
    skill_id = keys("approvals", "approve", approval_id, "--by", "Ada", name="approvals approve")["effect"]
    keys("skills", "list", name="skills list")
    keys("skills", "show", skill_id, name="skills show")
    keys("skills", "evolve", name="skills evolve", opened="report")
    keys("skills", "cycles", name="skills cycles")
    keys("approvals", "undo", approval_id, "--by", "Ada", name="approvals undo")


def fine_tuning(keys: Keys, stack: StackAddress, ledger: Ledger, folder: Path) -> None:
    documents = folder / "docs"
    documents.mkdir()
    for number in range(12):
        (documents / f"{number}.md").write_text(f"Hall {number} has a pump.", "utf-8")
    plan = ("--no-memories", "--kind", "static", "--source-dir", str(documents))
    keys("finetune", "plan", *plan, name="finetune plan", may_fail=True)
    run_id = keys("finetune", "start", "--no-preflight", *plan, name="finetune start", opened="plan")["run_id"]
    keys("finetune", "status", run_id, name="finetune status")
    keys("finetune", "runs", name="finetune runs")
    keys("finetune", "cancel", "--by", "Grace", name="finetune cancel")
    checkpoint = registered(ledger, stack.settings.company, runs_of(stack.home, stack.settings.company)).checkpoint_id
    keys("finetune", "checkpoints", name="finetune checkpoints")
    keys("finetune", "delete", checkpoint, "--by", "Ada", "--yes", name="finetune delete")
