"""mem0's words for memtend's, and back: pure functions."""

import hashlib
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import ValidationError
from support import kept_conversations

from memcore.errors import MemoryCapabilityError, MemoryInputError
from memcore.models.conversation import Fact, FactCategory, FactState, Owner
from memcore.models.memory import LATEST, MemoryCategory, MemoryEntry, MemoryMetadata, MemoryStoreRequest
from memcore.models.memory_changes import Event, MemoryVersion
from ops.http.mem0.models import (
    AddBody,
    BatchDeleteBody,
    BatchUpdateBody,
    FeedbackBody,
    Identified,
    SearchBody,
    UpdateBody,
)
from ops.http.mem0.translation import (
    Identity,
    attributes_of,
    chosen,
    entities_of,
    expiry_of,
    history_of_entry,
    history_of_fact,
    metadata_of,
    new_memories,
    record_of_entry,
    record_of_fact,
)

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


def entry(**fields: Any) -> MemoryEntry:
    given: dict[str, Any] = {
        "id": "m1",
        "agent_id": "coach",
        "content": "Lena plays the cello",
        "category": MemoryCategory.SEMANTIC,
        "created_at": START,
        **fields,
    }
    return MemoryEntry.model_validate(given)


def body(**fields: Any) -> AddBody:
    given = {"messages": [{"role": "user", "content": "I play the cello"}], **fields}
    return AddBody.model_validate(given)


@pytest.mark.parametrize(
    ("identity", "namespace"),
    [
        (Identity(user_id="lena"), "user:lena"),
        (Identity(user_id="lena", run_id="r1"), "user:lena"),
        (Identity(run_id="r1"), "session:r1"),
        (Identity(agent_id="coach"), "default"),
        (Identity(app_id="app"), "default"),
    ],
)
def test_a_user_is_a_namespace_so_that_nothing_merges_what_two_said(identity: Identity, namespace: str) -> None:
    assert identity.namespace == namespace


def test_each_message_with_a_text_is_a_memory() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "assistant", "content": "Hello", "name": "bot"},
        {"role": "user", "content": ""},
        {"role": "tool", "content": "42"},
    ]
    first, second = new_memories(body(messages=messages, user_id="lena", run_id="r1", metadata={"mood": "calm"}))

    assert (first.content, second.content) == ("Hi", "Hello")
    assert first.fields["namespace"] == "user:lena"
    assert first.fields["session_id"] == "r1"
    assert first.fields["attributes"] == {"mood": "calm", "mem0": {"user_id": "lena", "run_id": "r1", "role": "user"}}
    assert second.fields["attributes"]["mem0"] == {
        "user_id": "lena", "run_id": "r1", "role": "assistant", "actor_id": "bot",
    }  # fmt: skip


def test_the_same_text_with_other_metadata_or_in_another_run_is_a_memory_of_its_own() -> None:
    def holding(**more: Any) -> tuple[str, ...]:
        attributes = new_memories(body(user_id="lena", **more))[0].fields["attributes"]
        return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="x", attributes=attributes).holding

    different: list[dict[str, Any]] = [{}, {"run_id": "r1"}, {"metadata": {"a": 1}}, {"metadata": {"a": 2}}]
    assert len({holding(**more) for more in different}) == 4
    assert holding(metadata={"b": 1, "a": 1}) == holding(metadata={"a": 1, "b": 1})


def test_messages_without_any_text_are_refused() -> None:
    with pytest.raises(MemoryInputError, match="messages"):
        new_memories(body(messages=[{"role": "system", "content": "Be brief."}], user_id="lena"))


def test_metadata_is_attributes_whatever_its_names() -> None:
    metadata = {"mood": "calm", "a key": {"x": [1]}, "mem0": "mine", "": 0}
    attributes = attributes_of(metadata, {"user_id": "lena"})

    assert attributes["mood"] == "calm"
    assert attributes["mem0"]["user_id"] == "lena"
    assert set(attributes) == {"mood", "mem0"}
    assert metadata_of(attributes) == metadata


def test_a_day_of_expiry_is_the_last_one_on_which_a_memory_is_found() -> None:
    expires = expiry_of(date(2026, 5, 1))
    assert expires == datetime(2026, 5, 2, tzinfo=UTC)
    assert record_of_entry(entry(expires_at=expires))["expiration_date"] == "2026-05-01"
    assert record_of_entry(entry(expires_at=datetime(2026, 5, 1, 13, tzinfo=UTC)))["expiration_date"] == "2026-05-01"
    assert expiry_of(date(8999, 12, 31)) == LATEST
    for never in (date(9000, 1, 1), date.max):
        with pytest.raises(MemoryInputError, match="expiration_date: must lie before the year 9000"):
            expiry_of(never)


def test_a_memory_in_mem0s_form() -> None:
    record = record_of_entry(
        entry(
            namespace="user:lena",
            attributes={"mood": "calm", "mem0": {"user_id": "lena", "run_id": "r1", "role": "user"}},
            metadata=MemoryMetadata(tags=("music",)),
        )
    )
    assert record == {
        "id": "m1",
        "memory": "Lena plays the cello",
        "hash": hashlib.md5(b"Lena plays the cello", usedforsecurity=False).hexdigest(),
        "user_id": "lena",
        "agent_id": "coach",
        "app_id": None,
        "run_id": "r1",
        "actor_id": None,
        "role": "user",
        "metadata": {"mood": "calm"},
        "categories": ["semantic", "music"],
        "expiration_date": None,
        "created_at": "2026-05-01T12:00:00+00:00",
        "updated_at": "2026-05-01T12:00:00+00:00",
    }


def test_whose_a_memory_of_another_door_is_stands_in_its_namespace_and_session() -> None:
    assert record_of_entry(entry(namespace="user:lena", session_id="s1"))["user_id"] == "lena"
    assert record_of_entry(entry(session_id="s1"))["run_id"] == "s1"
    assert record_of_entry(entry(namespace="session:s2"))["run_id"] == "s2"
    plain = record_of_entry(entry())
    assert (plain["user_id"], plain["run_id"], plain["metadata"]) == (None, None, None)


def fact(**fields: Any) -> Fact:
    made = kept_conversations.fact(
        "f1",
        "I play the cello",
        at=START,
        object="the cello",
        predicate="PLAYS",
        category=FactCategory.INTEREST,
        session_id="r1",
    )
    return made.model_copy(update=fields)


LENA = Owner(agent_id="coach", subject="user:lena")


def test_a_fact_in_mem0s_form() -> None:
    record = record_of_fact(LENA, fact())
    assert (record["id"], record["memory"], record["user_id"], record["agent_id"]) == (
        "f1", "User plays the cello", "lena", "coach",
    )  # fmt: skip
    assert (record["run_id"], record["categories"]) == ("r1", ["interest"])
    assert record["metadata"] == {"kind": "fact", "quotes": ["I play the cello"]}
    # The session of a day is memtend's own name.
    assert record_of_fact(LENA, fact(session_id="day-2026-05-01"))["run_id"] is None


def test_a_rule_in_mem0s_form() -> None:
    rule = kept_conversations.rule("p1", "Answer briefly.", at=START)
    record = record_of_fact(Owner(agent_id="coach", subject="session:s"), rule)
    assert (record["id"], record["memory"], record["user_id"], record["run_id"]) == (
        "p1", "Answer briefly.", None, "s",
    )  # fmt: skip


def test_the_history_of_a_memory() -> None:
    lived: list[tuple[Event, str, str]] = [("ADD", "m1", "a"), ("UPDATE", "m2", "b"), ("DELETE", "m2", "b")]
    versions = [MemoryVersion(event=event, memory_id=key, content=text, at=START) for event, key, text in lived]
    rows = history_of_entry("m1", versions, identity={"user_id": "lena"})
    assert [(row["event"], row["old_memory"], row["new_memory"], row["is_deleted"]) for row in rows] == [
        ("ADD", None, "a", False),
        ("UPDATE", "a", "b", False),
        ("DELETE", "b", None, True),
    ]
    assert {row["memory_id"] for row in rows} == {"m1"}
    assert len({row["id"] for row in rows}) == 3


def test_the_history_of_a_fact() -> None:
    def events(kept: Fact, after: Fact | None = None) -> list[tuple[str, str | None, str | None]]:
        return [(row["event"], row["old_memory"], row["new_memory"]) for row in history_of_fact(LENA, kept, after)]

    said = "User plays the cello"
    assert events(fact()) == [("ADD", None, said)]
    assert events(fact(state=FactState.FORGOTTEN))[1:] == [("DELETE", said, None)]
    after = fact(fact_id="f2", object="the viola")
    assert events(fact(state=FactState.SUPERSEDED, superseded_by="f2"), after)[1:] == [
        ("UPDATE", said, "User plays the viola")
    ]


def test_entities_are_counted() -> None:
    records = [
        record_of_entry(entry(namespace="user:lena")),
        record_of_entry(entry(namespace="user:lena", session_id="r1")),
        record_of_entry(entry()),
    ]
    counted = {(one["type"], one["name"]): one["total_memories"] for one in entities_of(records)}
    assert counted == {("user", "lena"): 2, ("agent", "coach"): 3, ("run", "r1"): 1}


def test_a_caller_gets_the_fields_that_it_wants() -> None:
    assert chosen({"id": "1", "memory": "a", "hash": "b"}, ["memory"]) == {"id": "1", "memory": "a"}


def test_options_without_effect_here_pass_and_those_with_one_are_refused() -> None:
    assert body(async_mode=True, version="v2", output_format="v1.1", enable_graph=False, timestamp=None).infer
    for option in ({"timestamp": 1}, {"custom_instructions": "x"}, {"enable_graph": True}, {"prompt": "x"}):
        with pytest.raises(MemoryCapabilityError, match=f"{min(option)} is not supported"):
            body(**option)
    with pytest.raises(ValidationError, match="colour"):
        body(colour="red")


def test_whose_memory_it_is_may_stand_in_the_filters_of_add() -> None:
    assert body(filters={"user_id": "lena"}).user_id == "lena"
    assert body(filters={"user_id": "lena"}, user_id="mara").user_id == "mara"
    with pytest.raises(MemoryInputError, match=r"filters\.mood"):
        body(filters={"mood": "calm"})


@pytest.mark.parametrize("messages", ["I play", {"role": "user", "content": "I play"}])
def test_a_text_or_one_message_is_a_list_of_one(messages: Any) -> None:
    assert [said.text for said in body(messages=messages).messages] == ["I play"]


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (AddBody, {"messages": []}),
        (AddBody, {"messages": [{"content": "no role"}]}),
        (AddBody, {"messages": "x", "user_id": " "}),
        (AddBody, {"messages": "x", "user_id": "a\nb"}),
        (AddBody, {"messages": "x", "user_id": "u" * 249}),
        (AddBody, {"messages": "x", "expiration_date": "soon"}),
        (SearchBody, {"query": "  "}),
        (SearchBody, {"query": "x", "top_k": 0}),
        (SearchBody, {"query": "x", "threshold": 2}),
        (UpdateBody, {}),
        (BatchUpdateBody, {"memories": [{"text": "no id"}]}),
        (FeedbackBody, {"memory_id": "m", "feedback": "GREAT"}),
        (FeedbackBody, {"memory_id": "\ud800"}),
        (FeedbackBody, {"memory_id": "m\0"}),
        (BatchDeleteBody, {"memories": [{"memory_id": "\0"}]}),
        (Identified, {"filters": "x"}),
    ],
)
def test_bodies_that_break_a_limit_are_refused(model: Any, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(given)


@pytest.mark.parametrize("name", ["..", ".", "a/../lena", "team/./ada"])
@pytest.mark.parametrize("field", ["user_id", "agent_id", "app_id", "run_id"])
def test_nothing_is_kept_for_a_name_whose_path_would_name_another(field: str, name: str) -> None:
    with pytest.raises(ValidationError, match=r"must not be '\.' or '\.\.'"):
        AddBody.model_validate({"messages": "hello", field: name})
    assert AddBody.model_validate({"messages": "hello", field: "team/ada..v2"})


def test_the_new_text_stands_under_any_of_mem0s_names() -> None:
    for name in ("text", "data", "memory"):
        assert UpdateBody.model_validate({name: "new"}).content == "new"
    assert FeedbackBody.model_validate({"memory_id": "m", "feedback": "very_negative"}).feedback == "VERY_NEGATIVE"
