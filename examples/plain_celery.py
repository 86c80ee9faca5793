"""Store a memory from a Celery app of your own, which need not have memtend: run it beside `memtend up`.

Set MEMTEND_BROKER_URL and MEMTEND_RESULT_URL as for memtend. A job's message is one payload, as in
docs/reference/jobs.md. Name the queue: Celery's own default, `celery`, is read by no worker of memtend.
"""

import os
import uuid
from datetime import UTC, datetime

from celery import Celery

app = Celery("mine", broker=os.environ["MEMTEND_BROKER_URL"], backend=os.environ["MEMTEND_RESULT_URL"])

now = datetime.now(UTC).isoformat()
memory = {
    "id": str(uuid.uuid4()),  # sent again under the same id, it is stored once
    "agent_id": "oncall",
    "request": {"content": "The payment queue pages at 500 messages.", "category": "semantic"},
    "created_at": now,
    "sent_at": now,
}
payload = {"company": os.environ.get("MEMTEND_COMPANY", "default"), "items": [memory]}

job = app.send_task("memory.store.write", args=[payload], queue="memory.store")
outcome = job.get(timeout=60)
print(outcome)

# What memtend does not do is refused, and the result says so: callbacks, chords, chains, and an end of waiting.
job = app.send_task("memory.store.write", args=[payload], queue="memory.store", expires=60)
job.get(timeout=60, propagate=False)
print(job.state, job.result)

del job  # an open result must not outlive its app
app.close()
