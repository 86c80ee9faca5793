"""Webhooks over HTTP: added, tried, rotated, removed; the secret is shown once, and companies are apart."""

from typing import Any

from support.http_api import http_api
from support.running_stack import StackAddress

from memcore.ledger.access.keys import Verb

WHY: dict[str, Any] = {"reason": "a pager"}
URL = "https://hooks.example/in"

WRONG: tuple[dict[str, Any], ...] = (
    {"url": "https://127.0.0.1/"},
    {"events": ["ping"]},
    {"events": []},
    {"name": "a b"},
)


async def test_a_webhook_is_added_changed_and_removed_by_an_admin(stack: StackAddress) -> None:
    async with http_api(stack.settings) as opened:
        opened.context.ledger.companies.add("initech")
        new = {**WHY, "url": URL, "events": ["run.held", "job.dead"], "name": "pager"}
        weak = opened.key(verbs=(Verb.READ, Verb.WRITE, Verb.MAINTAIN, Verb.APPROVE))
        async with opened.client(weak) as client:
            assert (await client.post("/v1/webhooks", json=new)).status_code == 403
            assert (await client.get("/v1/webhook-deliveries")).status_code == 403
        async with opened.client(opened.key()) as client:
            for wrong in WRONG:
                assert (await client.post("/v1/webhooks", json=new | wrong)).status_code == 422, wrong
            made = await client.post("/v1/webhooks", json=new)
            assert made.status_code == 201
            secret = made.json()["secret"]
            shown = await client.get("/v1/webhooks/pager")
            assert shown.json() == made.json()["webhook"]
            assert (shown.json()["events"], shown.json()["state"]) == (["run.held", "job.dead"], "enabled")
            rotated = await client.post("/v1/webhooks/pager/rotate", json=WHY)
            assert rotated.json()["secret"] not in {secret, None}
            assert (await client.post("/v1/webhooks/pager/disable", json=WHY)).json()["state"] == "disabled"
            assert (await client.post("/v1/webhooks/pager/test", json=WHY)).status_code == 422
            assert (await client.post("/v1/webhooks/pager/enable", json=WHY)).json()["state"] == "enabled"
            tried = await client.post("/v1/webhooks/pager/test", json=WHY)
            assert (tried.status_code, tried.json()["event"]) == (202, "ping")
            delivery_id = tried.json()["delivery_id"]
            listed = await client.get("/v1/webhook-deliveries", params={"webhook": "pager"})
            assert [each["delivery_id"] for each in listed.json()["items"]] == [delivery_id]
            assert (await client.get(f"/v1/webhook-deliveries/{delivery_id}")).status_code == 200
            again = {**WHY, "delivery_id": "none"}
            assert (await client.post("/v1/webhook-deliveries:replay", json=again)).status_code == 404
            failed = await client.post("/v1/webhook-deliveries:replay", json={**WHY, "failed": True})
            assert failed.json() == {"replayed": 0}
            both = {**WHY, "failed": True, "delivery_id": delivery_id}
            for wrong in (both, {**WHY, "delivery_id": " "}):
                assert (await client.post("/v1/webhook-deliveries:replay", json=wrong)).status_code == 422
            lines = await client.get("/v1/audit", params={"action": "webhooks.add"})
            assert [each["subject"] for each in lines.json()["lines"]][:1] == ["pager"]
            assert secret not in str([shown.json(), listed.json(), lines.json()])
        async with opened.client(opened.key(company="initech")) as client:
            assert (await client.get("/v1/webhooks")).json() == {"items": []}
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/rotate"), ("POST", "/disable")):
                answer = await client.request(method, f"/v1/webhooks/pager{path}", json=WHY)
                assert answer.status_code == 404, path
            assert (await client.get(f"/v1/webhook-deliveries/{delivery_id}")).status_code == 404
        async with opened.client(opened.key()) as client:
            removed = await client.request("DELETE", "/v1/webhooks/pager", json=WHY)
            assert removed.json()["name"] == "pager"
            assert (await client.get("/v1/webhooks")).json() == {"items": []}
