"""Cost: what language models read, wrote and cost, by day, purpose, agent and model."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.ledger.access.keys import Verb
from memcore.ledger.llm_usage import UsageBy
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.web.agents import MOST_OFFERED, ChosenAgent, seen_by
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
    )
