import threading
from datetime import timedelta

import pytest
from support.running_stack import wait_until

from workers.celery_task import SerialGate


def test_the_one_with_the_fewest_deaths_is_next_and_each_is_alone() -> None:
    gate, inside, order = SerialGate(yield_time=timedelta(0)), threading.Lock(), list[int]()

    def take(deaths: int) -> None:
        with gate.acquire(deaths):
            # held by nobody else, or the turns were not one at a time
            assert inside.acquire(blocking=False)
            order.append(deaths)
            inside.release()

    with gate.acquire(2):
        threads = [threading.Thread(target=take, args=(deaths,)) for deaths in (4, 2, 3, 2)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(gate._waiting) == len(threads))
        assert order == []
    for thread in threads:
        thread.join()
    assert order == [2, 2, 3, 4]


def test_a_turn_ends_with_whatever_its_job_raises() -> None:
    gate = SerialGate(yield_time=timedelta(0))
    for _ in range(2):
        with pytest.raises(RuntimeError), gate.acquire(3):
            raise RuntimeError


def take_turns(gate: SerialGate) -> None:
    for deaths in (2, 3, 4):
        with gate.acquire(deaths):
            continue


def test_who_has_more_deaths_behind_it_lets_others_pass_before_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("workers.celery_task.time.sleep", waits.append)
    thread = threading.Thread(target=take_turns, args=(SerialGate(yield_time=timedelta(seconds=1)),))
    thread.start()
    thread.join()
    assert waits == [0, 1, 2]


def test_a_child_process_has_nobody_to_let_pass_and_a_time_limit_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("workers.celery_task.time.sleep", waits.append)
    take_turns(SerialGate(yield_time=timedelta(seconds=1)))
    assert waits == []
