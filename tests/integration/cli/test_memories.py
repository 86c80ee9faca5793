import asyncio
import uuid
from datetime import UTC, datetime

from support.command_line import CommandLine
from support.memories import new_agent, record
from support.running_stack import StackAddress

from memcore.backends.factory import create_worker_backend
from memcore.config.policy import Policy
from memcore.models.memory import MemoryCategory, MemoryQuery


def test_a_stored_memory_is_found_by_its_words(memtend: CommandLine) -> None:
    agent = new_agent()
    stored = memtend.ok(
        "store", agent, "The printer jams on Mondays", "--category", "semantic", "--tag", "office",
        "--source", "ticket", "--expires-at", "2999-01-01T00:00:00Z", "--json",
    ).value  # fmt: skip
    memtend.ok("store", agent, "Invoices leave on the first of the month")
    found = memtend.ok("search", agent, "printer", "--json").value
    best = found[0]
    assert best["id"] == stored["id"]
    assert best["text"] == "The printer jams on Mondays"
    assert best["category"] == "semantic"
    assert best["metadata"] == {"source": "ticket", "confidence": 1.0, "tags": ["office"]}
    assert best["expires_at"].startswith("2999-01-01T00:00:00")
    assert 0 < best["score"] <= 1


def test_a_text_without_a_category_is_a_fact_which_no_run_merges_unasked(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("store", agent, "Alice is allergic to peanuts")
    (found,) = memtend.ok("search", agent, "--json").value
    assert MemoryCategory(found["category"]) is not MemoryCategory.EPISODIC


def test_the_table_of_a_search_is_for_people(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("store", agent, "line one\nline two " + "x" * 300)
    out = memtend.ok("search", agent, "line").out
    assert "line one line two" in out
    assert "x" * 101 not in out


def test_a_summary_is_shown_with_the_days_that_it_covers(memtend: CommandLine, stack: StackAddress) -> None:
    agent, first, last = new_agent(), datetime(2026, 5, 1, 9, tzinfo=UTC), datetime(2026, 6, 3, 9, tzinfo=UTC)
    backend = create_worker_backend(stack.settings, Policy())

    async def put() -> None:
        await backend.connect()
        await backend.store_many([record(agent, created_at=first, extra={"covers_until": last.isoformat()})])
        await backend.disconnect()

    asyncio.run(put())
    assert "2026-05-01 to 2026-06-03" in memtend.ok("search", agent, "printer").out
    (found,) = memtend.ok("search", agent, "printer", "--json").value
    assert [datetime.fromisoformat(found[name]) for name in ("created_at", "covers_until")] == [first, last]


def test_storing_the_same_text_twice_is_one_memory(memtend: CommandLine) -> None:
    agent = new_agent()
    first = memtend.ok("store", agent, "said twice", "--json").value
    second = memtend.ok("store", f"  {agent} ", "said twice", "--json").value
    assert first["id"] == second["id"]
    assert len(memtend.ok("search", agent, "--json").value) == 1


def test_a_text_from_standard_input_is_kept_as_it_is(memtend: CommandLine) -> None:
    agent = new_agent()
    text = "  café, 日本\nsecond line\u2028third  "
    memtend.ok("store", agent, "-", stdin=text.encode())
    assert memtend.ok("search", agent, "--json").value[0]["text"] == text


def test_a_search_filters_by_category_namespace_tag_and_time(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("store", agent, "alpha", "--category", "semantic", "--namespace", "north", "--tag", "t")
    memtend.ok("store", agent, "beta", "--category", "social", "--namespace", "south")

    def texts(*options: str) -> set[str]:
        return {each["text"] for each in memtend.ok("search", agent, *options, "--json").value}

    assert texts("--category", "semantic") == {"alpha"}
    assert texts("--namespace", "south") == {"beta"}
    assert texts("--tag", "t") == {"alpha"}
    assert texts("--until", "2001-01-01T00:00:00Z") == set()
    assert texts("--since", "2001-01-01T00:00:00Z") == {"alpha", "beta"}
    assert len(texts("--limit", "1")) == 1


def test_an_agent_sees_nothing_of_another(memtend: CommandLine) -> None:
    mine, theirs = new_agent(), new_agent()
    memtend.ok("store", theirs, "a secret of theirs")
    assert memtend.ok("search", mine, "secret", "--json").value == []


def test_a_memory_that_another_replaced_ranks_behind_and_says_so_until_it_is_reinstated(memtend: CommandLine) -> None:
    agent = new_agent()
    old = memtend.ok("store", agent, "Ada lives in Oslo", "--json").value["id"]
    new = memtend.ok(
        "store", agent, "Bergen it is", "--supersedes", old, "--valid-from", "2026-01-01T00:00:00Z", "--json"
    ).value["id"]
    first, second = memtend.ok("search", agent, "where does Ada live?", "--json").value
    assert [first["id"], second["id"]] == [new, old]
    assert first["valid_from"].startswith("2026-01-01")
    assert second["superseded_by"] == new
    assert "[superseded" in memtend.ok("search", agent, "where does Ada live?").out
    then = second["created_at"]
    assert [each["id"] for each in memtend.ok("search", agent, "--as-of", then, "--json").value] == [old]
    assert memtend.ok("reinstate", agent, old, "--by", "ada", "--json").value == {"reinstated": old, "from": new}
    assert memtend("reinstate", agent, old).code == 2
    astray = memtend.ok("store", new_agent(), "Ada likes tea", "--supersedes", str(uuid.uuid4()), "--json").value
    assert astray["unknown_supersedes"] == 1
    third = memtend.ok("store", agent, "Ada lives in Rome", "--json").value["id"]
    (pair,) = memtend.ok("conflicts", agent, "--json").value
    assert (pair["older"]["id"], pair["newer"]["id"]) == (old, third)
    assert "Ada lives in Rome" in memtend.ok("conflicts", agent).out
    assert (pair["verdict"], pair["run_id"]) == (None, None)
    assert memtend.ok("both-hold", agent, old, third, "--by", "ada", "--json").value == {"holds": old, "beside": third}
    assert memtend.ok("conflicts", agent, "--json").value == []
    memtend.ok("supersede", agent, old, new, "--by", "ada")
    found = {each["id"]: each["superseded_by"] for each in memtend.ok("search", agent, "Ada lives", "--json").value}
    assert found == {old: new, new: None, third: None}
    lines = [line for line in memtend.ok("audit", "--actor", "ada", "--json").value if line["subject"] == old]
    kept = [(line["action"], line["reason"]) for line in lines]
    assert kept == [
        ("memory.supersede", f"by {new}"),
        ("memory.both_hold", f"with {third}"),
        ("memory.reinstate", f"from {new}"),
    ]


def test_a_store_that_another_template_filled_goes_on_with_it(stack: StackAddress) -> None:
    older = Policy.model_validate({"memory": {"storage": {"text_template": "[{date}] {speaker}: {content}"}}})
    settings, agent = stack.settings.model_copy(update={"company": new_agent("older")}), new_agent()

    async def search(policy: Policy, *texts: str) -> list[str]:
        backend = create_worker_backend(settings, policy)
        await backend.connect()
        await backend.store_many([record(agent, text) for text in texts])
        found = await backend.retrieve(agent, MemoryQuery(text="printer"))
        await backend.disconnect()
        return sorted(entry.content for entry in found)

    before, after = "the printer jams", "the printer is mended"
    assert asyncio.run(search(older, before)) == [before]
    assert asyncio.run(search(Policy(), after)) == sorted([before, after])
