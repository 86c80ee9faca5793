"""The embedded stack that is measured, and the connections to it."""

import asyncio
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from qdrant_client import QdrantClient

from memcore.backends.base import fresh_record
from memcore.backends.factory import WorkerBackend, create_worker_backend
from memcore.clock import Clock, utc_now
from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from workers.stack.home import read_state
from workers.stack.running import throwaway_stack

#: Seconds between two looks whether everything can be found: 3% of the shortest stretch, and cheap for the store.
_POLL_INTERVAL_SECONDS = 0.03

#: Seconds after which the memories are given up.
_LIMIT_SECONDS = 300.0

#: The id of no memory.
_NOBODY = str(UUID(int=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchStack:
    """A running embedded stack."""

    settings: Settings
    home: Path

    @property
    def collection(self) -> str:
        """Where the stack's own company keeps its memories."""
        return f"memtend_{self.settings.company}"

    def pids(self) -> dict[str, int]:
        """Return the process of each part."""
        state = read_state(self.home)
        return {part.name: part.pid for part in state.parts if part.pid is not None} if state else {}

    def qdrant(self) -> QdrantClient:
        """Return an ordinary client of the store server."""
        key = self.settings.qdrant_api_key
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
            return QdrantClient(
                url=self.settings.qdrant_url,
                api_key=key.get_secret_value() if key else None,
                check_compatibility=False,
                timeout=60,
            )

    def await_count(self, client: QdrantClient, count: int) -> None:
        """Wait until the stack's collection holds that many memories, all of them on disk; raises TimeoutError."""
        deadline = time.monotonic() + _LIMIT_SECONDS
        while (found := client.count(self.collection, exact=True).count) < count:
            if time.monotonic() > deadline:
                msg = f"{found} of {count} memories had arrived after {_LIMIT_SECONDS:g} s"
                raise TimeoutError(msg)
            time.sleep(_POLL_INTERVAL_SECONDS)
        # A write that changes nothing: its answer says that every write before it has been synced.
        client.delete(self.collection, points_selector=[_NOBODY], wait=True)

    @contextmanager
    def backend(self, company: str, *, clock: Clock = utc_now) -> Iterator[tuple[WorkerBackend, asyncio.Runner]]:
        """Connect to the memories of a company of its own, in this process."""
        settings = self.settings.model_copy(update={"company": company})
        backend = create_worker_backend(settings, policy_of(settings), clock=clock)
        with asyncio.Runner() as runner:
            runner.run(backend.connect())
            try:
                yield backend, runner
            finally:
                runner.run(backend.disconnect())


def policy_of(settings: Settings) -> Policy:
    """Return the policy that the settings name."""
    return effective_policy(settings.policy_path)


@contextmanager
def open_home(*, policy: str | None = None, llm_url: str | None = None) -> Iterator[BenchStack]:
    """Run a stack in a temporary folder for as long as the context is open, with the starter policy or this one.

    Its workers ask the language model at ``llm_url``, or else the one that the environment names, if any.
    """
    with throwaway_stack(policy, {**os.environ, "MEMTEND_LLM_URL": llm_url} if llm_url else os.environ) as stack:
        yield BenchStack(settings=stack.settings, home=stack.settings.home)


async def store_said(
    backend: WorkerBackend,
    said: Iterable[tuple[str, datetime]],
    *,
    company: str,
    category: MemoryCategory = MemoryCategory.EPISODIC,
) -> None:
    """Store texts of one agent, each at its time."""
    requests = [(MemoryStoreRequest(category=category, content=text), at) for text, at in said]
    records = [fresh_record("agent", request, company=company, now=at) for request, at in requests]
    for start in range(0, len(records), 256):
        await backend.store_many(records[start : start + 256])
