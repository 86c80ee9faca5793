"""What operators do over HTTP beside a running stack: agents, runs, the archive, approvals, facts, letters, audit."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from support.http_api import HttpApi, http_client
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore import MemoryClient, ids
from memcore.client.envelopes import build_payload, store_jobs
from memcore.clock import utc_now
from memcore.jobs import Queue, StorePayload
from memcore.ledger.access.keys import Verb
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

#: What a destructive call carries.
SURE = {"confirm": True, "reason": "the test says so"}

#: Long before any retention ends.
OLD = (datetime.now(UTC) - timedelta(days=300)).isoformat()

#: A word that no answer may hold unless it is a memory's own.
WORD = "xylophonequartz"


def fill(stack: StackAddress, agent: str, *, old: int, new: int) -> None:
    """Store memories of which the old ones are past their retention."""
    old_ones = [
        {"agent_id": agent, "category": "working", "content": f"{agent} old note {n}", "created_at": OLD}
        for n in range(old)
    ]
    facts = [{"agent_id": agent, "category": "semantic", "content": f"{agent} fact {n}"} for n in range(new)]
    with MemoryClient.from_settings(stack.settings) as client:
        list(client.wait(client.import_many([*old_ones, *facts]).job_ids, timeout_seconds=600))


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait at most a minute for a condition."""
    for _ in range(1_200):
        if await is_so():
            return
        await asyncio.sleep(0.05)
    raise TimeoutError


async def ended(client: httpx.AsyncClient, run_id: str, *, held: bool = True) -> dict[str, Any]:
    """Return a run once it has ended, or is held."""
    found: dict[str, Any] = {}

    async def is_over() -> bool:
        answer = await client.get(f"/v1/runs/{run_id}")
        found.update(answer.json())
        # A run is a row once a worker has its job.
        states = {"done", "failed", "skipped", *(["held"] if held else [])}
        return answer.status_code == 200 and found["state"] in states

    await until(is_over)
    return found


def ok(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def test_an_agent_is_added_changed_paused_resumed_and_listed(stack: StackAddress) -> None:
    agent, other = sorted((new_agent("ops"), new_agent("ops")))

    async with http_client(stack.settings) as (opened, client):
        place = f"/v1/agents/{agent}"
        assert (await client.get(place)).status_code == 404
        assert (await client.patch(place, json={"role": "night"})).status_code == 404
        made = ok(await client.put(place, json={"interval": "never", "retention_overrides": {"working": 1}}))
        assert (made["interval"], made["retention_overrides"], made["paused"]) == ("never", {"working": 1}, False)
        changed = ok(await client.patch(place, json={"role": "night", "retention_overrides": None}))
        assert (changed["role"], changed["interval"], changed["retention_overrides"]) == ("night", "never", {})
        refused = await client.put(place, json={"max_memories": 0})
        assert (refused.status_code, refused.json()["field"]) == (422, "max_memories")
        ok(await client.put(f"/v1/agents/{other}", json={}))

        ok(await client.post(f"{place}/pause", json={"reason": "it deletes too much"}), 204)
        assert ok(await client.get(place))["paused"]
        ok(await client.post(f"{place}/resume", json={"reason": "looked at"}), 204)
        assert not ok(await client.get(place))["paused"]
        noted = ok(await client.get("/v1/audit", params={"action": "agents.pause"}))["lines"]
        mine = [(each["actor"][:12], each["reason"]) for each in noted if each["subject"] == agent]
        assert mine == [("person:test-", "it deletes too much")]

        page = ok(await client.get("/v1/agents", params={"limit": 1, "after": agent[:-1]}))
        assert len(page["agents"]) == 1
        assert page["next"] == page["agents"][0]["agent_id"]
        async with opened.client(opened.key(agents=[other, agent])) as narrow:
            own = ok(await narrow.get("/v1/agents"))
        assert ([each["agent_id"] for each in own["agents"]], own["next"]) == ([agent, other], None)


async def test_a_run_is_planned_started_shown_and_undone(stack: StackAddress) -> None:
    agent = new_agent("ops")

    async with http_client(stack.settings) as (opened, client):
        place = f"/v1/agents/{agent}"
        ok(await client.put(place, json={"interval": "never", "retention_overrides": {"working": 1}}))
        await asyncio.to_thread(fill, stack, agent, old=3, new=9)
        plan = ok(await client.get(f"{place}/runs:plan"))
        assert (plan["live"], sum(step["removed"] for step in plan["steps"])) == (12, 3)

        run_id = ok(await client.post(f"{place}/runs", json={}), 202)["run_id"]
        run = await ended(client, run_id)
        assert (run["state"], run["agent_id"], run["undoable"]) == ("done", agent, True)
        assert sum(len(each["removed"]) for each in run["entries"]) == 3
        assert not {"token", "lease_until", "attempt"} & run.keys()
        listed = ok(await client.get("/v1/runs", params={"agent_id": agent, "state": "done"}))["runs"]
        assert [each["run_id"] for each in listed] == [run_id]

        foreseen = ok(await client.get(f"/v1/runs/{run_id}/undo"))
        assert len(foreseen["restored"]) == 3
        for wrong, field in (({}, "confirm"), ({**SURE, "confirm": 1}, "confirm"), ({"confirm": True}, "reason")):
            answer = await client.post(f"/v1/runs/{run_id}/undo", json=wrong)
            assert (answer.status_code, answer.json()["domain_code"]) == (422, "invalid"), wrong
            assert field in answer.json()["detail"] or not wrong
        undo_id = ok(await client.post(f"/v1/runs/{run_id}/undo", json=SURE), 202)["run_id"]
        assert (await ended(client, undo_id))["counts"]["restored"] == 3
        noted = ok(await client.get("/v1/audit", params={"action": "runs.undo"}))["lines"]
        assert (noted[0]["actor"][:12], noted[0]["subject"], noted[0]["reason"]) == (
            "person:test-",
            run_id,
            SURE["reason"],
        )

        async with opened.client(opened.key(agents=[new_agent()])) as outsider:
            for method, path in (("GET", ""), ("GET", "/undo"), ("POST", "/undo"), ("POST", "/dismiss")):
                hidden = await outsider.request(method, f"/v1/runs/{run_id}{path}", json=SURE)
                assert (hidden.status_code, hidden.json()["domain_code"]) == (404, "not_found")
        async with opened.client(opened.key(agents=[agent], verbs=(Verb.READ,))) as reader:
            assert (await reader.post(f"/v1/runs/{run_id}/undo", json=SURE)).status_code == 403
            assert (await reader.get(f"/v1/runs/{run_id}")).status_code == 200
        assert (await client.post(f"{place}/runs", json={"allow_large": True})).status_code == 422


async def test_a_held_run_is_released_or_dismissed(stack: StackAddress) -> None:
    agent = new_agent("ops")

    async with http_client(stack.settings) as (_, client):
        place = f"/v1/agents/{agent}"
        ok(await client.put(place, json={"interval": "never", "max_memories": 1}))
        await asyncio.to_thread(fill, stack, agent, old=0, new=30)
        run_id = ok(await client.post(f"{place}/runs", json={}), 202)["run_id"]
        assert (await ended(client, run_id))["state"] == "held"
        shown = ok(await client.get(f"/v1/runs/{run_id}/plan"))
        assert (shown["plan"]["live"], shown["plan"]["after"], len(shown["evicted"])) == (30, 1, 5)
        other = await client.post(f"/v1/runs/{run_id}/release", json={**SURE, "plan": "another"})
        assert (other.status_code, other.json()["domain_code"]) == (409, "conflict")
        dismissed = ok(await client.post(f"/v1/runs/{run_id}/dismiss", json=SURE))
        assert dismissed["state"] == "dismissed"
        again = await client.post(f"/v1/runs/{run_id}/release", json=SURE)
        assert (again.status_code, again.json()["field"]) == (422, "run_id")

        second = ok(await client.post(f"{place}/runs", json={}), 202)["run_id"]
        held = await ended(client, second)
        assert (held["state"], ok(await client.get(f"/v1/runs/{second}/groups"))["groups"]) == ("held", [])
        released = ok(await client.post("/v1/runs:release", json=SURE))["runs"]
        assert [each["released"] for each in released if each["run_id"] == second] == [True]
        done = await ended(client, second, held=False)
        assert (done["state"], done["counts"]["enforced"]) == ("done", 29)


async def test_all_maintenance_is_paused_and_resumed(stack: StackAddress) -> None:
    async with http_client(stack.settings) as (_, client):
        assert (await client.post("/v1/maintenance/pause", json={})).status_code == 422
        assert ok(await client.get("/v1/maintenance")) == {"is_paused": False}
        ok(await client.post("/v1/maintenance/pause", json={"reason": "a look"}), 204)
        try:
            assert ok(await client.get("/v1/maintenance")) == {"is_paused": True}
        finally:
            ok(await client.post("/v1/maintenance/resume", json={"reason": "looked"}), 204)
        assert ok(await client.get("/v1/maintenance")) == {"is_paused": False}


async def test_a_text_is_proposed_approved_once_and_undone(stack: StackAddress) -> None:
    async with http_client(stack.settings) as (opened, client):
        memory = {"category": "semantic", "content": f"The {new_agent('word')} opens the gate."}
        filed = ok(await client.post("/v1/approvals", json={**memory, "title": "A gate"}), 201)
        assert (filed["state"], filed["proposed_by"][:5]) == ("pending", "test-")
        assert memory["content"] not in str(filed)
        place = f"/v1/approvals/{filed['id']}"
        shown = ok(await client.get(place))
        assert shown["content"] == memory["content"]
        assert f"+{memory['content']}" in shown["diff"]

        async with opened.client(opened.key(verbs=(Verb.READ, Verb.WRITE, Verb.ADMIN))) as other:
            assert (await other.post(f"{place}/approve", json=SURE)).status_code == 403
        approved = ok(await client.post(f"{place}/approve", json=SURE))
        assert (approved["state"], approved["decided_by"], approved["reason"]) == (
            "approved", filed["proposed_by"], SURE["reason"],
        )  # fmt: skip
        twice = await client.post(f"{place}/reject", json=SURE)
        assert (twice.status_code, twice.json()["domain_code"]) == (409, "conflict")
        assert ok(await client.post(f"{place}/undo", json=SURE))["state"] == "undone"
        listed = ok(await client.get("/v1/approvals", params={"state": "undone"}))["approvals"]
        assert filed["id"] in [each["id"] for each in listed]
        assert (await client.get("/v1/approvals/none")).status_code == 404


async def test_a_fact_is_written_found_and_retracted_with_its_reason(stack: StackAddress) -> None:
    async with http_client(stack.settings) as (_, client):
        word = new_agent("fact").replace("-", "")
        fact = {"content": f"The {word} is locked at night.", "category": "convention"}
        fact_id = ok(await client.post("/v1/org/facts", json={"fact": fact}), 201)["fact_id"]
        shown = ok(await client.get(f"/v1/org/facts/{fact_id}"))
        assert shown["state"]["content"] == fact["content"]
        assert shown["log"][0]["author_name"].startswith("test-")
        found = ok(await client.post("/v1/org/search", json={"context": f"when is the {word} locked?"}))["facts"]
        assert found[0]["id"] == fact_id
        assert fact_id in [each["id"] for each in ok(await client.get("/v1/org/facts"))["facts"]]
        before = datetime.now(UTC).isoformat()
        ok(await client.post(f"/v1/org/facts/{fact_id}/retract", json=SURE), 204)
        assert (await client.post(f"/v1/org/facts/{fact_id}/retract", json=SURE)).status_code == 404
        assert fact_id not in [each["id"] for each in ok(await client.get("/v1/org/facts"))["facts"]]
        stood = ok(await client.get("/v1/org/facts:at", params={"at": before}))["facts"]
        assert fact_id in [each["fact_id"] for each in stood]
        log = ok(await client.get("/v1/org/log", params={"fact_id": fact_id}))["lines"]
        assert [each["operation_type"] for each in log] == ["RETRACT", "PUBLISH"]
        noted = ok(await client.get("/v1/audit", params={"action": "org.retract"}))["lines"]
        assert (noted[0]["subject"], noted[0]["reason"]) == (fact_id, SURE["reason"])


async def test_what_went_to_the_archive_is_found_and_restored(stack: StackAddress) -> None:
    agent = new_agent("ops")

    async with http_client(stack.settings) as (opened, client):
        place = f"/v1/agents/{agent}/archive"
        ok(await client.put(f"/v1/agents/{agent}", json={"interval": "never", "max_memories": 1}))
        await asyncio.to_thread(fill, stack, agent, old=0, new=3)
        body = {"allow_large": True, "confirmation": SURE}
        run_id = ok(await client.post(f"/v1/agents/{agent}/runs", json=body), 202)["run_id"]
        assert (await ended(client, run_id))["archived"] == 2
        page = ok(await client.get(place))
        assert (len(page["memories"]), page["total"]) == (2, 2)
        text = page["memories"][0]["text"]
        best = ok(await client.get(place, params={"text": text, "limit": 1}))["memories"][0]
        assert best["text"] == text
        entry = f"{place}/{best['original_id']}"
        assert ok(await client.get(entry))["archival_id"] == best["archival_id"]
        assert (await client.get(f"{place}/none")).status_code == 404
        restored = ok(await client.post(f"{entry}/restore", json={"reason": "it was needed"}), 202)["run_id"]
        assert (await ended(client, restored))["state"] == "done"
        assert ok(await client.get(place))["total"] == 1
        assert ok(await client.get(entry))["returned_at"] is not None
        async with opened.client(opened.key(agents=[new_agent()])) as outsider:
            assert (await outsider.get(place)).status_code == 403


async def test_letters_are_shown_without_memories_replayed_and_deleted(stack: StackAddress) -> None:
    agent = new_agent("ops")

    def given_up(opened: HttpApi, text: str) -> str:
        company = stack.settings.company
        request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"{text} {WORD}")
        item = build_payload(agent, request, company=company, sent_at=utc_now())
        (job,) = store_jobs(company, [item], queue=Queue.STORE)
        letter = NewDeadLetter(
            job_id=ids.new_id(),
            company=company,
            job=StorePayload.task,
            queue=str(Queue.STORE),
            payload=job.payload,
            reason="4 workers died while they ran it",
            attempts=4,
        )
        opened.context.ledger.dead_letters.put(letter)
        return letter.job_id

    async with http_client(stack.settings) as (opened, client):

        async def stored_again() -> bool:
            found = await client.post(f"/v1/agents/{agent}/search", json={"text": None})
            return [WORD in each["content"] for each in ok(found)["memories"]] == [True]

        one, two = given_up(opened, "the cellar"), given_up(opened, "the attic")
        page = await client.get("/v1/dead-letters")
        listed = {each["job_id"]: each for each in ok(page)["items"]}
        assert {one, two} <= listed.keys()
        assert (listed[one]["agents"], listed[one]["attempts"], listed[one]["can_be_replayed"]) == ([agent], 4, True)
        shown = await client.get(f"/v1/dead-letters/{one}")
        assert ok(shown)["reason"] == "4 workers died while they ran it"
        assert WORD not in page.text + shown.text

        assert (await client.post("/v1/dead-letters:replay", json=SURE)).status_code == 422
        assert ok(await client.post("/v1/dead-letters:replay", json={**SURE, "job_ids": [one]})) == {"replayed": 1}
        gone = ok(await client.post("/v1/dead-letters:delete", json={**SURE, "job_ids": [two]}))
        assert gone == {"deleted": 1}
        for job_id in (one, two):
            assert (await client.get(f"/v1/dead-letters/{job_id}")).status_code == 404
        await until(stored_again)
        old = ok(await client.post("/v1/dead-letters:delete", json={**SURE, "older_than_days": 36_500}))
        assert old == {"deleted": 0}


async def test_usage_skills_and_lessons_are_read(stack: StackAddress) -> None:
    agent = new_agent("ops")

    async with http_client(stack.settings) as (opened, client):
        assert ok(await client.get("/v1/usage", params={"by": "day", "agent_id": agent})) == {"rows": []}
        forecast = ok(await client.get("/v1/usage/forecast", params={"agent_id": agent}))
        assert forecast == {"days": 0, "since": None, "rows": [], "pending": None}
        every = await client.get("/v1/usage", params={"by": "company"})
        assert (every.status_code, every.json()["field"]) == (422, "by")
        assert "skills" in ok(await client.get("/v1/skills"))
        assert (await client.get("/v1/skills/none")).status_code == 404
        assert "cycles" in ok(await client.get("/v1/skill-cycles"))
        assert (await client.get(f"/v1/agents/{agent}/lessons")).status_code == 404
        ok(await client.put(f"/v1/agents/{agent}", json={}))
        assert ok(await client.get(f"/v1/agents/{agent}/lessons")) == {"lessons": []}
        async with opened.client(opened.key(agents=[agent])) as narrow:
            assert ok(await narrow.get("/v1/usage", params={"agent_id": agent})) == {"rows": []}
            assert (await narrow.get("/v1/usage")).status_code == 403
            assert (await narrow.get("/v1/usage/forecast")).status_code == 403
            assert (await narrow.post("/v1/models/check")).status_code == 403
            assert (await narrow.get("/v1/audit")).status_code == 403
        unset = await client.post("/v1/models/check")
        assert (unset.status_code, "MEMTEND_LLM_URL" in unset.text) == (501, True)
