"""Event loops for synchronous code that has coroutines to run: in a thread of its own, or in the caller's."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    """Run coroutines from other threads, in a thread of this name; close it when done."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine on the loop and return its result; called from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _CallersLoop(asyncio.SelectorEventLoop):
    """Runs blocking calls in place: nothing else is on this loop that would have to wait for them."""

    def run_in_executor(  # type: ignore[override]  # the one caller's calls have no arguments that a type could name
        self,
        executor: Any,  # noqa: ARG002  # asyncio's signature
        func: Callable[..., Result],
        *args: Any,
    ) -> asyncio.Future[Result]:
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # whoever awaits the call gets it
            done.set_exception(error)
        return done


class CallersLoops:
    """Runs coroutines in the threads that call, each on a loop of its own; their blocking calls block that thread.

    For coroutines that need no loop of others: each change of the thread costs a busy process more than the loop.
    Close it when no thread calls any more.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._loops: list[_CallersLoop] = []

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine and return its result; called from any thread that runs no loop."""
        loop: _CallersLoop | None = getattr(self._own, "loop", None)
        if loop is None:
            loop = self._own.loop = _CallersLoop()
            self._loops.append(loop)
        return loop.run_until_complete(work)

    def close(self) -> None:
        """Close every loop."""
        for loop in self._loops:
            loop.close()
