"""What ``add`` of mem0's client keeps: texts as they are, and facts that a language model draws from messages."""

from typing import Any

import pytest
from support.http_api import http_api
from support.mem0_calls import kept, refused, texts
from support.running_stack import StackAddress

pytestmark = pytest.mark.slow(because="it starts a stack with a language model, and a server")


def test_add_keeps_texts_as_they_are_and_they_are_found_at_once(client: Any, agent: str) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "I drink green tea in the morning"},
        {"role": "assistant", "content": "Noted: tea in the morning", "name": "bot"},
    ]
    added = client.add(messages, user_id="mara", run_id="r1", metadata={"mood": "calm", "a key": [1]}, infer=False)

    assert [(one["memory"], one["event"], one["role"]) for one in added["results"]] == [
        ("I drink green tea in the morning", "ADD", "user"),
        ("Noted: tea in the morning", "ADD", "assistant"),
    ]
    (best, *_) = client.search("what does she drink", filters={"user_id": "mara"})["results"]
    assert best["memory"] == "I drink green tea in the morning"
    assert best["id"] == added["results"][0]["id"]
    assert 0 < best["score"] <= 1
    assert best["metadata"] == {"mood": "calm", "a key": [1]}
    assert (best["user_id"], best["agent_id"], best["run_id"]) == ("mara", agent, "r1")


def test_add_keeps_the_same_text_for_each_user_and_once_for_one(client: Any) -> None:
    ids = [kept(client, "I like jazz", user_id=user) for user in ("mara", "lena", "mara")]
    assert ids[0] == ids[2] != ids[1]
    assert [one["id"] for one in client.get_all(filters={"user_id": "lena"})["results"]] == [ids[1]]


def test_add_draws_facts_from_what_a_person_says_and_says_what_became_of_each(client: Any) -> None:
    (first,) = client.add("I live in Lisbon", user_id="nora")["results"]
    (moved,) = client.add("I live in Rome", user_id="nora", run_id="r1")["results"]
    (again,) = client.add("I live in Rome", user_id="nora")["results"]

    assert (first["event"], first["memory"]) == ("ADD", "User lives in Lisbon")
    assert (moved["event"], moved["memory"], moved["previous_memory"]) == (
        "UPDATE", "User lives in Rome", "User lives in Lisbon",
    )  # fmt: skip
    assert (again["event"], again["id"]) == ("NOOP", moved["id"])
    assert [row["event"] for row in client.history(first["id"])] == ["ADD", "UPDATE"]
    with refused("MemoryNotFoundError"):
        client.get(first["id"])


def test_facts_are_found_and_listed_with_the_memories_of_a_person(client: Any) -> None:
    (fact,) = client.add("I live in Lisbon", user_id="nora")["results"]
    kept(client, "Nora asked for a window seat", user_id="nora")

    listed = client.get_all(filters={"user_id": "nora"})
    assert texts(listed) == {"User lives in Lisbon", "Nora asked for a window seat"}
    assert listed["count"] == 2
    found = client.search("I live in which city", filters={"user_id": "nora"})["results"]
    assert fact["id"] in {one["id"] for one in found}
    assert client.get_all(filters={"user_id": "somebody else"})["results"] == []
    assert {(one["type"], one["name"]): one["total_memories"] for one in client.users()["results"]}["user", "nora"] == 2

    record = client.get(fact["id"])
    assert (record["user_id"], record["metadata"]["quotes"]) == ("nora", ["I live in Lisbon"])
    with refused("MemoryError", "a fact says what a person said"):
        client.update(fact["id"], text="no")
    with refused("MemoryError", "a fact says what a person said"):
        client.feedback(fact["id"], feedback="NEGATIVE")


def test_a_fact_is_deleted_by_its_id_and_with_its_person(client: Any) -> None:
    (fact,) = client.add("I live in Lisbon", user_id="nora")["results"]
    client.delete(fact["id"])
    assert client.get_all(filters={"user_id": "nora"})["count"] == 0
    assert [row["event"] for row in client.history(fact["id"])] == ["ADD", "DELETE"]

    client.add("I like jazz", user_id="lena")
    client.add("I like the blues", user_id="nora")
    client.delete_all(user_id="lena")
    assert texts(client.get_all(filters={"user_id": ["nora", "lena"]})) == {"User likes the blues"}


def test_add_without_a_person_or_with_metadata_keeps_the_text_itself(client: Any, agent: str) -> None:
    client.add("The payment queue pages at 500", agent_id=agent)
    client.add("I moved to Rome", user_id="mara", metadata={"from": "crm"})
    assert texts(client.get_all(filters={"agent_id": agent})) == {"The payment queue pages at 500", "I moved to Rome"}


def test_add_for_nobody_is_refused(client: Any) -> None:
    with refused("ValidationError", "user_id"):
        client.add("I like jazz", infer=False)


@pytest.mark.parametrize("option", ["timestamp", "custom_instructions", "structured_data_schema", "custom_categories"])
def test_add_refuses_options_that_have_no_effect_here(client: Any, option: str) -> None:
    with refused("MemoryError", f"{option} is not supported"):
        client.add("I like jazz", user_id="mara", infer=False, **{option: {"x": 1}})


async def test_without_a_language_model_the_text_itself_is_kept(stack: StackAddress, agent: str) -> None:
    async with http_api(stack.settings) as made, made.client(made.key(agents=[agent])) as http:
        body = {"messages": [{"role": "user", "content": "I live in Lisbon"}], "user_id": "nora"}
        added = (await http.post("/v3/memories/add/", json=body)).raise_for_status().json()
    assert [(one["memory"], one["event"]) for one in added["results"]] == [("I live in Lisbon", "ADD")]
