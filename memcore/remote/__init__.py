"""``RemoteMemory`` and ``AsyncRemoteMemory``: Memory over HTTP, for engines that hold a key and nothing else.

It imports httpx and pydantic: no broker, no database and no embedder runs in the engine's process.
"""

from memcore.remote.async_remote_memory import AsyncRemoteMemory as AsyncRemoteMemory
from memcore.remote.remote_memory import RemoteMemory as RemoteMemory
