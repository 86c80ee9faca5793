"""Erasures over HTTP: who may ask for one, what must be said, and what is shown."""

from support.http_api import http_api
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore.ledger.access.keys import Verb

SURE = {"confirm": True, "reason": "she has left"}


async def test_an_erasure_needs_an_admin_who_confirms_it(stack: StackAddress) -> None:
    agent, other = new_agent(), new_agent()

    async with http_api(stack.settings) as opened:
        place = f"/v1/agents/{agent}/erasures"
        weak = opened.key(agents=[agent], verbs=(Verb.READ, Verb.WRITE, Verb.MAINTAIN, Verb.APPROVE))
        async with opened.client(weak) as client:
            assert (await client.post(place, json=SURE)).status_code == 403
            assert (await client.get(place)).status_code == 403
        async with opened.client(opened.key(agents=[agent, other])) as client:
            assert (await client.post(place, json={**SURE, "confirm": False})).status_code == 422
            assert (await client.get(place)).json() == {"erasures": []}
            asked = await client.post(place, json=SURE)
            assert asked.status_code == 202
            erasure = asked.json()
            assert (erasure["agent_id"], erasure["subject"], erasure["receipt"]) == (agent, None, None)
            again = await client.post(place, json=SURE)
            assert again.json()["erasure_id"] == erasure["erasure_id"]
            person = await client.post(
                f"/v1/agents/{agent}/conversations/erasures", json={**SURE, "subject": "user:ada"}
            )
            assert person.status_code == 202
            assert person.json()["subject"] == "user:ada"
            retiring = {**SURE, "retire_checkpoints": True}
            assert (await client.post(place, json=retiring)).status_code == 403, "checkpoints are the company's"
            shown = await client.get(f"{place}/{erasure['erasure_id']}")
            assert shown.json()["requested_by"] == erasure["requested_by"]
            foreign = await client.get(f"/v1/agents/{other}/erasures/{erasure['erasure_id']}")
            assert foreign.status_code == 404

        async with opened.client(opened.key()) as client:
            assert (await client.post(f"/v1/agents/{other}/erasures", json=retiring)).status_code == 202
