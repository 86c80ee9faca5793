"""The client of agent engines: sends memories and maintenance jobs, and reads their outcomes.

Importing this loads neither a broker library nor a model; both wait until the first job is sent. The asynchronous
client loads on first use: most engines that are not asynchronous have no event loop either.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memcore.client.client import MemoryClient
from memcore.client.envelopes import Scope
from memcore.client.results import (
    AppliedReceipt,
    DistillReceipt,
    ExperienceReceipt,
    JobReceipt,
    JobState,
    JobStatus,
    StoreReceipt,
)

if TYPE_CHECKING:
    from memcore.client.async_client import AsyncMemoryClient

__all__ = [
    "AppliedReceipt",
    "AsyncMemoryClient",
    "DistillReceipt",
    "ExperienceReceipt",
    "JobReceipt",
    "JobState",
    "JobStatus",
    "MemoryClient",
    "Scope",
    "StoreReceipt",
]


def __getattr__(name: str) -> Any:
    if name == "AsyncMemoryClient":
        return import_module("memcore.client.async_client").AsyncMemoryClient
    msg = f"module 'memcore.client' has no attribute {name!r}"
    raise AttributeError(msg)
