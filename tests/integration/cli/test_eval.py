"""``memtend eval``: questions are asked of a stack of its own, and an installation is not touched."""

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import psutil
import pytest
from reference.markdown import DOCS, blocks, text_of
from support.command_line import CommandLine
from support.daily_maintenance import TEXTS, maintained
from support.memories import new_agent
from support.present import present
from support.running_stack import StackAddress, clean_environ
from support.stub_llm_process import StubLLM

from examples.stub_llm.fault import Fault, Scripted
from memcore.backends.evidence import terms_of
from memcore.errors import MemoryConfigError
from memcore.evaluation.results import done_in_words
from memcore.programs import program_argv
from ops.cli.memory.evaluate import policies_with
from workers.stack.home import read_state
from workers.stack.running import throwaway_stack

AGENT = "evaluated"

LINES = [
    {
        "agent_id": AGENT,
        "id": "m1",
        "content": "The ferry to Hvar leaves at nine.",
        "created_at": "2026-05-01T10:00:00Z",
    },
    {"agent_id": AGENT, "id": "m2", "content": "Mia is allergic to peanuts and bees.", "category": "semantic"},
    {"agent_id": AGENT, "question": "When does the ferry to Hvar leave?", "finds": ["m1"], "kind": "one"},
    {"agent_id": AGENT, "question": "What is Mia allergic to?", "finds": ["m2"], "kind": "two"},
    {"agent_id": AGENT, "question": "Who painted the chapel ceiling?"},
]

PAGE = DOCS / "how-to" / "evaluate.md"

NONE_SHOWN = "no difference that these questions can show"

BOATS = ("Ana", "Bora", "Cetina", "Dunav", "Estela", "Flora", "Galeb", "Hera")

#: Memories that go after twenty days, one said twice, and a question for each.
FLEETING: list[dict[str, Any]] = [
    *(
        {
            "agent_id": AGENT,
            "id": boat,
            "content": f"The boat {boat} was painted in spring.",
            "created_at": "2026-05-01T10:00:00Z",
        }
        for boat in BOATS
    ),
    *(
        {"agent_id": AGENT, "id": name, "content": text, "category": "semantic", "created_at": "2026-05-01T10:00:00Z"}
        for name, text in [
            ("bees", "Mia is allergic to peanuts."),
            ("again", "mia is allergic to peanuts"),
            ("cabin", "Ivo owns cabin fourteen."),
        ]
    ),
    *({"agent_id": AGENT, "question": f"When was the boat {boat} painted?", "finds": [boat]} for boat in BOATS),
    *(
        {"agent_id": AGENT, "question": question, "finds": [name]}
        for name, question in [
            ("bees", "What is Mia allergic to?"),
            ("again", "What is mia allergic to?"),
            ("cabin", "Which cabin does Ivo own?"),
        ]
    ),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.timeout(600)
def test_two_policies_are_compared_in_stacks_that_are_gone_afterwards(
    memtend: CommandLine, stack: StackAddress, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = new_agent("kept")
    memtend.ok("store", agent, "The ferry to Vis leaves at ten.")
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    plain, strict = tmp_path / "plain.yaml", tmp_path / "strict.yaml"
    plain.write_text("memory: {}\n")
    # What an installation has elsewhere, an evaluation has in its folder.
    strict.write_text("memory: {retrieval: {min_evidence: 1.0}, storage: {history_store: postgresql}}\n")

    words = ("eval", str(data), "--policy", str(plain), "--policy", str(strict), "--budget", "300")
    first, second = memtend.ok(*words, "--json").value
    means = {each["measure"]: each["mean"] for each in first["measures"] if each["kind"] is None}
    assert (means["recall"], means["precision"], means["ndcg_at_10"], means["prompt_recall"]) == (1.0, 1.0, 1.0, 1.0)
    assert means["shown_wrongly"] == 0.0
    assert {each["kind"] for each in first["measures"]} == {None, "one", "two"}
    assert first["beside_first"] == []
    beside = {each["measure"]: each["verdict"] for each in second["beside_first"]}
    assert beside["ndcg_at_10"] == "no difference that these questions can show"

    assert [*temporary.iterdir()] == []
    assert AGENT not in [each["agent_id"] for each in memtend.ok("agents", "list", "--json").value]
    assert stack.settings.home.is_dir()
    assert len(memtend.ok("list", agent, "--json").value["memories"]) == 1


@pytest.mark.timeout(600)
def test_what_a_killed_evaluation_leaves_is_ended_and_removed_by_the_next(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "t"
    temporary.mkdir()
    words = (*program_argv("ops.cli.main", python=sys.executable), "eval", str(data))
    killed = subprocess.Popen(
        words, env={**clean_environ(), "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    parts: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 120
        while len(parts) < 3:
            assert killed.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
            states = [state for each in temporary.iterdir() if (state := read_state(each)) is not None]
            parts = [psutil.Process(part.pid) for state in states for part in state.parts if part.pid is not None]
    finally:
        killed.kill()
        killed.wait()
    (home,) = temporary.glob("memtend-throwaway-*")
    assert all(part.is_running() for part in parts)

    # A policy that is refused ends the next one as soon as it has cleaned up.
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    refused = throwaway_stack("memory: {level: forever}")
    with pytest.raises(MemoryConfigError):
        refused.__enter__()
    psutil.wait_procs(parts, timeout=30)
    assert not [part for part in parts if part.is_running() and part.status() != psutil.STATUS_ZOMBIE]
    assert not home.exists()


@pytest.mark.timeout(600)
def test_kinds_and_format_do_what_they_say_and_each_question_has_its_own_time(
    memtend: CommandLine, tmp_path: Path
) -> None:
    days = [("m1", "2026-05-01"), ("m2", "2026-05-08")]
    kept = [
        {
            "agent_id": AGENT,
            "id": name,
            "content": f"Ada sailed to Hvar ({name}).",
            "created_at": f"{day}T10:00:00Z",
        }
        for name, day in days
    ]
    question = "Where did Ada sail today?"
    asked = [
        {"agent_id": AGENT, "question": question, "finds": [name], "kind": name, "asked_at": f"{day}T20:00:00Z"}
        for name, day in days
    ]
    path = tmp_path / "data.txt"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (*kept, *asked)), encoding="utf-8")
    assert "format: cannot be told" in memtend("eval", str(path)).err
    (found,) = memtend.ok("eval", str(path), "--format", "jsonl", "--json").value
    means = {(each["kind"], each["measure"]): each["mean"] for each in found["measures"]}
    # Each names one day by the time at which it is asked.
    assert (means["m1", "ndcg_at_10"], means["m2", "ndcg_at_10"]) == (1.0, 1.0)

    out = memtend.ok("eval", str(path), "--format", "jsonl", "--kinds").out
    assert out.startswith("policy: starter")
    assert "kind" in out
    assert {"all", "m1", "m2"} <= {*out.split()}


@pytest.mark.timeout(600)
def test_days_of_maintenance_are_said_beside_before(memtend: CommandLine, tmp_path: Path) -> None:
    path, policy = tmp_path / "data.jsonl", tmp_path / "policy.yaml"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in FLEETING), encoding="utf-8")
    policy.write_text(
        "memory: {level: persistent, consolidation: {retention: {rules: [{category: episodic, retention_days: 20}]}}}"
    )
    report = tmp_path / "report.html"
    words = ("eval", str(path), "--policy", str(policy), "--nights", "30, 8", "--report", str(report), "--json")
    (found,) = memtend.ok(*words).value
    week, month = found["after"]
    assert (week["days"], month["days"]) == (8, 30)
    # What was said twice became one, which still answers for both.
    assert (week["done"]["merged"], week["done"]["summaries"], week["done"]["removed"]) == (2, 1, 0)
    assert {each["verdict"] for each in week["beside_before"] if each["measure"] == "recall"} == {NONE_SHOWN}
    assert (month["done"]["removed"], month["done"]["live"]) == (8, 2)
    verdicts = {each["measure"]: each["verdict"] for each in month["beside_before"]}
    assert verdicts["recall"] == verdicts["prompt_recall"] == "worse"
    assert "milliseconds" not in verdicts
    recall = {each["measure"]: each["mean"] for each in month["measures"] if each["kind"] is None}["recall"]
    assert recall == pytest.approx(3 / 11)

    page = report.read_text(encoding="utf-8")
    for each in (*found["measures"], *month["measures"]):
        assert f">{each['mean']:.3f}<" in page
    assert f"30 days: evidence found {recall - 1.0:+.3f} (" in page
    assert "8 were removed" in page
    lost = page.partition("went wrong</h2>")[2]
    assert [boat in lost for boat in BOATS] == [True] * len(BOATS)
    assert "Which cabin" not in lost
    assert "memtend eval" in page


def test_a_model_is_asked_within_the_day_that_waits_for_it(stub: StubLLM, tmp_path: Path) -> None:
    done, kept, left = maintained(tmp_path, 8, llm_url=stub.url, strategy="llm", min_new=1, gate={"enabled": False})
    assert stub.log()
    assert (done.merged, done.summaries, done.live, done.reason) == (2, 1, 2, None)
    assert {each.memory_id for each in kept.values()} == left
    # What a model wrote must say the words of what it replaced.
    assert kept["bees"].words == terms_of(TEXTS["bees"])
    assert not kept["ferry, said again"].words


def test_a_run_that_fails_is_said_with_its_reason(stub: StubLLM, tmp_path: Path) -> None:
    stub.order(Scripted(fault=Fault.STATUS, status=401))
    done, _, _ = maintained(tmp_path, 8, llm_url=stub.url, strategy="llm", min_new=1, gate={"enabled": False})
    assert (done.live, done.failed) == (3, 2)
    assert done_in_words(done).endswith(f"3 are live; failed runs: 2 ({done.reason})")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nights", "1,x"), "nights: must be different numbers from 1 to 365"),
        (("--embedder", "static", "--embedder", "nope"), "embedder: 'nope' is unknown"),
        (("--report", "/"), "report: must be a file in a folder that exists"),
    ],
)
def test_a_wrong_option_is_named_before_anything_starts(
    memtend: CommandLine, data: Path, words: tuple[str, ...], said: str
) -> None:
    wrong = memtend("eval", str(data), *words)
    assert wrong.code != 0
    assert said in wrong.err


def test_each_policy_is_evaluated_with_each_embedder(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "memory: {level: session, embedder: {provider: minilm}, storage: {vector_store: qdrant-external}}\n"
    )
    found = dict(policies_with([policy], ["static", "static-mean"]))
    assert list(found) == [f"{policy} with static", f"{policy} with static-mean"]
    memory = present(found[f"{policy} with static-mean"])["memory"]
    assert (memory["level"], memory["embedder"]) == ("session", {"provider": "static-mean"})
    assert "vector_store" not in memory.get("storage", {})
    starter = {"memory": {"level": "persistent", "embedder": {"provider": "static"}}}
    assert dict(policies_with([], ["static"])) == {"starter with static": starter}
    assert dict(policies_with([], [])) == {"starter": None}


@pytest.mark.timeout(600)
def test_a_policy_that_keeps_nothing_is_named(memtend: CommandLine, data: Path, tmp_path: Path) -> None:
    policy = tmp_path / "none.yaml"
    policy.write_text("memory: {level: none}\n")
    wrong = memtend("eval", str(data), "--policy", str(policy))
    assert wrong.code != 0
    assert "level none" in wrong.err


def test_a_wrong_file_is_named_before_anything_starts(memtend: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"agent_id": AGENT, "question": "Who?", "finds": ["m1"]}), encoding="utf-8")
    wrong = memtend("eval", str(path))
    assert wrong.code != 0
    assert "line 1: finds" in wrong.err
    assert "Traceback" not in wrong.err


@pytest.mark.slow(because="each command of the page starts a stack of its own")
@pytest.mark.timeout(600)
def test_the_page_leads_from_a_table_to_a_report(
    memtend: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', text_of(PAGE), re.MULTILINE | re.DOTALL))
    assert files.keys() == {"data.csv", "short.yaml"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    report, page = tmp_path / "report.html", ""
    for block in blocks(PAGE, "console"):
        command, *said = block.splitlines()
        report.unlink(missing_ok=True)
        out = memtend.ok(*shlex.split(command.removeprefix("$ memtend "))).out
        assert set(said) <= set(out.splitlines()), out
        page = report.read_text(encoding="utf-8")
        ET.fromstring(page.partition("\n")[2])  # noqa: S314  # our own page
        assert all(line in page for line in said)
    assert "The payment queue pages at 500." in page.partition("went wrong</h2>")[2]
