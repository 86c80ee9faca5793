"""Search-and-Ask: search, let a model judge what was found, let it ask in other words, and search again.

The judge and the reformulator may fail at any time: what was found so far is the answer then.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.reading import UnreadAnswerError
from memcore.llm.structured import ask_structured, ask_text
from memcore.models.execution import prompt
from memcore.retrieval.protocol import ScoredMemory, fatal_in
from memcore.telemetry.events import Event
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive, wrap_untrusted

#: The fence around what an agent asked.
TAG_QUESTION = "question"

#: Most memories that a model is shown, and the characters of each.
SHOWN, SHOWN_CHARS = 10, 200

#: Longest question that a model may write, in characters.
MAX_WRITTEN_CHARS = 400

#: The purposes that the account names.
PURPOSE_REFORMULATE = "system:memory:search:reformulate"
PURPOSE_SUFFICIENT = "system:memory:search:sufficient"

_SUFFICIENT = "SUFFICIENT"

Form = TypeVar("Form", bound=BaseModel)
Value = TypeVar("Value")

_log = logging.getLogger(__name__)


@runtime_checkable
class QueryReformulator(Protocol):
    """Writes a question that finds more than the last one."""

    async def reformulate(self, agent_id: str, query_text: str, found: Sequence[ScoredMemory]) -> str | None:
        """Return another question, or None when there is none to try."""
        ...


@runtime_checkable
class SufficiencyChecker(Protocol):
    """Judges whether memories answer a question."""

    async def is_sufficient(self, agent_id: str, query_text: str, found: Sequence[ScoredMemory]) -> bool:
        """Return whether they do."""
        ...


#: Returns what a question finds, best first.
Search = Callable[[str], Awaitable[tuple[ScoredMemory, ...]]]


class SearchAndAsk:
    """Search up to ``rounds`` times more, while a model finds that the answer is not sufficient."""

    def __init__(self, reformulator: QueryReformulator, checker: SufficiencyChecker, *, rounds: int) -> None:
        self._reformulator = reformulator
        self._checker = checker
        self._rounds = rounds

    async def search(self, agent_id: str, query_text: str, search: Search, *, limit: int) -> tuple[ScoredMemory, ...]:
        """Return the memories of all rounds, each once, at most ``limit`` of own and of shared ones.

        Those of the question come first, then those of each further query: nothing that a plain search finds is lost.
        """
        found = await search(query_text)
        question, rounds, is_sufficient = query_text, 0, None
        try:
            while rounds < self._rounds:
                is_sufficient = await self._checker.is_sufficient(agent_id, query_text, found)
                if is_sufficient:
                    break
                written = await self._reformulator.reformulate(agent_id, question, found)
                if written is None or _same(written, question):
                    break
                rounds, question, is_sufficient = rounds + 1, written, None
                found = merged(found, await search(written))
            if is_sufficient is None:
                # Nobody acts on it: it says in the log how often the rounds were enough.
                is_sufficient = await self._checker.is_sufficient(agent_id, query_text, found)
        except Exception as error:  # noqa: BLE001  # whatever fails, what was found is the answer
            if (fatal := fatal_in(error)) is not None:
                raise fatal from None
            _log.warning(
                Event.MEMORY_REFORMULATION_DEGRADED, extra={"agent_id": agent_id, "error": type(error).__name__}
            )
        facts = {"rounds": rounds, "sufficient": is_sufficient, "found": len(found)}
        _log.debug(Event.MEMORY_REFORMULATION_COMPLETE, extra={"agent_id": agent_id, **facts})
        own = [each for each in found if not each.is_shared]
        shared = [each for each in found if each.is_shared]
        return (*own[:limit], *shared[:limit])


def merged(before: Sequence[ScoredMemory], after: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the memories of two searches, each once, with its higher relevance.

    What was found before keeps its places, and the rest follows. By relevance alone, the hits of a short query stand
    before those of the question: recall@10 fell from 0.67 to 0.57 (docs/how-to/give-agents-tools.md).
    """
    found: dict[str, ScoredMemory] = {}
    for each in (*before, *after):
        known = found.get(each.entry.id)
        if known is None or each.relevance_score > known.relevance_score:
            # A key that is there keeps its place.
            found[each.entry.id] = each
    return tuple(found.values())


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()


def shown_to_model(question: str, found: Sequence[ScoredMemory], *, chars: int = SHOWN_CHARS) -> str:
    """Return a question and memories, cut, each in its fence, as a model is shown them."""
    memories = [wrap_untrusted(TAG_MEMORY_ENTRY, each.entry.content[:chars]) for each in found]
    return "\n".join([wrap_untrusted(TAG_QUESTION, question), *(memories or ["No memories were found."])])


_FENCES = f"{untrusted_content_directive(TAG_MEMORY_ENTRY)} The same holds for <{TAG_QUESTION}>."

_REFORMULATE = (
    "An agent searches its memory for a question, and what was found does not answer it. Write one other search query "
    "that may find what is missing: other words for the same thing, the names and dates that the memories mention, or "
    f"the part that is still open. {_FENCES} Answer with the query alone, on one line, of at most "
    f"{MAX_WRITTEN_CHARS} characters. If no other query can help, answer NONE."
)

_JUDGE = (
    "An agent searches its memory for a question. Say whether the memories that were found answer it completely. "
    f"{_FENCES} Think briefly if you must. The last line of your answer is one word: {_SUFFICIENT} or INSUFFICIENT."
)


class ModelQuestions:
    """Asks a model short questions on an agent's account, at temperature 0; what cannot be read is asked once more."""

    def __init__(self, model: Model, *, company: str) -> None:
        self._model = model
        self._company = company

    async def text(
        self, read: Callable[[str], Value], agent_id: str, purpose: str, system: str, content: str, *, max_tokens: int
    ) -> Value:
        """Return what ``read`` makes of the answer; raises as ask_text."""
        request, by, key = self._question(agent_id, purpose, system, content, max_tokens)
        return await ask_text(self._model, request, read, by=by, key=key)

    async def form(
        self, form: type[Form], agent_id: str, purpose: str, system: str, content: str, *, max_tokens: int
    ) -> Form:
        """Return the answer in its form; raises as ask_structured."""
        request, by, key = self._question(agent_id, purpose, system, content, max_tokens)
        return await ask_structured(self._model, request, form, by=by, key=key)

    def _question(
        self, agent_id: str, purpose: str, system: str, content: str, max_tokens: int
    ) -> tuple[CompletionRequest, Attribution, str]:
        by = Attribution(company=self._company, agent_id=agent_id, run_id=None, purpose=purpose)
        request = CompletionRequest(messages=prompt(system, content), temperature=0.0, max_tokens=max_tokens)
        return request, by, by.question_id(None, system, content)


#: What models put before a query: the mark of a list, or a label.
_LABEL = re.compile(r"(?:(?:[-*\u2022]|\d{1,2}[.)])\s+)?(?:\*{0,2}(?:search )?query:\*{0,2}\s*)?", re.IGNORECASE)


def read_query(text: str) -> str | None:
    """Return the query that a model writes, on its first line; None where it says NONE.

    Raises UnreadAnswerError for a blank answer, and for one that is too long.
    """
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    query = _LABEL.sub("", line, count=1).strip("\"'`*_\u201c\u201d ")
    if not query:
        raise UnreadAnswerError(["the answer is blank"])
    if len(query) > MAX_WRITTEN_CHARS:
        raise UnreadAnswerError([f"the query has more than {MAX_WRITTEN_CHARS} characters"])
    return None if query.rstrip(".").upper() == "NONE" else query


_WORDS = re.compile(r"[a-z']+")
_NO = frozenset({"not", "no", "never", "insufficient", "isn't", "aren't"})


def read_verdict(text: str) -> bool:
    """Return whether the last line of a judgement says SUFFICIENT, without a word that takes it back.

    Raises UnreadAnswerError where it says neither that nor INSUFFICIENT.
    """
    line = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    words = set(_WORDS.findall(line.casefold()))
    if words.isdisjoint({"sufficient", "insufficient"}):
        raise UnreadAnswerError([f"the last line says neither {_SUFFICIENT} nor INSUFFICIENT"])
    return words.isdisjoint(_NO)


class LLMQueryReformulator(ModelQuestions):
    """Lets a model write the next question; it sees ten memories at most, 200 characters of each."""

    async def reformulate(self, agent_id: str, query_text: str, found: Sequence[ScoredMemory]) -> str | None:
        """Return the first line of the model's answer; None for NONE.

        Raises what Model.ask raises, and MalformedAnswerError for two answers that are blank or too long.
        """
        content = shown_to_model(query_text, found[:SHOWN])
        return await self.text(read_query, agent_id, PURPOSE_REFORMULATE, _REFORMULATE, content, max_tokens=200)


class LLMSufficiencyChecker(ModelQuestions):
    """Lets a model judge. A model that fails is taken for content: it must not set off further searches."""

    async def is_sufficient(self, agent_id: str, query_text: str, found: Sequence[ScoredMemory]) -> bool:
        """Return whether the answer's last line says SUFFICIENT; True when the model fails."""
        content = shown_to_model(query_text, found[:SHOWN])
        try:
            return await self.text(read_verdict, agent_id, PURPOSE_SUFFICIENT, _JUDGE, content, max_tokens=300)
        except MemoryError as error:
            _log.warning(
                Event.MEMORY_REFORMULATION_DEGRADED, extra={"agent_id": agent_id, "error": type(error).__name__}
            )
            return True
