"""The fleet's own texts as passages: what its agents remember, with the tasks' titles as what asks for it.

Nothing is read that the store does not embed already. What a language model asks for a passage comes on top.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path

from memcore.backends.facts import ORGANISATION
from memcore.backends.protocol import MAX_PAGE, BatchBackend
from memcore.backends.record import LESSON_KEY, MemoryRecord
from memcore.backends.where import Where
from memcore.finetune.choosing import chosen
from memcore.finetune.dialogue import questions_before
from memcore.finetune.documents import Reading, chunks, passages_of
from memcore.finetune.lines import write_lines
from memcore.finetune.passage import Owned, Passage
from memcore.finetune.plan import FineTunePlan
from memcore.finetune.question_writer import QuestionWriter
from memcore.ledger.ledger import Ledger

#: Newest memories of an agent that are taken, and most passages in all.
MEMORIES_OF_AGENT = 1_000
PASSAGES = 50_000

#: Newest tasks whose titles are known as questions.
TASKS = 2_000

_AGENTS = 1_000

#: Longest pause between a question and what answers it.
_PAUSE = timedelta(hours=1)


async def gather(
    backend: BatchBackend,
    ledger: Ledger,
    path: Path,
    *,
    company: str,
    plan: FineTunePlan,
    writer: QuestionWriter,
    alive: Callable[[], None],
) -> int:
    """Write the passages of a company to a file, whole or not at all, and return how many there are.

    These are what its agents remember; and, where the plan has a model write questions, the passages for which it
    did, documents too, with what it wrote. A passage may come twice: the one with more questions counts.

    Raises OSError; MemoryInputError: source_dir names no folder; MemoryError when store or ledger cannot be read; what
    ``alive`` raises.
    """
    gathering = Gathering(backend, ledger, company=company, alive=alive)
    memories = [each async for each in gathering.passages(chunk_words=plan.chunk_words)] if plan.uses_memories else []
    written: list[Owned] = []
    if plan.llm_questions:
        few = (each for each in memories if len(each.passage.questions) < plan.queries_per_passage)
        picked = chosen(few, _documents(plan, alive), most=plan.llm_questions, seed=plan.seed)
        written = await writer.write(picked)
    return write_lines(path, (each.passage for each in (*memories, *written)))


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

    async def passages(self, *, chunk_words: int) -> AsyncIterator[Owned]:
        """Yield at most 50,000 passages, agent by agent, each agent's newest 1,000 memories."""
        titles = {each.id: each.task_title for each in islice(self._ledger.trajectories.stream(self._company), TASKS)}
        left = PASSAGES
        for agent_id in self._agents():
            asked = titles | self._titles_of_lessons(agent_id, titles)
            earlier: MemoryRecord | None = None
            async for record in self._memories(agent_id):
                title = asked.get(record.entry.id, "").strip() or None
                answered = () if earlier is None else _answered(record, earlier)
                earlier = record
                for passage in _passages(record, title, answered, chunk_words):
                    yield Owned(agent_id=agent_id, passage=passage)
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


def _answered(record: MemoryRecord, earlier: MemoryRecord) -> tuple[str, ...]:
    """Return what was asked right before a memory, in the same place and shortly before."""
    apart = record.entry.created_at - earlier.entry.created_at
    if apart > _PAUSE or _talk(earlier) != _talk(record):
        return ()
    return questions_before(record.entry.content, earlier.entry.content)


def _talk(record: MemoryRecord) -> tuple[str | None, ...]:
    lineage = record.lineage
    return record.entry.namespace, lineage.session_id, lineage.project_id, lineage.task_id


def _passages(
    record: MemoryRecord, title: str | None, answered: tuple[str, ...], chunk_words: int
) -> Iterator[Passage]:
    source = "lesson" if LESSON_KEY in record.extra else "memory" if title is None else "task"
    known = answered if title is None else (title, *answered)
    for text in chunks(record.entry.content, words=chunk_words):
        yield Passage(text=text, source=source, questions=known)


def _documents(plan: FineTunePlan, alive: Callable[[], None]) -> Iterator[Owned]:
    if plan.source_dir is None:
        return
    for passage in passages_of(Path(plan.source_dir), chunk_words=plan.chunk_words, reading=Reading()):
        alive()
        yield Owned(agent_id=ORGANISATION, passage=passage)
