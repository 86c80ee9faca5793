"""Run an agent's maintenance now, look at what it did, and undo it: run it beside `memtend up`."""

import os
from datetime import UTC, datetime, timedelta

from memcore import MemoryClient
from memcore.config.settings import Settings

#: What the agent went through five weeks ago; the default policy summarises episodes that are older than a week.
EPISODES = (
    "The nightly import stopped at row 4711 because the disk was full. Grace freed 20 GiB.",
    "The nightly import stopped again at row 9220. The disk was full of core dumps.",
    "The nightly import ran through in 62 minutes after the core dumps were moved.",
    "The nightly import ran through in 64 minutes. Nobody was paged.",
    "The nightly import ran through in 61 minutes. Nobody was paged.",
)


def finish(client: MemoryClient, *job_ids: str) -> dict[str, int]:
    """Wait for jobs, stop with the reason of one that did not do its work, and return the counts of the last."""
    counts: dict[str, int] = {}
    for status in client.wait(job_ids, timeout_seconds=120):
        if status.state != "done":
            raise SystemExit(f"{status.state}: {status.reason}")
        counts = {name: count for name, count in status.facts.items() if count}
    return counts


def main() -> None:
    with MemoryClient.from_settings(Settings.load(os.environ)) as client:
        began = datetime.now(UTC) - timedelta(days=35)
        stored = client.import_many(
            {
                "agent_id": "importer",
                "category": "episodic",
                "content": text,
                "created_at": began + timedelta(hours=number),
            }
            for number, text in enumerate(EPISODES)
        )
        print("stored", finish(client, *stored.job_ids))

        run = client.maintain_now("importer")  # beside the schedule; the job's id is the run's id
        print("maintained", finish(client, run.job_id))

        undo = client.undo("importer", run.job_id)  # what the run removed returns, what it made goes
        print("undone", finish(client, undo.job_id))


if __name__ == "__main__":
    main()
