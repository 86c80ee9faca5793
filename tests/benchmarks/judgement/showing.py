"""Whether a search shows the right memories and nothing else, of stores in which a person judged every case.

The texts are in tests/fixtures/showing. Those of its folder ``held`` were written before any rule was made for the
others, and are asked with MEMTEND_BENCH_HELD=1, to check a rule and not to find one.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml
from benchmarks.figure import Figure, Target
from benchmarks.retrieval.by_hand import ByHand
from benchmarks.retrieval.conversations import Conversation, Question
from benchmarks.retrieval.product import load
from benchmarks.stack import BenchStack, open_home, policy_of
from support.recorded_answers import RecordedAnswers

from memcore.backends.base import fresh_record
from memcore.config.maintenance import ConsolidationConfig
from memcore.embedding.factory import create_embedder
from memcore.evaluation.asking import ndcg
from memcore.evaluation.published import Turn
from memcore.finetune.evaluate import DEPTH
from memcore.jobs import Done
from memcore.ledger.ledger import Ledger
from memcore.maintenance.search_notes import SearchNotesService
from memcore.models.answers import Shown, Standing
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryQuery, MemoryStoreRequest
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.repetitions import Repetitions
from memcore.untrusted_text import TAG_MEMORY_ENTRY, wrap_untrusted

_FOLDER = Path(__file__).parents[2] / "fixtures" / "showing"

#: The variable that names the held texts.
_HELD = "MEMTEND_BENCH_HELD"

#: Memories that a search may show; most searches should show fewer.
_LIMIT = 20

#: Where a right memory counts as found by a question in other words.
_IN_THREE = 3

_NOTING = ConsolidationConfig.model_validate({"search_notes": {"enabled": True}})

#: What the tag of a memory says that is newer than another on its subject.
_MARKED = re.compile(r' (?:newer|latest)="')

#: When the questions are asked that name no time, and when the first memory was said.
_NOW = datetime(2026, 11, 18, 14, 30, tzinfo=UTC)
_FIRST = _NOW - timedelta(days=60)


class _Shown(str):
    """The text of a memory that a search showed, and whether it was marked as weak."""

    __slots__ = ("is_weak",)
    is_weak: bool

    @classmethod
    def of(cls, entry: MemoryEntry) -> Self:
        """Read it from the entry."""
        shown = cls(entry.content)
        shown.is_weak = entry.standing is Standing.WEAK
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """A memory's text and when it was said."""

    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class _Found:
    """How questions in other words, and foreign ones, went: 1.0 where it is so."""

    nothing: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    in_three: list[float] = field(default_factory=list)
    foreign: list[float] = field(default_factory=list)

    def add(self, notes: Sequence[str], found: Sequence[Sequence[_Shown]]) -> None:
        """Count what each note's question found, and what the foreign ones behind them did."""
        for note, shown in zip(notes, found, strict=False):
            self.nothing.append(float(not shown))
            self.first.append(float(note in shown[:1]))
            self.in_three.append(float(note in shown[:_IN_THREE]))
        self.foreign.extend(float(any(not each.is_weak for each in shown)) for shown in found[len(notes) :])


def showing() -> tuple[list[Figure], list[Target]]:
    """Ask every case by search; changes by prompt, too."""
    with open_home(policy="memory: {}\n") as stack:
        return [], [
            *_worlds(stack),
            *_words(stack),
            *_chats(stack),
            *_signs(stack),
            *_times(stack),
            *_changes(stack),
            *_exact(),
        ]


def _worlds(stack: BenchStack) -> list[Target]:
    precision, recall, exact = list[float](), list[float](), list[float]()
    for number, world in enumerate(_read("world_*.yaml")):
        asked = [(case["question"], {world["memories"][place] for place in case["right"]}) for case in world["cases"]]
        found = _searched(stack, f"world-{number}", _said(world["memories"]), [question for question, _ in asked])
        for (_, right), shown in zip(asked, map(set, found), strict=True):
            precision.append(len(right & shown) / len(shown) if shown else float(not right))
            recall.append(len(right & shown) / len(right) if right else float(not shown))
            exact.append(float(right == shown))
    name = f"{len(exact)} cases of 40 memories"
    return [
        _target(f"{name}: precision", precision, 0.85),
        _target(f"{name}: recall", recall, 0.93),
        _target(f"{name}: exactly the right ones", exact, 0.6),
    ]


def _words(stack: BenchStack) -> list[Target]:
    asked, plain = _in_other_words(stack, "plain")
    name = f"{asked} questions in other words"
    targets = [
        _target(f"{name}: nothing shown", plain.nothing, 0.05, at_most=True),
        _target(f"{name}: the right one in three", plain.in_three, 0.62),
        _target(f"{len(plain.foreign)} foreign questions: anything not marked weak", plain.foreign, 0.05, at_most=True),
    ]
    for by, answers in _recorded_notes().items():
        count, bare = _in_other_words(stack, f"{by}-before", answers, is_noted=False)
        _, noted = _in_other_words(stack, by, answers)
        name = f"{count} questions in other words, search notes {by}"
        first = f"{name}: right one first more often by"
        targets += [
            _target(first, [float(np.mean(noted.first) - np.mean(bare.first))], 0.2),
            _target(f"{name}: in three more often by", [float(np.mean(noted.in_three) - np.mean(bare.in_three))], 0.15),
            _target(f"{name}: foreign not marked weak", noted.foreign, float(np.mean(bare.foreign)), at_most=True),
        ]
    return targets


def _in_other_words(
    stack: BenchStack, run: str, answers: Mapping[str, str] | None = None, *, is_noted: bool = True
) -> tuple[int, _Found]:
    """Ask the questions of the memories that have recorded ``answers``, or of all; return their number, and what came.

    With ``is_noted`` the memories get search notes first, of those answers.
    """
    came, count = _Found(), 0
    for number, text in enumerate(_read("words.yaml")):
        for place, store in enumerate(text["stores"]):
            pairs = [each for each in store["pairs"] if answers is None or each["note"] in answers]
            if not pairs:
                continue
            notes = [pair["note"] for pair in pairs]
            strange = text["foreign"][place :: len(text["stores"])]
            asked = [*(pair["question"] for pair in pairs), *strange]
            name, of_model = f"words-{run}-{number}-{place}", answers if is_noted else None
            came.add(notes, _searched(stack, name, _said(notes), asked, noted_by=of_model))
            count += len(pairs)
    return count, came


def _chats(stack: BenchStack) -> list[Target]:
    corpus = [_conversation(each) for text in _read("chats.yaml") for each in text["chats"]]
    load(stack, corpus)
    embedder = create_embedder()
    gains = list[float]()
    with stack.backend(stack.settings.company, clock=lambda: _NOW) as (backend, runner):
        for each in corpus:
            by_hand = ByHand(each.turns, embedder)
            for question in each.questions:
                query = MemoryQuery(text=question.text, limit=DEPTH, standing=Shown.ANY)
                found = [str(entry.metadata.source) for entry in runner.run(backend.retrieve(each.agent_id, query))]
                vector = embedder.embed_query(question.text)
                ranked = by_hand.rankings(question.text, vector, dense_weight=0.0, has_all_words=False)["bm25"]
                worded = [each.turns[place].name for place in ranked]
                gains.append(ndcg(found, question.evidence) - ndcg(worded, question.evidence))
    return [_target(f"{len(gains)} questions of chats: NDCG@10 beside BM25", gains, 0.08)]


def _signs(stack: BenchStack) -> list[Target]:
    pairs = [pair for text in _read("signs.yaml") for pair in text["pairs"]]
    memories = _said([pair[side] for pair in pairs for side in ("a", "b")])
    asked = [(pair[f"ask_{side}"], pair[side]) for pair in pairs for side in ("a", "b")]
    found = _searched(stack, "signs", memories, [question for question, _ in asked])
    right = [float(shown[:1] == [wanted]) for (_, wanted), shown in zip(asked, found, strict=True)]
    both = [min(right[place : place + 2]) for place in range(0, len(right), 2)]
    return [_target(f"{len(both)} pairs that differ in a sign, a unit or a case: both right first", both, 0.96)]


def _times(stack: BenchStack) -> list[Target]:
    precision, nothing = list[float](), list[float]()
    for number, text in enumerate(_read("times.yaml")):
        now = datetime.fromisoformat(text["now"])
        memories = [_Said(text=each["text"], at=datetime.fromisoformat(each["at"])) for each in text["memories"]]
        questions = [case["question"] for case in text["cases"]]
        found = _searched(stack, f"times-{number}", memories, questions, now=now)
        for case, shown in zip(text["cases"], found, strict=True):
            right = {memories[place].text for place in case["right"]}
            best = min(DEPTH, len(right))
            precision.append(len(right & set(shown[:best])) / best)
            nothing.append(float(not shown))
    name = f"{len(nothing)} everyday times"
    return [
        _target(f"{name}: share of the first that is right", precision, 0.9),
        _target(f"{name}: nothing found", nothing, 0.05, at_most=True),
    ]


def _changes(stack: BenchStack) -> list[Target]:
    later, marked, asked = list[float](), list[float](), 0
    for number, text in enumerate(_read("changes.yaml")):
        old = [
            _Said(text=pair["old"], at=_FIRST - timedelta(days=200 + place)) for place, pair in enumerate(text["pairs"])
        ]
        new = [_Said(text=pair["new"], at=_FIRST - timedelta(days=place)) for place, pair in enumerate(text["pairs"])]
        company = f"changes-{number}"
        _searched(stack, company, [*old, *new, *_said(text["bystanders"])], [])
        with stack.backend(f"showing-{company}", clock=lambda: _NOW) as (backend, runner):
            policy = policy_of(stack.settings)
            prompts = ContextInjectionStrategy.from_policy(policy, backend=backend, clock=lambda: _NOW)
            for pair in text["pairs"]:
                messages = runner.run(prompts.prepare_messages("agent", pair["question"], 1_000))
                prompt = "".join(each.content for each in messages)
                at_old, at_new = prompt.find(pair["old"]), prompt.find(pair["new"])
                asked += 1
                if at_old >= 0 and at_new >= 0:
                    later.append(float(at_old < at_new))
                    opening = prompt[:at_new].splitlines()[-1]
                    marked.append(float(at_old < at_new and _MARKED.search(opening) is not None))
    name = f"{len(later)} of {asked} changes of which a prompt shows both"
    return [
        _target(f"{name}: the newer stands later", later, 0.95),
        _target(f"{name}: it is marked, too", marked, 0.95),
    ]


def _exact() -> list[Target]:
    """Ask which of two memories repeats the other, as consolidation without loss does."""
    lost, merged = list[float](), list[float]()
    for text in _read("exact.yaml"):
        lost += [float(_is_repeated(pair)) for pair in text["pairs"]]
        merged += [float(_is_repeated(pair)) for pair in text["same"]]
    return [
        _target(f"{len(lost)} pairs of facts that differ a little: one is lost", lost, 0.0, at_most=True),
        _target(f"{len(merged)} pairs of one fact: merged", merged, 0.9),
    ]


def _is_repeated(pair: Mapping[str, str]) -> bool:
    repetitions = Repetitions()
    repetitions.add_texts([(side, pair[side], _FIRST, ()) for side in ("a", "b")])
    return bool(repetitions.groups())


def _searched(
    stack: BenchStack,
    company: str,
    memories: Sequence[_Said],
    questions: Sequence[str],
    *,
    now: datetime = _NOW,
    noted_by: Mapping[str, str] | None = None,
) -> list[list[_Shown]]:
    """Store memories of one agent in a company of their own; return what each question shows of them.

    Where answers of a model are given, by the memory's text, the memories get its search notes first.
    """
    company = f"showing-{company}"
    record = partial(fresh_record, "agent", company=company)
    with stack.backend(company, clock=lambda: now) as (backend, runner):
        runner.run(
            backend.store_many(
                [
                    record(MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=each.text), now=each.at)
                    for each in memories
                ]
            )
        )
        if noted_by is not None:
            answers = {wrap_untrusted(TAG_MEMORY_ENTRY, text): answer for text, answer in noted_by.items()}
            model = RecordedAnswers(answers=answers, name_of=lambda request, _: request.messages[-1].content)
            with closing(Ledger.open(stack.settings.ledger_urls)) as ledger:
                ledger.note_writing.request_for(company, "agent")
                service = SearchNotesService(
                    backend, ledger, _NOTING, company=company, model=model, default_model="recorded"
                )
                outcome = runner.run(service.run("agent")).outcome
            if not isinstance(outcome, Done):
                raise AssertionError(f"the search notes were not written: {outcome}")
        queries = [MemoryQuery(text=question, limit=_LIMIT) for question in questions]
        return [[_Shown.of(entry) for entry in runner.run(backend.retrieve("agent", query))] for query in queries]


def _said(texts: Sequence[str]) -> list[_Said]:
    return [_Said(text=text, at=_FIRST + place * timedelta(hours=5)) for place, text in enumerate(texts)]


def _conversation(chat: dict[str, Any]) -> Conversation:
    turns = tuple(
        Turn(
            name=f"{chat['name']}:{place}",
            speaker=turn["role"].capitalize(),
            text=turn["text"],
            day=f"{_FIRST:%d %B, %Y}",
            at=_FIRST + timedelta(seconds=place),
        )
        for place, turn in enumerate(chat["turns"])
    )
    questions = tuple(
        Question(
            text=each["question"],
            evidence=frozenset(turns[place].name for place in each["evidence"]),
            category="chat",
            answer="",
        )
        for each in chat["questions"]
    )
    return Conversation(agent_id=f"chat-{chat['name']}", turns=turns, questions=questions)


def _recorded_notes() -> dict[str, dict[str, str]]:
    """Return what was answered when search notes were asked for: by whom, for which memory, the answer as it came."""
    answers: dict[str, dict[str, str]] = json.loads((_folder() / "notes.json").read_text(encoding="utf-8"))
    return answers


def _folder() -> Path:
    return _FOLDER / "held" if os.environ.get(_HELD) == "1" else _FOLDER


def _read(pattern: str) -> list[Any]:
    folder = _folder()
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(pattern))]


def _target(name: str, values: Sequence[float], wanted: float, *, at_most: bool = False) -> Target:
    return Target(name=name, values=[float(np.mean(values)) if values else 0.0], wanted=wanted, at_most=at_most)
