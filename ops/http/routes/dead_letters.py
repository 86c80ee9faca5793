"""Dead letters: the jobs that were given up; shown without their payloads, sent again, deleted for good."""

from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import Field, StrictInt, model_validator

from memcore.errors import MemoryInputError
from memcore.ledger.access.keys import Verb
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS
from memcore.service.dead_letters import MAX_PAGE, MOST_DAYS, DeadLetterInfo
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import ConfirmBody, PathId, company_wide

router = APIRouter(prefix="/v1", tags=["dead letters"], dependencies=[company_wide(Verb.ADMIN)])

#: The ids of jobs.
JobIds = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)], ...], Field(min_length=1, max_length=256)
]


class DeadLetterPage(Frozen):
    """Dead letters, newest first, and how many there are in all."""

    items: tuple[DeadLetterInfo, ...]
    total: int


class ReplayBody(ConfirmBody):
    """Which jobs are sent again.

    Attributes:
        job_ids: these.
        all: every one that can be sent again, instead.
    """

    job_ids: JobIds | None = None
    all: bool = False

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.job_ids is not None) == self.all:
            raise MemoryInputError("job_ids", "name the jobs, or say all")
        return self


class DeleteBody(ConfirmBody):
    """Which letters are deleted for good, with the memories in them.

    Attributes:
        job_ids: these.
        older_than_days: those that died more than so many days ago, instead.
    """

    job_ids: JobIds | None = None
    older_than_days: StrictInt | None = Field(default=None, ge=0, le=MOST_DAYS)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.job_ids is None) == (self.older_than_days is None):
            raise MemoryInputError("job_ids", "name the jobs, or older_than_days")
        return self


class Replayed(Frozen):
    """How many jobs were sent again."""

    replayed: int


class Deleted(Frozen):
    """How many letters were deleted."""

    deleted: int


@router.get("/dead-letters")
async def list_letters(service: Service, limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 20) -> DeadLetterPage:
    """Return dead letters, newest first, and why each job was given up."""
    found = await service.dead_letters.list(limit=limit)
    return DeadLetterPage(items=tuple(map(DeadLetterInfo.of, found)), total=await service.dead_letters.count())


@router.get("/dead-letters/{job_id}")
async def get_letter(job_id: PathId, service: Service) -> DeadLetterInfo:
    """Return one dead letter: why the job was given up, and whose memories it holds."""
    return DeadLetterInfo.of(await service.dead_letters.get(job_id))


@router.post("/dead-letters:replay")
async def replay(body: ReplayBody, caller: CurrentCaller, service: Service) -> Replayed:
    """Send jobs again under their ids, once the cause is fixed."""
    sent = await service.dead_letters.replay(body.job_ids, by=caller.name, reason=body.reason)
    return Replayed(replayed=sent)


@router.post("/dead-letters:delete")
async def delete(body: DeleteBody, caller: CurrentCaller, service: Service) -> Deleted:
    """Delete dead letters for good, with the memories in them."""
    letters, who = service.dead_letters, {"by": caller.name, "reason": body.reason}
    if body.job_ids is not None:
        return Deleted(deleted=await letters.delete(body.job_ids, **who))
    return Deleted(deleted=await letters.delete_older(body.older_than_days or 0, **who))
