"""Requests with an Idempotency-Key: done once, answered alike, also after a crash between doing and answering."""

import asyncio
from typing import Any

import httpx
import pytest
from support.http_api import http_api
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore import ids
from memcore.errors import MemoryStoreError
from memcore.memories import Memories
from memcore.models.conversation import resolve_owner_id


async def _store(client: httpx.AsyncClient, agent: str, text: str, key: str) -> httpx.Response:
    return await client.post(f"/v1/agents/{agent}/memories", json={"content": text}, headers={"Idempotency-Key": key})


async def _texts(client: httpx.AsyncClient, agent: str) -> list[str]:
    found = await client.post(f"/v1/agents/{agent}/search", json={"limit": 1000})
    return [each["content"] for each in found.json()["memories"]]


async def _wait(client: httpx.AsyncClient, operation_id: str) -> None:
    async with client.stream("GET", f"/v1/operations/{operation_id}/events") as answer:
        async for _ in answer.aiter_lines():
            pass


async def test_the_same_request_is_answered_alike_and_another_is_refused(stack: StackAddress) -> None:
    agent = new_agent("again")

    async with (
        http_api(stack.settings) as opened,
        opened.client(opened.key()) as client,
        opened.client(opened.key()) as other,
    ):
        first = await _store(client, agent, "Tea is at four.", "k1")
        again = await _store(client, agent, "Tea is at four.", "k1")
        assert (first.status_code, again.status_code) == (202, 202)
        assert again.content == first.content
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"

        changed = await _store(client, agent, "Tea is at five.", "k1")
        assert (changed.status_code, changed.json()["field"]) == (422, "idempotency_key")
        elsewhere = await _store(client, new_agent("other"), "Tea is at four.", "k1")
        assert elsewhere.status_code == 422
        of_another_caller = await _store(other, agent, "Tea is at five.", "k1")
        assert of_another_caller.status_code == 202
        blank = await _store(client, agent, "Tea is at four.", " ")
        assert blank.status_code == 422

        for answer in (first, of_another_caller):
            await _wait(client, answer.json()["operation_id"])
        assert sorted(await _texts(client, agent)) == ["Tea is at five.", "Tea is at four."]


async def test_many_at_once_under_one_key_have_one_answer(stack: StackAddress) -> None:
    agent = new_agent("at-once")

    async with http_api(stack.settings) as opened, opened.client(opened.key()) as client:
        answers = await asyncio.gather(*(_store(client, agent, "Tea is at four.", "k") for _ in range(16)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.content for answer in answers}) == 1
        await _wait(client, answers[0].json()["operation_id"])
        assert await _texts(client, agent) == ["Tea is at four."]


async def test_a_request_that_comes_again_while_it_is_done_gets_its_answer(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = new_agent("again")

    async with http_api(stack.settings) as opened, opened.client(opened.key()) as client:
        made = await client.post(f"/v1/agents/{agent}/memories?wait=true", json={"content": "Tea is at four."})
        (memory_id,) = made.json()["memory_ids"]
        forgotten, forget = asyncio.Event(), Memories.forget

        async def slow(self: Memories, *args: Any, **how: Any) -> Any:
            receipt = await forget(self, *args, **how)
            if not forgotten.is_set():
                forgotten.set()
                await asyncio.sleep(1)
            return receipt

        monkeypatch.setattr(Memories, "forget", slow)

        async def ask() -> httpx.Response:
            return await client.post(
                f"/v1/agents/{agent}/memories:forget",
                json={"memory_ids": [memory_id]},
                headers={"Idempotency-Key": "k"},
            )

        first = asyncio.create_task(ask())
        await forgotten.wait()
        again = await ask()
        assert again.json()["forgotten"] == [memory_id]
        assert (await first).content == again.content


async def test_given_a_crash_before_the_answer_when_it_comes_again_then_it_is_stored_once(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = new_agent("crash")
    turn = {"session_id": "s", "user_id": "ada", "user_text": "I like tea."}

    async with http_api(stack.settings) as opened:
        table = opened.context.ledger.idempotency

        def crash(*_: object) -> bytes:
            raise MemoryStoreError("the process dies here")

        async with opened.client(opened.key()) as client:
            for kind in ("memory", "turn"):

                async def send(kind: str = kind) -> httpx.Response:
                    if kind == "memory":
                        return await _store(client, agent, "Tea is at four.", kind)
                    place = f"/v1/agents/{agent}/conversations/turns"
                    return await client.post(place, json=turn, headers={"Idempotency-Key": kind})

                with monkeypatch.context() as patch:
                    patch.setattr(table, "record", crash)
                    assert (await send()).status_code == 503
                again = await send()
                assert again.status_code == 202
                assert "idempotency-replayed" not in again.headers
                await _wait(client, again.json()["operation_id"])
            assert await _texts(client, agent) == ["Tea is at four."]
            # Sent twice, with the time of the first attempt: one turn, not two.
            company = opened.context.settings.company
            subject = resolve_owner_id(user_id="ada", session_id="s")
            session = ids.session_key(company=company, agent_id=agent, subject=subject, session_id="s")
            assert len(opened.context.ledger.turns.of_session(company, session)) == 1


async def test_given_a_newer_version_when_an_older_request_comes_again_then_the_newer_one_stays(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = new_agent("keyed")
    place = f"/v1/agents/{agent}/memories"

    async with http_api(stack.settings) as opened:

        def crash(*_: object) -> bytes:
            raise MemoryStoreError("the process dies here")

        async with opened.client(opened.key()) as client:

            async def send(text: str) -> httpx.Response:
                body, headers = {"content": text, "key": "tea"}, {"Idempotency-Key": text}
                return await client.post(place, json=body, headers=headers, params={"wait": "true"})

            with monkeypatch.context() as patch:
                patch.setattr(opened.context.ledger.idempotency, "record", crash)
                assert (await send("at four")).status_code == 503
            assert (await send("at five")).status_code == 201
            again = await send("at four")
            assert again.status_code == 201, again.text
            listed = (await client.get(place)).json()["memories"]
            assert [each["content"] for each in listed] == ["at five"]
