"""``memtend distrust`` beside a running stack."""

from pathlib import Path

from support.command_line import CommandLine
from support.memories import new_agent

SURE = ("--by", "grace", "--reason", "its site was taken over")


def test_a_source_is_distrusted_shown_and_trusted_again(memtend: CommandLine, tmp_path: Path) -> None:
    agent = new_agent()
    memtend.ok("store", agent, "the vault opens at dawn", "--source", "crawler")
    memtend.ok("store", agent, "the canteen opens at noon")
    rule = ("--agent", agent, "--source", "crawler")
    (planned,) = memtend.ok("distrust", "plan", *rule, "--json").value["agents"]
    assert planned == {"agent_id": agent, "memories": 1, "in_store": 1, "brought_back": 0}
    added = memtend.ok("distrust", "add", *rule, *SURE, "--json").value
    assert added["completed_at"]
    texts = [each["text"] for each in memtend.ok("list", agent, "--json").value["memories"]]
    assert texts == ["the canteen opens at noon"]
    assert "vault" not in memtend("search", agent, "when does the vault open?").out
    shown = memtend.ok("distrust", "show", added["distrust_id"], "--json").value
    assert len(shown["memories"][agent]) == 1
    assert "source=crawler" in memtend.ok("distrust", "show", added["distrust_id"]).out
    report = tmp_path / "report.json"
    report.write_text(memtend.ok("distrust", "report", added["distrust_id"]).out)
    verified = memtend.ok("distrust", "verify", str(report), "--json").value
    assert (verified["memories"], verified["brought_back"], verified["is_signed"]) == (1, 0, True)
    assert "vault" not in report.read_text()
    report.write_text(report.read_text().replace("crawler", "reader"))
    assert "was not signed here" in memtend("distrust", "verify", str(report)).err
    assert "no receipt of an erasure" in memtend("erase", "verify", str(report)).err
    memtend.ok("distrust", "lift", added["distrust_id"], *SURE)
    assert len(memtend.ok("list", agent, "--json").value["memories"]) == 2
    (listed,) = [
        each for each in memtend.ok("distrust", "list", "--json").value if each["distrust_id"] == added["distrust_id"]
    ]
    assert listed["lifted_at"]


def test_a_rule_that_says_nothing_is_refused(memtend: CommandLine) -> None:
    refused = memtend("distrust", "add", *SURE)
    assert refused.code == 2
    assert "principal" in refused.err
    assert "since" in memtend("distrust", "plan", "--source", "s", "--since", "yesterday").err


def test_why_says_that_a_memory_is_hidden_and_not_gone(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("store", agent, "the vault opens at dawn", "--source", "crawler")
    memtend.ok("store", agent, "the canteen opens at noon")
    listed = memtend.ok("list", agent, "--json").value["memories"]
    known, hidden = [each["id"] for each in sorted(listed, key=lambda each: str(each["text"]))]
    added = memtend.ok("distrust", "add", "--agent", agent, "--source", "crawler", *SURE, "--json").value
    shown = memtend.ok("why", hidden, "--agent", agent, "--text")
    assert "hidden: it is distrusted, or came of what is" in shown.out
    assert "full text in the store" in shown.out
    assert "vault" not in shown.out
    assert "live" in memtend.ok("why", known, "--agent", agent).out
    assert "names no memory" in memtend("why", "0" * 36, "--agent", agent).err
    memtend.ok("distrust", "lift", added["distrust_id"], *SURE)
    assert "live" in memtend.ok("why", hidden, "--agent", agent).out
