"""docs/reference/jobs.md: queues, groups of workers, jobs with their limits, and payloads."""

from memcore.jobs import (
    MAX_MESSAGE_BYTES,
    MAX_PAYLOAD_BYTES,
    Payload,
    Queue,
    RecordedQuery,
    StoreItem,
    Use,
)
from memcore.models.base import Frozen
from reference.docstrings import field_sentences, member_sentences, summary
from reference.page import Page, table
from reference.types import field_types
from tasks.job import all_jobs
from workers.groups import GROUPS

_MIB = 1_048_576


def reference() -> str:
    """Return the tables of queues, workers and jobs, then the payloads."""
    parts = ["## Queues", _queues(), "## Workers", _workers(), "## Jobs", _jobs(), "## Payloads", _sizes()]
    shown: list[tuple[str, type[Frozen]]] = [
        *((f"`{job.name}`", job.payload) for job in all_jobs() if issubclass(job.payload, Payload)),
        ("An item of `memory.store.write`", StoreItem),
        ("A use of `memory.use.record`", Use),
        ("A question of `memory.query.record`", RecordedQuery),
    ]
    parts += [f"### {title}\n\n{summary(model)}\n\n{_fields(model)}" for title, model in shown]
    return "\n\n".join(parts)


def _queues() -> str:
    sentences = member_sentences(Queue)
    takers = {queue: group.name for group in GROUPS.values() for queue in group.queues}
    rows = [(f"`{queue}`", f"`{takers[queue]}`", sentences[queue.name]) for queue in Queue]
    return table(("queue", "worker", "what waits there"), rows)


def _workers() -> str:
    rows = [
        (f"`{group.name}`", group.pool, str(group.concurrency), f"{group.visibility.total_seconds():.0f}")
        for group in GROUPS.values()
    ]
    return table(("worker", "pool", "jobs at a time", "a dead worker's message comes back after, s"), rows)


def _jobs() -> str:
    rows = []
    for job in all_jobs():
        soft, hard = (limit.total_seconds() for limit in (job.limits.soft, job.limits.hard))
        again = "" if job.is_repeated else "yes"
        row = (f"`{job.name}`", f"`{job.queue}`", f"{soft:.0f}", f"{hard:.0f}", str(job.limits.attempts), again)
        rows.append(row)
    return table(("job", "queue", "soft limit, s", "hard limit, s", "attempts", "a dead letter if given up"), rows)


def _sizes() -> str:
    return (
        f"A payload has at most {MAX_PAYLOAD_BYTES // _MIB} MiB, a message on the broker at most "
        f"{MAX_MESSAGE_BYTES // _MIB} MiB. `company` is part of every payload: the job of a company "
        "that is not registered becomes a dead letter, to be replayed once it is."
    )


def _fields(model: type[Frozen]) -> str:
    sentences, types = field_sentences(model), field_types(model)
    rows = [
        (f"`{name}`", *types[name], "yes" if field.is_required() else "", sentences.get(name, ""))
        for name, field in model.model_fields.items()
        if name != "company"
    ]
    return table(("field", "type", "limits", "required", "what it is"), rows)


PAGE = Page(name="jobs.md", generate=reference)
