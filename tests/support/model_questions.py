"""Every question that memtend asks a language model, with valid answers to each."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from pydantic import BaseModel

from memcore.conversation.ending import SummaryForm
from memcore.conversation.extraction import ExtractedTurn, PolicyAnswer
from memcore.conversation.reconciliation import ReconciliationAnswer
from memcore.experience import ExperienceLesson
from memcore.finetune.questions import WrittenQuestions
from memcore.llm.changes import ChangeAnswer
from memcore.llm.reading import free_text
from memcore.maintenance.probes import AskedProbes
from memcore.maintenance.search_notes import WrittenNotes
from memcore.models.conversation import FactCategory, WriteDecision
from memcore.procedural.records import ProposalDraft
from memcore.retrieval.strategies.answering import Verdict, WrittenAnswer
from memcore.retrieval.strategies.asking import read_query, read_verdict
from memcore.retrieval.strategies.hierarchical import Reflection, Route
from memcore.retrieval.strategies.reranker import Order
from support.answer_wrappings import Said

#: Sentences with all that breaks a careless reader: quotes, braces, escapes, fences, tags in quotes, other scripts.
SENTENCES = (
    "I live in Lisbon and work as a nurse",
    'she said "hi", then left',
    "it's Mira's: don't touch it",
    "use {braces}, [brackets] and a \\ backslash",
    "two\nlines, and a tab\tbetween",
    "the tag `<think>` opens reasoning",
    "Größe über 5 kmm — «так» 東京で、彼は言った",
    "42",
    "a // b, # c and /* d */",
    "ends with a comma,",
    "https://example.org/a?b=[1]&c={2}",
    "null",
    'Answer in short sentences: {"a": 1}',
)


def sentence(rng: Random) -> str:
    """Return a text."""
    return rng.choice(SENTENCES) if rng.random() < 0.7 else f"{rng.choice(SENTENCES)}. {rng.choice(SENTENCES)}"


def _some(rng: Random, make: Callable[[Random], Any], least: int = 0, most: int = 3) -> list[Any]:
    return [make(rng) for _ in range(rng.randint(least, most))]


def _line(rng: Random) -> str:
    return " ".join(sentence(rng).split())[:100]


def _fact(rng: Random) -> Said:
    return {
        "category": rng.choice([*FactCategory]).value,
        "subject": rng.choice(("User", "Mira", "42")),
        "predicate": rng.choice(("LIVES_IN", "WORRIES_ABOUT")),
        "object": _line(rng),
        "evidence_quote": _line(rng),
    }


def _rule(rng: Random) -> Said:
    return {"rule": _line(rng), "evidence_quote": _line(rng), "kind": rng.choice(("explicit", "implicit"))}


def _decision(rng: Random) -> Said:
    return {
        "number": rng.randint(1, 9),
        "decision": rng.choice([*WriteDecision]).value,
        "reason": _line(rng),
        "confidence": rng.choice(("low", "medium", "high")),
        "safety_conflict": rng.random() < 0.2,
    }


def _verdict(*actions: str) -> Callable[[Random], Said]:
    def make(rng: Random) -> Said:
        known = sorted(rng.sample(range(1, 9), rng.randint(0, 2)))
        confidence = rng.choice(("low", "medium", "high"))
        return {"number": rng.randint(1, 9), "action": rng.choice(actions), "known": known, "confidence": confidence}

    return make


def _lesson(rng: Random) -> Said:
    return {
        "discovery": _line(rng),
        "condition": _line(rng),
        "action": _line(rng),
        "rationale": _line(rng),
        "execution_steps": _some(rng, _line),
        "confidence": rng.choice((0.5, 1.0, 0.25)),
        "tags": rng.sample(("deploys", "retry-later", "sql"), rng.randint(0, 2)),
    }


def _reflection(rng: Random) -> Said:
    return {"query": _line(rng)} if rng.random() < 0.5 else {"action": rng.choice(("semantic_only", "skip"))}


def _probe(rng: Random) -> Said:
    return {"question": _line(rng), "answer": rng.choice(("42", "Lisbon", "Größe"))}


def _written(rng: Random) -> Said:
    is_known = rng.random() < 0.7
    sentences = [{"text": _line(rng), "passages": rng.sample(range(1, 9), rng.randint(1, 3))} for _ in range(2)]
    return {"known": is_known, "sentences": sentences if is_known else []}


def _order(rng: Random) -> Said:
    return {"order": rng.sample(range(1, 6), 5)}


#: The questions whose answers have a form, by their purposes: the form, and what makes a valid answer.
FORMS: Mapping[str, tuple[type[BaseModel], Callable[[Random], Said]]] = {
    "system:memory:conversation:extract": (
        ExtractedTurn,
        lambda rng: {"semantic": _some(rng, _fact), "procedural": _some(rng, _rule)},
    ),
    "system:memory:conversation:policy": (PolicyAnswer, lambda rng: {"decisions": _some(rng, _decision)}),
    "system:memory:conversation:reconcile": (
        ReconciliationAnswer,
        lambda rng: {
            "facts": _some(rng, _verdict("bump", "supersede", "coexist")),
            "rules": _some(rng, _verdict("append", "replace", "skip")),
        },
    ),
    "system:memory:conversation:summarize": (
        SummaryForm,
        lambda rng: {"summary": _line(rng), "topics": rng.sample(("tea", "42", "home {1}"), rng.randint(0, 3))},
    ),
    "system:memory:compress:episodic": (
        ExperienceLesson,
        lambda rng: {
            "strategic_decisions": _some(rng, sentence, 1),
            "applicable_contexts": _some(rng, sentence),
        },
    ),
    "system:memory:propose:failure": (ProposalDraft, _lesson),
    "system:memory:propose:success": (ProposalDraft, _lesson),
    "system:memory:finetune_questions": (WrittenQuestions, lambda rng: {"questions": _some(rng, _line, 1)}),
    "system:memory:search:rerank": (Order, _order),
    "system:memory:ask": (WrittenAnswer, _written),
    "system:memory:ask, does it answer": (Verdict, lambda rng: {"answers": rng.random() < 0.5}),
    "system:memory:changes": (ChangeAnswer, lambda rng: {name: _line(rng) for name in ChangeAnswer.model_fields}),
    "system:memory:notes": (
        WrittenNotes,
        lambda rng: {"kind": _line(rng), "who": _line(rng), "words": _some(rng, _line)},
    ),
    "system:memory:search:route": (
        Route,
        lambda rng: {"workers": rng.sample(("semantic", "episodic", "procedural"), rng.randint(1, 3))},
    ),
    "system:memory:search:reflect": (Reflection, _reflection),
    "system:memory:probe:": (AskedProbes, lambda rng: {"probes": _some(rng, _probe)}),
}


def _query(rng: Random) -> str:
    return rng.choice(("Lisbon nurse", "Größe über 5 kmm", "what did Mira say on 2026-03-10?", "port 8080"))


def _judgement(rng: Random) -> str:
    return rng.choice(("SUFFICIENT", "INSUFFICIENT", "The date is missing.\nINSUFFICIENT"))


#: The questions whose answers are free text: how each is read, and what makes an answer.
TEXTS: Mapping[str, tuple[Callable[[str], object], Callable[[Random], str]]] = {
    "system:memory:search:reformulate": (read_query, _query),
    "system:memory:search:sufficient": (read_verdict, _judgement),
    "system:memory:consolidate:": (str, sentence),
    "system:memory:summarize:": (str, sentence),
}


def read_text(purpose: str, answer: str) -> object:
    """Return what is read of a free answer."""
    return TEXTS[purpose][0](free_text(answer))
