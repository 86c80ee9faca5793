"""Whether answers from memory are right and borne out, and whether what no memory says stays unanswered.

The memories, the questions and what a right answer says are in tests/fixtures/asking/asking.yaml. What a model of 1.5
billion parameters answered is kept beside it, with the memories that it was shown (ask_model.py), and read again here:
on 2026-11-29 to the 100 questions. One label was wrong, and its question was replaced after the model was asked.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from benchmarks.figure import Figure, Target
from support.recorded_answers import RecordedAnswers, in_turn

from memcore.backends.base import fresh_record
from memcore.backends.inmemory import InMemoryBackend
from memcore.config.policy import Policy
from memcore.models.asking import Answer, AnsweredBy, MemoryQuestion
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryStoreRequest
from memcore.retrieval.protocol import ScoredMemory
from memcore.retrieval.strategies.answering import Finding
from memcore.retrieval.strategies.factory import StrategyParts

_FOLDER = Path(__file__).parents[2] / "fixtures" / "asking"

#: What the model was shown and said, by question.
ANSWERS = _FOLDER / "answers.json"

AGENT, COMPANY = "workshop", "asking"

#: Sentences that rest on their memories, and questions that no memory answers and that are answered.
GROUNDED, INVENTED = 1.0, 0.05

#: What a sentence may not have of its own: figures, and words with a capital letter behind the first.
_TELLING = re.compile(r"\d+|(?<=[\w,] )[A-Z]\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question, and what its answer must say: of each group one text; no group where no memory answers."""

    question: str
    says: tuple[tuple[str, ...], ...] = ()

    def is_right(self, answer: Answer) -> bool:
        """Return whether the answer says what it must."""
        text = answer.text.casefold()
        return bool(text) and all(any(each.casefold() in text for each in group) for group in self.says)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a question found, by places, whether strongly, and what the model said, in turn."""

    shown: tuple[int, ...]
    is_strong: bool
    said: tuple[str, ...]


def asking() -> tuple[list[Figure], list[Target]]:
    """Hold what the recorded model answered against what is right."""
    return [], targets(replayed())


def replayed() -> list[tuple[Case, Answer]]:
    """Return what comes of the recorded answers today."""
    kept = {each: Recorded(**given) for each, given in json.loads(ANSWERS.read_text(encoding="utf-8")).items()}
    asked = [case for case in cases() if case.question in kept]
    return [(case, asyncio.run(_replayed(case.question, kept[case.question]))) for case in asked]


async def _replayed(question: str, kept: Recorded) -> Answer:
    said = {f"answer {number}": text for number, text in enumerate(kept.said, start=1)}
    model = RecordedAnswers(answers=said, name_of=in_turn(lambda _: "answer"))
    parts = StrategyParts(policy=Policy(), backend=InMemoryBackend(company=COMPANY), model=model)
    finding = Finding(
        agent_id=AGENT,
        asked=MemoryQuestion(question=question),
        memories=tuple(map(_scored, kept.shown)),
        is_strong=kept.is_strong,
    )
    return await parts.answering().answer(finding)


def targets(answers: Sequence[tuple[Case, Answer]]) -> list[Target]:
    """Return what is printed of the answers."""
    known = [(case, answer) for case, answer in answers if case.says]
    unknown = [answer for case, answer in answers if not case.says]
    sentences = [each for _, answer in answers for each in borne_out(answer)]
    answered = [case.is_right(answer) for case, answer in known if answer.answered_by is AnsweredBy.MODEL]
    invented = [answer.answered_by is AnsweredBy.MODEL for answer in unknown]
    return [
        _target(f"{len(sentences)} sentences: borne out by the memories that they name", sentences, GROUNDED),
        _target(f"{len(unknown)} questions that no memory answers: answered", invented, INVENTED, at_most=True),
        _target(f"{len(known)} questions that one answers: right", [case.is_right(each) for case, each in known], 0.0),
        _target(f"{len(answered)} of them that were answered: right", answered, 0.0),
    ]


def borne_out(answer: Answer) -> Iterator[bool]:
    """Yield of each sentence whether the names and figures in it stand in its memories, whatever memtend thinks."""
    texts = {each.memory_id: f"{each.text} {each.date}" for each in answer.passages}
    for each in answer.sentences:
        sources = " ".join(texts.get(memory_id, "") for memory_id in each.memory_ids).casefold()
        yield bool(sources.strip()) and all(found.casefold() in sources for found in _TELLING.findall(each.text))


def cases() -> list[Case]:
    """Return the questions: first those that a memory answers, then those that none does."""
    known = [Case(question=each["question"], says=tuple(map(tuple, each["says"]))) for each in _given()["answerable"]]
    return known + [Case(question=each) for each in _given()["unanswerable"]]


@cache
def entries() -> tuple[MemoryEntry, ...]:
    """Return the memories."""
    made = [_entry(each) for each in _given()["memories"]]
    for place, each in enumerate(_given()["memories"]):
        if (by := each.get("by")) is not None:
            replaced = {"superseded_by": made[by].id, "superseded_at": made[by].created_at}
            made[place] = made[place].model_copy(update=replaced)
    return tuple(made)


@cache
def _given() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load((_FOLDER / "asking.yaml").read_text(encoding="utf-8"))
    return found


def _entry(given: Mapping[str, Any]) -> MemoryEntry:
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=given["text"])
    at = datetime.combine(given["day"], datetime.min.time(), UTC) + timedelta(hours=9)
    return fresh_record(AGENT, request, now=at, company=COMPANY).entry


def _scored(place: int) -> ScoredMemory:
    return ScoredMemory(entry=entries()[place], relevance_score=1.0, recency_score=1.0, combined_score=1.0)


def _target(name: str, values: Sequence[bool], wanted: float, *, at_most: bool = False) -> Target:
    return Target(name=name, values=[sum(values) / max(1, len(values))], wanted=wanted, at_most=at_most)
