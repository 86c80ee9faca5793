import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memcore.event_loop import CallersLoops


def test_a_blocking_call_runs_in_the_callers_thread() -> None:
    loops = CallersLoops()

    async def work() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, threading.get_ident), await asyncio.to_thread(threading.get_ident)

    assert loops.run(work()) == (threading.get_ident(), threading.get_ident())
    loops.close()


def test_the_error_of_a_blocking_call_is_raised_where_it_is_awaited() -> None:
    loops = CallersLoops()

    def fail() -> None:
        raise ValueError("x")

    async def work() -> str:
        try:
            await asyncio.to_thread(fail)
        except ValueError as error:
            return str(error)
        return ""

    assert loops.run(work()) == "x"
    loops.close()


def test_each_thread_has_a_loop_and_all_are_closed() -> None:
    loops, both = CallersLoops(), threading.Barrier(2)

    async def work() -> asyncio.AbstractEventLoop:
        both.wait(30)
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: loops.run(work()), range(2))
    assert one is not other
    loops.close()
    assert one.is_closed()
    assert other.is_closed()


def test_the_result_of_what_waits_comes_when_it_is_there() -> None:
    loops = CallersLoops()

    async def work() -> int:
        await asyncio.sleep(0.001)
        return 1

    assert loops.run(work()) == 1
    with pytest.raises(ZeroDivisionError):
        loops.run(_fail())
    loops.close()


async def _fail() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError
