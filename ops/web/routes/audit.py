"""Audit: who decided and changed what, and who was refused, newest first."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.ledger.access.keys import Verb
from memcore.ledger.organization.audit import MAX_PAGE
from memcore.models.memory import MAX_KEY_CHARS
from ops.http.context import Service
from ops.http.operators import company_wide
from ops.web.pages import page

router = APIRouter(prefix="/audit", dependencies=[company_wide(Verb.ADMIN)])

#: Who or what the lines are narrowed to.
Narrowed = Annotated[str, Query(max_length=MAX_KEY_CHARS)]


@router.get("")
async def audit(
    request: Request,
    service: Service,
    actor: Narrowed = "",
    action: Narrowed = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> Response:
    """Show the last lines."""
    lines = await service.usage.audit(actor=actor.strip() or None, action=action.strip() or None, limit=limit)
    return page(request, "audit", lines=lines, actor=actor, action=action, limit=limit, most=MAX_PAGE)
