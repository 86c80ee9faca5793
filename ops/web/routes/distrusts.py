"""Distrust: what is not trusted any more; plan what a distrust would hide, put it in force, its report, lift it."""

import json
from collections.abc import Mapping
from itertools import islice

from fastapi import APIRouter, Request
from starlette.responses import Response

from memcore.ledger.access.distrusts import MAX_PAGE
from memcore.ledger.access.keys import Verb
from memcore.models.base import naming_fields
from memcore.models.distrust import DistrustRule
from memcore.models.origin import Channel
from memcore.service.distrusts import DistrustView
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import PathId, company_wide
from ops.web.forms import Form
from ops.web.pages import back_to, page

router = APIRouter(prefix="/distrusts", dependencies=[company_wide(Verb.ADMIN)])

#: Ids of a page; the report has all of them.
MOST_IDS = 500


def _rule(given: Mapping[str, str]) -> DistrustRule:
    """Return the rule of a form. Raises MemoryInputError."""
    with naming_fields():
        return DistrustRule.model_validate(_named(given))


def _named(given: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name in DistrustRule.model_fields if (text := given.get(name, "").strip())}


@router.get("")
async def list_distrusts(request: Request, service: Service) -> Response:
    """Show what is not trusted, newest first; of a rule in the address, what it would hide."""
    rule = _named(request.query_params)
    return page(
        request,
        "distrusts",
        distrusts=[DistrustView.of(each) for each in await service.distrusts.list(limit=MAX_PAGE)],
        rule=rule,
        plan=await service.distrusts.plan(_rule(rule)) if rule else None,
        channels=list(Channel),
        most=MAX_PAGE,
    )


@router.post("")
async def distrust(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Hide all that came of a source."""
    made = await service.distrusts.distrust(_rule(form.fields), confirmation=form.confirmation(caller))
    return back_to(f"distrusts/{made.distrust_id}", "distrusted")


@router.get("/{distrust_id}")
async def show(request: Request, distrust_id: PathId, service: Service) -> Response:
    """Show a distrust, and the ids of what came of it."""
    found = await service.distrusts.get(distrust_id)
    every = ((agent_id, memory_id) for agent_id, ids in found.memories.items() for memory_id in ids)
    return page(
        request,
        "distrust",
        distrust=found.distrust,
        rule=found.distrust.rule.model_dump(mode="json", exclude_none=True),
        ids=list(islice(every, MOST_IDS)),
        total=sum(map(len, found.memories.values())),
        skills=found.skills,
        runs=found.runs,
    )


@router.get("/{distrust_id}/report")
async def report(distrust_id: PathId, service: Service) -> Response:
    """Return the signed report as a file."""
    text = json.dumps(await service.distrusts.report(distrust_id), indent=2, sort_keys=True)
    named = {"Content-Disposition": f'attachment; filename="distrust-{distrust_id[:8]}.json"'}
    return Response(text, media_type="application/json", headers=named)


@router.post("/{distrust_id}/lift")
async def lift(distrust_id: PathId, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Trust a source again."""
    await service.distrusts.lift(distrust_id, confirmation=form.confirmation(caller))
    return back_to(f"distrusts/{distrust_id}", "trusted")
