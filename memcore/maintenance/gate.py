"""The gate: a lossy summary replaces memories only if a prompt still answers what they answered.

Probes are questions on the words that tell an original from the agent's other memories: names, numbers, dates, rare
words. Each is asked of a shadow of the agent's memories, with and without the replacement, through the product's own
ranking and packing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import cast

from memcore.backends.protocol import MemoryBackend, archive_index_of, vector_backend_of
from memcore.config.maintenance import GateConfig
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.sentences import part_rows, part_sentences
from memcore.maintenance.rules import AgentSnapshot
from memcore.maintenance.shadow import ShadowMemories
from memcore.records import ArchivedCopy, MemoryRecord
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.protocol import noting_degraded
from memcore.untrusted_text import TAG_MEMORY_ENTRY

#: Most probes of a group, and of each group after so many: more would cost over a fifth of a long run's time.
MOST_PROBES, MOST_LATER, LATER_FROM = 2, 1, 20

#: Fewer words than this make no question with an answer.
_LEAST_WORDS = 2

#: How much more telling than its rarity a name, a number or a date is.
_NAMED = 2.0

_tokenizer = Tokenizer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question, and the term that answers it."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFigures:
    """How many probes were asked, and how many were answered without the replacement and with it."""

    probes: int = 0
    found_before: int = 0
    found_after: int = 0

    @property
    def loss(self) -> float:
        """The share of the answers that the replacement loses."""
        return (self.found_before - self.found_after) / self.found_before if self.found_before else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate says about a group; the summary has its vectors."""

    summary: MemoryRecord
    figures: GateFigures
    is_refused: bool


def probes_of(
    texts: Sequence[str], summary: str, *, rarity: Callable[[str], float], most: int = MOST_PROBES
) -> tuple[Probe, ...]:
    """Return at most so many probes; the same for the same texts.

    They ask about sentences that the summary does not say word for word, or about all where it says all: what it keeps
    is seldom lost. They are spread evenly.
    """
    every = [
        (f"{label.when} {label.who} {sentence}", sentence in summary)
        for text in texts
        for label, rest in part_rows(text)
        for sentence in part_sentences(rest)
    ]
    passages = [text for text, is_kept in every if not is_kept] or [text for text, _ in every]
    bounds = [number * len(passages) // most for number in range(most + 1)]
    found: dict[Probe, None] = {}
    for start, stop in pairwise(bounds):
        # From the middle on: the first passage of a text is its most usual one.
        middle = (start + stop) // 2
        probes = (_probe(each, rarity) for each in (*passages[middle:stop], *passages[start:middle]))
        if probe := next(filter(None, probes), None):
            found[probe] = None
    return tuple(found)


def _probe(passage: str, rarity: Callable[[str], float]) -> Probe | None:
    words = _telling_words(passage, rarity)
    if len(words) < _LEAST_WORDS:
        return None
    # People ask with usual words for the telling one. With all rare words in the question anything is found.
    answer, *others = words
    asked = others[1:3] or others
    return Probe(question=" ".join(word for _, _, word in sorted(asked)), answer=answer[1])


def _telling_words(passage: str, rarity: Callable[[str], float]) -> list[tuple[int, str, str]]:
    """Return the place, term and form of each word, the most telling first; each term once."""
    found: dict[str, tuple[float, int, str]] = {}
    starts_sentence = True
    for token in passage.split():
        is_name = not starts_sentence and token.lstrip("\"'([*_")[:1].isupper()
        for word in _tokenizer.words(token):
            for term in _tokenizer.terms(word):
                weight = rarity(word) * (_NAMED if is_name or any(map(str.isdigit, word)) else 1.0)
                if term not in found:
                    found[term] = (-weight, len(found), word)
        starts_sentence = token.endswith((":", "]"))
    ranked = sorted((weight, place, term, word) for term, (weight, place, word) in found.items())
    return [(place, term, word) for _, place, term, word in ranked]


@lru_cache(maxsize=4_096)
def _terms(text: str) -> frozenset[str]:
    # The memories of a prompt are mostly those of the prompt before.
    return frozenset(_tokenizer.terms(text))


def answers(prompt: str, probe: Probe) -> bool:
    """Return whether one memory of a prompt has the answer, and a word of the question."""
    wanted = _terms(probe.question)
    memories = (_terms(each.partition(">\n")[2]) for each in prompt.split(f"\n</{TAG_MEMORY_ENTRY}>"))
    return any(probe.answer in memory and not wanted.isdisjoint(memory) for memory in memories)


class Gate:
    """Judges the summaries of one attempt, one after another: each beside those that were adopted before.

    A group of which a prompt could not be made as usual is refused: nobody knows what it would lose.
    Only a backend that makes vectors can be shadowed; on another one nothing is judged.
    """

    def __init__(self, snapshot: AgentSnapshot, config: GateConfig, retrieval: MemoryRetrievalConfig) -> None:
        self._snapshot = snapshot
        self._config = config
        # A store without an index of archived memories finds none in a prompt.
        has_archive = archive_index_of(snapshot.backend) is not None
        self._retrieval = retrieval.model_copy(update={"zoom": retrieval.zoom and has_archive})
        self._backend = vector_backend_of(snapshot.backend) if config.enabled else None
        self._shadow: ShadowMemories | None = None
        self._prompts: ContextInjectionStrategy | None = None
        self._judged = 0

    async def judge(
        self, sources: Sequence[MemoryRecord], summary: MemoryRecord, *, fallback_id: str | None = None
    ) -> Verdict | None:
        """Return what the gate says about replacing the sources; None where nothing is lost, or can be judged.

        With a ``fallback_id`` the sources are out of the store: that memory stands for them, and goes. The memories are
        read at the first call. Raises MemoryRetrievalError, MemoryConnectionError, MemoryEmbeddingError.
        """
        if self._backend is None or summary.is_lossless:
            return None
        agent_id = self._snapshot.agent_id
        if self._shadow is None or self._prompts is None:
            self._shadow = await ShadowMemories.of(self._backend, agent_id)
            self._prompts = ContextInjectionStrategy(
                backend=cast("MemoryBackend", self._shadow), config=self._retrieval, clock=lambda: self._snapshot.now
            )
        shadow, prompts = self._shadow, self._prompts
        if summary in shadow:
            # Stored by an earlier run, of the same sources, which the agent has stored once more.
            return None
        await shadow.add(sources)
        source_ids = [source.entry.id for source in sources]
        if fallback_id is not None:
            shadow.hide([fallback_id])
            shadow.restore(source_ids)
        texts = [source.entry.content for source in sources]
        most = MOST_PROBES if self._judged < LATER_FROM else MOST_LATER
        probes = probes_of(texts, summary.entry.content, rarity=shadow.rarity, most=most)
        self._judged += 1
        await shadow.ask([probe.question for probe in probes])
        found, has_failed = await self._found(probes, prompts)
        (vectors,) = await shadow.add([replace(summary, vectors=None)])
        await shadow.index_archived(
            agent_id,
            [ArchivedCopy(archival_id=each.entry.id, summary_id=summary.entry.id, record=each) for each in sources],
        )
        found_after, has_failed_after = await self._found(found, prompts)
        figures = GateFigures(probes=len(probes), found_before=len(found), found_after=len(found_after))
        is_refused = has_failed or has_failed_after or figures.loss > self._config.max_loss
        if is_refused:
            shadow.drop_last()
            shadow.restore(source_ids if fallback_id is None else [fallback_id])
            shadow.hide(source_ids if fallback_id is not None else [])
        return Verdict(summary=replace(summary, vectors=vectors), figures=figures, is_refused=is_refused)

    async def _found(self, probes: Sequence[Probe], prompts: ContextInjectionStrategy) -> tuple[list[Probe], bool]:
        """Return the probes that a prompt answers, and whether a part of any prompt failed."""
        found: list[Probe] = []
        with noting_degraded() as failed:
            for probe in probes:
                messages = await prompts.prepare_messages(
                    self._snapshot.agent_id, probe.question, self._config.prompt_tokens
                )
                found += [probe] if any(answers(message.content, probe) for message in messages[1:]) else []
        return found, bool(failed)
