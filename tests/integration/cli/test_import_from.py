"""``memtend import --from``: other systems' files come in through the queue, and every record is accounted for."""

import json
from pathlib import Path

import pytest
from support.command_line import Answer, CommandLine
from support.memories import new_agent
from support.repository import ROOT
from support.running_stack import StackAddress

from memcore.ledger.ledger import Ledger

FIXTURES = ROOT / "tests" / "fixtures" / "imports"

#: Of each system a file, and how many of its records are read, accepted and refused.
FILES = {
    "mem0": ("mem0_points.jsonl", 3, 2, 1),
    "langgraph": ("langgraph_store.jsonl", 4, 2, 2),
    "letta": ("letta_agent.af", 10, 5, 0),
    "zep": ("zep_graph.json", 5, 4, 1),
}


def exported(memtend: CommandLine, agent: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in memtend.ok("export", "--agent", agent).out.split("\n") if line]


def bring_in_facts(memtend: CommandLine, agent: str, listed: Path, *words: str) -> Answer:
    file = str(FIXTURES / "zep_graph.json")
    return memtend("import", file, "--from", "zep", "--agent", agent, "--refused", str(listed), *words)


@pytest.mark.parametrize("source", FILES)
def test_what_can_be_stored_is_stored_and_the_rest_is_listed(memtend: CommandLine, tmp_path: Path, source: str) -> None:
    name, read, accepted, refusals = FILES[source]
    agent, listed = new_agent(source), tmp_path / "refused"
    words = ("import", str(FIXTURES / name), "--from", source, "--agent", agent, "--refused", str(listed), "--json")

    dry = memtend(*words, "--dry-run")
    assert dry.code == (1 if refusals else 0)
    assert (dry.value["read"], dry.value["accepted"], dry.value["sent"]) == (read, accepted, 0)
    assert exported(memtend, agent) == []

    done = memtend(*words)
    assert done.code == dry.code
    assert {**done.value, "newest": None} == {**dry.value, "newest": None, "sent": accepted}
    assert sum(done.value["refused"].values()) == refusals
    assert len(listed.read_text().splitlines() if refusals else []) == refusals
    assert listed.exists() is bool(refusals)
    if refusals:
        assert f"{refusals} of {read} records were refused: see {listed}" in done.err
    assert len(exported(memtend, agent)) == accepted

    # Again, and nothing is stored twice.
    assert memtend(*words).value["accepted"] == accepted
    assert len(exported(memtend, agent)) == accepted


def test_a_fact_that_ended_keeps_its_end(memtend: CommandLine, tmp_path: Path) -> None:
    agent = new_agent("zep")
    bring_in_facts(memtend, agent, tmp_path / "refused")
    (turin,) = [each for each in exported(memtend, agent) if each["content"] == "Ada lives in Turin."]
    assert turin["valid_until"] == "2024-12-01T00:00:00+00:00"


def test_an_imported_agents_first_runs_are_gentle(memtend: CommandLine, stack: StackAddress, tmp_path: Path) -> None:
    agent = new_agent("gentle")
    bring_in_facts(memtend, agent, tmp_path / "refused")
    ledger = Ledger.open(stack.settings.ledger_urls)
    try:
        # What bounds a first run: the agent is known, and had none (tests/integration/maintenance/test_first_runs.py).
        known = [each.agent_id for each in ledger.agents.list(stack.settings.company, limit=10_000)]
        assert agent in known
        assert not ledger.runs.is_settled(stack.settings.company, agent)
    finally:
        ledger.close()


def test_an_export_comes_in_again_for_another_agent(memtend: CommandLine, tmp_path: Path) -> None:
    agent, other, file = new_agent("from"), new_agent("to"), tmp_path / "out.jsonl"
    memtend.ok("store", agent, "The payment queue pages at 500 messages.")
    memtend.ok("export", str(file), "--agent", agent)
    memtend.ok("import", str(file), "--from", "jsonl", "--agent", other)
    (first,), (second,) = exported(memtend, agent), exported(memtend, other)
    assert second == {**first, "agent_id": other, "id": second["id"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-", "--agent", "a"), "agent: needs --from"),
        (("-", "--dry-run"), "dry_run: needs --from"),
        (("-", "--from", "mem0"), "file: must be a file or a folder; standard input is read without --from"),
        (("none.json", "--from", "zep"), "file: cannot be read (No such file or directory)"),
    ],
)
def test_wrong_arguments_end_with_one_sentence(memtend: CommandLine, words: tuple[str, ...], said: str) -> None:
    answer = memtend("import", *words)
    assert answer.code == 2
    assert said in answer.err


def test_a_list_that_cannot_be_written_stops_before_more_is_lost(memtend: CommandLine, tmp_path: Path) -> None:
    listed = tmp_path / "none" / "refused"
    answer = bring_in_facts(memtend, "a", listed, "--dry-run")
    assert answer.code == 2
    assert "refused: cannot be written (No such file or directory): name another file" in answer.err


def test_a_file_without_a_record_is_told(memtend: CommandLine, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{\n "a": {"b": 1}\n}', encoding="utf-8")
    answer = memtend.ok("import", str(other), "--from", "mem0", "--dry-run")
    assert answer.err == f"memtend: no record was found in {other}: is it one of mem0's files?\n"
