"""The fleet's own texts as passages: what its agents remember, with the tasks' titles as what asks for it.

Nothing is read that the store does not embed already.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path

from memcore.backends.protocol import MAX_PAGE, BatchBackend
from memcore.backends.record import LESSON_KEY, MemoryRecord
from memcore.backends.where import Where
from memcore.finetune.documents import chunks
from memcore.finetune.lines import write_lines
from memcore.finetune.passage import Passage
from memcore.ledger.ledger import Ledger

#: Newest memories of an agent that are taken, and most passages in all.
MEMORIES_OF_AGENT = 1_000
PASSAGES = 50_000

#: Newest tasks whose titles are known as questions.
TASKS = 2_000

_AGENTS = 1_000


async def gather(
    backend: BatchBackend, ledger: Ledger, path: Path, *, company: str, chunk_words: int, alive: Callable[[], None]
) -> int:
    """Write the passages of a company's agents to a file, whole or not at all, and return how many there are.

    Raises OSError; MemoryError when store or ledger cannot be read; what ``alive`` raises.
    """
    gathering = Gathering(backend, ledger, company=company, alive=alive)
    return write_lines(path, [each async for each in gathering.passages(chunk_words=chunk_words)])


class Gathering:
    """Read the memories of a company's agents.

    Args:
        backend: the store.
        ledger: agents, tasks and lessons.
        company: whose.
        alive: called between pages; what it raises ends the gathering.
    """

    def __init__(self, backend: BatchBackend, ledger: Ledger, *, company: str, alive: Callable[[], None]) -> None:
        self._backend = backend
        self._ledger = ledger
        self._company = company
        self._alive = alive

    async def passages(self, *, chunk_words: int) -> AsyncIterator[Passage]:
        """Yield at most 50,000 passages, agent by agent, each agent's newest 1,000 memories."""
        titles = {each.id: each.task_title for each in islice(self._ledger.trajectories.stream(self._company), TASKS)}
        left = PASSAGES
        for agent_id in self._agents():
            asked = titles | self._titles_of_lessons(agent_id, titles)
            async for record in self._memories(agent_id):
                for passage in _passages(record, asked.get(record.entry.id), chunk_words):
                    yield passage
                    left -= 1
                    if left <= 0:
                        return

    async def count(self, *, enough: int) -> int:
        """Return how many memories there are; with enough of them the rest is not counted."""
        found = 0
        for agent_id in self._agents():
            found += await self._backend.count_where(Where(agent_id=agent_id))
            if found >= enough:
                break
        return found

    def _agents(self) -> Iterator[str]:
        last: str | None = None
        while page := self._ledger.agents.list(self._company, after=last, limit=_AGENTS):
            for agent in page:
                self._alive()
                yield agent.agent_id
            last = page[-1].agent_id

    def _titles_of_lessons(self, agent_id: str, titles: dict[str, str]) -> dict[str, str]:
        lessons = self._ledger.lessons.page(self._company, agent_id)
        stored = ((each.memory_id, titles.get(each.lesson_id)) for each in lessons)
        return {memory_id: title for memory_id, title in stored if memory_id is not None and title is not None}

    async def _memories(self, agent_id: str) -> AsyncIterator[MemoryRecord]:
        where = Where(agent_id=agent_id)
        # The store shows the oldest first: of more than are taken, those before the newest are passed over.
        older = await self._backend.count_where(where) - MEMORIES_OF_AGENT
        cursor: str | None = None
        while True:
            page = await self._backend.scan(where, cursor=cursor, limit=MAX_PAGE)
            self._alive()
            for record in page.records[max(0, older) :]:
                yield record
            older, cursor = older - len(page.records), page.cursor
            if cursor is None:
                return


def _passages(record: MemoryRecord, title: str | None, chunk_words: int) -> Iterator[Passage]:
    source = "lesson" if LESSON_KEY in record.extra else "memory" if title is None else "task"
    for text in chunks(record.entry.content, words=chunk_words):
        yield Passage(text=text, source=source, questions=() if title is None or not title.strip() else (title,))
