"""Several writers share one sync of the log, and none is answered before the sync that covers it has ended."""

import asyncio
import errno
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

from memcore.vectorstore.collection import GroupCommit
from memcore.vectorstore.errors import EngineFailedError


class Disk:
    """A disk whose syncs last until they are let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.release = threading.Semaphore(0)
        self.syncs = 0
        self.fault: OSError | None = None

    def sync(self) -> None:
        self.begun.release()
        self.release.acquire()
        self.syncs += 1
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def commit(disk: Disk) -> Generator[GroupCommit]:
    with ThreadPoolExecutor(1) as executor:
        yield GroupCommit(sync=disk.sync, executor=executor)


async def test_writers_that_arrive_during_a_sync_share_the_next(commit: GroupCommit, disk: Disk) -> None:
    commit.wrote()
    first = asyncio.create_task(commit.settle())
    await asyncio.to_thread(disk.begun.acquire)
    later = []
    for _ in range(5):
        commit.wrote()
        later.append(asyncio.create_task(commit.settle()))
    await asyncio.sleep(0)
    assert not first.done()
    disk.release.release()
    await first
    assert commit.pending == 5
    assert not any(one.done() for one in later)
    disk.release.release()
    await asyncio.gather(*later)
    assert (disk.syncs, commit.pending) == (2, 0)


async def test_nothing_written_needs_no_sync(commit: GroupCommit, disk: Disk) -> None:
    await commit.settle()
    assert disk.syncs == 0


async def test_a_writer_that_is_cancelled_leaves_the_others_their_sync(commit: GroupCommit, disk: Disk) -> None:
    commit.wrote()
    impatient, patient = asyncio.create_task(commit.settle()), asyncio.create_task(commit.settle())
    await asyncio.to_thread(disk.begun.acquire)
    impatient.cancel()
    disk.release.release()
    await patient
    assert impatient.cancelled()
    assert disk.syncs == 1


async def test_after_a_failed_sync_no_write_is_taken_or_answered(commit: GroupCommit, disk: Disk) -> None:
    disk.fault = OSError(errno.EIO, "Input/output error")
    disk.release.release()
    commit.wrote()
    with pytest.raises(EngineFailedError, match="Input/output error"):
        await commit.settle()
    disk.fault = None
    with pytest.raises(EngineFailedError, match="restart"):
        commit.wrote()
    with pytest.raises(EngineFailedError, match="restart"):
        await commit.settle()
