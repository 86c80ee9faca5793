"""An agent's night, now, and taking it back: run it beside `memtend up` once the agent has memories."""

import os

from memcore import MemoryClient
from memcore.config.settings import Settings


def finish(client: MemoryClient, job_id: str) -> None:
    """Wait for a job, and stop with its reason when it did not do its work."""
    for outcome in client.wait([job_id], timeout_seconds=120):
        print(outcome.state, outcome.facts)
        if outcome.state != "done":
            raise SystemExit(outcome.reason)


with MemoryClient.from_settings(Settings.load(os.environ)) as client:
    night = client.maintain_now("oncall")  # beside the schedule; the job's id is the run's id
    finish(client, night.job_id)

    undo = client.undo("oncall", night.job_id)  # what the night removed returns, what it made goes
    finish(client, undo.job_id)
