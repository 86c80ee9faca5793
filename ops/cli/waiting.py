"""Waiting for jobs that a command has sent."""

from pathlib import Path

from memcore.client import JobState, MemoryClient, StoreReceipt
from memcore.errors import MemoryStoreError
from ops.cli.console import warn
from ops.cli.session import ledger_of, settings_of

#: How long a command waits until stored memories can be found, in seconds.
STORE_SECONDS = 60.0

#: How long a command waits for a run, in seconds (one hour, the longest a run may take).
RUN_SECONDS = 3_600.0


def await_stored(client: MemoryClient, receipt: StoreReceipt, *, timeout_seconds: float = STORE_SECONDS) -> int:
    """Wait until every job of the receipt has written its memories; return how many are in the store.

    Raises:
        MemoryStoreError: a job was given up, stored nothing because of the agent's level, or did not finish in time.
    """
    return _await(client, receipt.job_ids, timeout_seconds, skips=False)


def await_run(client: MemoryClient, run_id: str, *, timeout_seconds: float = RUN_SECONDS) -> None:
    """Wait until the run's job has ended; raises MemoryStoreError when it was given up or takes too long."""
    _await(client, (run_id,), timeout_seconds)


def is_paused(agent_id: str, home: Path | None) -> bool:
    """Return whether an agent's runs wait for somebody to resume maintenance, after saying so."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        agent = ledger.agents.get(settings.company, agent_id)
        if not (ledger.switches.paused(settings.company) or (agent and agent.paused)):
            return False
    warn("maintenance is paused: the run waits until it is resumed")
    return True


def _await(client: MemoryClient, job_ids: tuple[str, ...], timeout_seconds: float, *, skips: bool = True) -> int:
    stored = 0
    try:
        for status in client.wait(job_ids, timeout_seconds=timeout_seconds):
            if status.state is JobState.DEAD:
                msg = f"job {status.job_id} was given up: {status.reason}"
                raise MemoryStoreError(msg)
            if status.state is JobState.SKIPPED and not skips:
                msg = f"nothing was stored: {status.reason}"
                raise MemoryStoreError(msg)
            stored += status.facts.get("stored", 0)
    except TimeoutError as error:
        msg = f"{error}; they are still in the queue: see `memtend status`"
        raise MemoryStoreError(msg) from None
    return stored
