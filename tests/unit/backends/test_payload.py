"""The codec between records and payloads loses nothing and repairs by one rule."""

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.memories import DAWN, record

from memcore.backends.mem0.points import Key, decode, encode
from memcore.models.memory import EARLIEST, LATEST, MemoryCategory, MemoryEntry, MemoryMetadata
from memcore.records import Lineage, MemoryRecord

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(lambda text: text.strip())
KEYS = TEXTS.map(str.strip)
WESTERN = timezone(timedelta(hours=-7, minutes=-30))
TIMES = st.builds(
    lambda at, zone: at.replace(tzinfo=UTC).astimezone(zone),
    st.datetimes(datetime(1971, 1, 1), datetime(2099, 1, 1)),  # noqa: DTZ001  # the strategy wants them without a zone
    st.sampled_from([UTC, WESTERN]),
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def any_records(draw: st.DrawFn) -> MemoryRecord:
    created_at = draw(TIMES)
    later = st.none() | st.timedeltas(timedelta(0), timedelta(days=9_000)).map(lambda gap: created_at + gap)
    entry = MemoryEntry(
        id="11111111-1111-1111-1111-111111111111",
        agent_id=draw(KEYS),
        namespace=draw(KEYS),
        category=draw(st.sampled_from(MemoryCategory)),
        content=draw(TEXTS),
        metadata=MemoryMetadata(
            source=draw(st.none() | KEYS),
            confidence=draw(st.floats(0, 1)),
            tags=tuple(draw(st.lists(KEYS, max_size=4))),
        ),
        created_at=created_at,
        updated_at=draw(later),
        expires_at=draw(later),
    )
    lineage = Lineage(
        session_id=draw(st.none() | KEYS),
        project_id=draw(st.none() | KEYS),
        task_id=draw(st.none() | KEYS),
        summary_of=tuple(draw(st.lists(KEYS, max_size=3))),
        depth=draw(st.integers(0, 5)),
    )
    extra = draw(st.dictionaries(TEXTS.filter(lambda key: key not in set(Key)), JSON_VALUES, max_size=3))
    return MemoryRecord(entry=entry, lineage=lineage, extra=extra)


# A busy machine is no fault of the codec: how long examples take is not judged.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_records())
def test_a_record_survives_its_payload_and_json(made: MemoryRecord) -> None:
    payload = encode(made)
    carried = json.loads(json.dumps(payload))

    again = decode(made.entry.id, carried)

    assert again == made
    assert encode(again) == payload


def test_mem0_finds_its_own_keys() -> None:
    made = record("ann", "tea at four")
    payload = encode(made)
    assert payload["data"] == "tea at four"
    assert payload["hash"] == hashlib.md5(b"tea at four", usedforsecurity=False).hexdigest()
    assert payload["user_id"] == payload["agent_id"] == "ann"
    assert payload["created_at"] == DAWN.isoformat()
    assert payload["created_ts"] == payload["updated_ts"] == DAWN.timestamp()


def test_no_outsider_key_passes_for_one_of_ours() -> None:
    made = record("ann", extra={"claim": "a token", "agent_id": "bob", "expires_ts": 0.0, "mood": "calm"})
    payload = encode(made)
    assert "claim" not in payload
    assert "expires_ts" not in payload
    assert payload["agent_id"] == "ann"
    assert payload["mood"] == "calm"


def test_a_user_of_mem0s_own_is_kept() -> None:
    outsider = {"data": "x", "agent_id": "ann", "user_id": "ulf", "created_at": DAWN.isoformat()}
    assert encode(decode("1", outsider))["user_id"] == "ulf"


@pytest.mark.parametrize(
    ("given_confidence", "read"), [(0.25, 0.25), (1, 1.0), ("high", 0.5), (7.0, 0.5), (float("nan"), 0.5), (None, 0.5)]
)
def test_weak_two_repair_rules_a_strange_payload_is_repaired_by_one_rule(given_confidence: Any, read: float) -> None:
    outsider = {
        "data": "x", "agent_id": "ann", "created_at": "2026-01-02T03:04:05", "confidence": given_confidence,
    }  # fmt: skip
    entry = decode("1", outsider).entry
    assert entry.category is MemoryCategory.SEMANTIC
    assert entry.namespace == "default"
    assert entry.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert entry.metadata.confidence == read
    assert (
        decode("1", {key: outsider[key] for key in ("data", "agent_id", "created_at")}).entry.metadata.confidence == 1
    )


@pytest.mark.parametrize("missing", ["data", "agent_id", "created_at"])
def test_what_lacks_text_owner_or_time_is_no_memory(missing: str) -> None:
    payload = {"data": "x", "agent_id": "ann", "created_at": DAWN.isoformat()}
    del payload[missing]
    with pytest.raises(ValueError, match="payload lacks"):
        decode("1", payload)


def test_a_date_that_an_older_release_or_stock_mem0_took_is_read_within_the_range() -> None:
    payload = encode(record("tea")) | {
        Key.CREATED_AT.value: "0001-01-01T00:00:00+14:00",
        Key.EXPIRES_AT.value: "9999-12-31T23:59:59-12:00",
    }
    entry = decode("11111111-1111-1111-1111-111111111111", payload).entry
    assert (entry.created_at, entry.expires_at) == (EARLIEST, LATEST)
