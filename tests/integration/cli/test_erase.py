"""``memtend erase`` beside a running stack: what an agent stored is gone from every file, and the receipt proves it."""

import json
from pathlib import Path

from support.command_line import CommandLine
from support.memories import new_agent

SURE = ("--by", "grace", "--reason", "she has left", "--yes")


def test_an_agent_is_erased_and_the_receipt_is_verified(memtend: CommandLine, tmp_path: Path) -> None:
    agent, other = new_agent(), new_agent()
    secret, kept = (f"the vault of {each} opens at dawn" for each in (agent, other))
    memtend.ok("store", agent, secret)
    memtend.ok("store", other, kept)
    assert memtend("erase", "check", "--probe", secret).code == 1
    erasure = memtend.ok("erase", "agent", agent, *SURE, "--wait", "--json").value
    assert (erasure["agent_id"], erasure["state"]) == (agent, "done")
    assert memtend("erase", "check", "--probe", secret).code == 0
    assert memtend("erase", "check", "--probe", kept).code == 1
    receipt = tmp_path / "receipt.json"
    receipt.write_text(memtend.ok("erase", "receipt", erasure["erasure_id"]).out)
    shown = memtend.ok("erase", "verify", str(receipt), "--json").value
    assert (shown["agent_id"], shown["left"], shown["found in store"]) == (agent, 0, 1)
    content = json.loads(receipt.read_text())
    receipt.write_text(json.dumps({**content, "agent_id": other}))
    assert "was not signed here" in memtend("erase", "verify", str(receipt)).err
    listed = {each["agent_id"] for each in memtend.ok("agents", "list", "--json").value}
    assert other in listed
    assert agent not in listed


def test_nothing_is_erased_without_a_word(memtend: CommandLine) -> None:
    agent = new_agent()
    refused = memtend("erase", "agent", agent, "--by", "grace", "--reason", "why not")
    assert refused.code != 0
    assert "--yes" in refused.err
    assert memtend.ok("erase", "list", "--agent", agent, "--json").value == []
