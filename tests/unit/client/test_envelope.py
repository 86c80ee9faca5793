import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW
from support.store_items import item

from memcore.client.envelopes import ImportRecord, Scope, build_payload, store_jobs
from memcore.errors import MemoryInputError
from memcore.jobs import MAX_PAYLOAD_BYTES, MAX_STORE_ITEMS, VERSION, Queue, StorePayload, is_newer
from memcore.models.memory import MAX_CONTENT_BYTES, MAX_KEY_CHARS, MAX_TAGS, MemoryCategory, MemoryStoreRequest


def test_one_text_of_one_agent_has_one_id_whenever_it_is_sent() -> None:
    assert item("x").id == item("x", sent_at=NOW + timedelta(days=3)).id
    assert len({item("x").id, item("y").id, item("x", agent_id="bob").id, item("x", company="other").id}) == 4


def test_white_space_around_an_agents_id_makes_no_second_agent() -> None:
    padded = item("x", agent_id="  ada\n")
    assert padded.agent_id == "ada"
    assert padded.id == item("x").id


def test_the_envelope_tells_when_it_was_sent_and_when_the_memory_was_made() -> None:
    made = NOW - timedelta(days=100)
    assert item().created_at == item().sent_at == NOW
    assert (item(created_at=made).created_at, item(created_at=made).sent_at) == (made, NOW)


def test_the_scope_travels_with_the_memory() -> None:
    request = MemoryStoreRequest(category=MemoryCategory.WORKING, content="x")
    scope = Scope(session_id="s", project_id="p", task_id="t")
    payload_built = build_payload("ada", request, company="acme", sent_at=NOW, scope=scope)
    assert (payload_built.session_id, payload_built.project_id, payload_built.task_id) == ("s", "p", "t")


@pytest.mark.parametrize("agent_id", ["", " ", "a" * (MAX_KEY_CHARS + 1), "a\0b", "a\ud800"])
def test_an_agent_id_that_breaks_a_limit_is_refused_by_name(agent_id: str) -> None:
    with pytest.raises(MemoryInputError, match=r"^agent_id: "):
        item(agent_id=agent_id)


def test_a_memory_that_expires_before_it_was_made_is_refused_by_name() -> None:
    with pytest.raises(MemoryInputError, match=r"^expires_at: lies before created_at$"):
        item(expires_in=timedelta(seconds=-1))


def test_an_error_never_quotes_the_memory() -> None:
    with pytest.raises(MemoryInputError) as raised:
        item("xylophone", agent_id=" ")
    assert "xylophone" not in str(raised.value)


def test_items_are_cut_at_the_count() -> None:
    items = [item(str(number)) for number in range(2 * MAX_STORE_ITEMS + 1)]
    counts = [job.summary for job in store_jobs("acme", items, queue=Queue.STORE)]
    assert counts == [f"{MAX_STORE_ITEMS} memories", f"{MAX_STORE_ITEMS} memories", "1 memories"]


def test_no_items_make_no_job() -> None:
    assert list(store_jobs("acme", [], queue=Queue.STORE)) == []


def test_the_largest_memory_fits_whatever_it_is_made_of() -> None:
    tags = tuple(f"{number}".ljust(MAX_KEY_CHARS, "\U0001f9e0") for number in range(MAX_TAGS))
    heavy = item("\x01" * (MAX_CONTENT_BYTES - 1) + "a", tags=tags)
    (job,) = store_jobs("c" * MAX_KEY_CHARS, [heavy], queue=Queue.STORE)
    assert len(job.payload.encode()) <= MAX_PAYLOAD_BYTES


def test_tags_count_towards_the_limit_on_bytes() -> None:
    tags = tuple(f"{number}".ljust(MAX_KEY_CHARS, "é") for number in range(MAX_TAGS))
    for job in store_jobs("acme", [item(str(number), tags=tags) for number in range(100)], queue=Queue.STORE):
        assert len(job.payload.encode()) <= MAX_PAYLOAD_BYTES


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40).filter(str.strip),
            st.integers(1, 400),
        ),
        max_size=60,
    )
)
def test_every_item_travels_once_in_order_within_the_limits(texts: list[tuple[str, int]]) -> None:
    items = [item(text * times) for text, times in texts]
    jobs = list(store_jobs('a "company"', items, queue=Queue.STORE))
    payloads = [StorePayload.model_validate_json(job.payload) for job in jobs]
    assert [each for payload in payloads for each in payload.items] == items
    assert [f"{len(payload.items)} memories" for payload in payloads] == [job.summary for job in jobs]
    for job, payload in zip(jobs, payloads, strict=True):
        assert len(payload.items) <= MAX_STORE_ITEMS
        assert len(job.payload.encode()) <= MAX_PAYLOAD_BYTES
        assert payload.company == 'a "company"'


def test_a_newer_payload_is_told_from_a_broken_one() -> None:
    (job,) = store_jobs("acme", [item()], queue=Queue.STORE)
    assert not is_newer(job.payload)
    assert is_newer(json.dumps({**json.loads(job.payload), "version": VERSION + 1, "mood": "new field"}))
    for broken in ("", "[]", "{", '{"version": "two"}', '{"version": 1}', "{}"):
        assert not is_newer(broken)


def test_an_import_record_without_a_date_is_dated_now() -> None:
    record = ImportRecord(agent_id="ada", category=MemoryCategory.SEMANTIC, content="x")
    assert record.dated(NOW).created_at == NOW
    old = record.model_copy(update={"created_at": NOW - timedelta(days=9)})
    assert old.dated(NOW) is old


def test_an_import_record_that_has_expired_before_it_was_made_is_refused() -> None:
    record = ImportRecord(
        agent_id="ada", category=MemoryCategory.SEMANTIC, content="x", expires_at=NOW - timedelta(days=1)
    )
    with pytest.raises(MemoryInputError, match=r"^expires_at: "):
        record.dated(NOW)
    assert record.model_copy(update={"created_at": NOW - timedelta(days=2)}).dated(NOW)
