"""Shared knowledge over the log and the store: the line first, then the point, then the head that searches see."""

import logging
from collections.abc import Mapping
from datetime import timedelta

from memcore import errors
from memcore.backends.events import BackendEvent
from memcore.backends.fresh import fact_record
from memcore.backends.mem0.calls import Calls
from memcore.backends.mem0.search import Search
from memcore.backends.mem0.shared_points import SharedPoints
from memcore.backends.mem0.space import Space
from memcore.backends.owner import is_memory_id, require_agent_id
from memcore.backends.record import MemoryRecord, Vectors
from memcore.clock import Clock
from memcore.errors import MemoryInputError
from memcore.ledger.shared_entry import Standing
from memcore.ledger.shared_log import SharedLog
from memcore.models import MemoryEntry, MemoryQuery, MemoryStoreRequest

#: How long a line of the log may be open before a search carries it out: its writer needs milliseconds, so it is gone.
_OVERDUE = timedelta(seconds=5)

_log = logging.getLogger(__name__)


class SharedKnowledge:
    """Publish, search and retract for one company.

    A line of the log that a dead process left open is carried out by the next one that publishes or retracts, and by
    any search that finds it older than five seconds; until then searches see the version before it.
    """

    def __init__(
        self, *, company: str, log: SharedLog, points: SharedPoints, search: Search, calls: Calls, clock: Clock
    ) -> None:
        self._company = company
        self._log = log
        self._points = points
        self._search = search
        self._calls = calls
        self._clock = clock

    async def publish(self, agent_id: str, request: MemoryStoreRequest, *, once: bool = False) -> str:
        """Publish and return the id once searches see it."""
        return await self.put(fact_record(agent_id, request, company=self._company, now=self._clock()), once=once)

    async def put(self, record: MemoryRecord, *, once: bool) -> str:
        """Publish a record, whoever its agent is, and return the id once searches see it."""

        def write() -> str:
            # Before the log: a text that the embedder refuses would stay open there, and stop all that follow it.
            vectors = self._points.vectors_of(record)
            line = self._log.publish(self._company, record, once=once)
            self._follow(line.version, {line.version: vectors})
            return line.memory_id

        return await self._calls.write("publish", write)

    async def retract(self, agent_id: str, memory_id: str) -> bool:
        """Take back what this agent published; False when it has nothing to take back under this id."""
        return await self.take(require_agent_id(agent_id), memory_id)

    async def take(self, agent_id: str, memory_id: str) -> bool:
        """Take back what was published in this name, also in one that no agent has."""

        def write() -> bool:
            line = self._log.retract(self._company, agent_id, memory_id)
            if line is not None:
                self._follow(line.version, {})
            return line is not None

        return is_memory_id(memory_id) and await self._calls.write("retract", write)

    async def by_text(
        self, query: MemoryQuery, *, exclude_agent: str | None, version: int | None
    ) -> tuple[MemoryEntry, ...]:
        """Return the best entries of a version first, or without a text the newest."""
        at, now, text = await self._checked(version), self._clock(), query.text
        if text is None:
            return await self._calls.read(
                "search_shared",
                lambda: self._points.newest(query, version=at, exclude_agent=exclude_agent, now=now),
            )
        space = Space.of_shared(query, version=at, exclude_agent=exclude_agent)
        return await self._calls.read("search_shared", lambda: self._search.by_text(space, query, text, now=now))

    async def by_words(
        self, query: MemoryQuery, *, exclude_agent: str | None, version: int | None
    ) -> tuple[MemoryEntry, ...]:
        """Return the keyword hits of a version, best first."""
        at, now, text = await self._checked(version), self._clock(), query.text
        if text is None:
            return ()
        space = Space.of_shared(query, version=at, exclude_agent=exclude_agent)
        return await self._calls.read(
            "search_shared_sparse", lambda: self._search.by_words(space, query, text, now=now)
        )

    async def space(self, query: MemoryQuery, *, exclude_agent: str) -> Space:
        """Return what a query may find now."""
        return Space.of_shared(query, version=await self.version(), exclude_agent=exclude_agent)

    async def version(self) -> int:
        """Return the version that searches see, after carrying out what a dead process left open."""
        standing = await self._calls.read("shared_version", lambda: self._log.standing(self._company))
        if not self._is_overdue(standing):
            return standing.head
        try:
            await self._calls.write("shared_version", lambda: self._follow(standing.last, {}))
        except errors.MemoryError as error:
            # The version before it is whole: a reader who has it is served.
            _log.warning(
                BackendEvent.SHARED_OVERDUE,
                extra={"company": self._company, "version": standing.head + 1, "error": type(error).__name__},
            )
            return standing.head
        return standing.last

    def close(self) -> None:
        """Close the log's connections."""
        self._log.close()

    async def _checked(self, version: int | None) -> int:
        head = await self.version()
        if version is None:
            return head
        if not 0 <= version <= head:
            raise MemoryInputError("version", f"is {version}; it must be 0 to {head}, the newest")
        return version

    def _is_overdue(self, standing: Standing) -> bool:
        return standing.open_since is not None and self._clock() - standing.open_since >= _OVERDUE

    def _follow(self, version: int, known: Mapping[int, Vectors | None]) -> None:
        """Bring the store, and then the head, to a version: every line before it too, for the head passes over none."""
        while (head := self._log.standing(self._company).head) < version:
            lines = [line for line in self._log.lines(self._company, after=head) if line.version <= version]
            self._points.carry_out(lines, known)
            self._log.advance(self._company, lines[-1].version)
