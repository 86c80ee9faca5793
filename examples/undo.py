"""Run an agent's maintenance now, look at what it did, and undo it: run it beside `memtend up`."""

from datetime import UTC, datetime, timedelta

from memcore import JobReceipt, Memory, StoreReceipt

AGENT = "importer"

#: What the agent went through five weeks ago; the default policy merges repetitions that are older than a week.
EPISODES = (
    "The nightly import stopped at row 4711 because the disk was full. Grace freed 20 GiB.",
    "The nightly import stopped again at row 9220. The disk was full of core dumps.",
    "The nightly import ran through. Nobody was paged.",
    "Note that the nightly import ran through; nobody was paged.",
    "The nightly import ran through. Nobody was paged!",
)


def finish(memory: Memory, receipt: StoreReceipt | JobReceipt) -> dict[str, int]:
    """Wait for the jobs of a receipt, stop with the reason if one did not do its work, and return its counts."""
    counts: dict[str, int] = {}
    for status in memory.wait(receipt, timeout_seconds=120):
        if status.state != "done":
            raise SystemExit(f"{status.state}: {status.reason}")
        counts |= {name: count for name, count in status.facts.items() if count}
    return counts


def main() -> None:
    with Memory.from_environment() as memory:
        began = datetime.now(UTC) - timedelta(days=35)
        records = [
            {
                "agent_id": AGENT,
                "category": "episodic",
                "content": text,
                "created_at": began + timedelta(hours=number),
            }
            for number, text in enumerate(EPISODES)
        ]
        print("stored", finish(memory, memory.client.import_many(records)))

        run = memory.client.maintain_now(AGENT)  # beside the schedule; the job's id is the run's id
        print("maintained", finish(memory, run))
        for found in memory.search(AGENT, "Why did the import stop?"):
            print("-", found.content)

        undo = memory.client.undo(AGENT, run.job_id)  # what the run removed returns, what it made goes
        print("undone", finish(memory, undo))


if __name__ == "__main__":
    main()
