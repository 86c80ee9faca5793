"""Files read in a stream: the same values as a whole read gives, in bounded pieces, and one problem where it breaks."""

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.errors import MemoryInputError
from memcore.importers import documents
from memcore.importers.documents import MAX_VALUE_BYTES, Found, Place, database, is_lines, lines, mapping_of, values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


class InPieces(io.BytesIO):
    """Gives a few bytes at a time, as a slow disk or a pipe does."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(3, size or 3))


def is_leaf_list_item(place: Place) -> bool:
    return len(place) == 2 and place[0] == "items"


@given(items=st.lists(JSON, max_size=5), before=JSON, after=JSON, indent=st.sampled_from([None, 1]))
def test_wanted_values_are_what_a_whole_read_gives(
    items: list[Any], before: Any, after: Any, indent: int | None
) -> None:
    text = json.dumps({"before": before, "items": items, "after": after}, indent=indent, ensure_ascii=False)
    found = list(values(InPieces(text.encode("utf-8", "replace")), is_leaf_list_item))
    whole = json.loads(text.encode("utf-8", "replace"))
    assert [each.value for each in found] == whole["items"]
    assert [each.place for each in found] == [("items", number) for number in range(len(items))]
    assert [each.number for each in found] == list(range(1, len(items) + 1))


@pytest.mark.parametrize(
    "text",
    [
        b'{"items": [1, 2',
        b'{"items": [1, 2}',
        b'{"items": [1, 2] "x": 1}',
        b'{"items": [1, 2, nope]}',
        b'{"items": [1, 2], "deep": ' + b"[" * 5_000,
    ],
)
def test_a_document_that_breaks_off_gives_what_stands_before_and_then_one_problem(text: bytes) -> None:
    found = list(values(io.BytesIO(text), is_leaf_list_item))
    assert [each.value for each in found if each.problem is None] == [1, 2]
    assert found[-1].problem is not None
    assert found[-1].problem.field == "file"


@pytest.mark.parametrize("text", [b"  ", b'{"items" [1, 2]}', b'{"items": [1, 2, \xff]}', b"{1: 2}"])
def test_what_is_no_document_is_one_problem(text: bytes) -> None:
    (found,) = values(io.BytesIO(text), is_leaf_list_item)
    assert found.problem is not None


def test_a_value_beyond_the_limit_ends_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_VALUE_BYTES", 100_000)
    file = io.BytesIO(b'{"items": ["' + b"x" * 500_000 + b'"]}')
    (found,) = values(file, is_leaf_list_item)
    assert str(found.problem) == "file: has a value of more than 100000 bytes"


def test_reading_a_large_document_holds_little_of_it() -> None:
    item = json.dumps({"memory": "x" * 1_000}).encode()
    file = io.BytesIO(
        b'{"skipped": [' + b", ".join([item] * 5_000) + b'], "items": [' + b", ".join([item] * 5_000) + b"]}"
    )
    tracemalloc.start()
    try:
        assert sum(1 for _ in values(file, is_leaf_list_item)) == 5_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000


def test_a_bad_line_is_a_problem_with_its_number_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_VALUE_BYTES", 50)
    text = b"\xef\xbb\xbf1\n\n{oops\n" + b'"' + b"x" * 200_000 + b'"\n\xff\n' + b"[" * 49 + b"\n2"
    found = list(lines(io.BytesIO(text)))
    assert [(each.number, each.value) for each in found if each.problem is None] == [(1, 1), (7, 2)]
    assert {each.number: str(each.problem) for each in found if each.problem} == {
        3: "line: is not JSON",
        4: "line: has more than 50 bytes",
        5: "line: is not JSON",
        6: "line: is not JSON",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"memory": "a"}\n{"memory": "b"}\n', True),
        ('\n{"memory": "a"}', True),
        ('{"results": [{"memory": "a"}]}', False),
        ('{\n"results": []}', False),
        ("[1]", False),
        ("", False),
        ('{"memory": "a", "categories": []}', True),
    ],
)
def test_lines_are_told_from_documents(tmp_path: Path, text: str, expected: bool) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    assert is_lines(file, {"results"}) is expected


def test_a_file_that_is_no_database_or_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    file.write_bytes(b"SQLite format 3\x00 and nothing")
    with pytest.raises(MemoryInputError, match=r"file: cannot be read as a SQLite database"), database(file) as opened:
        documents.tables(opened)
    with pytest.raises(MemoryInputError, match=r"file: cannot be read \(No such file or directory\)"):
        documents.is_sqlite(tmp_path / "none")


def test_an_object_may_stand_as_text() -> None:
    assert mapping_of('{"a": 1}') == {"a": 1} == mapping_of({"a": 1})
    assert [dict(mapping_of(each)) for each in ("{", "[1]", None, 7)] == [{}] * 4


def test_the_limit_holds_any_memory_with_a_vector_beside_it() -> None:
    assert MAX_VALUE_BYTES > 65_536 * 6 + 8_192 * 24
    assert Found(number=1).problem is None
