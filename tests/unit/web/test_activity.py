"""The pages of what happened: since yesterday by agent, growth and timeline; for whom, and without what is hidden."""

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from support.console import console_settings, signed_in
from support.http_api import HttpApi, http_api
from support.ledger_records import make_journal_entry
from support.memories import record
from support.present import present

from memcore.backends.inmemory import InMemoryBackend
from memcore.clock import utc_now
from memcore.config.urls import LedgerUrls
from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import AgentSpec
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.runs import NewRun, RunStep
from memcore.ledger.work_items import WorkState
from memcore.models.memory_test import MemoryTest, NamedMemory, Outcome
from ops.http.context import CompanyService

DAY = timedelta(days=1)
#: Stands for what is not known, and a name that is a page of its own if anything lets it.
NONE, HOSTILE = "\u2013", "<script>document.title=1</script><img src=x> {{ 7*7 }}"

PAGES = ("activity", "memories/growth?agent=ada", "memories/timeline?agent=ada")


@dataclass(frozen=True, kw_only=True)
class Served:
    """A served installation whose memories are in this process."""

    opened: HttpApi
    service: CompanyService
    backend: InMemoryBackend
    run_id: str
    held_id: str


def _run(opened: HttpApi, agent_id: str, state: WorkState) -> str:
    ledger = opened.context.ledger
    made = present(ledger.runs.create(NewRun(company="acme", agent_id=agent_id, planned_at=utc_now())))
    token = present(present(ledger.runs.claim("acme", made.run_id, lease=DAY)).token)
    ledger.runs.finish("acme", made.run_id, token, state=state, counts={}, step=RunStep.CONSOLIDATION)
    return made.run_id


@asynccontextmanager
async def served(urls: LedgerUrls, home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """Serve agents: ada, whose run merged, bob, whose run is held, and one whose name is hostile."""
    async with http_api(console_settings(urls, home)) as opened:
        ledger, service = opened.context.ledger, await opened.context.service("acme")
        backend = InMemoryBackend(company="acme")
        await backend.connect()
        monkeypatch.setattr(service.resources, "_connected", backend)
        for agent_id in ("ada", "bob", HOSTILE):
            ledger.agents.put(AgentSpec(company="acme", agent_id=agent_id))
        new, old = utc_now() - timedelta(hours=1), utc_now() - 3 * DAY
        await backend.store_many([record("ada", f"new {number}", created_at=new) for number in range(3)])
        await backend.store_many([record("ada", f"old {number}", created_at=old) for number in range(2)])
        run_id, held_id = _run(opened, "ada", WorkState.DONE), _run(opened, "bob", WorkState.HELD)
        _run(opened, HOSTILE, WorkState.DONE)
        entry = make_journal_entry(uuid.uuid4().hex, run_id=run_id, outgoing=tuple(str(uuid.uuid4()) for _ in "four"))
        ledger.journal.prepare(entry)
        ledger.journal.settle(entry.booking_id)
        yield Served(opened=opened, service=service, backend=backend, run_id=run_id, held_id=held_id)


def _line(page: str, agent_id: str) -> list[str]:
    """Return the cells of an agent's line, without marks."""
    found = re.search(rf'<tr data-row>\s*<th scope="row">(?:<a [^>]*>)?{agent_id}\b.*?</tr>', page, re.DOTALL)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", present(found)[0], re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub("<[^>]+>", "", cell)).strip() for cell in cells]


def _numbers(page: str, title: str) -> list[list[str]]:
    """Return the rows of a chart's table."""
    table = present(re.search(rf'aria-label="{title}">(.*?)</table>', page, re.DOTALL))[1]
    rows = re.findall("<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    return [[re.sub("<[^>]+>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", row)] for row in rows]


async def test_the_first_page_says_what_happened_and_what_needs_a_person(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(sqlite_ledger, tmp_path, monkeypatch) as at, signed_in(at.opened.app, at.opened.key()) as one:
        answer = await one.http.get("/console")
        assert answer.headers["location"] == "/console/activity"
        page = await one.get("activity")
        assert _line(page, "ada")[:7] == [NONE, "3", "4", "0", "0", "0", "0"]
        assert _line(page, "bob")[:2] == ["held run of bob", "0"]
        assert f'<a href="/console/runs/{at.run_id}">ada' in page
        assert f'<a href="/console/runs/{at.held_id}"><span class="state held">' in page
        assert "1 held" in page
        assert "0 approvals" in page
        assert "0 dead letters" in page
        assert "Something waits for a person." in page
        drawn = {row[0]: row[1:] for row in _numbers(page, "The last 24 hours")}
        assert drawn["ada"] == ["3", "4", "0", "0", "0"]
        # Who has something to decide stands first.
        assert list(drawn)[:2] == ["bob", "ada"]


async def test_what_happened_is_of_the_last_24_hours_by_the_services_clock(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(sqlite_ledger, tmp_path, monkeypatch) as at, signed_in(at.opened.app, at.opened.key()) as one:
        monkeypatch.setattr(at.service.resources, "clock", lambda: utc_now() + 1.01 * DAY)
        page = await one.get("activity")
        assert "ada" not in page
        # What waits for a person does so until somebody decides.
        assert _line(page, "bob")[0] == "held run of bob"


async def test_without_the_store_the_page_says_what_the_ledger_knows(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened:
        _run(opened, "ada", WorkState.DONE)
        async with signed_in(opened.app, opened.key()) as one:
            page = await one.get("activity")
            assert "The memory store does not answer" in page
            assert _line(page, "ada")[1] == NONE
            assert "Nothing waits for a person." in page


async def test_growth_says_what_there_is_and_what_went(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(sqlite_ledger, tmp_path, monkeypatch) as at, signed_in(at.opened.app, at.opened.key()) as one:
        page = await one.get("memories/growth?agent=ada")
        live = [row[1] for row in _numbers(page, "Live and archived")]
        assert (live[0], live[-2], live[-1], len(live)) == ("0", "2", "5", 13)
        removed = _numbers(page, "Removed")
        assert removed[-1][1:] == ["4", "0", "0", "0", "0"]
        assert len(removed) == 30
        assert len(_numbers(await one.get("memories/growth?agent=ada&days=365"), "Removed")) == 53
        assert 'aria-current="true">30 days' in page
        for days in ("1", "367", "x"):
            await one.get(f"memories/growth?agent=ada&days={days}", 422)


async def test_a_timeline_leads_to_its_runs_in_order(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(sqlite_ledger, tmp_path, monkeypatch) as at, signed_in(at.opened.app, at.opened.key()) as one:
        week = await one.get("memories/timeline?agent=ada")
        shown = _numbers(week, "Timeline of ada")
        assert [row[1:] for row in shown] == [
            ["memories", "2 stored"],
            ["memories", "3 stored"],
            ["runs", "maintenance, done"],
            ["can be undone", "maintenance, done"],
        ]
        picture = present(re.search("<svg.*?</svg>", week, re.DOTALL))[0]
        assert picture.count(f'href="/console/runs/{at.run_id}"') == 2
        assert 'role="group"' in picture
        day = await one.get("memories/timeline?agent=ada&zoom=day")
        assert ["memories", "2 stored"] not in [row[1:] for row in _numbers(day, "Timeline of ada")]
        every = await one.get("memories/timeline?agent=ada&zoom=all")
        assert ["memories", "2 stored"] in [row[1:] for row in _numbers(every, "Timeline of ada")]
        await one.get("memories/timeline?agent=ada&zoom=year", 422)
        assert "Nothing in this time." in await one.get("memories/timeline?agent=nobody&zoom=all")


async def test_names_stay_texts_and_pages_have_nothing_inline(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(sqlite_ledger, tmp_path, monkeypatch) as at, signed_in(at.opened.app, at.opened.key()) as one:
        for path in PAGES:
            page = await one.get(path)
            assert "<script>document" not in page
            assert "<img" not in page
            assert " style=" not in page
            assert page.count("<svg") == page.count('class="chart"') > 0
            assert page.count('<div class="table" role="region" tabindex="0" aria-label=') > page.count("<svg") - 1


async def test_a_key_of_one_agent_sees_that_agent_alone(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(sqlite_ledger, tmp_path, monkeypatch) as at:
        token = at.opened.key(agents=["ada"], verbs=(Verb.READ,))
        async with signed_in(at.opened.app, token) as one:
            page = await one.get("activity")
            assert _line(page, "ada")[1] == "3"
            for hidden in ("bob", "approvals", "dead letters", "0 more"):
                assert hidden not in page.partition("<main")[2]
            assert "0 held" in page
            for path in ("memories/growth?agent=bob", "memories/timeline?agent=bob"):
                await one.get(path, 403)
        at.opened.context.ledger.companies.add("globex")
        async with signed_in(at.opened.app, at.opened.key(company="globex")) as one:
            assert "No run in the last 24 hours." in await one.get("activity")


async def test_an_agent_that_is_being_erased_is_on_no_page(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(sqlite_ledger, tmp_path, monkeypatch) as at, signed_in(at.opened.app, at.opened.key()) as one:
        word = Confirmation(actor="grace", confirm=True, reason="they asked for it")
        await at.service.erasures.request("ada", word)
        assert "ada" not in (await one.get("activity")).partition("<main")[2]
        for path in PAGES[1:]:
            await one.get(path, 404)


async def test_the_pages_write_nothing(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(urls: LedgerUrls) -> list[int]:
        files = [Path(url.removeprefix("sqlite:///")) for url in (urls.ledger, urls.journal)]
        return [each.stat().st_mtime_ns for file in files for each in sorted(file.parent.glob(f"{file.name}*"))]

    async with served(sqlite_ledger, tmp_path, monkeypatch) as at, signed_in(at.opened.app, at.opened.key()) as one:
        for path in PAGES:
            await one.get(path)
        before = written(sqlite_ledger)
        for path in PAGES:
            await one.get(path)
        assert written(sqlite_ledger) == before


async def test_tests_that_failed_stand_first_and_a_key_sees_those_of_its_agents(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = {"passed": Outcome.PASSED, "failed": Outcome.FAILED, HOSTILE: Outcome.FAILED}
    async with served(sqlite_ledger, tmp_path, monkeypatch) as at:
        tests = at.opened.context.ledger.memory_tests
        given = {"passed": "ada", "new": "ada", "failed": "ada", HOSTILE: "bob"}
        named = [
            MemoryTest(agent=agent, name=name, question=name, finds=(NamedMemory(text="x"),))
            for name, agent in given.items()
        ]
        tests.register("acme", named, notes=[])
        kept = [each for each in tests.list("acme") if each.name in outcomes]
        more = {"reasons": (HOSTILE,), "run_id": at.run_id}
        tests.keep("acme", [each.model_copy(update={**more, "outcome": outcomes[each.name]}) for each in kept])
        async with signed_in(at.opened.app, at.opened.key()) as one:
            first = await one.get("activity")
            assert "2 failed tests" in first
            assert "Something waits for a person." in first
            page = await one.get("activity/tests")
            named_first = re.findall(r'<th scope="row"[^>]*>([^<]*)', page)
            assert named_first[2:] == ["new", "passed"]
            assert f"/console/runs/{at.run_id}" in page
            assert "<img" not in page
            assert "1 registered" in await one.get("activity/tests?agent=bob")
        async with signed_in(at.opened.app, at.opened.key(agents=["ada"], verbs=(Verb.READ,))) as one:
            assert "1 failed tests" in await one.get("activity")
            page = await one.get("activity/tests")
            assert "3 registered" in page
            assert "of bob" not in page
            await one.get("activity/tests?agent=bob", 403)
        at.opened.context.ledger.companies.add("globex")
        async with signed_in(at.opened.app, at.opened.key(company="globex")) as one:
            assert "0 registered" in await one.get("activity/tests")
