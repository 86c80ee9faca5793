"""Every page of the console over a running stack, empty and full; texts of memories stay texts; actions are audited."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape

import pytest
from support.console import PAGES, ConsoleClient, signed_in
from support.console_world import HOSTILE, ConsoleWorld, dead_letter
from support.http_api import http_api
from support.memories import new_agent
from support.running_stack import wait_until

from memcore import MemoryClient
from memcore.ledger.access.keys import Verb
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.models.origin import Channel, Writer, writing_as
from ops.web.pages import fenced


@asynccontextmanager
async def visiting(world: ConsoleWorld, *, token: str | None = None) -> AsyncIterator[ConsoleClient]:
    """Serve the stack here, with a browser in which somebody has signed in."""
    async with http_api(world.stack.settings) as opened, signed_in(opened.app, token or world.key()) as client:
        yield client


def memory_ids(page: str) -> list[str]:
    return re.findall(r"/console/memories/one\?agent=[^&]+&amp;id=([0-9a-f-]{36})", page)


def audited(world: ConsoleWorld, action: str, subject: str) -> list[tuple[str, str | None]]:
    lines = world.ledger.audit.page(world.company, action=action)
    # The key's name is one of its own: ada and more.
    return [(each.actor[:10], each.reason) for each in lines if each.subject == subject]


@pytest.mark.parametrize("page", PAGES)
async def test_each_page_is_there_for_a_company_without_anything(world: ConsoleWorld, page: str) -> None:
    if world.ledger.companies.get("empty") is None:
        world.ledger.companies.add("empty")
    key = world.ledger.api_keys.create("empty", name=new_agent("eve"), verbs=list(Verb)).token

    async with visiting(world, token=key) as client:
        text = await client.get(page)
        assert 'aria-current="page"' in text
        assert world.agent not in text


async def test_each_page_shows_what_there_is(world: ConsoleWorld) -> None:
    async with visiting(world) as client:
        fleet = await client.get(f"fleet?q={world.agent}")
        assert "1 of 20" in fleet
        assert world.agent in fleet
        # Other tests let the agent run, too.
        assert world.ledger.runs.list(world.company, agent_id=world.agent)[0].run_id in fleet
        # As a browser sends a form whose other fields are empty.
        runs = await client.get(f"runs?agent={world.agent}&state=")
        assert world.run_id in runs
        run = await client.get(f"runs/{world.run_id}?plan=true")
        assert "retention" in run
        assert "memories would come back" in run
        assert "The lift stood still! on floor two" in run
        approvals = await client.get("approvals")
        assert world.approval_id in approvals
        assert "call the porter" in await client.get(f"approvals/{world.approval_id}")
        queues = await client.get("queues")
        assert world.job_id in queues
        assert "memory.maintenance" in queues
        assert "the attic" not in queues
        cost = await client.get("cost")
        for part in (world.agent, "compress", "a-model", "1,200", "0.0200"):
            assert part in cost
        assert "wordllama" in await client.get("embedder")
        assert "person:ada" in await client.get("audit")


async def test_pictures_lead_from_what_happened_to_the_run_and_from_a_summary_to_its_sources(
    world: ConsoleWorld,
) -> None:
    async with visiting(world) as client:
        recent = await client.get("activity")
        assert world.held_run_id in recent
        assert f">{world.agent}<" in recent
        growth = await client.get(f"memories/growth?agent={world.agent}")
        assert "merged, " in growth
        timeline = await client.get(f"memories/timeline?agent={world.agent}")
        assert f'href="/console/runs/{world.run_id}"' in timeline.partition("<svg")[2].partition("</svg>")[0]
        run = await client.get(f"runs/{world.run_id}")
        (summary_id, *_) = memory_ids(run.partition("<h3>Summary")[2])
        one = await client.get(f"memories/one?agent={world.agent}&id={summary_id}")
        picture = one.partition("<svg")[2].partition("</svg>")[0]
        assert picture.count('class="node ') == 6
        assert picture.count('class="edge"') == 5
        assert picture.count('class="node unknown"') == 0
        source_id = next(each for each in memory_ids(one) if each != summary_id)
        other = await client.get(f"memories/one?agent={world.agent}&id={source_id}")
        assert summary_id in other.partition("<svg")[2].partition("</svg>")[0]


async def test_two_hundred_agents_are_searched_sorted_and_paged(world: ConsoleWorld) -> None:
    def shown(page: str) -> list[str]:
        return re.findall(r">(fleet-\d{3})</a>", page)

    async with visiting(world) as client:
        first = await client.get("fleet?q=clerk")
        assert shown(first) == [f"fleet-{number:03}" for number in range(50)]
        assert "1 of 4" in first
        assert shown(await client.get("fleet?q=clerk&at=4"))[-1] == "fleet-199"
        assert shown(await client.get("fleet?q=clerk&sort=agent&down=true"))[0] == "fleet-199"
        assert shown(await client.get("fleet?q=LEET-15")) == [f"fleet-15{number}" for number in range(10)]
        assert shown(await client.get("fleet?q=clerk&at=99999"))[-1] == "fleet-199"
        assert "No agent matches" in await client.get("fleet?q=nobody")


async def test_the_text_of_a_memory_is_shown_and_never_run(world: ConsoleWorld) -> None:
    async with visiting(world) as client:
        found = await client.get(f"memories?agent={world.agent}&q=document+title+taken")
        (memory_id, *_) = memory_ids(found)
        one = await client.get(f"memories/one?agent={world.agent}&id={memory_id}")
        for page in (found, one):
            assert "<script>document" not in page
            assert "<img" not in page
            assert "\u202e" not in page
            assert "49" not in page.partition("{{")[0][-20:]
            assert escape(fenced(HOSTILE)).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page


async def test_memories_are_listed_by_pages_forgotten_and_undone(world: ConsoleWorld) -> None:
    async with visiting(world) as client:
        listed = await client.get(f"memories?agent={world.agent}&category=semantic")
        assert len(memory_ids(listed)) == 10
        found = await client.get(f"memories?agent={world.agent}&q=fact+7")
        memory_id = memory_ids(found)[0]
        answer = await client.decide("memories/forget", agent=world.agent, id=memory_id)
        run_id = answer.headers["location"].partition("runs/")[2].partition("?")[0]
        assert audited(world, "memory.forget", run_id) == [("person:ada", "the test says so")]
        one = await client.get(f"memories/one?agent={world.agent}&id={memory_id}")
        assert "removed" in one
        assert run_id in one
        await client.get(f"runs/{run_id}")
        await client.decide(f"runs/{run_id}/undo")
        assert audited(world, "runs.undo", run_id) == [("person:ada", "the test says so")]
        wait_until(lambda: world.run_of(world.agent, "undo") is not None, what="the undo")
        assert memory_id in memory_ids(await client.get(f"memories?agent={world.agent}"))
        assert "undo" in await client.get(f"runs?agent={world.agent}")


async def test_a_memory_of_the_archive_is_found_and_restored(world: ConsoleWorld) -> None:
    async with visiting(world) as client:
        archived = await client.get(f"memories/archive?agent={world.agent}")
        memory_id = memory_ids(archived)[0]
        assert "Restore from the archive" in await client.get(f"memories/one?agent={world.agent}&id={memory_id}")
        await client.decide("memories/restore", agent=world.agent, id=memory_id)
        assert audited(world, "archive.restore", memory_id) == [("person:ada", "the test says so")]
        wait_until(lambda: world.run_of(world.agent, "restore") is not None, what="the restore")


async def test_a_held_runs_page_shows_its_plan_and_a_release_is_of_that_plan(world: ConsoleWorld) -> None:
    async with visiting(world) as client:
        shown = await client.get(f"runs/{world.held_run_id}")
        (version,) = set(re.findall(r'name="plan" value="([0-9a-f]{64})"', shown))
        assert "memories would become 1" in shown
        assert "Over the limit" in shown
        assert "2 memories become one, by dedupe" in shown
        assert "The lift is blue." in shown
        assert '<pre class="text"' in shown
        path = f"runs/{world.held_run_id}/release"
        for plan, status in (("0" * 64, 409), ("", 422)):
            refused = await client.send(path, confirm="yes", reason="x", plan=plan)
            assert refused.status_code == status, refused.text
        assert version in await client.get(f"runs/{world.held_run_id}?at=99")


async def test_a_held_run_is_dismissed(world: ConsoleWorld) -> None:
    async with visiting(world) as client:
        assert world.held_run_id in await client.get("fleet?show=held")
        assert "Release" in await client.get(f"runs/{world.held_run_id}")
        await client.decide(f"runs/{world.held_run_id}/dismiss")
        assert audited(world, "runs.dismiss", world.held_run_id) == [("person:ada", "the test says so")]
        assert "dismissed" in await client.get(f"runs/{world.held_run_id}")
        again = await client.send(f"runs/{world.held_run_id}/release", confirm="yes", reason="x", plan="x")
        assert (again.status_code, "run_id" in again.text) == (422, True)


async def test_a_letter_is_sent_again_and_another_deleted(world: ConsoleWorld) -> None:
    one, two = (dead_letter(world.ledger, world.company, world.agent) for _ in range(2))

    async with visiting(world) as client:
        await client.get("queues")
        await client.decide("queues/replay", job=one)
        await client.decide("queues/delete", job=two)
        left = await client.get("queues")
        assert one not in left
        assert two not in left
        assert audited(world, "dead_letters.delete", two) == [("person:ada", "the test says so")]
        assert (await client.send("queues/replay", job=two, confirm="yes", reason="x")).status_code == 404


async def test_a_source_is_planned_distrusted_reported_and_trusted_again(world: ConsoleWorld) -> None:
    writer = Writer(principal="scraper", limit=Channel.TOOL, usual=Channel.TOOL)
    with MemoryClient.from_settings(world.stack.settings) as memory, writing_as(writer):
        stored = memory.store(world.agent, MemoryStoreRequest(category=MemoryCategory.SOCIAL, content="the roof leaks"))
        list(memory.wait(stored.job_ids, timeout_seconds=600))
    (memory_id,) = stored.memory_ids
    one = f"memories/one?agent={world.agent}&id={memory_id}"
    async with visiting(world) as client:
        assert "the roof leaks" in await client.get(one)
        assert "principal" in await client.get(f"distrusts?agent_id={world.agent}", 422)
        planned = await client.get("distrusts?principal=scraper&channel=&source=")
        assert f'>{world.agent}</th><td class="number">1<' in planned
        assert "No agent has anything of it" in await client.get("distrusts?principal=nobody")
        refused = await client.send("distrusts", principal="scraper", confirm="yes", reason="")
        assert refused.status_code == 422
        answer = await client.decide("distrusts", principal="scraper")
        place = answer.headers["location"].removeprefix("/console/").partition("?")[0]
        shown = await client.get(place)
        assert memory_ids(shown) == [memory_id]
        assert 'class="state distrusted"' in shown
        hidden = await client.get(one)
        assert "it is distrusted" in hidden
        assert "the roof leaks" not in hidden
        report = json.loads(await client.get(f"{place}/report"))
        assert memory_id in json.dumps(report)
        assert place.partition("/")[2] in await client.get("distrusts")
        await client.get(place)
        await client.decide(f"{place}/lift")
        assert "Trust again" not in await client.get(place)
        assert "the roof leaks" in await client.get(one)
        await client.get("distrusts/none", 404)
    subject = place.partition("/")[2]
    for action in ("distrust", "trust"):
        assert audited(world, action, subject) == [("person:ada", "the test says so")]


async def test_what_is_of_another_company_or_agent_is_not_found(world: ConsoleWorld) -> None:
    if world.ledger.companies.get("globex") is None:
        world.ledger.companies.add("globex")
    foreign = world.ledger.api_keys.create("globex", name=new_agent("eve"), verbs=list(Verb)).token

    async with visiting(world, token=foreign) as client:
        for path in (f"runs/{world.run_id}", f"approvals/{world.approval_id}"):
            assert "The lift" not in await client.get(path, 404)
        for path in ("fleet", "runs", "approvals", "queues", "cost", "audit", f"memories?agent={world.agent}"):
            page = await client.get(path)
            assert "The lift" not in page
            assert not {world.run_id, world.approval_id, world.job_id} & set(re.findall(r"[0-9a-f-]{36}", page))
        for path in (f"runs/{world.run_id}/undo", f"approvals/{world.approval_id}/approve"):
            assert (await client.send(path, confirm="yes", reason="x")).status_code == 404
        assert (await client.send("queues/delete", job=world.job_id, confirm="yes", reason="x")).status_code == 404

    async with visiting(world, token=world.key(agents=[world.held])) as client:
        for path in (f"runs/{world.run_id}",):
            await client.get(path, 404)
        await client.get("memories")
        assert (await client.send(f"runs/{world.run_id}/undo", confirm="yes", reason="x")).status_code == 404
