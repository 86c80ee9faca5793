"""The unmodified Python client of mem0 against a real ``serve``: every row of docs/how-to/use-mem0-clients.md."""

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.http_door import door
from support.repository import ROOT
from support.running_stack import StackAddress, running_stack
from support.serve_process import ServeProcess, serve_process
from support.stub_llm_process import StubLLM, stub_llm

from memcore import AsyncMemory
from memcore.config.loader import effective_policy
from memcore.ledger.access.keys import Verb
from memcore.ledger.ledger import Ledger
from memcore.memory.stock_mem0 import import_mem0

pytestmark = pytest.mark.slow(because="it starts a stack with a language model, and a server")

#: The npm client, in the version that was read for the paths.
NPM_CLIENT = "mem0ai@3.3.1"

#: Every verb.
ALL = tuple(Verb)


@pytest.fixture(scope="module")
def model() -> Iterator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture(scope="module")
def inferring(model: StubLLM, tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    """A stack with a language model."""
    home = tmp_path_factory.mktemp("mem0") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text("memory:\n  llm:\n    model: stub\n", encoding="utf-8")
    with running_stack(home, MEMTEND_LLM_URL=model.url) as address:
        yield address


@pytest.fixture(scope="module")
def server(inferring: StackAddress) -> Iterator[ServeProcess]:
    with serve_process(inferring.home) as running:
        yield running


@pytest.fixture(scope="module")
def key(inferring: StackAddress) -> Callable[..., str]:
    """Return a function that makes a key."""

    def made(*, agents: list[str] | None = None, verbs: tuple[Verb, ...] = ALL) -> str:
        ledger = Ledger.open(inferring.settings.ledger_urls)
        try:
            company = inferring.settings.company
            return ledger.api_keys.create(company, name="test", verbs=verbs, agents=agents).token
        finally:
            ledger.close()

    return made


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """mem0's module, without its telemetry."""
    import_mem0(tmp_path_factory.mktemp("mem0-home"))
    import mem0  # noqa: PLC0415  # after the environment was set

    return mem0


@pytest.fixture
def agent() -> str:
    return f"agent-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(sdk: Any, server: ServeProcess, key: Callable[..., str], agent: str) -> Iterator[Any]:
    """A client whose key is for one agent, which its calls need not name."""
    made = sdk.MemoryClient(api_key=key(agents=[agent]), host=server.url)
    yield made
    made.client.close()


@contextmanager
def refused(kind: str, text: str | None = None) -> Iterator[None]:
    import mem0.exceptions  # noqa: PLC0415  # after the environment was set

    with pytest.raises(getattr(mem0.exceptions, kind), match=text):
        yield


def texts(answer: dict[str, Any]) -> set[str]:
    return {one["memory"] for one in answer["results"]}


def kept(client: Any, text: str, **fields: Any) -> str:
    """Add a text as it is, and return its id."""
    (added,) = client.add(text, infer=False, **fields)["results"]
    return str(added["id"])


def test_ping_names_the_company(client: Any, inferring: StackAddress) -> None:
    assert client.org_id == client.project_id == inferring.settings.company
    assert client.user_email is None


def test_ping_refuses_a_key_that_is_not_valid(sdk: Any, server: ServeProcess) -> None:
    # One of the test's own: mem0 leaves its client open when it refuses the key.
    with httpx.Client() as http, pytest.raises(ValueError, match="key is not valid"):
        sdk.MemoryClient(api_key="mt_0_0", host=server.url, client=http)


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


def test_search_narrows_by_filters_threshold_and_fields(client: Any) -> None:
    kept(client, "Mara likes jazz", user_id="mara", metadata={"level": 1})
    kept(client, "Mara likes jazz concerts", user_id="mara", metadata={"level": 2}, run_id="r2")
    kept(client, "Lena likes jazz", user_id="lena", app_id="shop")

    def found(**options: Any) -> set[str]:
        return texts(client.search("who likes jazz", **options))

    assert found(filters={"user_id": "mara"}) == {"Mara likes jazz", "Mara likes jazz concerts"}
    assert found(filters={"AND": [{"user_id": "mara"}, {"level": {"gt": 1}}]}) == {"Mara likes jazz concerts"}
    assert found(filters={"user_id": "mara", "NOT": [{"run_id": "r2"}]}) == {"Mara likes jazz"}
    assert found(filters={"OR": [{"user_id": "lena"}, {"run_id": "r2"}]}) == {
        "Lena likes jazz", "Mara likes jazz concerts",
    }  # fmt: skip
    assert found(filters={"app_id": "shop"}) == {"Lena likes jazz"}
    assert found(filters={"run_id": "r2"}) == {"Mara likes jazz concerts"}
    assert found(filters={"metadata": {"level": 1}}) == {"Mara likes jazz"}
    assert found(filters={"user_id": "*"}, metadata={"level": 1}) == {"Mara likes jazz"}
    assert found(filters={"user_id": "*"}, categories=["semantic"], top_k=1)
    assert found(filters={"user_id": "*"}, categories=["episodic"]) == set()
    question = "where is the key of the cellar"
    assert client.search(question, filters={"user_id": "mara"}, threshold=0.9)["results"] == []
    assert client.search(question, filters={"user_id": "mara"})["results"]
    (one,) = client.search("who likes jazz", filters={"app_id": "shop"}, fields=["memory"])["results"]
    assert set(one) == {"id", "memory", "score"}


def test_search_refuses_unknown_operators_and_options(client: Any) -> None:
    with refused("ValidationError", "operators"):
        client.search("jazz", filters={"user_id": {"like": "m%"}})
    with refused("ValidationError", "colour"):
        client.search("jazz", filters={"user_id": "mara"}, colour="red")
    with refused("MemoryError", "show_expired is not supported"):
        client.search("jazz", filters={"user_id": "mara"}, show_expired=True)


def test_get_all_pages(client: Any) -> None:
    for number in range(5):
        kept(client, f"note {number}", user_id="mara")
    first = client.get_all(filters={"user_id": "mara"}, page=1, page_size=2)
    last = client.get_all(filters={"user_id": "mara"}, page=3, page_size=2)

    assert (first["count"], first["previous"], len(first["results"])) == (5, None, 2)
    assert "page=2" in first["next"]
    assert (last["next"], len(last["results"])) == (None, 1)
    assert "page=2" in last["previous"]
    everything = client.get_all(filters={"user_id": "mara"})
    assert [one["memory"] for one in everything["results"]] == [f"note {number}" for number in range(5)]


def test_get_all_narrows_by_dates(client: Any) -> None:
    kept(client, "note", user_id="mara")
    today, tomorrow = datetime.now(UTC).date(), datetime.now(UTC).date() + timedelta(days=1)
    everything = {"filters": {"user_id": "mara"}}
    assert client.get_all(**everything, start_date=str(today), end_date=str(tomorrow))["count"] == 1
    assert client.get_all(**everything, end_date=str(today - timedelta(days=1)))["count"] == 0
    assert client.get_all(filters={"user_id": "mara", "created_at": {"gte": str(tomorrow)}})["count"] == 0


def test_get_reads_a_memory(client: Any) -> None:
    memory_id = kept(client, "I like jazz", user_id="mara", expiration_date="2999-12-31")
    record = client.get(memory_id)
    assert (record["id"], record["memory"], record["user_id"]) == (memory_id, "I like jazz", "mara")
    assert record["expiration_date"] == "2999-12-31"
    assert record["created_at"] <= datetime.now(UTC).isoformat()
    for unknown in (str(uuid.uuid4()), "no/such id"):
        with refused("MemoryNotFoundError"):
            client.get(unknown)


def test_update_makes_a_version_to_which_the_old_id_leads(client: Any) -> None:
    memory_id = kept(client, "I like jazz", user_id="mara", metadata={"a": 1, "b": 2})
    client.update(memory_id, text="I like the blues")
    client.update(memory_id, metadata={"b": 3})
    client.update(memory_id, expiration_date="2999-12-31")

    record = client.get(memory_id)
    assert (record["memory"], record["metadata"]) == ("I like the blues", {"a": 1, "b": 3})
    assert (record["user_id"], record["expiration_date"]) == ("mara", "2999-12-31")
    assert texts(client.search("the blues", filters={"user_id": "mara"})) == {"I like the blues"}
    assert client.update(memory_id, expiration_date=None)["expiration_date"] is None
    assert client.get_all(filters={"user_id": "mara"})["count"] == 1


def test_history_shows_what_became_of_a_memory(client: Any) -> None:
    memory_id = kept(client, "I like jazz", user_id="mara")
    client.update(memory_id, text="I like the blues")
    rows = client.history(memory_id)
    assert [(row["event"], row["old_memory"], row["new_memory"]) for row in rows] == [
        ("ADD", None, "I like jazz"),
        ("UPDATE", "I like jazz", "I like the blues"),
    ]
    client.delete(memory_id)
    rows = client.history(memory_id)
    assert (rows[-1]["event"], rows[-1]["new_memory"]) == ("DELETE", None)
    with refused("MemoryNotFoundError"):
        client.history(str(uuid.uuid4()))


def test_delete_forgets_a_memory(client: Any) -> None:
    memory_id = kept(client, "I like jazz", user_id="mara")
    assert "deleted" in client.delete(memory_id)["message"]
    with refused("MemoryNotFoundError"):
        client.get(memory_id)
    with refused("MemoryNotFoundError"):
        client.delete(memory_id)
    with refused("MemoryError", "delete_linked is not supported"):
        client.delete(memory_id, delete_linked=True)


def test_delete_all_forgets_what_matches_and_nothing_else(client: Any) -> None:
    for user in ("mara", "lena"):
        kept(client, f"{user} likes jazz", user_id=user)
        kept(client, f"{user} was here", user_id=user, run_id="r1")
    client.delete_all(user_id="mara", run_id="r1")
    assert texts(client.get_all(filters={"user_id": "*"})) == {"mara likes jazz", "lena likes jazz", "lena was here"}
    client.delete_all(filters={"user_id": "lena"})
    assert texts(client.get_all(filters={"user_id": "*"})) == {"mara likes jazz"}
    with refused("ValidationError", "user_id"):
        client.delete_all()


def test_batches_change_and_forget(client: Any) -> None:
    first, second = kept(client, "one", user_id="mara"), kept(client, "two", user_id="mara")
    client.batch_update([{"memory_id": first, "text": "uno"}, {"memory_id": second, "metadata": {"a": 1}}])
    assert texts(client.get_all(filters={"user_id": "mara"})) == {"uno", "two"}
    assert client.get(second)["metadata"] == {"a": 1}
    client.batch_delete([{"memory_id": first}, {"memory_id": second}])
    assert client.get_all(filters={"user_id": "mara"})["count"] == 0


def test_users_are_counted_and_deleted(client: Any, agent: str) -> None:
    kept(client, "Mara likes jazz", user_id="mara")
    kept(client, "Mara was here", user_id="mara", run_id="r1", app_id="shop")
    kept(client, "Lena likes jazz", user_id="lena")

    counted = {(one["type"], one["name"]): one["total_memories"] for one in client.users()["results"]}
    assert counted == {
        ("agent", agent): 3, ("user", "mara"): 2, ("user", "lena"): 1, ("run", "r1"): 1, ("app", "shop"): 1,
    }  # fmt: skip
    client.delete_users(user_id="mara")
    assert texts(client.get_all(filters={"user_id": "*"})) == {"Lena likes jazz"}
    client.delete_users(agent_id=agent)
    assert client.users()["results"] == []


def test_reset_deletes_everything_of_the_key(client: Any) -> None:
    kept(client, "Mara likes jazz", user_id="mara")
    client.reset()
    assert client.users()["results"] == []


def test_feedback_stays_with_a_memory_and_lowers_its_confidence(
    client: Any, server: ServeProcess, key: Callable[..., str], agent: str
) -> None:
    memory_id = kept(client, "I like jazz", user_id="mara")
    answer = client.feedback(memory_id, feedback="NEGATIVE", feedback_reason="She does not.")
    assert (answer["feedback"], answer["feedback_reason"]) == ("NEGATIVE", "She does not.")

    headers = {"Authorization": f"Bearer {key()}"}
    with httpx.Client(base_url=server.url, headers=headers) as other:
        seen = other.get(f"/v1/agents/{agent}/memories/{client.get(memory_id)['id']}").raise_for_status().json()
    assert seen["metadata"]["confidence"] == 0.5
    client.feedback(memory_id, feedback=None)
    assert client.get(memory_id)["metadata"] is None


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.create_memory_export("{}", user_id="mara"),
        lambda client: client.get_memory_export(user_id="mara"),
        lambda client: client.get_summary({"user_id": "mara"}),
        lambda client: client.get_profile("mara"),
        lambda client: client.generate_profile("mara"),
        lambda client: client.get_profile_settings(),
        lambda client: client.update_profile_settings(enabled=True),
        lambda client: client.sample_profiles(),
        lambda client: client.get_profile_job("j1"),
        lambda client: client.get_project(),
        lambda client: client.update_project(custom_instructions="x"),
        lambda client: client.project.get(),
        lambda client: client.project.get_members(),
        lambda client: client.get_webhooks("p"),
        lambda client: client.create_webhook("http://x", "n", "p", ["memory_add"]),
        lambda client: client.update_webhook(1, name="n"),
        lambda client: client.delete_webhook(1),
    ],
)
def test_what_is_not_supported_says_so_with_501(client: Any, call: Callable[[Any], Any]) -> None:
    import mem0.exceptions  # noqa: PLC0415  # after the environment was set

    with pytest.raises(mem0.exceptions.MemoryError, match="not supported") as answered:
        call(client)
    assert answered.value.error_code == "HTTP_501"


async def test_the_async_client_works_too(sdk: Any, server: ServeProcess, key: Callable[..., str], agent: str) -> None:
    async with sdk.AsyncMemoryClient(api_key=key(agents=[agent]), host=server.url) as client:
        await client.add("I like jazz", user_id="mara", infer=False)
        assert texts(await client.search("jazz", filters={"user_id": "mara"})) == {"I like jazz"}


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
    with httpx.Client(base_url=server.url, headers={"X-API-Key": key(agents=[agent])}, timeout=60) as http:

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
    with httpx.Client(base_url=server.url, headers={"X-API-Key": token}) as http:
        assert http.post("/reset").status_code == 403


async def test_without_a_language_model_the_text_itself_is_kept(stack: StackAddress, agent: str) -> None:
    async with door(stack.settings) as made, made.client(made.key(agents=[agent])) as http:
        body = {"messages": [{"role": "user", "content": "I live in Lisbon"}], "user_id": "nora"}
        added = (await http.post("/v3/memories/add/", json=body)).raise_for_status().json()
    assert [(one["memory"], one["event"]) for one in added["results"]] == [("I live in Lisbon", "ADD")]


@pytest.fixture(scope="module")
def npm_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the npm client of mem0, as the registry has it."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    argv = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=peer", NPM_CLIENT]
    installed = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install {NPM_CLIENT} here: {installed.stderr[-300:]}")
    return folder


@pytest.mark.timeout(400)
def test_the_npm_client_does_the_same(
    npm_package: Path, server: ServeProcess, key: Callable[..., str], agent: str, inferring: StackAddress
) -> None:
    script = shutil.copy(Path(__file__).with_name("mem0_client.mjs"), npm_package)
    environ = {**os.environ, "MEM0_TELEMETRY": "false", "MEM0_DIR": str(npm_package)}
    argv = ["node", str(script), server.url, key(agents=[agent])]
    ended = subprocess.run(argv, cwd=npm_package, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-2_000:]
    said = json.loads(ended.stdout)

    assert said["project"] == inferring.settings.company
    assert [(one["memory"], one["event"]) for one in said["added"]] == [
        ("I drink green tea in the morning", "ADD"),
        ("I like jazz", "ADD"),
    ]
    (best,) = said["search"]
    assert (best["id"], best["memory"]) == (said["added"][0]["id"], "I drink green tea in the morning")
    assert (best["userId"], best["agentId"], best["runId"]) == ("mara", agent, "r1")
    assert best["metadata"] == {"someMood": "calm"}
    assert said["filtered"] == ["I like jazz"]
    assert (said["listed"]["count"], len(said["listed"]["results"])) == (2, 1)
    assert said["record"]["memory"] == "I drink green tea in the morning"
    assert (said["updated"]["memory"], said["updated"]["metadata"]) == ("I drink coffee", {"someMood": "awake"})
    assert said["history"][0] == ["ADD", None, "I drink green tea in the morning"]
    assert said["history"][-1][0::2] == ["UPDATE", "I drink coffee"]
    assert said["feedback"]["feedback"] == "POSITIVE"
    assert said["batch"] == ["I drink coffee", "I like opera"]
    assert said["deleted"] == 0
    assert (said["gone"]["name"], said["gone"]["code"]) == ("MemoryNotFoundError", "HTTP_404")
    assert said["users"] == [["agent", agent, 1], ["user", "lena", 1]]
    assert said["left"] == ["I like the blues"]
    assert said["empty"] == 0
    assert [(one["event"], one["memory"]) for one in said["drawn"]] == [("ADD", "User lives in Lisbon")]
    assert len(said["refused"]) == 14
    for method, refusal in said["refused"].items():
        assert refusal is not None, method
        assert refusal["code"] == "HTTP_501", method
        assert "not supported" in refusal["message"], method
    assert said["unauthorised"]["name"] == "AuthenticationError"


def test_the_example_runs(server: ServeProcess, key: Callable[..., str], agent: str, tmp_path: Path) -> None:
    environ = {**os.environ, "MEM0_API_KEY": key(agents=[agent]), "MEM0_HOST": server.url, "MEM0_DIR": str(tmp_path)}
    argv = [sys.executable, str(ROOT / "examples" / "mem0_client.py")]
    ended = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "I drink green tea in the morning  {'from': 'chat'}" in ended.stdout
    assert ended.stdout.endswith("UPDATE  I drink coffee in the morning\n0 memories left\n")


async def test_memory_mem0_opens_the_memories_that_this_server_serves(inferring: StackAddress, agent: str) -> None:
    async with AsyncMemory.from_settings(inferring.settings, effective_policy(None)) as memory:
        stored = await memory.put(agent, "The payment queue pages at 500", namespace="user:mara")
        opened = await memory.mem0(agent)
        try:
            assert [one["id"] for one in opened.get_all(filters={"agent_id": agent})["results"]] == [stored.id]
            added = opened.add("I like jazz", user_id="mara", infer=False)["results"][0]["id"]
        finally:
            opened.close()
        found = await memory.search(agent, "jazz")
    assert added in {entry.id for entry in found}
