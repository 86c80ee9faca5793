"""The memories that every contender stores: the demo fleet's texts with a number in each."""

from collections.abc import Iterator
from datetime import UTC, datetime

from examples.demo.fleet import evaluation, fleet
from memcore.models.memory import MemoryStoreRequest

#: Agents among whom the memories are dealt out, as a small fleet has them.
AGENTS = 8


class Texts:
    """The demo fleet's memories, and variants of them."""

    def __init__(self) -> None:
        self._fleet = [memory.request for memory in fleet(datetime.now(UTC))]

    def requests(self, count: int, *, mark: str) -> list[MemoryStoreRequest]:
        """Return that many memories of about 170 characters; another mark gives other memories."""
        chosen = (self._fleet[n % len(self._fleet)] for n in range(count))
        return [
            MemoryStoreRequest(
                category=request.category, content=f"{request.content} ({mark} {n})", metadata=request.metadata
            )
            for n, request in enumerate(chosen)
        ]


def by_agent(requests: list[MemoryStoreRequest]) -> Iterator[tuple[str, list[MemoryStoreRequest]]]:
    """Deal the memories out among the agents."""
    for n in range(AGENTS):
        yield f"agent-{n}", requests[n::AGENTS]


def questions() -> list[str]:
    """Return what is asked: the evaluation set's questions."""
    return [question.text for question in evaluation(datetime.now(UTC))]
