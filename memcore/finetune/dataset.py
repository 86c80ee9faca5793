"""Gathers passages of the fleet's memories, with task titles and earlier questions as what asks for them.

It reads only what the store embeds already. A language model's questions come on top.
"""

import hashlib
import heapq
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, zip_longest
from pathlib import Path

from memcore.backends.protocol import ORGANISATION, BatchBackend, scanned
from memcore.finetune.documents import Owned, Passage, chunks, passages_of, write_lines
from memcore.finetune.questions import QuestionWriter
from memcore.ledger.ledger import Ledger
from memcore.models.finetune import FineTunePlan
from memcore.records import LESSON_KEY, MemoryRecord, Where

# These questions have words of their own, where questions made of a passage repeat its words; a model trained on
# both finds what the words alone do not.

#: Shortest question, in words ("And you?" asks for nothing in particular), and longest, in characters.
MIN_WORDS = 4
MAX_CHARS = 200

#: Shortest answer, in characters: "Yes, thanks!" tells nothing that somebody would look for.
MIN_ANSWER_CHARS = 40

#: Most questions of one remark: the last ones, which the answer is for.
MOST = 2

_SPEAKER = re.compile(r"(?:\[[^\]\n]{0,80}\]\s*)?(?P<name>[^\W\d_][\w'-]{0,40}):\s+(?P<said>\S.*)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")

#: The person who is spoken to, and the one who speaks, in the third person.
_REPORTED = tuple(
    (re.compile(rf"\b(?:{spoken})\b", re.IGNORECASE), reported)
    for spoken, reported in (
        ("you're|you are", "{asked} is"),
        ("are you", "is {asked}"),
        ("were you", "was {asked}"),
        ("have you", "has {asked}"),
        ("do you", "does {asked}"),
        ("you've", "{asked} has"),
        ("you'll", "{asked} will"),
        ("you'd", "{asked} would"),
        ("yours?", "{asked}'s"),
        ("you(?:rself)?", "{asked}"),
        ("I'm|I am", "{asking} is"),
        ("I've|I have", "{asking} has"),
        ("my", "{asking}'s"),
        ("I|me", "{asking}"),
    )
)


def questions_before(text: str, earlier: str) -> tuple[str, ...]:
    """Return the last questions of the text right before, which this text may answer, in their order.

    Where both are told as ``Name: what was said``, with or without a date in brackets, one speaker's next remark is no
    answer to the same one's, and "you" becomes the name of who answers: "What does Ada paint?".
    """
    asking, asked = _SPEAKER.match(earlier), _SPEAKER.match(text)
    if asking is not None and asked is not None and asking["name"] == asked["name"]:
        return ()
    if len(text if asked is None else asked["said"]) < MIN_ANSWER_CHARS:
        return ()
    said = earlier if asking is None else asking["said"]
    sentences = _SENTENCE.split(" ".join(said.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split()))
    questions = [each for each in sentences if each.endswith("?")]
    questions = [each for each in questions if len(each.split()) >= MIN_WORDS and len(each) <= MAX_CHARS]
    if asking is not None and asked is not None:
        questions = [_question_text(each, asking=asking["name"], asked=asked["name"]) for each in questions]
    return tuple(questions[-MOST:])


def _question_text(question: str, *, asking: str, asked: str) -> str:
    for spoken, reported in _REPORTED:
        question = spoken.sub(reported.format(asking=asking, asked=asked), question)
    question = question[0].upper() + question[1:]
    return question if asked in question else f"{asked}: {question}"


def chosen(memories: Iterable[Owned], documents: Iterable[Owned], *, most: int, seed: int) -> list[Owned]:
    """Return at most so many passages, each text once, alternating between documents and memories, and between agents.

    The same passages, in whatever order, and the same seed give the same ones. Of many documents, only as many are
    kept in memory as can be chosen.
    """

    def lot(owned: Owned) -> str:
        # By the text, not by its place: a passage more does not change what is drawn of the others.
        return hashlib.sha256(f"{seed}|{owned.agent_id}|{owned.passage.text}".encode()).hexdigest()

    of_agents: dict[str, list[Owned]] = defaultdict(list)
    for owned in sorted(memories, key=lot):
        of_agents[owned.agent_id].append(owned)
    agents = (of_agents[agent_id] for agent_id in sorted(of_agents))
    unique: dict[str, Owned] = {}
    for owned in _by_turns(heapq.nsmallest(most, documents, key=lot), _by_turns(*agents)):
        unique.setdefault(owned.passage.text, owned)
    return list(islice(unique.values(), most))


def _by_turns(*rows: Iterable[Owned]) -> Iterator[Owned]:
    for turn in zip_longest(*rows):
        yield from (owned for owned in turn if owned is not None)


#: Newest memories of an agent that are taken, most passages in all, and newest tasks whose titles are questions.
MEMORIES_OF_AGENT = 1_000
PASSAGES = 50_000
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
    Raises OSError, MemoryError (source_dir names no folder; store or ledger cannot be read), what ``alive`` raises.
    """
    gathering = Gathering(backend, ledger, company=company, alive=alive)
    memories = [each async for each in gathering.passages(chunk_words=plan.chunk_words)] if plan.uses_memories else []
    written: list[Owned] = []
    if plan.llm_questions:
        few = (each for each in memories if len(each.passage.questions) < plan.queries_per_passage)
        picked = chosen(few, _documents(plan, alive), most=plan.llm_questions, seed=plan.seed)
        written = await writer.write(picked)
    return write_lines(path, (each.passage for each in (*memories, *written)))


#: Recorded questions of an agent that are taken, the newest, and most in all.
RECORDED_OF_AGENT = 20
RECORDED = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A question that an agent asked, and the texts that were shown for it, the best ones first."""

    question: str
    shown: tuple[str, ...]


class Gathering:
    """Reads the memories of a company's agents; calls ``alive`` between pages, and what that raises ends it."""

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

    async def recorded(self, *, since: datetime, chunk_words: int) -> AsyncIterator[Recorded]:
        """Yield at most 400 recorded questions that were asked since then; of long memories the beginning was shown."""
        left = RECORDED
        for agent_id in self._agents():
            asked = self._ledger.recorded_queries.of(self._company, agent_id, since=since)
            for query in asked[: min(left, RECORDED_OF_AGENT)]:
                found = await self._backend.get_many(agent_id, query.memory_ids)
                shown = (next(chunks(each.entry.content, words=chunk_words), "") for each in found)
                if texts := tuple(filter(None, shown)):
                    left -= 1
                    yield Recorded(question=query.question, shown=texts)

    async def count(self, *, enough: int) -> int:
        """Return how many memories there are; with enough of them the rest is not counted."""
        found = 0
        for agent_id in self._agents():
            found += await self._backend.count_where(Where(agent_id=agent_id))
            if found >= enough:
                break
        return found

    async def sample(self, *, most: int) -> list[str]:
        """Return at most so many memories' texts, the same number of each agent while they last."""
        agents = list(islice(self._agents(), most))
        found: list[str] = []
        for agent_id in agents:
            share = -(-(most - len(found)) // (len(agents) - agents.index(agent_id)))
            async for record in self._memories(agent_id):
                if share <= 0:
                    break
                found.append(record.entry.content)
                share -= 1
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
        where, hidden = Where(agent_id=agent_id), self._ledger.hidden.of(self._company)
        # The store shows the oldest first: of more than are taken, those before the newest are passed over.
        older = await self._backend.count_where(where) - MEMORIES_OF_AGENT
        async for page in scanned(self._backend, where):
            self._alive()
            for record in page[max(0, older) :]:
                if not hidden.distrusts_memory(record.entry):
                    yield record
            older -= len(page)


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
    for passage in passages_of(Path(plan.source_dir), chunk_words=plan.chunk_words):
        alive()
        yield Owned(agent_id=ORGANISATION, passage=passage)
