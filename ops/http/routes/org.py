"""The organisation's facts: list, search, show, write, retract, and their log."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, Field

from memcore.ledger.access.keys import Verb
from memcore.ledger.organization.facts import MAX_PAGE
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS
from memcore.models.organization import (
    OperationLogEntry,
    OperationLogSnapshot,
    OrgFact,
    OrgFactAuthor,
    OrgFactCategory,
    OrgFactWriteRequest,
    OrgMemoryQuery,
)
from memcore.service.org import FactDetail, FoundFacts
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import ConfirmBody, Named, PathId, company_wide

router = APIRouter(prefix="/v1/org", tags=["organisation"])

#: Categories, a page, a time.
Categories = Annotated[list[OrgFactCategory] | None, Query(max_length=len(OrgFactCategory))]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Offset = Annotated[int, Query(ge=0, le=1_000_000_000)]


class Facts(Frozen):
    """Facts that are valid now, newest first; those of the policy file come last."""

    facts: tuple[OrgFact, ...]


class FactsAt(Frozen):
    """Facts as they stood at a time, newest first."""

    facts: tuple[OperationLogSnapshot, ...]


class FactBody(Frozen):
    """A fact to write.

    Attributes:
        fact_id: the fact whose next version this is; left out, it is a new one.
    """

    fact: OrgFactWriteRequest
    fact_id: str | None = Field(default=None, min_length=1, max_length=MAX_KEY_CHARS)


class Written(Frozen):
    """The fact that was written."""

    fact_id: str


class Log(Frozen):
    """Who published and retracted what, the newest lines first."""

    lines: tuple[OperationLogEntry, ...]


@router.get("/facts", dependencies=[company_wide(Verb.READ)])
async def list_facts(service: Service, category: Categories = None, limit: Limit = 20, offset: Offset = 0) -> Facts:
    """Return the facts that are valid now, newest first."""
    wanted = frozenset(category) if category else None
    return Facts(facts=await service.org.list(categories=wanted, limit=limit, offset=offset))


@router.get("/facts:at", dependencies=[company_wide(Verb.READ)])
async def list_facts_at(
    service: Service,
    at: AwareDatetime,
    category: Categories = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> FactsAt:
    """Return the facts as they stood at a time, newest first."""
    wanted = frozenset(category) if category else None
    return FactsAt(facts=await service.org.list_at(at, categories=wanted, limit=limit, offset=offset))


@router.post("/search", dependencies=[company_wide(Verb.READ)])
async def search(body: OrgMemoryQuery, service: Service) -> FoundFacts:
    """Search facts by meaning and words, best first, as an agent would; by words alone where the store is away."""
    return await service.org.search(body)


@router.get("/facts/{fact_id}", dependencies=[company_wide(Verb.READ)])
async def get_fact(fact_id: PathId, service: Service) -> FactDetail:
    """Return one fact whole, also one that was retracted, with each line of its log."""
    return await service.org.get(fact_id)


@router.post("/facts", status_code=201, dependencies=[company_wide(Verb.ADMIN)])
async def write(body: FactBody, caller: CurrentCaller, service: Service) -> Written:
    """Write a fact or its next version, in the name of the key, as a person does; agents take it for an instruction."""
    author = OrgFactAuthor(is_human=True, name=caller.name)
    return Written(fact_id=await service.org.write(body.fact, author=author, fact_id=body.fact_id))


@router.post("/facts/{fact_id}/retract", status_code=204, dependencies=[company_wide(Verb.ADMIN)])
async def retract(fact_id: PathId, body: ConfirmBody, caller: CurrentCaller, service: Service) -> None:
    """Retract a fact; the log keeps it."""
    author = OrgFactAuthor(is_human=True, name=caller.name)
    await service.org.retract(fact_id, author=author, reason=body.reason)


@router.get("/log", dependencies=[company_wide(Verb.READ)])
async def log(
    service: Service,
    fact_id: Named | None = None,
    until: AwareDatetime | None = None,
    limit: Limit = 20,
) -> Log:
    """Return who published and retracted what, the newest lines first."""
    return Log(lines=await service.org.log(fact_id=fact_id, until=until, limit=limit))
