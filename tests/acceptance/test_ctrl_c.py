"""Ctrl-C under load: the stack stops in order, and the next start finds everything that was accepted."""

import threading
from pathlib import Path

import psutil
import pytest
from support.running_stack import running_stack, wait_until
from support.stored import jobs_in_hand, jobs_waiting, memory_ids

from memcore.client import MemoryClient
from memcore.errors import MemoryConnectionError
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

#: Memories not yet in the store when Ctrl-C is pressed.
BACKLOG = 300

#: Batches of 25 that the client sends in all; it is still sending when Ctrl-C is pressed.
BATCHES = 200


def test_ctrl_c_under_load_loses_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    accepted: list[str] = []
    with running_stack(home) as stack:
        settings, family = stack.settings, stack.family()

        def talk() -> None:
            with MemoryClient.from_settings(settings) as client:
                for number in range(BATCHES):
                    batch = [
                        MemoryStoreRequest(category=MemoryCategory.EPISODIC, content=f"sentence {number}.{each}")
                        for each in range(25)
                    ]
                    try:
                        accepted.extend(client.store_many("talker", batch, track=False).memory_ids)
                    except MemoryConnectionError:
                        return

        talker = threading.Thread(target=talk)
        talker.start()
        # Held, the worker cannot keep up, however slowly this client is given its turns on a busy machine.
        worker = psutil.Process(stack.pid("worker-store"))
        worker.suspend()
        wait_until(lambda: len(accepted) - memory_ids(settings).total() >= BACKLOG, what="a backlog")
        worker.resume()
        assert stack.interrupt() == 0
        talker.join()
        assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family)
    assert len(accepted) >= BACKLOG
    with running_stack(home) as stack:
        wait_until(
            lambda: not jobs_waiting(stack.settings) and not jobs_in_hand(stack.settings, "store"),
            seconds=120,
            what="what was left to be stored",
        )
        held = memory_ids(stack.settings)
    assert set(accepted) <= set(held)
    assert held.total() == len(held)
