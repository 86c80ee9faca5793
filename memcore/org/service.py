"""Organisation memory over the ledger: the policy's core policies, and the facts that people and agents write."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TypeVar

from memcore import ids
from memcore.backends.evidence import DEFAULT_MIN_EVIDENCE
from memcore.backends.protocol import MemoryBackend, facts_of
from memcore.config.organization import OrgMemoryConfig
from memcore.errors import (
    MemoryConnectionError,
    MemoryInputError,
    MemoryRetrievalError,
    MemoryStoreError,
    OrgMemoryAccessDeniedError,
    OrgMemoryConnectionError,
    OrgMemoryQueryError,
    OrgMemoryWriteError,
)
from memcore.ledger.organization.facts import MAX_PAGE, OrgLog
from memcore.models.answers import Shown
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
from memcore.models.origin import AUTHORITIES, Authority, Channel, current_writer
from memcore.org.protocol import author_facts, require_write_access
from memcore.org.search import ID_PREFIX, OrgSearch, fact_similarity
from memcore.org.sync import OrgSync
from memcore.telemetry.events import Event

#: How long a write waits for the vector store to show it, in seconds; after that the sweep does it.
_FOLLOW_SECONDS = 5.0

_POLICIES = frozenset({OrgFactCategory.CORE_POLICY})

_log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")


class LedgerOrgMemory:
    """Stores and finds what one company knows; safe in several threads and processes at once.

    The opener of the ledger closes it. The store of the backend, which is connected, finds facts by meaning; without
    one they are found by words alone.
    """

    def __init__(
        self,
        log: OrgLog,
        config: OrgMemoryConfig,
        *,
        company: str,
        backend: MemoryBackend | None = None,
        min_evidence: float = DEFAULT_MIN_EVIDENCE,
        shown: Shown = Shown.WEAK,
        authorities: Mapping[Channel, Authority] = AUTHORITIES,
    ) -> None:
        self._facts = log
        self._config = config
        self._company = company
        self._backend = backend
        self._min_evidence = min_evidence
        self._shown = shown
        self._authorities = authorities
        self._search = OrgSearch(log, config.core_policies, company=company)
        self._is_connected = False

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    @property
    def backend_name(self) -> str:
        return self._config.backend

    async def connect(self) -> None:
        """Ask the ledger once; raises OrgMemoryConnectionError when it does not answer."""
        if self._is_connected:
            return
        if error := await self._fault():
            raise OrgMemoryConnectionError(str(error)) from error
        self._is_connected = True

    async def disconnect(self) -> None:
        self._is_connected = False

    async def health_check(self) -> bool:
        return self._is_connected and await self._fault() is None

    async def _fault(self) -> Exception | None:
        try:
            await asyncio.to_thread(self._facts.count, self._company)
        except (MemoryConnectionError, MemoryRetrievalError) as error:
            _log.warning(Event.ORG_MEMORY_STORE_CONNECT_FAILED, extra={"error": type(error).__name__})
            return error
        return None

    async def query(self, query: OrgMemoryQuery) -> tuple[OrgFact, ...]:
        """Return the facts that match, those of the configuration among them.

        With a context they are ranked by meaning and by its words (BM25, memcore.embedding.bm25), rare ones counting
        more; where no vector store answers, by words alone. Where none answers it, the nearest few are weak
        (``memory.retrieval.min_evidence`` and ``standing``). Without a context the newest come first. Never more than
        the policy allows.
        """
        limit = min(query.limit, self._config.extended_store.max_retrieved_per_query)
        context = query.context
        if context is None:
            return await self._do(lambda: self._search.newest(query.categories, limit=limit, view=self._view()))
        self._require_connection()
        near = await fact_similarity(facts_of(self._backend), context, query.categories)
        least = self._min_evidence if query.min_evidence is None else query.min_evidence
        shown = self._shown if query.standing is None else query.standing
        return await self._do(
            lambda: self._search.ranked(
                context,
                query.categories,
                limit=limit,
                near=near,
                min_evidence=least,
                shown=shown,
                view=self._view(),
            )
        )

    async def newest(
        self, *, categories: frozenset[OrgFactCategory] | None = None, limit: int = MAX_PAGE, offset: int = 0
    ) -> tuple[OrgFact, ...]:
        """Return a page of all facts, newest first, those of the configuration last; for people, without a cap."""
        most = min(limit, MAX_PAGE)
        return await self._do(lambda: self._search.newest(categories, limit=most, offset=offset, view=self._view()))

    async def write(self, request: OrgFactWriteRequest, *, author: OrgFactAuthor, fact_id: str | None = None) -> str:
        """Write a fact, or the next version of ``fact_id``, and return its id.

        With an id of one's own a retry is safe: it is another version of the same fact. Raises
        OrgMemoryAccessDeniedError when the policy does not let this author write, MemoryInputError when the fact has
        another category; MemoryChannelError for a key that may not claim what this author says.
        """
        writer = current_writer()
        writer.origin(*author.origin.channels)
        self._require_connection()
        await self._admit(request.category, author, action="org.write", fact_id=fact_id)
        key = fact_id or ids.new_id()
        if key.startswith(ID_PREFIX):
            raise MemoryInputError(
                "fact_id", f"begins with {ID_PREFIX}: policies of the configuration are changed there"
            )
        line = await self._do(
            lambda: self._facts.publish(self._company, key, request, author=author, principal=writer.principal)
        )
        self._log_operation(line, author)
        await self._follow(line.fact_id)
        return line.fact_id

    async def retract(self, fact_id: str, *, author: OrgFactAuthor, reason: str | None = None) -> bool:
        """Take a fact back; False when none stands under this id.

        Write access to its category is enough, also for another's; the audit keeps the reason of a person. Raises
        OrgMemoryAccessDeniedError, MemoryChannelError.
        """
        current_writer().origin(*author.origin.channels)
        head = await self._do(lambda: self._facts.head(self._company, fact_id))
        if head is None:
            return False
        # A fact keeps its category, so nobody can change it between the check and the retraction.
        await self._admit(head.category, author, action="org.retract", fact_id=fact_id)
        line = await self._do(lambda: self._facts.retract(self._company, fact_id, author=author, reason=reason))
        if line is None:
            return False
        self._log_operation(line, author)
        await self._follow(fact_id)
        return True

    async def list_policies(self, *, limit: int | None = None, offset: int = 0) -> tuple[OrgFact, ...]:
        if limit is not None and limit < 1:
            raise MemoryInputError("limit", "must be 1 or higher")
        if offset < 0:
            raise MemoryInputError("offset", "must be 0 or higher")
        configured = self._search.policies if True in authors_shown(self._authorities) else ()
        every = configured + await self._do(self._stored_policies)
        return every[offset:][:limit]

    async def count_policies(self) -> int:
        configured = len(self._search.policies) if True in authors_shown(self._authorities) else 0
        return configured + await self._do(
            lambda: self._facts.count(self._company, categories=_POLICIES, view=self._view())
        )

    async def snapshot_at(self, at: datetime) -> tuple[OperationLogSnapshot, ...]:
        """Return all facts as they were at a time, also those retracted by then; the configuration's have no past.

        A time that lies in the past by more than a few seconds always has the same answer.
        """

        def states() -> Iterator[OperationLogSnapshot]:
            after, view = "", self._view()
            while page := self._facts.snapshot_at(self._company, at, after=after, view=view):
                yield from page
                after = page[-1].fact_id

        return await self._do(lambda: tuple(states()))

    async def operation_log(self, fact_id: str) -> tuple[OperationLogEntry, ...]:
        """Return all lines of a fact, by version."""

        def lines() -> Iterator[OperationLogEntry]:
            after, view = 0, self._view()
            while page := self._facts.operations(self._company, fact_id, after=after, view=view):
                yield from page
                after = page[-1].version

        return await self._do(lambda: tuple(lines()))

    async def _admit(
        self, category: OrgFactCategory, author: OrgFactAuthor, *, action: str, fact_id: str | None
    ) -> None:
        try:
            require_write_access(self._config.write_access, category, author)
        except OrgMemoryAccessDeniedError as refusal:
            reason, deny = str(refusal), self._facts.deny
            try:
                await asyncio.to_thread(deny, self._company, action, author=author, fact_id=fact_id, reason=reason)
            except Exception as error:  # noqa: BLE001  # whatever it is, the refusal stands
                _log.warning(
                    Event.ORG_MEMORY_AUDIT_FAILED, extra={"error": type(error).__name__, **author_facts(author)}
                )
            raise

    async def _follow(self, fact_id: str) -> None:
        facts = facts_of(self._backend)
        if facts is None:
            return
        follower = OrgSync(self._facts, facts, company=self._company)
        try:
            async with asyncio.timeout(_FOLLOW_SECONDS):
                await follower.follow(fact_id=fact_id)
        except Exception as error:  # noqa: BLE001  # the line is committed; the sweep brings it to the store
            _log.warning(Event.ORG_MEMORY_SHOW_DEFERRED, extra={"fact_id": fact_id, "error": type(error).__name__})

    def _view(self) -> FactView:
        """Read what this reader is shown; the ledger is asked, so in its thread."""
        return self._facts.view(
            self._company, authors=authors_shown(self._authorities), marks=current_writer().is_person
        )

    def _stored_policies(self) -> tuple[OrgFact, ...]:
        found, view = list[OrgFact](), self._view()
        while page := self._facts.facts(self._company, categories=_POLICIES, view=view, offset=len(found)):
            found += page
        return tuple(found)

    async def _do(self, call: Callable[[], _Answer]) -> _Answer:
        self._require_connection()
        try:
            return await asyncio.to_thread(call)
        except MemoryConnectionError as error:
            _log.warning(Event.ORG_MEMORY_STORE_CONNECT_FAILED, extra={"error": type(error).__name__})
            raise OrgMemoryConnectionError(str(error)) from error
        except MemoryRetrievalError as error:
            _log.warning(Event.ORG_MEMORY_QUERY_FAILED, extra={"error": type(error).__name__})
            raise OrgMemoryQueryError(str(error)) from error
        except MemoryStoreError as error:
            _log.warning(Event.ORG_MEMORY_WRITE_FAILED, extra={"error": type(error).__name__})
            raise OrgMemoryWriteError(str(error)) from error

    def _require_connection(self) -> None:
        if not self._is_connected:
            raise OrgMemoryConnectionError("organisation memory is not connected; call connect first")

    def _log_operation(self, line: OperationLogEntry, author: OrgFactAuthor) -> None:
        facts = {"fact_id": line.fact_id, "operation": line.operation_type, "version": line.version}
        _log.info(Event.ORG_MEMORY_WRITE_COMPLETE, extra={**facts, "category": line.category, **author_facts(author)})
