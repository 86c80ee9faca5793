"""A disk that runs full under a running stack: new stores are refused, what was accepted is there once it has room."""

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from support.running_stack import running_stack, wait_until
from support.stored import memory_ids

from memcore.client import MemoryClient
from memcore.errors import MemoryConnectionError, MemoryDiskFullError
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

#: Room for a stack and little more: on such a disk each file of the vectors takes its whole size.
DISK_MIB = 640


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "memtend-test", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"there is no mount here: {error.strerror}")
    if done.returncode:
        pytest.skip(f"a disk may not be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607  # it stands where mount does


@contextmanager
def full(disk: Path) -> Generator[None]:
    """Leave not one byte free."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(2**16))
        except OSError:
            pass
    try:
        yield
    finally:
        filler.unlink()


def request(number: int) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"fact number {number} of the day")


def test_a_full_disk_refuses_stores_and_ends_nothing(disk: Path) -> None:
    with running_stack(disk / "home") as stack, MemoryClient.from_settings(stack.settings) as client:
        accepted = set(client.store_many("ada", map(request, range(300))).memory_ids)
        with full(disk):
            with pytest.raises(MemoryDiskFullError, match=r"the disk of .*/home/data/broker is full: 0 MiB are free"):
                client.store("ada", request(1000))
            dead = [stack.pid("broker"), stack.pid("store-server")]
            for pid in filter(None, dead):
                if psutil.pid_exists(pid):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not any(map(alive, filter(None, dead))), what="both to be seen dead")
            with pytest.raises(MemoryDiskFullError):
                client.store("ada", request(1001))
            assert stack.process.poll() is None
        freed = datetime.now(UTC)

        def all_ready() -> bool:
            # What was written before the disk was full says nothing.
            return stack.state.seen_at > freed and all(part.ready for part in stack.state.parts)

        wait_until(all_ready, seconds=120, what="every part to be back")
        assert stack.restarts("broker") > 0
        wait_until(lambda: accepted <= set(memory_ids(stack.settings)), what="all that was accepted")

        def stores_again() -> bool:
            try:
                accepted.update(client.store("ada", request(1002)).memory_ids)
            except MemoryConnectionError:
                return False
            return True

        wait_until(stores_again, what="a store")
        wait_until(lambda: accepted == set(memory_ids(stack.settings)), what="the new one, and nothing twice")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
