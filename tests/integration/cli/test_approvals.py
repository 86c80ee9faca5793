"""Approvals as a person types them, on a running stack."""

import json
import subprocess

import pytest
from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import MEMTEND, StackAddress, clean_environ, wait_until
from support.thorough import only_thorough
from support.webhook_server import listening

from memcore.ledger.ledger import Ledger
from memcore.models.approval import ApprovalState, Decision


def found(memtend: CommandLine, word: str) -> list[str]:
    return [each["text"] for each in memtend.ok("shared", "search", word, "--json").value if word in each["text"]]


def proposed(memtend: CommandLine, text: str, *more: str) -> str:
    approval_id: str = memtend.ok("approvals", "propose", "--text", text, "--by", "eve", *more, "--json").value["id"]
    return approval_id


def test_a_text_is_proposed_read_approved_found_and_taken_back(memtend: CommandLine) -> None:
    agent = new_agent("teller")
    old = memtend.ok("shared", "publish", agent, "The zeppelin lands at noon. Bring a hat.", "--json").value["id"]
    approval_id = proposed(
        memtend, "The zeppelin lands at one. Bring a hat.", "--supersedes", old, "--tag", "travel", "--title", "Landing"
    )
    listed = memtend.ok("approvals", "list", "--state", "pending", "--json").value
    assert approval_id in {row["id"] for row in listed}
    assert "zeppelin" not in str(listed)
    shown = memtend.ok("approvals", "show", approval_id)
    assert "-The zeppelin lands at noon.\n+The zeppelin lands at one.\n Bring a hat." in shown.out
    whole = memtend.ok("approvals", "show", approval_id, "--json").value
    assert (whole["content"], whole["proposed_by"]) == ("The zeppelin lands at one. Bring a hat.", "eve")
    assert whole["supersedes"] == [{"id": old, "content": "The zeppelin lands at noon. Bring a hat.", "owner": agent}]
    assert found(memtend, "zeppelin") == ["The zeppelin lands at noon. Bring a hat."]

    approved = memtend.ok("approvals", "approve", approval_id, "--by", "Ada", "--reason", "I asked", "--json").value
    assert (approved["state"], approved["decided_by"], approved["reason"]) == ("approved", "Ada", "I asked")
    (entry,) = [e for e in memtend.ok("shared", "search", "zeppelin", "--json").value if e["id"] == approved["effect"]]
    assert entry["metadata"]["tags"] == ["travel", "approved", "approved-by:Ada"]
    assert found(memtend, "zeppelin") == ["The zeppelin lands at one. Bring a hat."]
    again = memtend("approvals", "approve", approval_id, "--by", "Bob")
    assert (again.code, again.out) == (1, "")
    assert f"approval {approval_id} is approved by Ada at " in again.err

    assert memtend.ok("approvals", "undo", approval_id, "--by", "Bob", "--json").value["undone_by"] == "Bob"
    assert found(memtend, "zeppelin") == ["The zeppelin lands at noon. Bring a hat."]
    assert "undone by Bob" in memtend("approvals", "undo", approval_id, "--by", "Bob").err


def test_a_rejected_proposal_publishes_nothing(memtend: CommandLine) -> None:
    approval_id = proposed(memtend, "The gondola is free")
    rejected = memtend.ok("approvals", "reject", approval_id, "--by", "Ada", "--json").value
    assert (rejected["state"], rejected["effect"]) == ("rejected", None)
    assert memtend("approvals", "approve", approval_id, "--by", "Ada").code == 1
    assert found(memtend, "gondola") == []


def test_the_webhook_hears_that_a_proposal_waits_and_none_of_its_text(
    memtend: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as listener:
        monkeypatch.setenv("MEMTEND_APPROVALS_WEBHOOK", listener.url)
        approval_id = proposed(memtend, "The ferry is late", "--title", "Ferries", "--risk", "high")
    notice = {"id": approval_id, "action": "shared:publish", "title": "Ferries", "risk": "high"}
    assert listener.heard == [notice]
    # Nobody listens there any more.
    proposed(memtend, "The ferry is early")


@only_thorough(because="tests/integration/approvals has two services decide, and each process takes seconds to start")
def test_two_people_approve_at_the_same_moment_and_one_of_them_decides(
    memtend: CommandLine, stack: StackAddress
) -> None:
    approval_id = proposed(memtend, "The submarine is yellow")
    people = [
        subprocess.Popen(
            [MEMTEND, "approvals", "approve", approval_id, "--by", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean_environ(), "MEMTEND_HOME": str(stack.home)},
        )
        for name in ("Ada", "Bob")
    ]
    said = [person.communicate(timeout=600) for person in people]
    assert sorted(person.returncode for person in people) == [0, 1]
    winner, loser = ("Ada", 1) if people[0].returncode == 0 else ("Bob", 0)
    assert f"approval {approval_id} is approved by {winner} at " in said[loser][1]
    assert found(memtend, "submarine") == ["The submarine is yellow"]


@pytest.mark.slow(because="the sweep of a real stack comes every fifteen seconds")
def test_the_sweep_finishes_what_an_approver_left_open_when_it_died(memtend: CommandLine, stack: StackAddress) -> None:
    approval_id = proposed(memtend, "The tram runs all night")
    ledger = Ledger.open(stack.settings.ledger_urls)
    # What a process writes before it would carry the effect out.
    ledger.approvals.decide(stack.settings.company, approval_id, ApprovalState.APPROVED, Decision(by="Ada"))
    ledger.close()
    wait_until(lambda: found(memtend, "tram") == ["The tram runs all night"], what="the sweep's publication")
    wait_until(
        lambda: memtend.ok("approvals", "show", approval_id, "--json").value["effect"] is not None, what="the effect"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("propose", "--text", " ", "--by", "eve"), "content: must not be blank"),
        (("propose", "--text", "x", "--by", " "), "proposed_by: must not be blank"),
        (("propose", "--text", "x", "--by", "eve", "--category", "gossip"), "category: must be 'working'"),
        (("propose", "--text", "x", "--by", "eve", "--title", "t" * 201), "title: must have at most 200 characters"),
        (("approve", "none", "--by", ""), "by: must not be blank"),
        (("approve", "none"), "Missing option '--by'"),
        (("reject", "none", "--by", "n" * 129), "by: must have at most 128 characters"),
    ],
)
def test_what_breaks_a_limit_is_refused_in_one_sentence(
    memtend: CommandLine, words: tuple[str, ...], said: str
) -> None:
    def proposals() -> set[str]:
        # The stack goes on meanwhile: what it proposes, and what becomes of a proposal, is not this test's.
        listed = memtend.ok("approvals", "list", "--json").value
        return {each["id"] for each in listed if each["proposed_by"] in {"eve", " "}}

    before = proposals()
    answer = memtend("approvals", *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert proposals() == before


@pytest.mark.parametrize(
    "words",
    [
        ("show", "none"),
        ("approve", "none", "--by", "Ada"),
        ("undo", "none", "--by", "Ada"),
        ("reject", "none", "--by", "Ada"),
        ("propose", "--text", "x", "--by", "eve", "--supersedes", "none"),
    ],
)
def test_what_is_not_there_is_named(memtend: CommandLine, words: tuple[str, ...]) -> None:
    answer = memtend("approvals", *words)
    assert (answer.code, answer.out) == (1, "")
    assert "'none'" in answer.err


def test_a_memory_is_raised_read_and_lowered(memtend: CommandLine) -> None:
    agent, text = new_agent(), "The page says that the zeppelin lands at two."
    line = {"agent_id": agent, "category": "semantic", "content": text}
    memtend.ok("import", "-", stdin=json.dumps(line).encode())
    memory_id = memtend.ok("list", agent, "--json").value["memories"][0]["id"]
    asked = ("approvals", "raise", memory_id, "--agent", agent, "--by", "eve")
    assert "to: " in memtend(*asked, "--to", "reference").err
    approval_id = memtend.ok(*asked, "--to", "instruct", "--json").value["id"]
    shown = memtend.ok("approvals", "show", approval_id)
    assert f"+{text}" in shown.out
    assert "channels=import" in shown.out
    assert memtend.ok("approvals", "approve", approval_id, "--by", "Ada", "--json").value["effect"] == memory_id
    assert f"raised to instruct by approval {approval_id}" in memtend.ok("why", memory_id, "--agent", agent).out
    assert "the authority instruct already" in memtend(*asked).err
    exported = memtend.ok("export", "--agent", agent).out
    assert approval_id not in exported
    claimed = json.loads(exported) | {"raised": {"to": "instruct", "approval_id": approval_id, "digest": "d"}}
    assert "raised" in memtend("import", "-", stdin=json.dumps(claimed).encode()).err
    memtend.ok("approvals", "undo", approval_id, "--by", "Ada")
    assert "raised" not in memtend.ok("why", memory_id, "--agent", agent).out
