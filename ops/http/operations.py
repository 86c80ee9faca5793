"""Operations: the jobs of one request, under an id that only its own company and agent can use."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import Field

from memcore.client.results import JobState, JobStatus
from memcore.config.settings import Settings
from memcore.errors import MemoryNotFoundError
from memcore.models.base import Frozen

#: What an operation's id begins with.
PREFIX = "op."

#: Bytes of the code that binds an id to its company.
_CODE_BYTES = 16

#: Bytes of a job's id.
_JOB_BYTES = 16

#: Most jobs of one operation: a byte counts them.
MAX_JOBS = 255

#: Pause between two looks at an operation whose progress is sent, in seconds.
POLL_SECONDS = 0.2

#: Longest time that progress is sent, in seconds; who wants more asks again. A job whose result has expired, or that
#: went with the erasure of its agent, never ends, and a key may be revoked meanwhile.
LONGEST_SECONDS = 300.0

#: Which state counts for several jobs: the first of these that one of them has.
_ORDER = (
    JobState.DEAD,
    JobState.RETRYING,
    JobState.RUNNING,
    JobState.SNOOZED,
    JobState.PENDING,
    JobState.SKIPPED,
    JobState.DONE,
)


class OperationStatus(Frozen):
    """How far an operation is.

    Attributes:
        state: ``pending`` (or too old to be known), ``running``, ``done``, ``skipped``, ``snoozed``, ``retrying`` or
            ``dead``; of several jobs, that of the one that is furthest behind.
        is_finished: whether it has ended.
        facts: small counts that the jobs reported, such as ``stored``.
        reason: why a job was skipped, put off or given up.
        stage: the stage of a long job.
        fraction: the share of that stage that is done.
    """

    operation_id: str
    state: JobState
    is_finished: bool
    facts: dict[str, int] = Field(default_factory=dict)
    reason: str | None = None
    stage: str | None = None
    fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The jobs behind an id, and the agent that they are for."""

    operation_id: str
    agent_id: str
    job_ids: tuple[str, ...]


def installation_secret(settings: Settings, purpose: str) -> bytes:
    """Return 32 bytes for one purpose that every process of an installation has, and its callers do not know."""
    key = settings.qdrant_api_key
    parts = (settings.broker_url, settings.database_url, "" if key is None else key.get_secret_value())
    return hashlib.sha256("\n".join((purpose, *parts)).encode()).digest()


class Operations:
    """Makes and reads the ids of operations; the ids hold all that is known, so that nothing is stored for them.

    An id made for another company, or changed, names nothing. Every process of an installation makes the same ones.
    """

    def __init__(self, settings: Settings) -> None:
        self._secret = installation_secret(settings, "memtend operation")

    def issue(self, company: str, agent_id: str, job_ids: Sequence[str]) -> str:
        """Return the id of an operation of 1 to 255 jobs."""
        if not 1 <= len(job_ids) <= MAX_JOBS:
            raise ValueError(f"job_ids: an operation has 1 to {MAX_JOBS} jobs")
        jobs = b"".join(uuid.UUID(each).bytes for each in job_ids)
        body = bytes([len(job_ids)]) + jobs + agent_id.encode()
        return PREFIX + base64.urlsafe_b64encode(self._code(company, body) + body).decode().rstrip("=")

    def known(self, company: str, operation_id: str) -> Operation:
        """Return the operation of an id; MemoryNotFoundError when it is none of this company."""
        text = operation_id.removeprefix(PREFIX)
        try:
            given = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            given = b""
        code, body = given[:_CODE_BYTES], given[_CODE_BYTES:]
        is_whole = operation_id.startswith(PREFIX) and len(body) > 1 + _JOB_BYTES
        if not is_whole or not hmac.compare_digest(code, self._code(company, body)):
            raise MemoryNotFoundError("operation_id: names no operation of this company")
        end = 1 + body[0] * _JOB_BYTES
        jobs = (body[place : place + _JOB_BYTES] for place in range(1, end, _JOB_BYTES))
        return Operation(
            operation_id=operation_id,
            agent_id=body[end:].decode(),
            job_ids=tuple(str(uuid.UUID(bytes=each)) for each in jobs),
        )

    def _code(self, company: str, body: bytes) -> bytes:
        company_bytes = company.encode()
        text = len(company_bytes).to_bytes(2) + company_bytes + body
        return hmac.digest(self._secret, text, "sha256")[:_CODE_BYTES]


class ReadsStatus(Protocol):
    """What knows the status of jobs: an AsyncMemoryClient."""

    def status(self, job_id: str) -> Coroutine[Any, Any, JobStatus]:
        """Return the status of a job, to be awaited."""
        ...


def combined(operation_id: str, statuses: Iterable[JobStatus]) -> OperationStatus:
    """Return the status of an operation from those of its jobs."""
    known = list(statuses)
    unfinished = [each for each in known if not each.is_finished]
    state = min((each.state for each in unfinished or known), key=_ORDER.index)
    facts: dict[str, int] = {}
    for each in known:
        for name, count in each.facts.items():
            facts[name] = facts.get(name, 0) + count
    first = next((each for each in known if each.state is state), known[0])
    return OperationStatus(
        operation_id=operation_id,
        state=state,
        is_finished=not unfinished,
        facts=facts,
        reason=first.reason,
        stage=first.stage,
        fraction=first.fraction,
    )


async def status_of(client: ReadsStatus, operation: Operation) -> OperationStatus:
    """Return how far an operation is. Raises MemoryConnectionError."""
    return combined(operation.operation_id, [await client.status(each) for each in operation.job_ids])


async def progress_of(
    client: ReadsStatus,
    operation: Operation,
    *,
    stopping: asyncio.Event,
    poll_seconds: float = POLL_SECONDS,
    longest_seconds: float = LONGEST_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> AsyncIterator[OperationStatus]:
    """Yield the status of an operation now and whenever it has changed.

    It ends with the operation, once ``stopping`` is set, or after the longest time.
    """
    ends = monotonic() + longest_seconds
    last: OperationStatus | None = None
    while last is None or not (last.is_finished or stopping.is_set() or monotonic() >= ends):
        if last is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), poll_seconds)
        now = await status_of(client, operation)
        if now != last:
            yield now
        last = now
