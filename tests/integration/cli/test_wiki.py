from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore import MemoryClient
from memcore.wiki.folders import slug
from ops.cli.session import ledger_of


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The export's root of a policy that wants one."""
    policy = tmp_path / "policy.yaml"
    root = tmp_path / "wiki"
    policy.write_text(
        f"memory:\n  consolidation:\n    wiki_export:\n      enabled: true\n      export_root: {root}\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("MEMTEND_POLICY_PATH", str(policy))
    return root


def notifier(memtend: CommandLine, stack: StackAddress) -> str:
    """Return an agent with one experience of each tier, the raw one sent through the queue."""
    agent = new_agent("teller")
    memtend.ok("agents", "add", agent, "--level", "persistent")
    memtend.ok("store", agent, "Look at the disk first.", "--tag", "compressed_experience")
    with MemoryClient.from_settings(stack.settings) as client:
        receipt = client.record_experience(agent, prompt="Why did the import fail?", output="The disk was full.")
        (done,) = client.wait([receipt.job_id], timeout_seconds=600)
    assert done.facts == {"recorded": 1, "known": 0}
    return agent


def test_a_raw_experience_is_no_memory_and_no_search_finds_it(memtend: CommandLine, stack: StackAddress) -> None:
    agent = notifier(memtend, stack)
    for words in ((), ("Why did the import fail?",), ("--tag", "detailed_experience")):
        found = memtend.ok("search", agent, *words, "--limit", "1000", "--json").value
        assert {each["text"] for each in found} <= {"Look at the disk first."}
    with ledger_of(stack.settings) as ledger:
        (kept,) = ledger.experiences.page(stack.settings.company, agent)
    assert kept.output == "The disk was full."


def test_agents_are_exported_by_name_and_counted_first(memtend: CommandLine, stack: StackAddress, root: Path) -> None:
    one, other = notifier(memtend, stack), notifier(memtend, stack)
    counts = {"raw_count": 1, "compressed_count": 1, "failed_count": 0}

    (plan,) = memtend.ok("wiki", "export", "--agent", one, "--dry-run", "--json").value
    assert counts.items() <= plan.items()
    assert (plan["is_published"], root.exists()) == (False, False)

    done = memtend.ok("wiki", "export", "--agent", one, "--agent", other, "--json").value
    assert done == [{"agent_id": each, **counts, "is_published": True, "reason": None} for each in (one, other)]
    assert len(list((root / slug(one)).rglob("*.md"))) == 3
    assert other in (root / "index.md").read_text(encoding="utf-8").replace("\\", "")


def test_all_agents_are_exported_together(memtend: CommandLine, stack: StackAddress, root: Path) -> None:
    agent = notifier(memtend, stack)
    out = memtend.ok("wiki", "export", "--all").out
    assert agent in out
    assert (root / slug(agent) / "index.md").is_file()


def test_switched_off_it_says_so_and_counts_nothing(memtend: CommandLine, stack: StackAddress) -> None:
    (found,) = memtend.ok("wiki", "export", "--agent", notifier(memtend, stack), "--json").value
    assert (found["raw_count"], found["compressed_count"], found["is_published"]) == (0, 0, False)
    assert found["reason"] == "memory.consolidation.wiki_export.enabled is false"


def test_whom_to_export_must_be_said_once_and_be_known(memtend: CommandLine) -> None:
    for words in ((), ("--all", "--agent", "ada")):
        assert memtend("wiki", "export", *words).code == 2
    refused = memtend("wiki", "export", "--agent", new_agent("nobody"))
    assert refused.code == 1
    assert "is not known" in refused.err


def test_an_export_that_fails_exits_with_one(memtend: CommandLine, stack: StackAddress, root: Path) -> None:
    root.write_text("a file in its place", encoding="utf-8")
    answer = memtend("wiki", "export", "--agent", notifier(memtend, stack), "--json")
    assert answer.code == 1
    assert not answer.value[0]["is_published"]
