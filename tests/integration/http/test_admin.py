"""``/admin/memory`` beside a running stack: fine-tune runs, checkpoints, the embedder, the removal of one memory."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx
from support.http_api import MANY, http_api, http_client
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore.ledger.access.keys import Verb

PLACE = "/admin/memory"

#: What a destructive call carries.
SURE = {"actor": "grace", "confirm": True, "reason": "the test says so"}


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int, code: str, field: str | None = None) -> None:
    found = answer.json()
    assert (answer.status_code, found["domain_code"], found.get("field")) == (status, code, field), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


async def no_active_run(client: httpx.AsyncClient) -> None:
    ok(await client.post(f"{PLACE}/fine-tune/cancel", json=SURE))


async def test_a_fine_tune_run_is_started_seen_cancelled_and_resumed(stack: StackAddress) -> None:
    async with http_client(stack.settings) as (opened, client):
        await no_active_run(client)
        assert ok(await client.get(f"{PLACE}/fine-tune/status"))["stage"] == "idle"
        for plan, field in (
            ({"epochs": 0}, "epochs"),
            ({"learning_rate": 0, "kind": "static"}, "learning_rate"),
            ({"validation_split": 1}, "validation_split"),
            ({"source_dir": "../secrets"}, "source_dir"),
            ({"source_dir": "C:\\docs"}, "source_dir"),
            ({"colour": "red"}, "colour"),
        ):
            refused(await client.post(f"{PLACE}/fine-tune", json=plan), 422, "invalid", field)
        run = ok(await client.post(f"{PLACE}/fine-tune", json={"kind": "static", "epochs": 2}), 202)
        assert (run["plan"]["epochs"], run["waits_for_a_worker"]) == (2, True)
        assert not {"token", "host", "holder", "claims", "attempt", "finished"} & run.keys()
        refused(await client.post(f"{PLACE}/fine-tune", json={}), 409, "conflict")
        status = ok(await client.get(f"{PLACE}/fine-tune/status"))
        assert status["run_id"] == run["run_id"]
        refused(await client.get(f"{PLACE}/fine-tune/status", params={"run_id": "none"}), 404, "not_found")
        refused(await client.post(f"{PLACE}/fine-tune/resume/{run['run_id']}"), 409, "conflict")

        for wrong, field in (
            ({"confirm": True}, "reason"),
            ({**SURE, "confirm": False}, "confirm"),
            ({**SURE, "confirm": 1}, "confirm"),
            ({**SURE, "confirm": "true"}, "confirm"),
            ({**SURE, "reason": " "}, "reason"),
        ):
            refused(await client.post(f"{PLACE}/fine-tune/cancel", json=wrong), 422, "invalid", field)
        cancelled = ok(await client.post(f"{PLACE}/fine-tune/cancel", json=SURE))
        assert cancelled == {"cancelled_run_id": run["run_id"]}
        assert ok(await client.post(f"{PLACE}/fine-tune/cancel", json=SURE)) == {"cancelled_run_id": None}
        (noted, *_) = ok(await client.get("/v1/audit", params={"action": "finetune.cancel"}))["lines"]
        assert (noted["actor"][:12], noted["subject"]) == ("person:test-", run["run_id"]), (
            "the key's name, not the body's"
        )

        again = ok(await client.post(f"{PLACE}/fine-tune/resume/{run['run_id']}"))
        assert again["run_id"] == run["run_id"]
        await no_active_run(client)
        page = ok(await client.get(f"{PLACE}/fine-tune/runs", params={"limit": 1}))
        assert page["items"][0]["run_id"] == run["run_id"]
        assert page["total"] >= 1
        for given, field in (({"limit": 201}, "limit"), ({"limit": 0}, "limit"), ({"offset": -1}, "offset")):
            refused(await client.get(f"{PLACE}/fine-tune/runs", params=given), 422, "invalid", field)
        refused(await client.post(f"{PLACE}/fine-tune/resume/none"), 404, "not_found")
        async with opened.client(opened.key(verbs=(Verb.READ, Verb.WRITE, Verb.MAINTAIN, Verb.APPROVE))) as other:
            refused(await other.get(f"{PLACE}/fine-tune/runs"), 403, "denied")


async def test_a_preflight_says_which_checks_fail(stack: StackAddress) -> None:
    async with http_client(stack.settings) as (_, client):
        found = ok(await client.post(f"{PLACE}/fine-tune/preflight", json={"epochs": 0}))
        assert [(each["name"], each["status"]) for each in found["checks"]] == [("override_bounds", "fail")]
        assert found["can_proceed"] is False


async def test_checkpoints_that_do_not_exist_are_not_found_and_the_embedder_is_named(stack: StackAddress) -> None:
    agent = new_agent("admin")

    async with http_client(stack.settings) as (_, client):
        stored = {"content": "The lift is out of order."}
        ok(await client.post(f"/v1/agents/{agent}/memories", json=stored, params={"wait": "true"}), 201)
        found = ok(await client.get(f"{PLACE}/embedder"))
        assert (found["provider"], found["checkpoint_id"]) == ("static", None)
        assert ok(await client.get(f"{PLACE}/fine-tune/checkpoints")) == {"items": [], "total": 0}
        place = f"{PLACE}/fine-tune/checkpoints/none"
        refused(await client.post(f"{place}/deploy", json={**SURE, "force": True}), 404, "not_found")
        refused(await client.post(f"{place}/rollback", json=SURE), 404, "not_found")
        refused(await client.request("DELETE", place, json=SURE), 404, "not_found")
        refused(await client.request("DELETE", place, json={}), 422, "invalid", "reason")


async def test_a_memory_is_removed_by_a_run_that_can_be_undone(stack: StackAddress) -> None:
    agent = new_agent("admin")

    async with http_client(stack.settings) as (opened, client):
        stored = await client.post(
            f"/v1/agents/{agent}/memories", json={"content": "The lift works."}, params={"wait": "true"}
        )
        (memory_id,) = ok(stored, 201)["memory_ids"]
        place = f"{PLACE}/agents/{agent}/memories/{memory_id}"
        refused(await client.request("DELETE", f"{place}0", json=SURE), 404, "not_found")
        async with opened.client(opened.key(agents=[new_agent()])) as outsider:
            refused(await outsider.request("DELETE", place, json=SURE), 403, "denied")
        async with opened.client(opened.key(agents=[agent])) as own:
            run = ok(await own.request("DELETE", place, json=SURE))
        assert (run["kind"], run["scope_id"]) == ("remove", memory_id)

        async def state_of(run_id: str) -> str:
            for _ in range(1_200):
                answer = await client.get(f"/v1/runs/{run_id}")
                if answer.status_code == 200 and answer.json()["state"] in {"done", "failed", "skipped"}:
                    return str(answer.json()["state"])
                await asyncio.sleep(0.05)
            return "late"

        assert await state_of(run["run_id"]) == "done"
        assert (await client.get(f"/v1/agents/{agent}/memories/{memory_id}")).status_code == 404
        undone = ok(await client.post(f"/v1/runs/{run['run_id']}/undo", json={"confirm": True, "reason": "back"}), 202)
        assert await state_of(undone["run_id"]) == "done"
        assert ok(await client.get(f"/v1/agents/{agent}/memories/{memory_id}"))["content"] == "The lift works."


async def test_without_keys_the_actor_of_the_body_is_noted(stack: StackAddress) -> None:
    async with http_api(stack.settings, replace(MANY, requires_key=False)) as opened, opened.client() as client:
        await no_active_run(client)
        run = ok(await client.post(f"{PLACE}/fine-tune", json={}), 202)
        ok(await client.post(f"{PLACE}/fine-tune/cancel", json=SURE))
        lines = ok(await client.get("/v1/audit", params={"action": "finetune.cancel"}))["lines"]
        mine = [each["actor"] for each in lines if each["subject"] == run["run_id"]]
        assert mine == ["person:grace"]
