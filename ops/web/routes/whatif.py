"""What-if: what an agent's next run would do under another policy, beside the one in force; nothing is written."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple

import yaml
from fastapi import APIRouter, Request
from starlette.responses import Response

from memcore.config.policy import Policy
from memcore.errors import MemoryConfigError
from memcore.evaluation.whatif import WhatIf, WhatIfs
from memcore.ledger.access.keys import Verb
from ops.http.access import CurrentCaller
from ops.http.context import CompanyService, Service
from ops.web.agents import NamedAgent
from ops.web.forms import Form
from ops.web.pages import page

router = APIRouter(prefix="/runs/whatif")

#: Keys of the policy with which the form begins, as they are in force.
BEGINS_WITH = ("strategy", "max_memories_per_agent", "retention", "max_removed_fraction", "gate")

#: What a run does, as its table shows it.
_COUNTS = ("expired", "merged", "summaries", "over_limit", "after", "refused", "asking")


class Row(NamedTuple):
    """A count of the next run under each policy."""

    name: str
    now: int
    then: int


@router.get("")
async def show(request: Request, service: Service, agent: NamedAgent) -> Response:
    """Show the form, with what is in force."""
    return _page(request, agent, _in_force(service.policy))


@router.post("")
async def compare(request: Request, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Compare an agent's next run under the policy in force and under another one."""
    agent_id = form.agent(caller, Verb.READ)
    text = form.fields.get("policy", "")
    try:
        then = await form.policy(service.policy)
    except MemoryConfigError as error:
        return _page(request, agent_id, text, wrong=str(error))
    return _page(request, agent_id, text, found=await _compared(service, agent_id, then), warnings=then.warnings)


async def _compared(service: CompanyService, agent_id: str, then: Policy) -> WhatIf:
    resources = service.resources
    compared = WhatIfs(
        settings=resources.settings,
        backend=await resources.backend(),
        ledger=resources.ledger,
        now=service.policy,
        then=then,
        clock=resources.clock,
    )
    return await compared.of(agent_id)


def _page(
    request: Request,
    agent: str,
    policy: str,
    *,
    found: WhatIf | None = None,
    wrong: str | None = None,
    warnings: tuple[str, ...] = (),
) -> Response:
    return page(
        request,
        "whatif",
        status=HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        agent=agent,
        policy=policy,
        found=found,
        rows=[] if found is None else list(_rows(found)),
        wrong={} if wrong is None else {"policy": wrong},
        warnings=warnings,
    )


def _rows(found: WhatIf) -> Iterator[Row]:
    for name in _COUNTS:
        yield Row(name, getattr(found.now, name), getattr(found.then, name))


def _in_force(policy: Policy) -> str:
    consolidation = policy.memory.consolidation.model_dump(mode="json", include=set(BEGINS_WITH))
    shown = {"memory": {"consolidation": {name: consolidation[name] for name in BEGINS_WITH}}}
    return yaml.safe_dump(shown, sort_keys=False)
