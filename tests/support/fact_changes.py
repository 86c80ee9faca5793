"""Facts of people and what is said after them, in other words: what reconciliation makes of it, with a real model.

Qwen2.5-Coder-1.5B-Instruct (Q4), asked about all at once, said of five new facts out of five that they replace what is
known. So it is not asked that: all that is shown is taken as replaced. Its answers about pairs are recorded, of 88 of
120 new facts so far.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import yaml

from memcore.config.conversation import ConversationConfig
from memcore.conversation.extraction import Asker
from memcore.conversation.reconciliation import PURPOSE, TAG_KNOWN, reconcile
from memcore.llm.protocol import Attribution, Completion, CompletionRequest, Model
from memcore.models.conversation import Fact
from support.fake_summarizer import said
from support.ledger_records import COMPANY, StoppedClock
from support.recorded_answers import RecordedAnswers
from support.repository import ROOT

FOLDER = ROOT / "tests" / "fixtures" / "fact_changes"

ANSWERS = FOLDER / "answers.json"

_NOW = StoppedClock().now

#: Who says what, in people.yaml: what is known, what replaces it, and what stands beside it.
Case = Mapping[str, str]


@dataclass(frozen=True)
class AllReplaced:
    """Says of new facts that they replace all that is known, and hands other questions on.

    See memcore.llm.protocol.Model.
    """

    model: Model

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        if by.purpose != PURPOSE:
            return await self.model.ask(request, by=by, key=key)
        known = list(range(1, request.messages[1].content.count(f"<{TAG_KNOWN} ") + 1))
        verdict = {"number": 1, "action": "supersede", "known": known, "confidence": "high"}
        return said(json.dumps({"facts": [verdict], "rules": []}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of what a person is known by when something new was said.

    Attributes:
        new: the new fact, as the file has it.
        is_change: whether it replaces one of them.
        replaced: whether that one was superseded.
        listed: whether it is listed for a person.
        wrong: what was superseded and holds, as the file has it.
        idle: what is listed for a person and holds.
    """

    new: str
    is_change: bool
    replaced: bool
    listed: bool
    wrong: tuple[str, ...]
    idle: tuple[str, ...]

    @property
    def is_noticed(self) -> bool:
        """Whether the change was superseded, or is listed for a person."""
        return self.replaced or self.listed


def people(kind: str) -> list[list[Case]]:
    """Return the cases of each person, of one part of the file."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / "people.yaml").read_text(encoding="utf-8"))
    return list(found[kind])


def fact_of(line: str, *, day: int) -> Fact:
    """Return a fact that was said on a day."""
    category, subject, predicate, object_, quote = (part.strip() for part in line.split("|"))
    times = dict.fromkeys(("created_at", "last_referenced_at", "changed_at"), _NOW + timedelta(days=day))
    values = {"category": category, "subject": subject, "predicate": predicate, "object": object_}
    # The line is the id: answers name facts by their places.
    given = {"fact_id": line, "evidence_quote": quote, "version": 1, "session_id": "s", **values, **times}
    return Fact.model_validate(given)


async def replayed(kind: str) -> list[Judged]:
    """Return what the recorded answers make of new facts; those whose pairs were not all asked about are left out."""
    model, found = RecordedAnswers.read(ANSWERS), list[Judged]()
    for cases in people(kind):
        for each in _new(cases):
            try:
                found.append(await _judged(model, each, cases))
            except LookupError:
                continue
    return found


async def judged(model: Model, every: Sequence[Sequence[Case]]) -> list[Judged]:
    """Let each person say each new thing alone, while all that is known of that person holds."""
    return [await _judged(model, case, cases) for cases in every for case in _new(cases)]


def _new(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    for case in cases:
        yield case["change"], case["then"]
        yield case["beside"], ""


async def _judged(model: Model, new_and_old: tuple[str, str], cases: Sequence[Case]) -> Judged:
    new, replaced = new_and_old
    asker = Asker(model=AllReplaced(model), config=ConversationConfig(), company=COMPANY, agent_id="ada", run_id=new)
    known = [fact_of(case["then"], day=place) for place, case in enumerate(cases)]
    found = await reconcile(asker, [fact_of(new, day=40)], (), known_facts=known, known_rules=())
    superseded, (written,) = found.commit.superseded, found.commit.facts
    return Judged(
        new=new,
        is_change=bool(replaced),
        replaced=replaced in superseded,
        listed=replaced in written.unsure_with,
        wrong=tuple(sorted(superseded.keys() - {replaced})),
        idle=tuple(sorted({*written.unsure_with} - {replaced})),
    )
