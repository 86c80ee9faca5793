"""An agent's night, now, and taking it back: run it beside `memtend up` once the agent has memories."""

import os

from memcore import MemoryClient
from memcore.config.settings import Settings

with MemoryClient.from_settings(Settings.load(os.environ)) as client:
    night = client.maintain_now("oncall")  # beside the schedule; the job's id is the run's id
    for outcome in client.wait([night.job_id], timeout_seconds=120):
        print(outcome.state, outcome.facts)

    undo = client.undo("oncall", night.job_id)  # what the night removed returns, what it made goes
    for outcome in client.wait([undo.job_id], timeout_seconds=120):
        print(outcome.state, outcome.facts)
