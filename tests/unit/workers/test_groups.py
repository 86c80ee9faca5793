from collections import Counter
from dataclasses import replace

import pytest

from memcore.config.finetune import LONGEST_STAGE_SECONDS
from memcore.errors import MemoryConfigError
from memcore.jobs import Queue, StorePayload
from tasks.job import all_jobs
from tasks.learn import finetune
from tasks.store import write
from workers.broker import SOFT_SHUTDOWN_SECONDS
from workers.celery_task import IN_HAND
from workers.groups import GROUPS, LLM, WorkerGroup
from workers.health import BEAT_SECONDS, FROZEN_SECONDS
from workers.run import main, options_of
from workers.transport.channel import Channel


def test_every_queue_is_taken_by_exactly_one_group() -> None:
    assert Counter(queue for each in GROUPS.values() for queue in each.queues) == dict.fromkeys(Queue, 1)


def test_the_lists_of_a_groups_jobs_are_those_that_its_transport_reads() -> None:
    # Nothing of a channel is asked but how it names lists.
    channel = Channel.__new__(Channel)
    assert set(channel._lists(tuple(map(str, LLM.queues)))) == set(LLM.waiting_keys)


@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: str(job.name))
def test_a_job_is_asked_to_stop_before_it_is_killed_and_killed_before_another_gets_it(job: object) -> None:
    limits, queue = job.limits, job.queue  # type: ignore[attr-defined]  # ids need an untyped parameter
    taker = next(each for each in GROUPS.values() if queue in each.queues)
    assert limits.soft < limits.hard < taker.visibility
    assert limits.attempts >= 1


@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: str(job.name))
def test_only_a_job_in_a_thread_waits_there_and_no_longer_than_a_worker_that_stops(job: object) -> None:
    if job.retry_after < IN_HAND:  # type: ignore[attr-defined]  # as above
        assert [group.pool for group in GROUPS.values() if job.queue in group.queues] == ["threads"]  # type: ignore[attr-defined]  # as above
    assert IN_HAND.total_seconds() < SOFT_SHUTDOWN_SECONDS


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda group: str(group.name))
def test_a_frozen_worker_is_replaced_before_its_messages_go_to_others(group: WorkerGroup) -> None:
    # Nobody who wakes up after that does twice what others have done.
    assert 3 * BEAT_SECONDS <= FROZEN_SECONDS < group.visibility.total_seconds()


def test_the_longest_stage_that_can_be_configured_ends_before_its_job_is_asked_to_stop() -> None:
    assert finetune.limits.soft.total_seconds() > LONGEST_STAGE_SECONDS


def test_jobs_are_found_once_and_one_of_a_name_that_another_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.maintain.write", write, raising=False)
    assert len(all_jobs()) == 26
    monkeypatch.setattr("tasks.store.twin", replace(write), raising=False)
    with pytest.raises(MemoryConfigError, match=r"^tasks.store: another job is named memory.store.write, too"):
        all_jobs()


def test_a_job_of_a_payload_that_declares_no_task_is_refused() -> None:
    class OtherPayload(StorePayload):
        pass

    with pytest.raises(MemoryConfigError, match=r"^OtherPayload: declares no task or queue; write class OtherPayload"):
        replace(write, payload=OtherPayload)


def test_a_wrong_name_is_told_with_the_right_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--group", "night-shift"])
    said = capsys.readouterr().err
    assert all(name in said for name in GROUPS)


def test_a_worker_is_started_for_its_queues_on_its_pool() -> None:
    options = options_of(GROUPS["night"])
    assert options["queues"] == ["memory.maintenance", "memory.control", "memory.skills", "memory.reindex"]
    assert options["pool"] == "prefork"
