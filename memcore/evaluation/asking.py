"""Asks every question by search and by prompt, and judges what is shown."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter
from typing import NamedTuple, Self

import numpy as np

from memcore.backends.evidence import terms_of
from memcore.backends.protocol import MemoryBackend
from memcore.client.client import MemoryClient
from memcore.client.results import StoreReceipt
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.evaluation.dataset import Dataset, Question
from memcore.finetune.evaluate import DEPTH, Improvement
from memcore.finetune.evaluate import compare as bootstrap
from memcore.models.answers import Shown, Standing
from memcore.models.base import Frozen
from memcore.models.memory import MemoryQuery
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.protocol import DefaultTokenEstimator

#: Memories that a search may show.
LIMIT = 20

#: What is kept of a question that went wrong: so many of the memories shown, so many characters of each.
SHOWN, SHOWN_CHARS = 5, 300

#: Memories sent in one round.
_PORTION = 1_024

#: How long after an agent's last memory it is asked.
_ASKED_AFTER = timedelta(hours=1)

#: Makes the resamples the same every time.
_SEED = 4

#: The measures by name: what each says, and whether more is better.
MEASURES: Mapping[str, tuple[str, bool]] = {
    "recall": ("share of what answers that a search shows", True),
    "precision": ("share of what a search shows that answers; 0 where it shows nothing", True),
    "ndcg_at_10": ("order of the first ten of the ranking, whatever is shown", True),
    "prompt_recall": ("share of what answers that a prompt holds", True),
    "shown_wrongly": ("searches that show anything not marked as weak where nothing answers", False),
    "stale_first": ("searches that show what was true once before what answers", False),
    "shown": ("memories that a search shows", False),
    "prompt_tokens": ("tokens of the messages that a prompt gets", False),
    "milliseconds": ("time of a search", False),
}


def ndcg(ranked: Sequence[str], wanted: Collection[str]) -> float:
    """Return NDCG@10 with binary judgments."""
    gain = sum(1.0 / math.log2(place + 2) for place, name in enumerate(ranked[:DEPTH]) if name in wanted)
    return gain / sum(1.0 / math.log2(place + 2) for place in range(min(DEPTH, len(wanted))))


def interval(scores: Sequence[float]) -> Improvement:
    """Return the mean over questions and its 95 % interval."""
    return compare(scores, [0.0] * len(scores))


def compare(scores: Sequence[float], others: Sequence[float]) -> Improvement:
    """Return the mean difference and its 95 % interval, paired: the same questions are drawn for both."""
    return bootstrap(np.asarray(scores, dtype=float), np.asarray(others, dtype=float), seed=_SEED)


#: The measures by which a verdict is said first, as a sentence calls them.
HEADLINES: Mapping[str, str] = {
    "recall": "evidence found",
    "prompt_recall": "evidence in prompts",
    "shown_wrongly": "shown where nothing answers",
    "stale_first": "outdated before current",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One question, the ids that a search showed, and its measures by name; one that says nothing here is left out.

    Where it went wrong, ``texts`` are what the search showed first, cut short.
    """

    question: Question
    shown: tuple[str, ...]
    scores: Mapping[str, float]
    texts: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """What went wrong with it, in words."""
        return _faults(self.scores)


class Measured(Frozen):
    """One measure over all questions, or those of a kind, that it says something about."""

    measure: str
    kind: str | None
    questions: int
    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, measure: str, kind: str | None, scores: Sequence[float]) -> Self:
        """Return it with the interval of its mean."""
        found = interval(scores)
        return cls(measure=measure, kind=kind, questions=len(scores), mean=found.mean, low=found.low, high=found.high)


class Difference(Frozen):
    """How far a policy is from the first one in one measure, over the same questions, and what that means."""

    measure: str
    mean: float
    low: float
    high: float
    verdict: str


class LastUse:
    """A use recorder that keeps the last prompt's memories, in the prompt's order."""

    def __init__(self) -> None:
        self._ids: Sequence[str] = ()

    def record(self, agent_id: str, memory_ids: Sequence[str], *, at: datetime) -> None:  # noqa: ARG002  # protocol
        """Keep the ids of the memories that a prompt holds."""
        self._ids = memory_ids

    def taken(self) -> Sequence[str]:
        """Return the ids of the last prompt, once; none where it held no memory."""
        ids, self._ids = self._ids, ()
        return ids


def store(
    dataset: Dataset, client: MemoryClient, await_stored: Callable[[StoreReceipt], object]
) -> dict[str, dict[str, str]]:
    """Store all memories through the queue; return the id of each in the store, by agent and id in the data."""
    ids: dict[str, dict[str, str]] = {}
    now = utc_now()
    for agent_id, records in dataset.memories.items():
        ids[agent_id] = {}
        for start in range(0, len(records), _PORTION):
            part = [each.dated(now) for each in records[start : start + _PORTION]]
            receipt = client.import_many(part)
            await_stored(receipt)
            names = (record.id or "" for record in part)
            # A text that an agent says twice is one memory.
            ids[agent_id].update(zip(names, receipt.memory_ids, strict=True))
    return ids


class Kept(NamedTuple):
    """Where a memory of the data is in the store: under its id, or in the memory that replaced it.

    ``words`` are what that one must say to hold it; none where it is the memory itself, or says all of it.
    """

    memory_id: str
    words: frozenset[str] = frozenset()

    def is_in(self, texts: Mapping[str, str]) -> bool:
        """Return whether one of these texts, by their ids in the store, holds it."""
        text = texts.get(self.memory_id)
        return text is not None and (not self.words or self.words <= terms_of(text))


def as_stored(ids: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Kept]]:
    """Return where each memory of the data is before anything replaced it, by agent and id in the data."""
    return {agent_id: {name: Kept(each) for name, each in own.items()} for agent_id, own in ids.items()}


class Asking:
    """Asks questions of a connected backend.

    Args:
        clock: the time at which a question is asked.
        budget: tokens that a prompt may have.
        kept: where every memory is, by agent and id in the data.
    """

    def __init__(
        self,
        backend: MemoryBackend,
        policy: Policy,
        clock: Clock,
        *,
        budget: int,
        kept: Mapping[str, Mapping[str, Kept]],
    ) -> None:
        self._backend, self._budget, self._kept = backend, budget, kept
        self._last = LastUse()
        self._prompts = ContextInjectionStrategy.from_policy(
            policy, backend=backend, use_recorder=self._last, clock=clock
        )
        self._tokens = DefaultTokenEstimator()

    async def ask(self, question: Question) -> Judged:
        """Ask one question by search and by prompt. Raises MemoryConnectionError."""
        agent_id, text = question.agent_id, question.question
        kept = self._kept.get(agent_id, {})
        begun = perf_counter()
        entries = await self._backend.retrieve(agent_id, MemoryQuery(text=text, limit=LIMIT))
        milliseconds = (perf_counter() - begun) * 1e3
        shown = [entry.id for entry in entries]
        ranking = await self._backend.retrieve(agent_id, MemoryQuery(text=text, limit=DEPTH, standing=Shown.ANY))
        messages = await self._prompts.prepare_messages(agent_id, text, self._budget)
        scores = {
            "shown": float(len(shown)),
            "prompt_tokens": float(sum(self._tokens.estimate_tokens(each.content) for each in messages)),
            "milliseconds": milliseconds,
        }
        if wanted := {kept[name] for name in question.finds}:
            texts, ranked = ({each.id: each.content for each in some} for some in (entries, ranking))
            prompt = dict.fromkeys(self._last.taken(), "\n".join(each.content for each in messages))
            right = {each.memory_id for each in wanted if each.is_in(texts)}
            # One that is ranked and does not say what it must is in no place.
            places = {each.memory_id if each.is_in(ranked) else repr(each) for each in wanted}
            scores |= {
                "recall": sum(each.is_in(texts) for each in wanted) / len(wanted),
                "precision": len(right) / len(shown) if shown else 0.0,
                "ndcg_at_10": ndcg(list(ranked), places),
                "prompt_recall": sum(each.is_in(prompt) for each in wanted) / len(wanted),
            }
        else:
            scores["shown_wrongly"] = float(any(entry.standing is not Standing.WEAK for entry in entries))
        answering = {each.memory_id for each in wanted}
        if stale := {kept[name].memory_id for name in question.stale} - answering:
            first = next((each for each in shown if each in answering or each in stale), None)
            scores["stale_first"] = float(first in stale)
        cut = tuple(entry.content[:SHOWN_CHARS] for entry in entries[: SHOWN if _faults(scores) else 0])
        return Judged(question=question, shown=tuple(shown), scores=scores, texts=cut)


def _faults(scores: Mapping[str, float]) -> tuple[str, ...]:
    found = scores.get("recall", 1.0)
    said = {
        "nothing that answers was found": found == 0.0,
        "a part of what answers was not found": 0.0 < found < 1.0,
        "something was shown where nothing answers": scores.get("shown_wrongly") == 1.0,
        "what is outdated stood before what is current": scores.get("stale_first") == 1.0,
    }
    return tuple(fault for fault, is_so in said.items() if is_so)


class AskedAt:
    """The clock of an evaluation: the time of the question that is asked, as many days later as passed since."""

    def __init__(self, dataset: Dataset) -> None:
        last = {
            agent_id: max((each.created_at for each in records if each.created_at), default=None)
            for agent_id, records in dataset.memories.items()
        }
        self._asked = {agent_id: None if each is None else each + _ASKED_AFTER for agent_id, each in last.items()}
        self._latest = dict(self._asked)
        for question in dataset.questions:
            times = (self._latest.get(question.agent_id), question.asked_at)
            self._latest[question.agent_id] = max((each for each in times if each is not None), default=None)
        self._now: datetime | None = None
        self._later = timedelta()

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of the data, in its order."""
        return tuple(self._latest)

    def set(self, question: Question) -> None:
        """Let it be the time at which a question is asked."""
        self._now = question.asked_at or self._asked.get(question.agent_id)

    def set_day(self, agent_id: str, day: int) -> None:
        """Let so many days have passed, for all; it is that day's time for this agent, after its last question."""
        self._now, self._later = self._latest.get(agent_id), timedelta(days=day)

    def __call__(self) -> datetime:
        """Return the time."""
        return (self._now or utc_now()) + self._later


def summary(judged: Sequence[Judged]) -> list[Measured]:
    """Return every measure over all questions, and over each kind."""
    kinds = sorted({each.question.kind for each in judged if each.question.kind is not None})
    found: list[Measured] = []
    for kind in (None, *(kinds if len(kinds) > 1 else ())):
        some = [each for each in judged if kind is None or each.question.kind == kind]
        scores = {measure: [each.scores[measure] for each in some if measure in each.scores] for measure in MEASURES}
        found += [Measured.of(measure, kind, each) for measure, each in scores.items() if each]
    return found


def differences(first: Sequence[Judged], other: Sequence[Judged]) -> list[Difference]:
    """Return how far another policy's answers to the same questions are from the first one's, a measure each."""
    found: list[Difference] = []
    for measure, (_, is_more_better) in MEASURES.items():
        pairs = [
            (b.scores[measure], a.scores[measure])
            for a, b in zip(first, other, strict=True)
            if measure in a.scores and measure in b.scores
        ]
        if pairs:
            apart = compare(*zip(*pairs, strict=True))
            found.append(
                Difference(
                    measure=measure,
                    mean=apart.mean,
                    low=apart.low,
                    high=apart.high,
                    verdict=_verdict(apart, is_more_better=is_more_better),
                )
            )
    return found


def in_words(difference: Difference) -> str:
    """Return a difference as a sentence."""
    name = HEADLINES.get(difference.measure, difference.measure.replace("_", " "))
    within = f"{difference.low:+.3f} to {difference.high:+.3f}"
    return f"{name} {difference.mean:+.3f} ({within}): {difference.verdict}"


def _verdict(apart: Improvement, *, is_more_better: bool) -> str:
    if apart.low <= 0.0 <= apart.high:
        return "no difference that these questions can show"
    return "better" if (apart.low > 0.0) is is_more_better else "worse"
