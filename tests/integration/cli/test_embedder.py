"""``memtend embedder try``: both embedders are measured, and nothing is switched."""

from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore.clock import utc_now
from memcore.jobs import RecordedQuery
from memcore.ledger.ledger import Ledger

NOTES = [
    "The lift in hall three is out of order since Tuesday.",
    "Amara keeps the spare key in the blue drawer.",
    "The pump of the east pond needs a new seal.",
    "Boris orders the tulip bulbs from Haarlem in August.",
]


def test_an_embedder_is_measured_beside_the_one_that_serves_and_nothing_is_written(
    memtend: CommandLine, stack: StackAddress
) -> None:
    agent, company = new_agent("trial"), stack.settings.company
    stored = [memtend.ok("store", agent, text, "--json").value for text in NOTES]
    assert stored
    shown = [each["id"] for each in memtend.ok("list", agent, "--json").value["memories"]]
    ledger = Ledger.open(stack.settings.ledger_urls)
    asked = RecordedQuery(agent_id=agent, question="where is the spare key", memory_ids=(shown[0],), asked_at=utc_now())
    ledger.recorded_queries.record(company, [asked])
    before = (memtend.ok("reindex", "--status", "--json").value, ledger.recorded_queries.of(company, agent))

    found = memtend.ok("embedder", "try", "static-mean", "--json").value
    assert (found["serves"]["name"], found["tried"]["name"]) == ("wordllama-256-tempered", "wordllama-256-mean")
    assert found["recorded"] >= 1
    assert found["texts"] >= len(NOTES)
    assert found["templates"]["questions"] > 0
    assert found["verdict"] in {"promoted", "undecided", "rejected"}
    said = memtend.ok("embedder", "try", "static-mean", "--texts", "50")
    assert "wordllama-256-mean" in said.out
    assert "worthwhile" in said.out.splitlines()[-1]

    assert before == (memtend.ok("reindex", "--status", "--json").value, ledger.recorded_queries.of(company, agent))
    assert len(memtend.ok("list", agent, "--json").value["memories"]) == len(NOTES)
    ledger.close()


def test_what_serves_already_and_what_is_no_embedder_are_refused(memtend: CommandLine) -> None:
    memtend.ok("store", new_agent("trial"), "The lift is out of order.")
    same = memtend("embedder", "try")
    assert same.code != 0
    assert "wordllama-256-tempered serves already" in same.err
    nothing = memtend("embedder", "try", "no/such/folder")
    assert nothing.code != 0
    assert "'no/such/folder' is no folder, and none of static, static-mean, minilm" in nothing.err
