"""Language models and audit: what models cost and whether they answer; what people decided and changed."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from memcore.ledger.access.keys import Verb
from memcore.ledger.llm_usage import UsageRow
from memcore.ledger.organization.audit import MAX_PAGE, AuditLine
from memcore.llm.check import ModelCheck
from memcore.models.base import Frozen
from memcore.service.usage import MAX_DAYS, UsageForecast
from ops.http.context import Service
from ops.http.operators import Named, SomeAgent, company_wide

router = APIRouter(prefix="/v1", tags=["usage"])


class Usage(Frozen):
    """The calls, tokens and cost of language models, the dearest first; days in order."""

    rows: tuple[UsageRow, ...]


class AuditPage(Frozen):
    """Lines of the audit, newest first."""

    lines: tuple[AuditLine, ...]


@router.get("/usage")
async def usage(
    agent_id: SomeAgent,
    service: Service,
    by: Literal["agent", "day", "purpose", "run", "model"] = "agent",
    days: Annotated[int, Query(ge=1, le=MAX_DAYS)] = 7,
) -> Usage:
    """Return what language models cost in the last days of UTC, today included; a key for some agents names one."""
    return Usage(rows=await service.usage.usage(by, days=days, agent_id=agent_id))


@router.get("/usage/forecast")
async def forecast(
    agent_id: SomeAgent,
    service: Service,
    days: Annotated[int, Query(ge=1, le=MAX_DAYS - 1)] = 7,
) -> UsageForecast:
    """Return what language models are expected to cost in the next 30 days, from the last whole days of UTC."""
    return await service.usage.forecast(days=days, agent_id=agent_id)


@router.post("/models/check", dependencies=[company_wide(Verb.ADMIN)])
async def check_model(service: Service, model: Named | None = None) -> ModelCheck:
    """Ask the language model one real question; a failure is a part of the answer, with status, type and next step."""
    return await service.models.check(model)


@router.get("/audit", dependencies=[company_wide(Verb.ADMIN)])
async def audit(
    service: Service,
    actor: Named | None = None,
    action: Named | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 20,
) -> AuditPage:
    """Return who was refused, and what people decided and changed, newest first."""
    return AuditPage(lines=await service.usage.audit(actor=actor, action=action, limit=limit))
