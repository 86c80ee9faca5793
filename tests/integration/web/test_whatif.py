"""What-if in the console: the next run under another policy beside the one in force; nothing is written."""

from datetime import timedelta
from html import unescape

from integration.web.test_lab import rows
from support.console import signed_in
from support.http_api import HttpApi
from support.memories import record
from support.served_console import Serve

from memcore.backends.factory import WorkerBackend
from memcore.clock import utc_now
from memcore.jobs import RecordedQuery
from memcore.ledger.access.keys import Verb
from memcore.models.memory_test import MemoryTest, NamedMemory
from memcore.records import Where
from ops.web.forms import MOST_POLICY_CHARS

AGENT = "ada"
HOSTILE = "<img src=x> {{ 7*7 }}"


async def fill(opened: HttpApi, backend: WorkerBackend) -> None:
    """Store an old memory and a new one, with a question and a test of the old one."""
    old = record(AGENT, "Rosa leads the north team.", created_at=utc_now() - timedelta(days=100))
    await backend.store_many([old, record(AGENT, "The lift is green.", created_at=utc_now() - timedelta(days=9))])
    ledger, question = opened.context.ledger, "Who leads the north team?"
    asked = RecordedQuery(
        agent_id=AGENT, question=question, memory_ids=(old.entry.id,), asked_at=utc_now() - timedelta(days=1)
    )
    ledger.recorded_queries.record("acme", [asked])
    named = MemoryTest(agent=AGENT, name=HOSTILE, question=question, finds=(NamedMemory(id=old.entry.id),))
    ledger.memory_tests.register("acme", [named], notes=[])


TRIED = "memory: {consolidation: {retention: {default_retention_days: 30}}}"


async def test_the_next_run_under_another_policy_stands_beside_the_one_in_force(serve: Serve) -> None:
    async with serve() as (opened, backend), signed_in(opened.app, opened.key(verbs=(Verb.READ,))) as client:
        await fill(opened, backend)
        assert f'href="/console/runs/whatif?agent={AGENT}"' in await client.get(f"runs?agent={AGENT}")
        begun = await client.get(f"runs/whatif?agent={AGENT}")
        policy = unescape(begun.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0])
        before = await backend.scan(Where(agent_id=AGENT))
        same = await client.send("runs/whatif", agent=AGENT, policy=policy)
        assert same.status_code == 200, same.text
        assert {row[3] for row in rows(same.text, "The next run")} == {"same"}
        other = await client.send("runs/whatif", agent=AGENT, policy=TRIED)
        found = {row[0]: row[1:] for row in rows(other.text, "The next run")}
        assert (found["expired"], found["after"]) == (["0", "1", "+1"], ["2", "1", "-1"])
        assert "Of 1 recorded questions, 0 would find more of what they were shown, 1 less." in other.text
        assert "1 memory tests were asked: 1 would fail then alone, 0 in force alone." in other.text
        broken = other.text.partition("Tests that would fail then</h3>")[2].partition("</ul>")[0]
        assert "&lt;img src=x&gt; {{ 7*7 }}" in broken
        assert "<img" not in other.text
        assert TRIED in unescape(other.text)
        assert await backend.scan(Where(agent_id=AGENT)) == before
        assert opened.context.ledger.runs.list("acme", agent_id=AGENT, limit=10) == ()
        held = "memory: {consolidation: {max_memories_per_agent: 1, max_removed_floor: 0, max_removed_fraction: 0.1}}"
        assert "Then: it stops after retention" in (await client.send("runs/whatif", agent=AGENT, policy=held)).text


async def test_what_a_policy_leaves_out_stays_as_in_force(serve: Serve) -> None:
    async with serve(TRIED) as (opened, backend), signed_in(opened.app, opened.key()) as client:
        await fill(opened, backend)
        assert "default_retention_days: 30" in await client.get(f"runs/whatif?agent={AGENT}")
        answer = await client.send("runs/whatif", agent=AGENT, policy="memory: {consolidation: {strategy: none}}")
        assert rows(answer.text, "The next run")[0] == ["expired", "1", "1", "same"]


async def test_a_policy_that_is_wrong_is_named_and_stays_in_the_form(serve: Serve) -> None:
    async with serve() as (opened, _), signed_in(opened.app, opened.key()) as client:
        await client.get(f"runs/whatif?agent={AGENT}")
        for policy, said in (
            ("memory: {consolidation: {strategy: all}}", "memory.consolidation.strategy"),
            ("memory: [", "policy, line 1"),
            ("<script>x</script>: 1", "<script>x</script>"),
            ("# " + "x" * MOST_POLICY_CHARS, "policy: has more than 65536 characters"),
        ):
            answer = await client.send("runs/whatif", agent=AGENT, policy=policy)
            assert answer.status_code == 422, policy
            assert said in unescape(answer.text.partition('id="wrong-policy" role="alert">')[2].partition("<")[0])
            assert policy in unescape(answer.text)
            assert "<script>x" not in answer.text
        for left_out in ("agent", "policy"):
            given = {"agent": AGENT, "policy": "{}"} | {left_out: " "}
            assert (await client.send("runs/whatif", **given)).status_code == 422


async def test_a_key_tries_a_policy_on_its_agents_alone(serve: Serve) -> None:
    async with serve() as (opened, backend):
        await fill(opened, backend)
        async with signed_in(opened.app, opened.key(agents=["bob"])) as other:
            await other.get(f"runs/whatif?agent={AGENT}", 403)
            await other.get("runs/whatif?agent=bob")
            assert (await other.send("runs/whatif", agent=AGENT, policy=TRIED)).status_code == 403
        async with signed_in(opened.app, opened.key(verbs=(Verb.WRITE,))) as writer:
            await writer.get(f"runs/whatif?agent={AGENT}", 403)
            answer = await writer.send("runs/whatif", agent=AGENT, policy=TRIED)
            assert (answer.status_code, "the verb read" in answer.text) == (403, True)
        opened.context.ledger.companies.add("globex")
        async with signed_in(opened.app, opened.key(company="globex")) as foreign:
            await foreign.get(f"runs/whatif?agent={AGENT}")
            answer = await foreign.send("runs/whatif", agent=AGENT, policy=TRIED)
            assert {row[1] for row in rows(answer.text, "The next run")} == {"0"}
            assert "0 memory tests were asked" in answer.text
