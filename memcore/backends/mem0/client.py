"""The connection to the store."""

import warnings
from datetime import timedelta

from httpx import Limits
from qdrant_client import QdrantClient

from memcore.backends.mem0.calls import THREADS
from memcore.backends.mem0.place import Mem0Place

#: How long a connection to the store is kept without use: less than the 5 s after which servers close theirs (uvicorn,
#: actix), so that no call meets a connection that is just being closed.
_IDLE = timedelta(seconds=2)


def open_client(place: Mem0Place) -> QdrantClient:
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
