"""The unmodified Python client of mem0 against a real ``serve``: the rows of docs/how-to/use-mem0-clients.md."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from support.mem0_calls import kept, refused, texts
from support.running_stack import StackAddress
from support.serve_process import ServeProcess

from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import AuditLine
from ops.cli.session import ledger_of

pytestmark = pytest.mark.slow(because="it starts a stack with a language model, and a server")


def test_ping_names_the_company(client: Any, inferring: StackAddress) -> None:
    assert client.org_id == client.project_id == inferring.settings.company
    assert client.user_email is None


def test_ping_refuses_a_key_that_is_not_valid(sdk: Any, server: ServeProcess) -> None:
    # One of the test's own: mem0 leaves its client open when it refuses the key.
    with httpx.Client(timeout=600) as http, pytest.raises(ValueError, match="key is not valid"):
        sdk.MemoryClient(api_key="mt_0_0", host=server.url, client=http)


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


def test_a_star_is_anybody_in_every_call_and_nobody_can_be_called_so(client: Any) -> None:
    for user in ("mara", "lena"):
        kept(client, f"{user} likes jazz", user_id=user)
    kept(client, "jazz is played on Fridays", app_id="radio")
    assert texts(client.get_all(filters={"userId": "mara"})) == {"mara likes jazz"}
    with refused("ValidationError", "user_id"):
        kept(client, "who is this", user_id="*")
    client.delete_all(user_id="*")
    assert texts(client.get_all(filters={"app_id": "radio"})) == {"jazz is played on Fridays"}
    assert client.get_all(filters={"user_id": "*"})["count"] == 0
    client.delete_users(app_id="*")
    assert client.get_all(filters={"app_id": "*"})["count"] == 0


def test_batches_change_and_forget(client: Any) -> None:
    first, second = kept(client, "one", user_id="mara"), kept(client, "two", user_id="mara")
    client.batch_update([{"memory_id": first, "text": "uno"}, {"memory_id": second, "metadata": {"a": 1}}])
    assert texts(client.get_all(filters={"user_id": "mara"})) == {"uno", "two"}
    assert client.get(second)["metadata"] == {"a": 1}
    client.batch_delete([{"memory_id": first}, {"memory_id": second}])
    assert client.get_all(filters={"user_id": "mara"})["count"] == 0


def test_what_is_deleted_stands_in_the_audit_with_the_name_of_the_key(client: Any, inferring: StackAddress) -> None:
    (fact,) = client.add("I live in Lisbon", user_id="nora")["results"]
    first, _ = kept(client, "Nora likes jazz", user_id="nora"), kept(client, "Nora likes tea", user_id="nora")
    with ledger_of(inferring.settings) as ledger:
        before = len(_forgotten(ledger))
        client.delete(first)
        client.delete(fact["id"])
        client.delete_all(user_id="nora")
        lines = _forgotten(ledger)
    # The newest stand first; the runs are not named to clients.
    assert [line.action for line in lines[: len(lines) - before]] == [
        "memory.forget",
        "conversation.forget",
        "memory.forget",
    ]
    assert {line.actor[:12] for line in lines} == {"person:test-"}
    assert lines[1].subject == fact["id"]


def _forgotten(ledger: Ledger) -> list[AuditLine]:
    return [line for line in ledger.audit.page("default", limit=100) if line.action.endswith(".forget")]


def test_a_name_with_a_slash_is_listed_and_deleted(client: Any) -> None:
    for user in ("a/b", "a", "b/"):
        kept(client, f"{user} likes jazz", user_id=user)
    assert texts(client.get_all(filters={"user_id": "a/b"})) == {"a/b likes jazz"}
    client.delete_users(user_id="a/b")
    assert client.get_all(filters={"user_id": "a/b"})["results"] == []
    client.delete_users(user_id="b/")
    assert [one["name"] for one in client.users()["results"] if one["type"] == "user"] == ["a"]


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
    with httpx.Client(base_url=server.url, headers=headers, timeout=600) as other:
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
