"""Prepares a context for each question and scores how much of the needed evidence it holds."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from benchmarks.consolidation.evidence import Asked, Terms, share, terms_of

from memcore.backends.protocol import MemoryBackend
from memcore.config.policy import Policy
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.protocol import DefaultTokenEstimator

#: Tokens that a context may take.
BUDGET = 1_500

#: Questions in flight: the store answers one while the context of another is put together.
_AT_ONCE = 8

#: What stands around a memory in a message: a score and a date are no part of its text.
FRAME = re.compile(r"^</?(?:memory-entry|for-reference)[^>]*>$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An agent's memories in the store.

    Attributes:
        tokens: of all texts together, estimated.
        terms: what each memory says, by id.
        home: which memory holds a turn, itself or as a part of its summary, by the turn's name.
    """

    tokens: int
    terms: Mapping[str, Terms]
    home: Mapping[str, str]


@dataclass(slots=True)
class Scores:
    """One value for each question, in the order of the questions.

    Attributes:
        keys: share of the evidence's key terms in the context, whichever memory says them.
        own: the same, counting only what the memory says that holds the turn.
        answers: share of the answer's terms in the context; for the questions that have any.
        memories: injected.
        tokens: of the injected message.
    """

    keys: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    memories: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


class Shown:
    """Remembers which memories were injected last."""

    def __init__(self) -> None:
        self.ids: frozenset[str] = frozenset()

    def record(self, agent_id: str, memory_ids: Sequence[str], *, at: datetime) -> None:
        del agent_id, at
        self.ids = frozenset(memory_ids)


async def score(
    backend: MemoryBackend, policy: Policy, agent_id: str, asked: Sequence[Asked], held: Held, scores: Scores
) -> None:
    """Prepare a context for each question, several at a time, and add the values in the questions' order."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def prepared(question: Asked) -> tuple[str, frozenset[str]]:
        shown = Shown()
        strategy = ContextInjectionStrategy.from_policy(policy, backend=backend, use_recorder=shown)
        async with places:
            messages = await strategy.prepare_messages(agent_id, question.text, BUDGET)
        return messages[-1].content if messages else "", shown.ids

    for question, (message, ids) in zip(asked, await asyncio.gather(*map(prepared, asked)), strict=True):
        there = terms_of(FRAME.sub("", message))
        scores.keys.append(share({key for keys in question.keys.values() for key in keys}, there))
        pairs = [
            (home := held.home.get(name)) in ids and home is not None and key in held.terms[home]
            for name, keys in question.keys.items()
            for key in sorted(keys)
        ]
        scores.own.append(sum(pairs) / len(pairs))
        if question.answer:
            scores.answers.append(share(question.answer, there))
        scores.memories.append(len(ids))
        scores.tokens.append(DefaultTokenEstimator().estimate_tokens(message))
