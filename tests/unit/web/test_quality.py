"""Charts of quality and of cost: by day, of the agents that a key may see, and only what is kept."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from support.console import console_settings, signed_in
from support.http_api import HttpApi, http_api
from support.present import present

from memcore import ids
from memcore.clock import utc_now
from memcore.config.urls import LedgerUrls
from memcore.jobs import RecordedQuery
from memcore.ledger.access.keys import Verb
from memcore.ledger.llm_usage import Caps, NewCall, Spent
from memcore.ledger.runs import NewRun, RunStep
from memcore.ledger.work_items import WorkState

DAY = timedelta(days=1)


def rows(page: str, title: str) -> list[list[str]]:
    """Return the rows of a chart's table that have a number."""
    table = present(re.search(rf'aria-label="{title}">(.*?)</table>', page, re.DOTALL))[1]
    found = re.findall("<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    cells = [[re.sub("<[^>]+>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", row)] for row in found]
    return [row for row in cells if {*row[1:]} != {"0"}]


def ran(opened: HttpApi, agent_id: str, **counts: int) -> None:
    ledger = opened.context.ledger
    run = present(ledger.runs.create(NewRun(company="acme", agent_id=agent_id, planned_at=utc_now())))
    token = present(present(ledger.runs.claim("acme", run.run_id, lease=DAY)).token)
    ledger.runs.finish("acme", run.run_id, token, state=WorkState.DONE, counts={}, step=RunStep.CONSOLIDATION)
    ledger.runs.add_counts("acme", run.run_id, counts)


async def test_tests_are_drawn_by_day_of_all_agents_of_one_and_of_a_keys(
    sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    today = f"{utc_now():%Y-%m-%d}"
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened:
        async with signed_in(opened.app, opened.key()) as one:
            assert "has kept how many tests passed" in await one.get("activity/tests")
            ran(opened, "ada", tests_asked=3, tests_passed=2, tests_failed=1)
            ran(opened, "bob", tests_asked=2, tests_passed=1, tests_error=1)
            ran(opened, "bob", merged=7)
            page = await one.get("activity/tests")
            assert rows(page, "Tests day by day") == [[today, "3", "1", "1"]]
            assert page.count('<th scope="row">20') == 30
            assert rows(await one.get("activity/tests?agent=ada"), "Tests day by day") == [[today, "2", "0", "1"]]
            assert "<svg" not in await one.get("activity/tests?agent=eve")
        async with signed_in(opened.app, opened.key(agents=["bob"], verbs=(Verb.READ,))) as one:
            assert rows(await one.get("activity/tests"), "Tests day by day") == [[today, "1", "1", "0"]]
        opened.context.ledger.companies.add("globex")
        async with signed_in(opened.app, opened.key(company="globex")) as one:
            assert "<svg" not in await one.get("activity/tests")


async def test_an_agents_recorded_questions_are_drawn_by_the_day_of_their_last_time(
    sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    async with (
        http_api(console_settings(sqlite_ledger, tmp_path)) as opened,
        signed_in(opened.app, opened.key()) as one,
    ):
        now = utc_now()
        asked = {"one": now, "two": now, "three": now - 3 * DAY, "old": now - 40 * DAY}
        given = [
            RecordedQuery(agent_id="ada", question=question, memory_ids=("m",), asked_at=at)
            for question, at in asked.items()
        ]
        opened.context.ledger.recorded_queries.record("acme", given)
        page = await one.get("activity/tests?agent=ada")
        drawn = [[f"{now - 3 * DAY:%Y-%m-%d}", "1"], [f"{now:%Y-%m-%d}", "2"]]
        assert rows(page, "Questions") == drawn
        assert "Questions" not in await one.get("activity/tests")


async def test_cost_is_drawn_by_day_also_where_it_is_little(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    today = f"{utc_now():%Y-%m-%d}"
    async with (
        http_api(console_settings(sqlite_ledger, tmp_path)) as opened,
        signed_in(opened.app, opened.key()) as one,
    ):
        assert "<svg" not in await one.get("cost")
        call = {"company": "acme", "agent_id": "ada", "run_id": "r", "question_id": ids.new_id(), "purpose": "compress"}
        most = Spent(prompt_tokens=1_200, completion_tokens=80, cost=0.02)
        opened.context.ledger.spending.reserve(NewCall(**call, model="a-model", most=most), caps=Caps())
        page = await one.get("cost?days=7")
        assert rows(page, "Cost over time") == [[today, "0.02"]]
        assert rows(page, "Tokens over time") == [[today, "1,200", "80"]]
        # As high as the axis, not a fiftieth of it.
        bar = present(re.search(r'<rect [^>]*height="([0-9.]+)"[^>]*class="bar s0"><title>cost', page))
        assert float(bar[1]) == pytest.approx(150.0)
        assert len(re.findall(r'<th scope="row">20', page.partition("</figure>")[0])) == 7
        assert "<svg" not in await one.get("cost?agent=bob")
