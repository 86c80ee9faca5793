"""Context injection for engines without an event loop."""

from types import TracebackType
from typing import Self

from memcore.backends.protocol import MemoryBackend
from memcore.event_loop import LoopThread
from memcore.models.execution import ChatMessage
from memcore.models.memory import MemoryCategory
from memcore.retrieval.context import ContextInjectionStrategy


class BlockingContextInjection:
    """Enter it with ``with``, then prepare messages from ordinary code, in any number of threads.

    The backend is connected on entry and disconnected on exit, in an event loop of this object's own thread.

    Args:
        strategy: prepares the messages.
        backend: the strategy's backend, which nothing else has connected.
    """

    def __init__(self, strategy: ContextInjectionStrategy, backend: MemoryBackend) -> None:
        self._strategy = strategy
        self._backend = backend
        self._loop: LoopThread | None = None

    def prepare_messages(
        self,
        agent_id: str,
        query_text: str,
        token_budget: int,
        *,
        categories: frozenset[MemoryCategory] | None = None,
    ) -> tuple[ChatMessage, ...]:
        """Return what the strategy's method of this name returns. Raises RuntimeError outside the ``with`` block."""
        if self._loop is None:
            raise RuntimeError("enter the object first: with BlockingContextInjection(...) as memories")
        work = self._strategy.prepare_messages(agent_id, query_text, token_budget, categories=categories)
        return self._loop.run(work)

    def __enter__(self) -> Self:
        loop = LoopThread("memtend-injection")
        try:
            loop.run(self._backend.connect())
        except BaseException:
            loop.close()
            raise
        self._loop = loop
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.run(self._backend.disconnect())
            finally:
                loop.close()
