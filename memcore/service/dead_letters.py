"""Dead letters: the jobs that were given up; list, show, send again, delete for good."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, StrictInt, ValidationError

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.jobs import StorePayload, declared_payloads, job_owner
from memcore.ledger.access.keys import Verb
from memcore.ledger.dead_letters import UNREADABLE, DeadLetter
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS, BoundedTime
from memcore.service.operation import operation
from memcore.service.resources import CompanyPart, ServiceResources

#: Longest age that may be named, in days (a century): more overflows a date.
MOST_DAYS = 36_500

#: Most letters of a page.
MAX_PAGE = 200


#: The ids of jobs.
JobIds = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)], ...],
    Field(min_length=1, max_length=256, description="These."),
]


Limit = Annotated[int, Field(ge=1, le=MAX_PAGE, description="Most rows, newest first.")]


class DeadLetterInfo(Frozen):
    """A dead letter as an API shows it: without its payload, and the memories in it.

    Attributes:
        reason: why no worker runs the job.
        payload_bytes: the size of its payload.
        agents: whose memories it holds, where it stores some.
        memory_ids: their ids.
        can_be_replayed: whether the job can be sent again.
    """

    job_id: str
    job: str
    queue: str
    reason: str
    attempts: int
    died_at: BoundedTime
    payload_bytes: int
    agents: tuple[str, ...] = ()
    memory_ids: tuple[str, ...] = ()
    can_be_replayed: bool

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """Return what may be shown of a letter."""
        holds = held_by(letter)
        return cls(
            **letter.model_dump(include={"job_id", "job", "queue", "reason", "attempts", "died_at"}),
            payload_bytes=len(letter.payload.encode()),
            agents=tuple(holds.get("agents", ())),
            memory_ids=tuple(holds.get("memory_ids", ())),
            can_be_replayed=refusal(letter) is None,
        )


class DeadLetterPage(Frozen):
    """Dead letters, newest first, and how many there are in all."""

    items: tuple[DeadLetterInfo, ...]
    total: int


class DeadLetterOperations(CompanyPart):
    """Reads, replays and deletes a company's dead letters. Every call raises MemoryConnectionError."""

    def __init__(self, resources: ServiceResources) -> None:
        super().__init__(resources)
        self._letters = resources.ledger.dead_letters

    async def list(self, *, limit: int = 20) -> tuple[DeadLetter, ...]:
        """Return dead letters with their payloads, newest first."""
        return await self._ask(self._letters.list, limit=limit)

    @operation("GET /dead-letters", Verb.ADMIN, tool="list_dead_letters")
    async def page(self, *, limit: Limit = 20) -> DeadLetterPage:
        """Return the jobs that were given up, newest first, and why; without the memories in them."""
        found = await self.list(limit=limit)
        return DeadLetterPage(items=tuple(map(DeadLetterInfo.of, found)), total=await self.count())

    async def count(self) -> int:
        """Return how many dead letters the company has."""
        return await self._ask(self._letters.count)

    @operation("GET /dead-letters/{job_id}", Verb.ADMIN, shows=DeadLetterInfo)
    async def get(self, job_id: str) -> DeadLetter:
        """Return one dead letter: why the job was given up, and whose memories it holds.

        Raises MemoryNotFoundError.
        """
        letter = await self._resources.run(self._letters.get, job_id)
        if letter is None or letter.company != self._company:
            raise MemoryNotFoundError(f"job_id: {job_id!r} names no dead letter; see `memtend dead list`")
        return letter

    @operation("POST /dead-letters:replay", Verb.ADMIN, confirms=True, under="replayed")
    async def replay_these(
        self,
        *,
        job_ids: JobIds | None = None,
        all: Annotated[bool, Field(description="Every one that can be sent again, instead.")] = False,  # noqa: A002  # its name over HTTP
        by: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Send jobs again under their ids, once the cause is fixed. Raises as ``replay``."""
        if (job_ids is not None) == all:
            raise MemoryInputError("job_ids", "name the jobs, or say all")
        return await self.replay(job_ids, by=by, reason=reason)

    async def replay(
        self, job_ids: Sequence[str] | None = None, *, by: str | None = None, reason: str | None = None
    ) -> int:
        """Send jobs again under their ids, these or all, and return how many; a letter goes when the broker has it.

        One that cannot be sent again stays. Raises MemoryNotFoundError; MemoryInputError for one that is named and
        cannot be sent again: its message could not be read, or its text is not kept. Nothing is sent then.
        """
        if job_ids is None:
            wanted = await self._ask(self._letters.ids)
        else:
            wanted = tuple(dict.fromkeys(job_ids))
            for job_id in wanted:
                if (why := refusal(await self.get(job_id))) is not None:
                    raise MemoryInputError("job_ids", f"{job_id} {why}, and cannot be sent again")
        sent = await self._resources.run(self._sent, wanted)
        await self._resources.note_given(by, "dead_letters.replay", _subject(job_ids), reason=reason)
        return sent

    async def count_named(self, job_ids: Sequence[str]) -> int:
        """Return how many letters these ids name. Raises MemoryNotFoundError for one that names none."""
        return len([await self.get(job_id) for job_id in dict.fromkeys(job_ids)])

    @operation("POST /dead-letters:delete", Verb.ADMIN, confirms=True, under="deleted")
    async def delete_these(
        self,
        *,
        job_ids: JobIds | None = None,
        older_than_days: Annotated[
            StrictInt, Field(ge=0, le=MOST_DAYS, description="Those that died more than so many days ago, instead.")
        ]
        | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Delete dead letters for good, with the memories in them."""
        if (job_ids is None) == (older_than_days is None):
            raise MemoryInputError("job_ids", "name the jobs, or older_than_days")
        if older_than_days is not None:
            return await self.delete_older(older_than_days, by=by, reason=reason)
        return await self.delete(job_ids or (), by=by, reason=reason)

    async def delete(self, job_ids: Sequence[str], *, by: str | None = None, reason: str | None = None) -> int:
        """Delete letters for good, with the memories in them, and return how many. Raises MemoryNotFoundError."""
        wanted = [(await self.get(job_id)).job_id for job_id in dict.fromkeys(job_ids)]
        gone = await self._ask(self._letters.purge, wanted)
        await self._resources.note_given(by, "dead_letters.delete", _subject(wanted), reason=reason)
        return gone

    async def count_older(self, days: int) -> int:
        """Return how many letters died more than so many days ago, 0 to 36,500. Raises MemoryInputError."""
        before = self._resources.clock() - _age(days)
        return await self._ask(self._letters.older, before=before)

    async def delete_older(self, days: int, *, by: str | None = None, reason: str | None = None) -> int:
        """Delete the letters that ``count_older`` counts, for good, and return how many. Raises MemoryInputError."""
        before = self._resources.clock() - _age(days)
        gone = await self._ask(self._letters.purge_older, before=before)
        await self._resources.note_given(by, "dead_letters.delete", f"older than {days} days", reason=reason)
        return gone

    def _sent(self, job_ids: Sequence[str]) -> int:
        # What speaks to the broker loads Celery, and no other call does.
        from memcore.client.envelopes import OutgoingJob  # noqa: PLC0415  # see above
        from memcore.client.publisher import JobResults  # noqa: PLC0415  # see above

        settings = self._resources.settings
        sender = JobResults(settings.broker_url, settings.result_url, may_lose=settings.broker_may_lose)
        sent = 0
        try:
            for job_id in job_ids:
                letter = self._letters.get(job_id)
                # Another person may have replayed or deleted it just now.
                if letter is not None and refusal(letter) is None:
                    # Its outcome says that it died, and an outcome that is final is never written over.
                    sender.forget(job_id)
                    # Its deaths were those of the first try.
                    self._resources.ledger.attempts.end(job_id)
                    job = OutgoingJob(
                        job_id=job_id,
                        queue=letter.queue,
                        payload=letter.payload,
                        summary="replayed",
                        owner=job_owner(letter.company),
                    )
                    sender.publish(letter.job, [job], track=True)
                    self._letters.remove(letter)
                    sent += 1
        finally:
            sender.close()
        return sent


def refusal(letter: DeadLetter) -> str | None:
    """Return why a letter's job cannot be sent again; None where it can."""
    if letter.job == UNREADABLE:
        return "could not be read"
    if any(payload.task == letter.job and payload.unkept for payload in declared_payloads()):
        return "keeps nothing of what was said"
    return None


def held_by(letter: DeadLetter) -> dict[str, Any]:
    """Return whose memories a letter holds; of an unreadable message its size and digest."""
    if letter.job == UNREADABLE:
        message = json.loads(letter.payload)
        return {"message_bytes": message["bytes"], "message_sha256": message["sha256"]}
    try:
        items = StorePayload.model_validate_json(letter.payload, extra="ignore").items
    except ValidationError:
        return {"agents": [], "memory_ids": []}
    return {"agents": sorted({item.agent_id for item in items}), "memory_ids": [item.id for item in items]}


def _age(days: int) -> timedelta:
    if not 0 <= days <= MOST_DAYS:
        raise MemoryInputError("older_than", f"must be from 0 to {MOST_DAYS} days")
    return timedelta(days=days)


def _subject(job_ids: Sequence[str] | None) -> str:
    # One line of the audit for one decision; it names the job where there is one.
    if job_ids is None:
        return "all"
    return job_ids[0] if len(job_ids) == 1 else f"{len(job_ids)} letters"
