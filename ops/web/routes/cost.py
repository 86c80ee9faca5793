"""Cost: what language models read, wrote and cost, by day, purpose, agent and model."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.ledger.access.keys import Verb
from memcore.ledger.llm_usage import UsageBy, UsageRow
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.web.agents import MOST_OFFERED, ChosenAgent, seen_by
from ops.web.charts import Figure, bars
from ops.web.pages import page

router = APIRouter()

#: The tables of the page, in order.
TABLES = (UsageBy.DAY, UsageBy.PURPOSE, UsageBy.AGENT, UsageBy.MODEL)

#: Rows of a table; the dearest come first.
MOST_ROWS = 100

#: Most days that the page shows.
MAX_DAYS = 366


@router.get("/cost")
async def cost(
    request: Request,
    caller: CurrentCaller,
    service: Service,
    agent: ChosenAgent,
    days: Annotated[int, Query(ge=1, le=MAX_DAYS)] = 30,
) -> Response:
    """Show the account of the last days of UTC; a key for some agents sees one of them at a time."""
    agents = [each.agent_id for each in await seen_by(caller, service)]
    if agent is None and caller.agents is not None:
        agent = min(caller.agents)
    caller.require(Verb.READ, agent_id=agent)
    tables = [(by, await service.usage.usage(by, days=days, agent_id=agent)) for by in TABLES]
    return page(
        request,
        "cost",
        tables=[(by, rows[:MOST_ROWS], len(rows)) for by, rows in tables],
        agents=agents[:MOST_OFFERED],
        agent=agent,
        days=days,
        max_days=MAX_DAYS,
        figures=_over_time(tables[0][1], service.clock().astimezone(UTC), days),
    )


def _over_time(rows: Sequence[UsageRow], now: datetime, days: int) -> list[Figure]:
    """Return cost and tokens by day; what was free is not drawn."""
    found = {row.key: row for row in rows}
    labels = [f"{now - timedelta(days=place):%Y-%m-%d}" for place in reversed(range(days))]
    by_day = [found.get(label) for label in labels]
    cost = [0.0 if row is None else row.cost for row in by_day]
    tokens = {
        "read": [0 if row is None else row.prompt_tokens for row in by_day],
        "written": [0 if row is None else row.completion_tokens for row in by_day],
    }
    drawn = list[Figure]()
    if any(cost):
        about = "What language models cost, by day of UTC, in the currency of the price list."
        drawn.append(bars("cost", "Cost over time", about, labels, {"cost": cost}, of="Day"))
    if any(map(any, tokens.values())):
        about = "Tokens that language models read and wrote, by day of UTC."
        drawn.append(bars("tokens", "Tokens over time", about, labels, tokens, of="Day"))
    return drawn
