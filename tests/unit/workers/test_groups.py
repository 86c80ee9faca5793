from collections import Counter

import pytest

from memcore.config.finetune import LONGEST_STAGE_SECONDS
from memcore.jobs import Queue
from tasks.learn import finetune
from workers.app import all_jobs
from workers.groups import GROUPS
from workers.run import arguments_of, main


def test_every_queue_is_taken_by_exactly_one_group() -> None:
    assert Counter(queue for each in GROUPS.values() for queue in each.queues) == dict.fromkeys(Queue, 1)


@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: str(job.name))
def test_a_job_is_asked_to_stop_before_it_is_killed_and_killed_before_another_gets_it(job: object) -> None:
    limits, queue = job.limits, job.queue  # type: ignore[attr-defined]  # ids need an untyped parameter
    taker = next(each for each in GROUPS.values() if queue in each.queues)
    assert limits.soft < limits.hard < taker.visibility
    assert limits.attempts >= 1


def test_the_longest_stage_that_can_be_configured_ends_before_its_job_is_asked_to_stop() -> None:
    assert finetune.limits.soft.total_seconds() > LONGEST_STAGE_SECONDS


def test_every_job_has_a_name_of_its_own() -> None:
    names = [str(job.name) for job in all_jobs()]
    assert len(names) == len(set(names)) == 14


def test_a_wrong_name_is_told_with_the_right_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--group", "night-shift"])
    said = capsys.readouterr().err
    assert all(name in said for name in GROUPS)


def test_a_worker_is_started_for_its_queues_on_its_pool() -> None:
    arguments = arguments_of(GROUPS["night"])
    assert "--queues=memory.maintenance,memory.control,memory.skills,memory.reindex" in arguments
    assert "--pool=prefork" in arguments
