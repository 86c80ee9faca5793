"""Memories over HTTP beside a running stack: stored over the queue, found through the same API."""

import json
import uuid
from typing import Any

import httpx
from support.execution_traces import trace
from support.http_api import http_api
from support.memories import new_agent
from support.running_stack import StackAddress
from support.serve_process import serve_process

from ops.cli.session import ledger_of
from ops.http.operations import Operations


async def _finished(client: httpx.AsyncClient, operation_id: str) -> dict[str, Any]:
    """Follow the events of an operation to its end, and return the last."""
    last: dict[str, Any] = {}
    async with client.stream("GET", f"/v1/operations/{operation_id}/events") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("data:"):
                last = json.loads(line.removeprefix("data:"))
    assert last["is_finished"]
    return last


def test_a_server_that_stops_ends_the_events_that_it_sends(stack: StackAddress) -> None:
    settings = stack.settings
    unknown = Operations(settings).issue(settings.company, "nobody", [str(uuid.uuid4())])
    with ledger_of(settings) as ledger:
        token = ledger.api_keys.create(settings.company, name=new_agent("test"), verbs=["read"]).token
    with serve_process(stack.home) as serve:
        url = f"{serve.url}/v1/operations/{unknown}/events"
        with httpx.stream("GET", url, headers={"Authorization": f"Bearer {token}"}, timeout=600) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: status"
            assert serve.stop() == 0
            # An answer that breaks off would raise.
            assert '"pending"' in next(lines)
            assert not any(lines)


async def test_what_is_stored_is_found_prepared_and_got(stack: StackAddress) -> None:
    agent = new_agent("http_api")
    place = f"/v1/agents/{agent}"

    async with http_api(stack.settings) as open_api, open_api.client(open_api.key(agents=[agent])) as client:
        content = {"content": "The payment queue pages at 500 messages.", "tags": ["payments"]}
        sent = await client.post(f"{place}/memories", json=content)
        assert sent.status_code == 202, sent.text
        ended = await _finished(client, sent.json()["operation_id"])
        assert (ended["state"], ended["facts"]["stored"]) == ("done", 1)
        (memory_id,) = sent.json()["memory_ids"]

        batch = {"memories": [{"content": "Deploys are frozen on Fridays."}, {"content": "The printer jams."}]}
        many = await client.post(f"{place}/memories:batch", json=batch, params={"wait": "true"})
        assert (many.status_code, len(many.json()["memory_ids"])) == (201, 2)

        found = await client.post(f"{place}/search", json={"text": "when does payments page?", "limit": 1})
        (memory,) = found.json()["memories"]
        assert (memory["id"], memory["content"]) == (memory_id, content["content"])
        assert memory["scores"]["semantic"] > 0
        wrong = await client.post(f"{place}/search", json={"text": "yesterday?", "time_zone": "Europe/Atlantis"})
        assert (wrong.status_code, "time_zone" in wrong.text) == (422, True)
        wrong = await client.post(
            f"{place}/context", json={"text": "yesterday?", "token_budget": 9, "time_zone": "Europe/Atlantis"}
        )
        assert (wrong.status_code, "time_zone" in wrong.text) == (422, True)
        assert (await client.get(f"{place}/memories/{memory_id}")).json()["metadata"]["tags"] == ["payments"]

        prompt = await client.post(f"{place}/context", json={"text": "payments page?", "token_budget": 400})
        assert "pages at 500 messages" in prompt.json()["messages"][-1]["content"]

        none = await client.get(f"{place}/memories/{uuid.uuid4()}")
        assert (none.status_code, none.json()["domain_code"]) == (404, "not_found")


async def test_single_memories_are_listed_changed_and_forgotten(stack: StackAddress) -> None:
    agent = new_agent("http_api")
    place = f"/v1/agents/{agent}/memories"

    async with http_api(stack.settings) as open_api, open_api.client(open_api.key(agents=[agent])) as client:
        for number, kind in enumerate(("tea", "tea", "tram")):
            body = {"content": f"Note {number} on {kind}.", "attributes": {"about": {"kind": kind}}}
            body |= {"key": f"note-{number}", "namespace": kind}
            assert (await client.post(place, json=body, params={"wait": "true"})).status_code == 201

        tea = {"attributes": json.dumps({"about.kind": "tea"})}
        first = (await client.get(place, params={**tea, "limit": 1})).json()
        rest = (await client.get(place, params={**tea, "limit": 1, "cursor": first["cursor"]})).json()
        shown = [*first["memories"], *rest["memories"]]
        assert [each["key"] for each in shown] == ["note-0", "note-1"]
        assert shown[0]["attributes"] == {"about": {"kind": "tea"}}
        assert (await client.get(f"/v1/agents/{agent}/namespaces")).json() == {"namespaces": ["tea", "tram"]}

        old = shown[0]["id"]
        changed = await client.patch(f"{place}/{old}", json={"content": "Note 0, changed.", "tags": ["t"]})
        assert (changed.status_code, changed.json()["content"]) == (200, "Note 0, changed."), changed.text
        assert (await client.get(f"{place}/{old}")).json()["id"] == changed.json()["id"] != old
        versions = (await client.get(f"{place}/{old}/history")).json()["versions"]
        assert [each["event"] for each in versions] == ["ADD", "UPDATE"]

        gone = await client.delete(f"{place}/{old}")
        assert gone.json()["forgotten"] == [changed.json()["id"]]
        assert (await client.delete(f"{place}/{old}")).status_code == 404
        assert (await client.get(f"{place}/{old}")).status_code == 404
        forgotten = await client.post(f"{place}:forget", json={"keys": ["note-2"]})
        assert len(forgotten.json()["forgotten"]) == 1
        noted = open_api.context.ledger.audit.page(stack.settings.company, action="memory.forget")
        runs = {answer.json()["run_id"] for answer in (gone, forgotten)}
        assert {each.actor[:12] for each in noted if each.subject in runs} == {"person:test-"}
        assert runs <= {each.subject for each in noted}
        for wrong in ({}, {"everything": True, "keys": ["a"]}, {"everything": False}, {"memory_ids": None}):
            assert (await client.post(f"{place}:forget", json=wrong)).status_code == 422, wrong
        assert [each["key"] for each in (await client.get(place)).json()["memories"]] == ["note-1"]
        assert (await client.get(place, params={"cursor": "x"})).status_code in {200, 422}
        assert (await client.patch(f"{place}/{uuid.uuid4()}", json={"tags": []})).status_code == 404


async def test_only_the_version_that_was_read_is_changed(stack: StackAddress) -> None:
    agent = new_agent("http_api")
    place = f"/v1/agents/{agent}/memories"

    async with http_api(stack.settings) as open_api, open_api.client(open_api.key(agents=[agent])) as client:
        body = {"content": "Note 0 on tea.", "key": "note-0", "namespace": "tea"}
        old = (await client.post(place, json=body, params={"wait": "true"})).json()["memory_ids"][0]
        changed = await client.patch(f"{place}/{old}", json={"content": "Note 0, changed."})
        got = await client.get(f"{place}/{old}")
        assert got.json()["id"] == changed.json()["id"] != old
        assert got.headers["ETag"] == changed.headers["ETag"] == f'"{changed.json()["id"]}"'
        for headers in ({}, {"If-Match": f'"{old}"'}, {"If-Match": f'W/"{old}"'}):
            late = await client.patch(f"{place}/{old}", json={"content": "Of the old text."}, headers=headers)
            assert (late.status_code, late.json()["domain_code"]) == (409, "conflict")
            assert changed.json()["id"] in late.json()["detail"]
        late = await client.delete(f"{place}/{old}", headers={"If-Match": f'"{old}"'})
        assert late.status_code == 409
        late = await client.post(f"{place}:forget", json={"memory_ids": [old], "expected": old})
        assert late.status_code == 409
        for expected in (changed.headers["ETag"], "*"):
            headers = {"If-Match": expected}
            changed = await client.patch(f"{place}/{old}", json={"tags": [expected[:2]]}, headers=headers)
            assert changed.status_code == 200, changed.text

        twice = {"content": "Note 0, anew.", "key": "note-0", "namespace": "tea"}
        for body, status in ((twice, 409), ({"content": "No key."}, 422), ({**twice, "key": "new"}, 202)):
            answer = await client.post(place, json=body, headers={"If-None-Match": "*"})
            assert answer.status_code == status, answer.text


async def test_a_turn_and_a_trace_are_taken_and_a_person_is_loaded(stack: StackAddress) -> None:
    agent = new_agent("http_api")
    place = f"/v1/agents/{agent}"

    async with http_api(stack.settings) as open_api, open_api.client(open_api.key()) as client:
        turn = {"session_id": "s", "user_id": "ada", "user_text": "I like tea.", "turn": "1"}
        first = await client.post(f"{place}/conversations/turns", json=turn)
        again = await client.post(f"{place}/conversations/turns", json=turn)
        assert (first.status_code, again.json()["turn_id"]) == (202, first.json()["turn_id"])
        await _finished(client, first.json()["operation_id"])
        counted = await client.get(f"{place}/conversations/status", params={"user_id": "ada"})
        assert counted.json()["open_sessions"] == 1
        loaded = await client.post(f"{place}/conversations/load", json={"text": "Hello", "user_id": "ada"})
        assert (loaded.status_code, loaded.json()["messages"]) == (200, [])
        recall = await client.put(f"{place}/conversations/recall", json={"is_on": False, "user_id": "ada"})
        assert recall.status_code == 204
        ended = await client.post(f"{place}/conversations/sessions/end", json={"session_id": "s", "user_id": "ada"})
        assert ended.status_code == 202

        taken = await client.post(f"{place}/distill", json={"trace": trace("t-1").model_dump(mode="json")})
        assert taken.status_code == 202, taken.text
        assert (await _finished(client, taken.json()["operation_id"]))["state"] == "done"
        lesson = await client.get(f"{place}/memories/{taken.json()['trace_id']}")
        assert lesson.status_code == 200
