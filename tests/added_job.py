"""Runs the job of docs/how-to/add-a-job.md: ``added_job.py FOLDER`` prints its outcome as JSON.

The folder holds the files of the page, as they would lie in the tree, and ``settings.json``. Client, broker, app,
contexts and ledger are the product's own; the memories are kept in this process. It is a process of its own, since what
the page adds would stay in it.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from celery.contrib.testing.worker import start_worker

import memcore.maintenance
import tasks
from memcore import MemoryClient, company, jobs
from memcore.backends import factory
from memcore.backends.inmemory import InMemoryBackend
from memcore.config.settings import Settings
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from tasks.job import all_jobs
from workers.app import create_app
from workers.groups import MAINTENANCE_RUN


def main(folder: Path) -> None:
    settings = Settings.model_validate_json((folder / "settings.json").read_text())
    # As if the block stood at the end of the module, and the two files in their packages.
    exec((folder / "memcore" / "jobs.py").read_text(), jobs.__dict__)  # noqa: S102  # it is our own page
    memcore.maintenance.__path__.append(str(folder / "memcore" / "maintenance"))
    tasks.__path__.append(str(folder / "tasks"))
    backend = InMemoryBackend(company=settings.company)
    asyncio.run(backend.connect())
    replaced: Any = company
    replaced.create_worker_backend = lambda *_, **__: backend
    loading: Any = factory
    loading.create_configured_embedder = lambda *_: None
    for content in ("the lift is out of order", "the roof leaks"):
        request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=content)
        asyncio.run(backend.store("ada", request))

    added = {each.name: each for each in all_jobs()}["memory.census.take"]
    payload = added.payload.model_validate_json((folder / "census-1.json").read_text())
    worker: Any = start_worker(create_app(settings, group=MAINTENANCE_RUN), perform_ping_check=False, pool="solo")
    sent: Any = payload
    with MemoryClient.from_settings(settings) as client, worker:
        receipt = client.send(sent, job_id="job-1")
        (status,) = client.wait([receipt.job_id], timeout_seconds=60)
    print(json.dumps({"state": status.state, "facts": status.facts, "reason": status.reason}))  # noqa: T201  # its answer


if __name__ == "__main__":
    main(Path(sys.argv[1]))
