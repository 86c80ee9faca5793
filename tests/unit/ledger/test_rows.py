"""The codec: whatever goes in comes out, bit by bit."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledger_records import make_record, same_record
from support.present import present

from memcore.embedding.bm25 import SparseVector
from memcore.errors import MemoryInputError, MemoryRetrievalError
from memcore.ledger.rows import decode, encode
from memcore.models.memory import EARLIEST, LATEST, MemoryCategory, MemoryEntry, MemoryMetadata
from memcore.records import Lineage, MemoryRecord, Vectors

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda value: bool(value.strip()))
key = text.map(str.strip)
times = st.datetimes(
    min_value=datetime(1970, 1, 1),  # noqa: DTZ001  # hypothesis adds the zone
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001  # hypothesis adds the zone
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))]),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
sparse_vectors = st.dictionaries(
    st.integers(0, 2**32 - 1), st.floats(min_value=0, exclude_min=True, allow_infinity=False), max_size=6
).map(lambda terms: SparseVector(indices=tuple(sorted(terms)), values=tuple(terms[index] for index in sorted(terms))))
vectors = st.builds(
    Vectors,
    dense=st.lists(st.floats(width=32), max_size=8).map(lambda values: np.array(values, dtype=np.float32)),
    sparse=st.none() | sparse_vectors,
)
entries = st.builds(
    MemoryEntry,
    id=key,
    agent_id=key,
    namespace=key,
    category=st.sampled_from(MemoryCategory),
    content=text,
    metadata=st.builds(
        MemoryMetadata,
        source=st.none() | key.filter(lambda value: len(value) <= 256),
        confidence=st.floats(0, 1),
        tags=st.lists(key, max_size=3).map(tuple),
    ),
    created_at=times,
    updated_at=st.none(),
    expires_at=st.none() | st.just(datetime(2300, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)),
    relevance_score=st.none() | st.floats(0, 1),
)
lineages = st.builds(
    Lineage,
    session_id=st.none() | st.text(),
    project_id=st.none() | st.text(),
    task_id=st.none() | st.text(),
    summary_of=st.lists(st.text(), max_size=3).map(tuple),
    depth=st.integers(0, 99),
)
records = st.builds(
    MemoryRecord,
    entry=entries,
    lineage=lineages,
    vectors=st.none() | vectors,
    extra=st.dictionaries(st.text(), json_values, max_size=3),
)


@given(records)
def test_a_record_comes_back_to_the_last_bit(record: MemoryRecord) -> None:
    assert same_record(decode(encode(record)), record)


def test_the_bits_of_odd_numbers_survive() -> None:
    dense = np.array([np.nan, -0.0, np.inf, np.finfo(np.float32).tiny / 2], dtype=np.float32)
    # Another NaN than numpy's own: its payload bits must come back too.
    dense.view(np.uint32)[0] = 0x7FC0_BEEF
    record = replace(make_record("m"), vectors=Vectors(dense=dense), extra={"nan": math.nan, "huge": 10**40})
    back = decode(encode(record))
    assert present(back.vectors).dense.tobytes() == dense.tobytes()
    assert math.isnan(back.extra["nan"])
    assert back.extra["huge"] == 10**40


def test_vectors_are_little_endian_on_every_machine() -> None:
    sparse = SparseVector(indices=(1,), values=(0.5,))
    vectors_of_one = Vectors(dense=np.array([1.0], dtype=np.float32), sparse=sparse)
    row = encode(replace(make_record("m"), vectors=vectors_of_one))
    assert row.dense == b"\x00\x00\x80\x3f"
    assert row.sparse_indices == b"\x01\x00\x00\x00"
    assert row.sparse_values == b"\x00\x00\x00\x00\x00\x00\xe0\x3f"
    assert row.body.isascii()


def test_an_empty_sparse_vector_is_not_a_missing_one() -> None:
    for sparse in (None, SparseVector()):
        record = replace(make_record("m"), vectors=Vectors(dense=np.zeros(2, dtype=np.float32), sparse=sparse))
        back = decode(encode(record))
        assert present(back.vectors).sparse == sparse


@pytest.mark.parametrize("dense", [np.zeros(3, dtype=np.float64), np.zeros((1, 3), dtype=np.float32)])
def test_a_vector_that_would_come_back_changed_is_refused(dense: np.ndarray) -> None:
    with pytest.raises(MemoryInputError, match=r"vectors\.dense"):
        encode(replace(make_record("m"), vectors=Vectors(dense=dense)))


def test_an_extra_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(MemoryInputError, match="extra"):
        encode(replace(make_record("m"), extra={"when": datetime(2026, 1, 1, tzinfo=UTC)}))


def test_a_row_of_a_newer_release_is_not_guessed_at() -> None:
    row = encode(make_record("m"))
    with pytest.raises(MemoryRetrievalError, match="form 2"):
        decode(row._replace(body=row.body.replace(b'"version":1', b'"version":2')))


def test_a_date_that_an_older_release_took_is_read_within_the_range() -> None:
    row = encode(make_record("a"))
    body = json.loads(row.body)
    body["entry"] |= {"created_at": "0001-01-01T00:00:00Z", "expires_at": "9999-12-31T23:59:59Z"}
    entry = decode(row._replace(body=json.dumps(body).encode())).entry
    assert (entry.created_at, entry.expires_at) == (EARLIEST, LATEST)
