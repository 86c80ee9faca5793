"""Every system's files become memories: what is kept of each record, what is refused, and the report."""

import json
import pickle
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models
from support.fake_memory import FakeMemory
from support.repository import ROOT

from memcore.adapters.langgraph import MemtendStore
from memcore.client.envelopes import ImportRecord
from memcore.errors import MemoryInputError
from memcore.importers.importing import SOURCES, Import, ImportReport

FIXTURES = ROOT / "tests" / "fixtures" / "imports"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def brought_in(
    source: str, path: Path, *, agent: str | None = None
) -> tuple[list[ImportRecord], ImportReport, list[tuple[int, str]]]:
    refused: list[tuple[int, str]] = []
    with closing(
        Import(source=source, path=path, now=NOW, agent=agent, on_refused=lambda *each: refused.append(each))
    ) as work:
        records = list(work.records())
        return records, work.report, refused


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_mem0_memories_keep_their_times_sessions_and_metadata() -> None:
    records, report, refused = brought_in("mem0", FIXTURES / "mem0_get_all.json")
    first, second = records
    assert (first.agent_id, first.session_id, first.category) == ("oncall", "s-1", "semantic")
    assert first.created_at == utc("2025-02-03T16:15:00")
    assert first.metadata.tags == ("preferences",)
    assert first.attributes == {
        "user_id": "ada",
        "topic": "style",
        "seen_in": ["chat"],
    }
    assert (second.category, second.expires_at) == ("procedural", utc("2031-01-01T00:00:00"))
    assert second.key is None, "a key would keep it from being consolidated, and mem0's callers gave none"
    assert refused == [
        (3, "agent_id: is missing: name one with --agent"),
        (4, "content: must not be blank"),
        (5, "created_at: is not a time"),
    ]
    assert report == ImportReport(
        source="mem0",
        read=6,
        accepted=2,
        duplicates=1,
        refused={"agent_id": 1, "content": 1, "created_at": 1},
        oldest=utc("2025-02-03T16:15:00"),
        newest=utc("2025-03-01T10:00:00"),
        agents={"oncall": 2},
        agent_count=1,
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("mem0", "record: has none of memory, data, text: is it one of mem0's memories?"),
        ("letta", "record: has neither text nor content: is it one of letta's passages?"),
    ],
)
def test_a_record_of_something_else_is_refused_for_what_it_lacks(tmp_path: Path, source: str, said: str) -> None:
    file = tmp_path / "other.json"
    file.write_text('[{"name": "Ada", "city": "Lisbon"}]')
    assert brought_in(source, file)[2] == [(1, said)]


def test_an_agent_that_is_named_gets_all_memories() -> None:
    records, report, _ = brought_in("mem0", FIXTURES / "mem0_get_all.json", agent="helpdesk")
    assert {each.agent_id for each in records} == {"helpdesk"}
    assert report.agents == {"helpdesk": 3}


def test_dumped_points_of_mem0_are_read_and_a_broken_line_does_not_stop_them() -> None:
    records, report, refused = brought_in("mem0", FIXTURES / "mem0_points.jsonl")
    assert [each.content for each in records] == ["Deploys wait for the review.", "Rollbacks need two people."]
    assert records[0].attributes == {"team": "infra"}
    assert refused == [(2, "line: is not JSON")]
    assert report.refused == {"line": 1}


def test_a_local_qdrant_folder_of_mem0_is_read_as_mem0_wrote_it(tmp_path: Path) -> None:
    with closing(QdrantClient(path=str(tmp_path))) as client:
        client.create_collection("mem0", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
        payload = {"data": "Pages go to Grace.", "agent_id": "oncall", "created_at": "2025-01-01T00:00:00Z"}
        point = "0b9ed0a2-6a3a-4d2b-8f0c-8f4a3c1d2e01"
        client.upsert("mem0", [models.PointStruct(id=point, vector=[0.1, 0.9], payload=payload)])
    (record,), report, _ = brought_in("mem0", tmp_path)
    assert (record.agent_id, record.content) == ("oncall", "Pages go to Grace.")
    assert report.refused == {}


class Calls:
    """Unpickled as usual, it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (self.path,))


def test_a_pickled_point_runs_no_code_and_does_not_stop_the_others(tmp_path: Path) -> None:
    store, mark = tmp_path / "storage.sqlite", tmp_path / "mark"
    good = pickle.dumps(models.PointStruct(id=7, vector=[0.1], payload={"data": "Safe.", "agent_id": "a"}))
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        bad = [pickle.dumps(Calls(mark)), b"not a pickle", pickle.dumps(7), b"x" * 5_000_000]
        connection.executemany("INSERT INTO points VALUES (?, ?)", [*enumerate(bad), (9, good)])
    (record,), report, _ = brought_in("mem0", tmp_path)
    assert record.content == "Safe."
    assert report.refused == {"point": 4}
    assert not mark.exists()


def test_the_history_of_mem0_gives_each_memory_as_it_last_was(tmp_path: Path) -> None:
    events = [
        ("1", "m1", None, "Lives in Rome.", "ADD", "2025-01-01T00:00:00", None, 0),
        ("2", "m1", "Lives in Rome.", "Lives in Milan.", "UPDATE", "2025-01-01T00:00:00", "2025-02-01T00:00:00", 0),
        ("3", "m2", None, "Has a dog.", "ADD", "2025-01-02T00:00:00", None, 0),
        ("4", "m2", "Has a dog.", None, "DELETE", "2025-01-02T00:00:00", "2025-01-03T00:00:00", 1),
    ]
    file = tmp_path / "history.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,"
            " created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)"
        )
        connection.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, 'user')", events)
    (record,), _, _ = brought_in("mem0", file, agent="oncall")
    assert (record.content, record.created_at) == ("Lives in Milan.", utc("2025-01-01T00:00:00"))
    assert record.attributes == {"role": "user"}


def test_items_of_a_langgraph_store_keep_namespace_key_and_value() -> None:
    records, _, refused = brought_in("langgraph", FIXTURES / "langgraph_store.jsonl", agent="oncall")
    first, second = records
    assert (first.namespace, first.key) == ("langgraph.memories.ada", "m-1")
    assert first.attributes["value"] == {"text": "Ada drinks tea.", "kind": "taste"}
    assert "Ada drinks tea." in first.content
    assert first.created_at == utc("2025-04-01T09:30:00")
    assert second.attributes["value"] == {"count": 3, "topic": "alarms"}
    assert second.expires_at == utc("2032-01-01T00:00:00")
    assert refused == [(3, "value: must be an object"), (4, "key: must be a text")]


def test_a_graph_reads_its_items_through_memtends_store_and_an_import_again_changes_none() -> None:
    memory = FakeMemory()
    path = FIXTURES / "langgraph_store.jsonl"
    records, _, _ = brought_in("langgraph", path, agent="oncall")
    for record in records:
        kept = record.request().model_dump(exclude={"metadata", "content"}, exclude_defaults=True)
        memory.put("oncall", record.content, **kept)
    store = MemtendStore(memory, agent_id="oncall", clock=memory.clock)
    item = store.get(("memories", "ada"), "m-1")
    assert item is not None
    assert item.value == {"text": "Ada drinks tea.", "kind": "taste"}
    assert store.list_namespaces() == [("memories", "ada")]
    assert [each.key for each in store.search(("memories",), filter={"kind": "taste"})] == ["m-1"]
    assert brought_in("langgraph", path, agent="oncall")[0] == records


def test_a_langgraph_sqlite_file_gives_the_same_as_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    rows = [json.loads(line) for line in (FIXTURES / "langgraph_store.jsonl").read_text().splitlines()]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at, expires_at)")
        for row in rows:
            row["value"] = row["value"] if isinstance(row["value"], str) else json.dumps(row["value"])
            cells = [row.get(name) for name in ("prefix", "key", "value", "created_at", "updated_at", "expires_at")]
            connection.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?, ?)", cells)
    from_rows, _, _ = brought_in("langgraph", FIXTURES / "langgraph_store.jsonl", agent="a")
    from_table, report, _ = brought_in("langgraph", file, agent="a")
    assert from_table == from_rows
    assert report.refused == {"key": 1, "value": 1}


def test_a_letta_file_gives_blocks_to_each_agent_that_shares_them_and_only_what_was_said() -> None:
    records, report, refused = brought_in("letta", FIXTURES / "letta_agent.af")
    assert refused == []
    assert [(each.agent_id, each.key, each.category, each.content) for each in records] == [
        ("archivist", None, "episodic", "Where is the map of 1911?"),
        ("archivist", None, "episodic", "In drawer nine."),
        ("archivist", "persona", "semantic", "I am patient."),
        ("archivist", "rules", "semantic", "Never lend originals."),
        ("guide", "rules", "semantic", "Never lend originals."),
        ("guide", None, "semantic", "The tower closes at six."),
    ]
    assert records[2].metadata.tags == ("core",)
    assert (records[5].metadata.tags, records[5].attributes) == (("hours",), {"page": 4})
    assert (report.read, report.skipped) == (10, 4)


def test_a_letta_file_of_one_agent_in_the_older_form_is_read_too() -> None:
    records, _, _ = brought_in("letta", FIXTURES / "letta_single.af")
    assert [(each.agent_id, each.key, each.content) for each in records] == [
        ("sailor", "human", "Sails on Sundays."),
        ("sailor", None, "The wind turns at noon."),
    ]


def test_a_list_of_letta_passages_goes_to_the_agent_that_is_named(tmp_path: Path) -> None:
    document, each_line = tmp_path / "passages.json", tmp_path / "passages.jsonl"
    document.write_text(json.dumps([{"text": "The lift is slow."}, {"text": "The roof leaks."}]))
    each_line.write_text('{"text": "The lift is slow."}\n{"text": "The roof leaks."}\n')
    assert brought_in("letta", document, agent="a")[0] == brought_in("letta", each_line, agent="a")[0]
    assert brought_in("letta", document)[1].refused == {"agent_id": 2}


def test_facts_of_zep_hold_from_and_until_when_the_graph_says() -> None:
    records, report, refused = brought_in("zep", FIXTURES / "zep_graph.json", agent="oncall")
    turin, genoa, boat, episode = records
    assert (turin.valid_from, turin.valid_until) == (utc("2019-06-01T00:00:00"), utc("2024-12-01T00:00:00"))
    assert (genoa.valid_from, genoa.valid_until) == (utc("2024-12-01T00:00:00"), None)
    assert (boat.valid_from, boat.valid_until) == (None, utc("2025-01-12T00:00:00"))
    assert turin.attributes["certainty"] == 0.8
    assert (episode.category, episode.session_id, episode.created_at) == ("episodic", "t-1", utc("2025-01-10T23:59:00"))
    assert refused == [(4, "valid_at: is not a time")]
    assert (report.read, report.skipped) == (5, 0)


def test_a_node_of_zep_is_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text('[{"name": "Ada", "summary": "A person"}, {"weight": 1}]')
    records, report, _ = brought_in("zep", file, agent="a")
    assert (records, report.skipped, report.refused) == ([], 1, {"record": 1})


def test_a_refusal_names_no_text_of_a_user(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    bad = {"agent_id": "a", "category": "semantic", "content": "My password is tulip."}
    written = [
        {**bad, "my secret hobby": "chess"},
        {**bad, "metadata": {"tags": ["tulip\u0000"], "confidence": 7}},
        {**bad, "category": "tulip"},
        {**bad, "attributes": {"tulip": "x" * 10_000}},
        {**bad, "created_at": "tulip"},
    ]
    file.write_text("\n".join(map(json.dumps, written)))
    records, report, refused = brought_in("jsonl", file)
    assert records == []
    assert sum(report.refused.values()) == 5
    assert {"category", "attributes", "created_at", "another field"} <= report.refused.keys()
    said = f"{refused} {report}"
    assert "tulip" not in said
    assert "hobby" not in said


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_no_file_of_the_system_ends_with_one_sentence(source: str, tmp_path: Path) -> None:
    with pytest.raises(MemoryInputError, match="file: cannot be read"):
        brought_in(source, tmp_path / "none")
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE t (x)")
    try:
        records, report, _ = brought_in(source, other)
    except MemoryInputError as error:
        assert error.field == "file"  # noqa: PT017  # either is right, and neither is silent
    else:
        assert records == []
        assert report.refused


def test_an_import_of_many_records_holds_few_of_them(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    with file.open("w") as target:
        for number in range(20_000):
            line = {"agent_id": f"a{number % 50}", "category": "semantic", "content": f"Fact {number} " + "x" * 500}
            target.write(json.dumps(line) + "\n")
    with closing(Import(source="jsonl", path=file, now=NOW)) as work:
        assert sum(1 for _ in work.records()) == 20_000
        report = work.report
    assert (report.agent_count, len(report.agents), report.duplicates) == (50, 20, 0)
