"""``AsyncMemoryClient``: MemoryClient for engines that run an event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from memcore.client.client import ClientLimits, ClientOptions, MemoryClient
from memcore.client.results import JobStatus, PendingJobs

if TYPE_CHECKING:
    from memcore.config.settings import Settings

#: Concurrent calls: a send takes a tenth of a millisecond, so only a broker that hangs makes more of them wait.
THREADS = 4

Given = ParamSpec("Given")
Result = TypeVar("Result")


def awaited(
    call: Callable[Concatenate[Any, Given], Result],
) -> Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]]:
    """Return a method of the object in ``blocking`` as one to await."""

    @wraps(call)
    async def run(self: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        result: Result = await self._run(call, self.blocking, *args, **kwargs)
        return result

    return run


class AsyncMemoryClient:
    """Send memories and jobs from a coroutine; every method takes, does and raises what MemoryClient's does.

    The broker's libraries are synchronous, so calls run in a few threads of this client's own: the event loop never
    waits, and the engine's default executor is left alone. A cancelled call may still send what it was about to send.
    With ``when_full="block"`` the caller alone waits.
    """

    def __init__(self, broker_url: str, **options: Unpack[ClientOptions]) -> None:
        #: Its calls run in threads; for code that has threads of its own.
        self.blocking = MemoryClient(broker_url, **options)
        self._threads: ThreadPoolExecutor | None = None

    @classmethod
    def from_settings(cls, settings: "Settings", **limits: Unpack[ClientLimits]) -> Self:
        """Return a client for the stack that the settings describe."""
        made = cls(settings.broker_url)
        made.blocking = MemoryClient.from_settings(settings, **limits)
        return made

    store = awaited(MemoryClient.store)
    store_many = awaited(MemoryClient.store_many)
    import_many = awaited(MemoryClient.import_many)
    maintain_now = awaited(MemoryClient.maintain_now)
    undo = awaited(MemoryClient.undo)
    restore = awaited(MemoryClient.restore)
    end_session = awaited(MemoryClient.end_session)
    end_project = awaited(MemoryClient.end_project)
    end_task = awaited(MemoryClient.end_task)
    evolve_now = awaited(MemoryClient.evolve_now)
    finetune = awaited(MemoryClient.finetune)
    record_use = awaited(MemoryClient.record_use)
    record_queries = awaited(MemoryClient.record_queries)
    record_experience = awaited(MemoryClient.record_experience)
    distill = awaited(MemoryClient.distill)
    applied = awaited(MemoryClient.applied)
    extract_turn = awaited(MemoryClient.extract_turn)
    end_conversation = awaited(MemoryClient.end_conversation)
    record_crisis = awaited(MemoryClient.record_crisis)
    record_feedback = awaited(MemoryClient.record_feedback)
    send = awaited(MemoryClient.send)
    status = awaited(MemoryClient.status)

    async def wait(self, job_ids: Iterable[str], *, timeout_seconds: float) -> AsyncIterator[JobStatus]:
        """Yield each job's status as it finishes; ends at once when its task is cancelled. Raises as MemoryClient."""
        pending_jobs = PendingJobs(tuple(job_ids), timeout_seconds=timeout_seconds)
        while pending_jobs.waiting:
            for status in pending_jobs.mark_finished(await self._run(self.blocking.finished, pending_jobs.waiting)):
                yield status
            if pending_jobs.waiting:
                await asyncio.sleep(pending_jobs.poll_delay())

    async def close(self) -> None:
        """Close the connections once running calls have ended; a closed client opens them again when used."""
        await self._run(self.blocking.close)
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _run(self, step: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="memtend-client")
        # With the trace and the deadline of the caller.
        call = partial(copy_context().run, step, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)
