"""The organisation's facts, written by people, and their log."""

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from memcore.backends.factory import WorkerBackend
from memcore.errors import MemoryConnectionError, MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.ledger.organization.facts import MAX_PAGE
from memcore.models.answers import Standing
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS
from memcore.models.organization import (
    FactView,
    OperationLogEntry,
    OperationLogSnapshot,
    OrgFact,
    OrgFactAuthor,
    OrgFactCategory,
    OrgFactWriteRequest,
    OrgMemoryQuery,
    authors_shown,
)
from memcore.models.origin import current_writer
from memcore.org.service import LedgerOrgMemory
from memcore.service.operation import Named, operation
from memcore.service.resources import MAX_OFFSET, CompanyPart, ServiceResources, check_page

#: What lists of facts take.
Categories = Annotated[frozenset[OrgFactCategory] | None, Field(max_length=len(OrgFactCategory), alias="category")]
Limit = Annotated[int, Field(ge=1, le=MAX_PAGE)]
Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]


class FoundFact(OrgFact):
    """A fact with what its search says of it."""

    standing: Standing | None = None


class FoundFacts(Frozen):
    """The facts that a search found.

    Attributes:
        words_alone: why only words were compared; None where meaning was compared too.
    """

    facts: tuple[FoundFact, ...]
    words_alone: str | None


class FactDetail(Frozen):
    """A fact whole, also one that was retracted, with each line of its log."""

    state: OperationLogSnapshot
    log: tuple[OperationLogEntry, ...]


class OrgOperations(CompanyPart):
    """Reads and writes the organisation's facts. Every call raises OrgMemoryConnectionError."""

    def __init__(self, resources: ServiceResources) -> None:
        super().__init__(resources)
        self._log = resources.ledger.org

    @operation("GET /org/facts", Verb.READ, under="facts")
    async def list(
        self, *, categories: Categories = None, limit: Limit = 20, offset: Offset = 0
    ) -> tuple[OrgFact, ...]:
        """Return the facts that are valid now, newest first; those of the policy file come last.

        Raises MemoryInputError.
        """
        check_page(limit, MAX_PAGE, offset=offset)
        return await (await self._memory(None)).newest(categories=categories, limit=limit, offset=offset)

    @operation("GET /org/facts:at", Verb.READ, under="facts")
    async def list_at(
        self, at: AwareDatetime, *, categories: Categories = None, limit: Limit = 20, offset: Offset = 0
    ) -> tuple[OperationLogSnapshot, ...]:
        """Return the facts as they stood at a time, newest first. Raises MemoryInputError."""
        check_page(limit, MAX_PAGE, offset=offset)
        snapshots = await (await self._memory(None)).snapshot_at(at)
        stood = [each for each in snapshots if each.retracted_at is None]
        stood.sort(key=lambda each: each.created_at, reverse=True)
        wanted = [each for each in stood if categories is None or each.category in categories]
        return tuple(wanted[offset : offset + limit])

    @operation("POST /org/search", Verb.READ)
    async def search(self, query: OrgMemoryQuery) -> FoundFacts:
        """Search facts by meaning and words, best first, as an agent would; by words alone where the store is away."""
        backend, problem = None, None
        try:
            backend = await self._resources.backend()
        except MemoryConnectionError as error:
            problem = str(error)
        memory = await self._memory(backend)
        found = tuple(FoundFact.model_construct(**vars(each)) for each in await memory.query(query))
        return FoundFacts(facts=found, words_alone=problem)

    @operation("GET /org/facts/{fact_id}", Verb.READ)
    async def get(self, fact_id: str) -> FactDetail:
        """Return one fact whole, also one that was retracted, with each line of its log. Raises MemoryNotFoundError."""
        view = await self._view()
        state = await self._ask(self._log.head, fact_id, view=view)
        if state is None:
            raise unknown_fact(fact_id)
        return FactDetail(state=state, log=await self._ask(self._log.operations, fact_id, view=view))

    @operation("POST /org/facts", Verb.ADMIN, status=201, under="fact_id")
    async def write(
        self,
        fact: OrgFactWriteRequest,
        *,
        author: OrgFactAuthor,
        fact_id: Annotated[
            str | None,
            Field(min_length=1, max_length=MAX_KEY_CHARS, description="The fact whose next version this is."),
        ] = None,
    ) -> str:
        """Write a fact or its next version, in the name of a person, and return its id; agents take it as instruction.

        Word search finds it at once, search by meaning after the next sweep. Raises OrgMemoryAccessDeniedError,
        MemoryInputError.
        """
        return await (await self._memory(self._resources.connected)).write(fact, author=author, fact_id=fact_id)

    @operation("POST /org/facts/{fact_id}/retract", Verb.ADMIN, confirms=True)
    async def retract(self, fact_id: str, *, author: OrgFactAuthor, reason: str | None = None) -> None:
        """Retract a fact; the log keeps it. Raises MemoryNotFoundError, OrgMemoryAccessDeniedError."""
        memory = await self._memory(self._resources.connected)
        if not await memory.retract(fact_id, author=author, reason=reason):
            raise unknown_fact(fact_id)

    @operation("GET /org/log", Verb.READ, under="lines")
    async def log(
        self, *, fact_id: Named | None = None, until: AwareDatetime | None = None, limit: Limit = 20
    ) -> tuple[OperationLogEntry, ...]:
        """Return who published and retracted what, the newest lines first. Raises MemoryInputError."""
        check_page(limit, MAX_PAGE)
        view = await self._view()
        return await self._ask(self._log.newest, fact_id=fact_id, until=until, limit=limit, view=view)

    async def _view(self) -> FactView:
        authors = authors_shown(self._resources.policy.memory.origins.authority)
        return await self._ask(self._log.view, authors=authors, marks=current_writer().is_person)

    async def _memory(self, backend: WorkerBackend | None) -> LedgerOrgMemory:
        policy = self._resources.policy
        memory = LedgerOrgMemory(
            self._log,
            policy.org_memory,
            company=self._company,
            backend=backend,
            min_evidence=policy.memory.retrieval.min_evidence,
            shown=policy.memory.retrieval.standing,
            authorities=policy.memory.origins.authority,
        )
        await memory.connect()
        return memory


def fact_facts(fact: OrgFact) -> dict[str, Any]:
    """Return what is shown of a fact."""
    return {
        "id": fact.id,
        "category": str(fact.category),
        "created_at": fact.created_at,
        "author": fact.author.model_dump(mode="json", exclude_defaults=True),
        "tags": fact.tags,
        "text": fact.content,
        "distrusted": fact.distrusted,
    }


def state_facts(state: OperationLogSnapshot) -> dict[str, Any]:
    """Return what is shown of a fact as it stood at a time."""
    return {
        "id": state.fact_id,
        "category": str(state.category),
        "version": state.version,
        "created_at": state.created_at,
        "retracted_at": state.retracted_at,
        "tags": state.tags,
        "text": state.content,
        "distrusted": state.distrusted,
    }


def line_facts(line: OperationLogEntry) -> dict[str, Any]:
    """Return what is shown of a line of the log."""
    return {
        "operation_id": line.operation_id,
        "id": line.fact_id,
        "version": line.version,
        "operation": line.operation_type.lower(),
        "timestamp": line.timestamp,
        "author": line.author_name or line.author_agent_id,
        "is_human": line.author_is_human,
        "seniority": line.author_seniority,
        "autonomy_level": line.author_autonomy_level,
        "category": line.category,
        "tags": line.tags,
        "text": line.content,
        "distrusted": line.distrusted,
    }


def unknown_fact(fact_id: str) -> MemoryNotFoundError:
    """Return the error of an id that names no fact."""
    return MemoryNotFoundError(f"fact_id: {fact_id!r} names no fact that stands; see `memtend org list`")
