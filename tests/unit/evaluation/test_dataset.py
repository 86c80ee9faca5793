"""What an evaluation's files may be, and what is said of one that breaks a limit."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memcore.errors import MemoryInputError
from memcore.evaluation.dataset import Format, read_dataset

MEMORY = {"agent_id": "ada", "id": "m1", "content": "The office closes at five."}
QUESTION = {"agent_id": "ada", "question": "When does the office close?", "finds": ["m1"]}


def written(folder: Path, *lines: object, name: str = "data.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_lines_are_memories_and_questions(tmp_path: Path) -> None:
    dated = {**MEMORY, "id": "m2", "category": "semantic", "created_at": "2026-05-01T10:00:00Z"}
    asked = {**QUESTION, "stale": ["m2"], "kind": "change", "asked_at": "2026-06-01T10:00:00Z"}
    found = read_dataset(written(tmp_path, MEMORY, asked, dated))
    assert [each.id for each in found.memories["ada"]] == ["m1", "m2"]
    (question,) = found.questions
    assert (question.finds, question.stale, question.kind) == (("m1",), ("m2",), "change")
    assert question.asked_at == datetime(2026, 6, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(("name", "between"), [("data.csv", ","), ("data.tsv", "\t")])
def test_a_table_has_the_same_columns(tmp_path: Path, name: str, between: str) -> None:
    rows = [
        ("agent_id", "id", "content", "question", "finds"),
        ("ada", "m1", "The office closes at five.", "", ""),
        ("ada", "m2", "It opens at nine.", "", ""),
        ("ada", "", "", "When is the office open?", "m1; m2"),
    ]
    path = tmp_path / name
    path.write_text("\n".join(between.join(row) for row in rows), encoding="utf-8-sig")
    found = read_dataset(path)
    assert [each.content for each in found.memories["ada"]] == ["The office closes at five.", "It opens at nine."]
    assert found.questions[0].finds == ("m1", "m2")


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ([MEMORY, {**QUESTION, "finds": ["m2"]}], "line 2: finds"),
        ([MEMORY, {**QUESTION, "stale": ["m2"]}], "line 2: stale"),
        ([MEMORY, {**QUESTION, "agent_id": "ben"}], "line 2: finds"),
        ([MEMORY, {**QUESTION, "question": " "}], "line 2: question"),
        ([MEMORY, {**QUESTION, "answers": ["m1"]}], "line 2: answers"),
        ([MEMORY, MEMORY, QUESTION], "id"),
        ([{**MEMORY, "id": None}, QUESTION], "line 1: id"),
        ([{**MEMORY, "content": ""}, QUESTION], "line 1: content"),
        ([{**MEMORY, "agent_id": "__shared__"}, QUESTION], "line 1: agent_id"),
        ([[], QUESTION], "line 1"),
        ([MEMORY], "file"),
        ([], "file"),
    ],
)
def test_what_breaks_a_limit_is_named_by_line_and_field(tmp_path: Path, lines: list[object], field: str) -> None:
    with pytest.raises(MemoryInputError) as raised:
        read_dataset(written(tmp_path, *lines))
    assert raised.value.field == field
    assert "office" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "form", "field"),
    [
        ("data.txt", "", None, "format"),
        ("data.jsonl", "{", None, "line 1: line"),
        ("data.csv", "agent_id,question\nada,Who?,more", None, "line 2: row"),
        ("data.json", "{}", "locomo", "file"),
        ("data.json", "[1]", "locomo", "file"),
        ("data.json", '[{"question_id": "q"}]', "longmemeval", "file"),
        ("data.json", "[", "longmemeval", "file"),
    ],
)
def test_a_file_of_another_format_is_refused(
    tmp_path: Path, name: str, text: str, form: Format | None, field: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MemoryInputError) as raised:
        read_dataset(path, form)
    assert raised.value.field == field


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for form in ("jsonl", "csv", "locomo", "longmemeval"):
        with pytest.raises(MemoryInputError, match="file"):
            read_dataset(tmp_path / "none", form)


def a_conversation() -> dict[str, Any]:
    """Return one in LoCoMo's form, in words of our own."""
    return {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I bought a kayak."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Look.", "blip_caption": "a red kayak"},
        ],
        "qa": [
            {"question": "What did Ada buy?", "answer": "a kayak", "evidence": ["D1:1"], "category": 4},
            {"question": "Which colour?", "answer": "red", "evidence": ["D1:01; D1:2"], "category": 1},
            {"question": "Who sold it?", "answer": "", "evidence": [], "category": 5},
        ],
    }


@pytest.mark.parametrize("shape", ["one", "list", "folder"])
def test_locomo_is_read_in_the_shapes_that_it_has(tmp_path: Path, shape: str) -> None:
    one = a_conversation()
    path = tmp_path / "conversation_1.json"
    published = [{"conversation": {key: value for key, value in one.items() if key != "qa"}, "qa": one["qa"]}]
    path.write_text(json.dumps(published if shape == "list" else one), encoding="utf-8")
    found = read_dataset(tmp_path if shape == "folder" else path, "locomo")
    (agent_id,) = found.memories
    assert agent_id == ("conversation_1_0" if shape == "list" else "conversation_1")
    first, second = found.memories[agent_id]
    assert (first.id, first.content) == ("D1:1", "[8 May, 2023] Ada: I bought a kayak.")
    assert second.content.endswith("Look. [shares a red kayak]")
    assert (first.session_id, first.created_at) == ("D1", datetime(2023, 5, 8, tzinfo=UTC))
    assert [(each.kind, each.finds) for each in found.questions] == [
        ("single-hop", ("D1:1",)),
        ("multi-hop", ("D1:1", "D1:2")),
    ]


def test_longmemeval_has_an_agent_for_each_question(tmp_path: Path) -> None:
    def asked(name: str, *, is_marked: bool) -> dict[str, Any]:
        kept = {"role": "user", "content": "I keep bees.", **({"has_answer": True} if is_marked else {})}
        return {
            "question_id": name,
            "question_type": "single-session-user",
            "question": "What do I keep?",
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_session_ids": ["s1", "s2"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
            "haystack_sessions": [
                [{"role": "user", "content": "Hello."}],
                [kept, {"role": "assistant", "content": "!"}],
            ],
            "answer_session_ids": ["s2"],
        }

    path = tmp_path / "data.json"
    every = [asked("a", is_marked=True), asked("b", is_marked=False), asked("c_abs", is_marked=True)]
    path.write_text(json.dumps(every), encoding="utf-8")
    found = read_dataset(path, "longmemeval")
    assert [*found.memories] == ["a", "b", "c_abs"]
    assert [each.finds for each in found.questions] == [("1:s2:0",), ("1:s2:0", "1:s2:1"), ()]
    assert found.questions[0].asked_at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert found.memories["a"][1].created_at == datetime(2023, 5, 21, 2, 21, tzinfo=UTC)
