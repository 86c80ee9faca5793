"""The connection to the store: its threads, its client, and its failures as our errors."""

import asyncio
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from httpx import Limits, TransportError
from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from memcore import errors
from memcore.backends.mem0.config import Mem0Config
from memcore.errors import MemoryConnectionError, MemoryDiskFullError, MemoryRetrievalError, MemoryStoreError

_T = TypeVar("_T")

#: Threads that call the store: a hybrid search takes milliseconds, so a few serve hundreds of agents; embedding runs in
#: them too, and more threads than cores gain nothing.
THREADS = 4

#: Answers to a wrong or missing API key.
_UNAUTHORIZED = frozenset({401, 403})

#: Answers of a store, or of a proxy, that cannot serve now.
_UNAVAILABLE = frozenset({429, 502, 503, 504})

#: The answer of a store whose disk is full.
_DISK_FULL = 507


class StoreExecutor:
    """Runs the sync client's calls on a few threads of their own.

    asyncio's shared executor would make a slow store stop everything else that uses it.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="memtend-store")

    def close(self) -> None:
        """Let the threads end when their calls have."""
        self._threads.shutdown(wait=False)

    async def read(self, what: str, call: Callable[[], _T]) -> _T:
        """Run a read; a failure is MemoryRetrievalError, or MemoryConnectionError when nobody answered."""
        return await self._run(what, call, MemoryRetrievalError)

    async def write(self, what: str, call: Callable[[], _T]) -> _T:
        """Run a write; a failure is MemoryStoreError, or MemoryConnectionError when nobody answered."""
        return await self._run(what, call, MemoryStoreError)

    async def _run(self, what: str, call: Callable[[], _T], failure: type[errors.MemoryError]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except ApiException as error:
            raise _error_of(what, error, failure) from error
        except (TransportError, QdrantException) as error:
            # QdrantException is the client's word for "asked too often".
            raise MemoryConnectionError(
                f"{what}: the vector store cannot serve now ({type(error).__name__})"
            ) from error


def _error_of(what: str, error: ApiException, failure: type[errors.MemoryError]) -> errors.MemoryError:
    # Never the answer's body: a store may quote the request in it, and the request holds the memory's text.
    if isinstance(error, ResponseHandlingException):
        if isinstance(error.source, TransportError):
            return MemoryConnectionError(f"{what}: the vector store does not answer ({type(error.source).__name__})")
        return failure(f"{what}: the vector store's answer could not be read ({type(error.source).__name__})")
    if not isinstance(error, UnexpectedResponse):
        return failure(f"{what}: the vector store refused ({type(error).__name__})")
    kind, problem = failure, "refused with"
    if error.status_code == _DISK_FULL:
        kind, problem = MemoryDiskFullError, "has no room on its disk:"
    elif error.status_code in _UNAUTHORIZED:
        kind, problem = MemoryConnectionError, "refused the API key:"
    elif error.status_code in _UNAVAILABLE:
        kind, problem = MemoryConnectionError, "cannot serve now, and `memtend doctor` says why:"
    return kind(f"{what}: the vector store {problem} status {error.status_code}")


#: How long a connection to the store is kept without use: less than the 5 s after which servers close theirs (uvicorn,
#: actix), so that no call meets a connection that is just being closed.
_IDLE = timedelta(seconds=2)


def open_client(place: Mem0Config) -> QdrantClient:
    """Return a client of the place's store; nothing is connected to before the first call."""
    key = None if place.api_key is None else place.api_key.get_secret_value()
    with warnings.catch_warnings():
        # Over loopback a key without TLS is not insecure, and elsewhere the operator chose the URL.
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        # check_compatibility asks the server for its version before connect is awaited, on the event loop's thread.
        return QdrantClient(
            url=place.url,
            api_key=key,
            timeout=int(place.timeout.total_seconds()),
            check_compatibility=False,
            # Left to itself, the client opens a new connection for each call to a store on this machine.
            limits=Limits(max_keepalive_connections=THREADS, keepalive_expiry=_IDLE.total_seconds()),
        )
