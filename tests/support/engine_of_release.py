"""``python -P engine_of_release.py``: what an engine asks of memtend, by the code that ``PYTHONPATH`` names.

It reads orders from standard input, ``ORDER AGENT [SUBJECT]`` a line, and answers each with a line of JSON. It runs
with the code of more than one release, and so calls only what all of them have.
"""

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from memcore import MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.config.settings import Settings
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn
from memcore.models.memory import MemoryCategory

#: Memories of one order, and how many of them are working memories of a task that ended long ago.
FILLED, EXPIRED = 12, 4

#: The task of which one memory more is kept until it ends.
TASK = "errand"


def records(agent_id: str) -> Iterator[ImportRecord]:
    """Yield memories of which a maintenance run removes some, and the end of the task one."""
    now = datetime.now(UTC)
    for number in range(FILLED):
        category, age = (MemoryCategory.WORKING, 9) if number < EXPIRED else (MemoryCategory.SEMANTIC, 0)
        yield ImportRecord(
            agent_id=agent_id,
            category=category,
            content=f"{agent_id} notes that ferry {number} leaves at {number} past nine",
            created_at=now - timedelta(days=age),
        )
    yield ImportRecord(
        agent_id=agent_id,
        category=MemoryCategory.WORKING,
        content=f"{agent_id} carries the parcel of the errand",
        task_id=TASK,
    )


def failed_task(agent_id: str, number: int) -> ExecutionTrace:
    """Return how a task failed, from which a lesson is drawn."""
    return ExecutionTrace(
        task_id=f"{agent_id}-{number}",
        task_title="Mend the import",
        termination_reason=TerminationReason.ERROR,
        error_category=f"walrus_{number}",
        error_message="no space left on device",
        recovery=Recovery(strategy="retry"),
        turns=(Turn(tools=("deploy", "deploy")),),
        ended_at=datetime.now(UTC),
    )


def answer(client: MemoryClient, agent_id: str, order: str, subject: str = "") -> dict[str, list[str]]:
    """Carry out one order, and return the ids of its jobs and of the memories that come of them."""
    match order:
        case "fill":
            receipt = client.import_many(records(agent_id))
            return {"jobs": list(receipt.job_ids), "memories": list(receipt.memory_ids)}
        case "distill":
            traces = [client.distill(agent_id, failed_task(agent_id, number)) for number in range(int(subject))]
            sent = [each for each in traces if each is not None]
            return {"jobs": [each.job_id for each in sent], "memories": [each.trace_id for each in sent]}
        case "maintain":
            job = client.maintain_now(agent_id, allow_large=True)
        case "undo":
            job = client.undo(agent_id, subject)
        case "end":
            job = client.end_task(agent_id, TASK)
        case _:
            raise ValueError(order)
    return {"jobs": [job.job_id], "memories": []}


def main() -> None:
    """Answer until standard input ends."""
    with MemoryClient.from_settings(Settings.load(os.environ)) as client:
        for line in sys.stdin:
            order, agent_id, *rest = line.split()
            sys.stdout.write(f"{json.dumps(answer(client, agent_id, order, *rest))}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
