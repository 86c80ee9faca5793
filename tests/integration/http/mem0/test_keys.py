"""What a key of memtend's lets mem0's clients see and change, and the paths of mem0's own server."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.mem0_calls import kept, refused, texts
from support.serve_process import ServeProcess

from memcore.ledger.access.keys import Verb

pytestmark = pytest.mark.slow(because="it starts a stack with a language model, and a server")


def test_a_key_for_several_agents_writes_to_the_agent_that_is_named_and_else_to_mem0(
    sdk: Any, server: ServeProcess, key: Callable[..., str], agent: str
) -> None:
    client = sdk.MemoryClient(api_key=key(), host=server.url)
    user = f"mara-{agent}"
    named = kept(client, "I like jazz", user_id=user, agent_id=agent)
    other = kept(client, "I like the blues", user_id=user)

    assert client.get(named)["agent_id"] == agent
    assert client.get(other)["agent_id"] == "mem0"
    assert texts(client.get_all(filters={"user_id": user})) == {"I like the blues"}
    assert texts(client.get_all(filters={"agent_id": [agent, "mem0"], "AND": [{"user_id": user}]})) == {
        "I like jazz", "I like the blues",
    }  # fmt: skip
    assert texts(client.search("jazz", filters={"AND": [{"user_id": user}, {"agent_id": agent}]})) == {"I like jazz"}
    client.client.close()


def test_a_key_sees_and_changes_nothing_of_other_agents(
    sdk: Any, server: ServeProcess, key: Callable[..., str], client: Any, agent: str
) -> None:
    memory_id = kept(client, "the vault's code is 4711", user_id="mara")
    other = sdk.MemoryClient(api_key=key(agents=[f"not-{agent}"]), host=server.url)

    calls: list[Callable[[str], Any]] = [other.get, other.delete, other.history]
    calls.append(lambda each: other.update(each, text="open"))
    for call in calls:
        with refused("MemoryNotFoundError"):
            call(memory_id)
    for filters in ({"agent_id": agent}, {"OR": [{"agent_id": agent}, {"user_id": "mara"}]}):
        with refused("AuthenticationError"):
            other.search("vault", filters=filters)
        with refused("AuthenticationError"):
            other.get_all(filters=filters)
    with refused("AuthenticationError"):
        other.add("x", agent_id=agent, infer=False)
    with refused("AuthenticationError"):
        other.delete_all(agent_id=agent)
    with refused("AuthenticationError"):
        other.delete_users(agent_id=agent)
    assert other.get_all(filters={"user_id": "mara"})["results"] == []
    assert other.users()["results"] == []
    other.delete_users(user_id="mara")
    assert client.get(memory_id)["memory"] == "the vault's code is 4711"
    other.client.close()


def test_a_key_for_reading_alone_writes_nothing(
    sdk: Any, server: ServeProcess, key: Callable[..., str], client: Any, agent: str
) -> None:
    memory_id = kept(client, "I like jazz", user_id="mara")
    reader = sdk.MemoryClient(api_key=key(agents=[agent], verbs=(Verb.READ,)), host=server.url)
    assert reader.get(memory_id)["memory"] == "I like jazz"
    calls: list[Callable[[], Any]] = [
        lambda: reader.add("x", user_id="mara", infer=False),
        lambda: reader.update(memory_id, text="x"),
        lambda: reader.delete(memory_id),
        lambda: reader.delete_all(user_id="mara"),
        lambda: reader.delete_users(user_id="mara"),
        lambda: reader.feedback(memory_id, feedback="NEGATIVE"),
        lambda: reader.batch_delete([{"memory_id": memory_id}]),
    ]
    for call in calls:
        with refused("AuthenticationError"):
            call()
    assert client.get(memory_id)["memory"] == "I like jazz"
    reader.client.close()


def test_the_paths_of_mem0s_own_server(server: ServeProcess, key: Callable[..., str], agent: str) -> None:
    with httpx.Client(base_url=server.url, headers={"X-API-Key": key(agents=[agent])}, timeout=600) as http:

        def answer(method: str, path: str, **how: Any) -> Any:
            return http.request(method, path, **how).raise_for_status().json()

        body = {"messages": [{"role": "user", "content": "I like jazz"}], "user_id": "mara", "infer": False}
        memory_id = answer("POST", "/memories", json=body)["results"][0]["id"]
        assert texts(answer("GET", "/memories", params={"user_id": "mara"})) == {"I like jazz"}
        assert answer("GET", f"/memories/{memory_id}")["memory"] == "I like jazz"
        answer("PUT", f"/memories/{memory_id}", json={"text": "I like the blues"})
        assert texts(answer("POST", "/search", json={"query": "blues", "user_id": "mara"})) == {"I like the blues"}
        assert [row["event"] for row in answer("GET", f"/memories/{memory_id}/history")] == ["ADD", "UPDATE"]
        assert answer("GET", "/entities")["count"] == 2
        answer("DELETE", f"/memories/{memory_id}")
        answer("POST", "/memories", json=body)
        answer("DELETE", "/memories", params={"user_id": "mara"})
        answer("POST", "/memories", json=body)
        assert answer("POST", "/reset")["count"] == 1
        assert http.delete("/memories").status_code == 400
        assert http.post("/configure", json={}).status_code == 501
        refusal = http.post("/search", content=b"{")
        assert (refusal.status_code, refusal.headers["content-type"]) == (400, "application/json")
        assert "detail" in refusal.json()


def test_reset_of_mem0s_server_needs_the_verb_maintain(
    server: ServeProcess, key: Callable[..., str], agent: str
) -> None:
    token = key(agents=[agent], verbs=(Verb.READ, Verb.WRITE))
    with httpx.Client(base_url=server.url, headers={"X-API-Key": token}, timeout=600) as http:
        assert http.post("/reset").status_code == 403
