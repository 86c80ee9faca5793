"""Queues: how many jobs wait and for how long; the jobs that were given up: send again, delete."""

import asyncio
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.jobs import Queue
from memcore.ledger.access.keys import Verb
from memcore.service.dead_letters import MAX_PAGE, DeadLetterInfo
from ops.http.access import CurrentCaller
from ops.http.context import Service, Serving
from ops.http.operators import company_wide
from ops.metrics import families
from ops.web.forms import Form
from ops.web.pages import back_to, page
from workers.groups import GROUPS

router = APIRouter(prefix="/queues", dependencies=[company_wide(Verb.ADMIN)])


class QueueRow(NamedTuple):
    """A queue.

    Attributes:
        waiting: None where the broker does not answer.
        oldest_seconds: how long the oldest job that may run now has waited.
    """

    name: str
    waiting: int | None
    oldest_seconds: float


class WorkerRow(NamedTuple):
    """A group of workers.

    Attributes:
        answering: None where the broker, by which they are asked, does not answer.
        is_on_demand: whether none is no fault: nothing needs them now, or a person starts them.
    """

    name: str
    answering: int | None
    is_on_demand: bool


@router.get("")
async def queues(
    request: Request,
    caller: CurrentCaller,
    service: Service,
    serving: Serving,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> Response:
    """Show the queues, the workers that answer, and the dead letters; the broker's are for the operator's key."""
    rows, workers, is_broker_up = list[QueueRow](), list[WorkerRow](), True
    is_operator = caller.company == serving.settings.company
    if is_operator:
        samples = await asyncio.to_thread(serving.collector.gather, None)
        is_broker_up = bool(samples.value(families.PART_UP, part="broker"))
        rows = [
            QueueRow(
                str(queue),
                int(samples.value(families.QUEUE_JOBS, queue=str(queue))) if is_broker_up else None,
                samples.value(families.QUEUE_OLDEST, queue=str(queue)),
            )
            for queue in Queue
        ]
        workers = [
            WorkerRow(
                name,
                int(samples.value(families.WORKERS, group=name)) if is_broker_up else None,
                # None is counted of a group that nothing needs now.
                not samples.is_set(families.WORKERS, group=name),
            )
            for name in GROUPS
        ]
    letters = await service.dead_letters.list(limit=limit)
    return page(
        request,
        "queues",
        queues=rows,
        workers=workers,
        is_operator=is_operator,
        is_broker_up=is_broker_up,
        letters=[DeadLetterInfo.of(each) for each in letters],
        total=await service.dead_letters.count(),
        limit=limit,
        most=MAX_PAGE,
    )


@router.post("/replay")
async def replay(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Send a job again under its id; without an id every one that can be sent again."""
    job_id = form.optional("job")
    sent = await service.dead_letters.replay(None if job_id is None else [job_id], **form.decision(caller))
    return back_to("queues", "replayed" if sent else "nothing")


@router.post("/delete")
async def delete(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Delete a letter for good, with the memories in it."""
    await service.dead_letters.delete([form.text("job")], **form.decision(caller))
    return back_to("queues", "deleted")
