import os
from pathlib import Path

import pytest
from celery import Celery
from redis.exceptions import ResponseError

from memcore import MemoryClient
from memcore.client.client import broker_disk
from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import CHUNK_BYTES, CHUNK_JOBS, Publisher, chunks
from memcore.config.settings import Settings
from memcore.errors import MemoryDiskFullError
from memcore.free_space import FOR_JOBS
from memcore.jobs import StorePayload
from memcore.models.memory import MemoryCategory, MemoryStoreRequest


def outgoing_job(number: int, payload: str = "{}") -> OutgoingJob:
    return OutgoingJob(job_id=f"job-{number}", queue="q", payload=payload, summary="s")


def test_chunks_keep_the_order_and_the_limit_on_jobs() -> None:
    outgoing_jobs = [outgoing_job(number) for number in range(2 * CHUNK_JOBS + 1)]
    cut = list(chunks(iter(outgoing_jobs)))
    assert [len(chunk) for chunk in cut] == [CHUNK_JOBS, CHUNK_JOBS, 1]
    assert [each for chunk in cut for each in chunk] == outgoing_jobs


def test_chunks_keep_the_limit_on_bytes_and_let_no_giant_stop_the_rest() -> None:
    half = "x" * (CHUNK_BYTES // 2)
    sizes = [half, half, half, "x" * (CHUNK_BYTES + 1), "{}"]
    assert [len(chunk) for chunk in chunks(outgoing_job(n, text) for n, text in enumerate(sizes))] == [2, 1, 1, 1]


def test_nothing_makes_no_chunk() -> None:
    assert list(chunks([])) == []


def test_a_job_shows_no_memory() -> None:
    assert "xylophone" not in repr(outgoing_job(1, "xylophone"))


def test_a_broker_that_cannot_write_is_a_full_disk_and_no_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ResponseError("MISCONF Errors writing to the AOF file: No space left on device")

    publisher = Publisher(Celery(set_as_current=False, broker="memory://"))
    monkeypatch.setattr(publisher, "_send", refuse)
    with pytest.raises(MemoryDiskFullError, match="the broker cannot write to its disk"):
        publisher.publish(StorePayload.task, [outgoing_job(1)], track=False)


def test_a_client_refuses_what_carries_memories_while_the_brokers_disk_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [FOR_JOBS - 1]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1, 1, 9, 9, free[0], 0, 0, 0, 0, 255)))
    sent: list[object] = []
    monkeypatch.setattr(Publisher, "publish", lambda *given, **_: sent.append(given))
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="a fact")
    with MemoryClient("memory://", disk=tmp_path) as client:
        full = f"^the disk of {tmp_path} is full: 127 MiB are free, and 128 MiB must stay so; nothing new is taken"
        with pytest.raises(MemoryDiskFullError, match=full):
            client.store("ada", request)
        with pytest.raises(MemoryDiskFullError, match=full):
            client.import_many([])
        assert sent == []
        free[0] = FOR_JOBS
        client.store("ada", request)
    assert len(sent) == 1


def test_only_a_broker_of_this_machine_has_its_disk_looked_at(tmp_path: Path) -> None:
    def settings(url: str) -> Settings:
        return Settings(broker_url=url, database_url="sqlite:///x", qdrant_url="http://127.0.0.1:1", home=tmp_path)

    assert broker_disk(settings("redis://127.0.0.1:1/0")) is None
    (tmp_path / "data" / "broker").mkdir(parents=True)
    assert broker_disk(settings("redis://127.0.0.1:1/0")) == tmp_path / "data" / "broker"
    assert broker_disk(settings("redis://broker.example:1/0")) is None
