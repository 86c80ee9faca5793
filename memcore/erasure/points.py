"""The points of an agent in every collection of its company, and what makes the store forget their bytes."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from http import HTTPStatus
from typing import TypeVar

import httpx
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse
from qdrant_client.http.models import Filter, FilterSelector

from memcore.backends.mem0.collection import open_client
from memcore.backends.mem0.config import Mem0Config
from memcore.backends.mem0.filters import of_erased, of_erased_person
from memcore.bounded_http import trusted_for
from memcore.errors import MemoryConnectionError
from memcore.ledger.erasure.decisions import ErasureScope
from memcore.ledger.ledger import Ledger

#: Points read at a time.
_PAGE = 256

#: How long a rewrite may take, in seconds: about a minute for a million memories.
_REWRITE_SECONDS = 900.0

#: What a server answers that has no such call: Qdrant's own.
_UNKNOWN = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED})

_T = TypeVar("_T")


class AgentPoints:
    """Finds and deletes the points of an agent in the collections that serve, are filled and are kept.

    Its memories, the copies of archived ones, what it has published, and copies of its lessons that others have. Of a
    person: the agent's memories in the person's namespace, or under the person's name in mem0.
    """

    def __init__(self, place: Mem0Config, ledger: Ledger, *, company: str) -> None:
        self._place = place
        self._pointers = ledger.collection_pointers
        self._agents = ledger.agents
        self._company = company
        self._client = open_client(place)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    async def find(self, scope: ErasureScope, *, also: Collection[str] = ()) -> frozenset[str]:
        """Return the ids of the points; ``also`` are ids of publications, or of a person's archived memories.

        Raises MemoryConnectionError.
        """
        return await self._call(lambda: frozenset(self._ids(scope, also)))

    async def count(self, scope: ErasureScope, *, also: Collection[str] = ()) -> int:
        """Return how many points there are, those of all collections. Raises MemoryConnectionError."""
        return await self._call(lambda: sum(1 for _ in self._ids(scope, also)))

    async def delete(self, scope: ErasureScope, *, also: Collection[str] = ()) -> None:
        """Delete them, and return when that survives a power cut. Raises MemoryConnectionError."""

        def delete() -> None:
            for collection in self._collections():
                for which in self._filters(scope, also):
                    self._client.delete(collection, points_selector=FilterSelector(filter=which), wait=True)

        await self._call(delete)

    async def rewrite(self) -> bool:
        """Let the store write the collections anew; False where it is a server that has no such call.

        Raises MemoryConnectionError.
        """
        return await self._call(self._rewritten)

    def _rewritten(self) -> bool:
        key = self._place.api_key
        headers = {} if key is None else {"api-key": key.get_secret_value()}
        with httpx.Client(headers=headers, timeout=_REWRITE_SECONDS, verify=trusted_for(self._place.url)) as client:
            for collection in self._collections():
                answer = client.post(f"{self._place.url}/collections/{collection}/rewrite")
                if answer.status_code in _UNKNOWN:
                    return False
                if answer.status_code != HTTPStatus.OK:
                    raise MemoryConnectionError(f"the vector store cannot rewrite now: status {answer.status_code}")
        return True

    def _collections(self) -> list[str]:
        names = {self._place.collection}
        pointer = self._pointers.get(self._company)
        if pointer is not None:
            names |= {each.name for each in (pointer.current, pointer.target, pointer.previous) if each is not None}
        return [name for name in sorted(names) if self._client.collection_exists(name)]

    def _ids(self, scope: ErasureScope, also: Collection[str]) -> Iterator[str]:
        for collection in self._collections():
            # A memory may meet several filters, and counts once.
            seen: set[str] = set()
            for which in self._filters(scope, also):
                offset = None
                while True:
                    rows, offset = self._client.scroll(
                        collection, scroll_filter=which, limit=_PAGE, offset=offset, with_payload=False
                    )
                    seen.update(str(row.id) for row in rows)
                    if offset is None:
                        break
            yield from seen

    def _filters(self, scope: ErasureScope, also: Collection[str]) -> list[Filter]:
        if scope.subject is not None:
            return of_erased_person(scope.agent_id, subject=scope.subject, user_id=scope.user_id, archived_ids=also)
        return of_erased(scope.agent_id, published=also, tag=scope.tag, peers=self._peers(scope.agent_id))

    def _peers(self, agent_id: str) -> frozenset[str]:
        """Return the other agents: those alone were given copies of lessons."""
        found: set[str] = set()
        last: str | None = None
        while page := self._agents.list(self._company, after=last, limit=_PAGE):
            found.update(each.agent_id for each in page)
            last = page[-1].agent_id
        return frozenset(found - {agent_id})

    async def _call(self, call: Callable[[], _T]) -> _T:
        try:
            return await asyncio.to_thread(call)
        except UnexpectedResponse as error:
            raise MemoryConnectionError(f"the vector store refused an erasure: status {error.status_code}") from error
        except (ApiException, httpx.HTTPError) as error:
            raise MemoryConnectionError(f"the vector store cannot erase now ({type(error).__name__})") from error
