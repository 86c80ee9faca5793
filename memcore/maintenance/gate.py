"""The gate: a lossy summary replaces memories only if a prompt still answers what they answered.

Probes are questions on the words that tell an original from the agent's other memories: names, numbers, dates, rare
words; and, where the policy says so, those that were asked before and those that a model asks for. Each is asked of a
shadow of the agent's memories, with and without the replacement, through the product's own ranking and packing; and
where a model wrote the replacement, with the archive closed and through search too. The agent's registered memory tests
are asked as well: a replacement that breaks one is refused, however little else it loses.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from typing import cast

from memcore.backends.evidence import terms_of
from memcore.backends.fusion import weighted_rankings
from memcore.backends.protocol import MemoryBackend, archive_index_of, vector_backend_of
from memcore.config.maintenance import GateConfig
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.errors import AnswerMissingError
from memcore.maintenance.consolidation.llm import AnswerSource
from memcore.maintenance.probes import (
    LATER_FROM,
    MOST_LATER,
    MOST_PROBES,
    MOST_RECORDED,
    Probe,
    asks_model,
    probe_question,
    probes_in,
    probes_of,
    recorded_probe,
)
from memcore.maintenance.registered import ProbingTests
from memcore.maintenance.rules import AgentSnapshot
from memcore.maintenance.shadow import ShadowMemories
from memcore.models.answers import Shown
from memcore.models.memory import ABSTRACTIVE_TAG, SYNTHESIZED_TAG, MemoryQuery
from memcore.records import ArchivedCopy, MemoryRecord
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.protocol import noting_degraded
from memcore.untrusted_text import TAG_MEMORY_ENTRY, TAG_REFERENCE

_CLOSING = re.compile(f"\n</(?:{TAG_MEMORY_ENTRY}|{TAG_REFERENCE})>")

#: Tags of what a model wrote.
_MODELS = frozenset({SYNTHESIZED_TAG, ABSTRACTIVE_TAG})


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFigures:
    """How many probes were asked, and how many were answered.

    ``found_after`` are those that are answered with the replacement; ``found_before`` are these and those that are
    answered without it only. What the replacement answers is not asked without it: it is not lost.
    """

    probes: int = 0
    found_before: int = 0
    found_after: int = 0

    @property
    def loss(self) -> float:
        """The share of the answers that the replacement loses."""
        return (self.found_before - self.found_after) / self.found_before if self.found_before else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate says about a group; the summary has its vectors, and the tests are the names of those it breaks."""

    summary: MemoryRecord
    figures: GateFigures
    tests: tuple[str, ...] = ()
    is_refused: bool


def answers(prompt: str, probe: Probe) -> bool:
    """Return whether one memory of a prompt has the answer, and a word of the question."""
    wanted = terms_of(probe.question)
    return any(_answers(each.partition(">\n")[2], probe, wanted) for each in _CLOSING.split(prompt))


def _answers(memory: str, probe: Probe, wanted: frozenset[str]) -> bool:
    said = terms_of(memory)
    return probe.answer in said and not wanted.isdisjoint(said)


class Gate:
    """Judges the summaries of one attempt, one after another: each beside those that were adopted before.

    A group of which a prompt could not be made as usual is refused: nobody knows what it would lose.
    Only a backend that makes vectors can be shadowed; on another one nothing is judged.

    Args:
        answers: a model's probes, where they have been asked for; None where no model is.
    """

    def __init__(
        self,
        snapshot: AgentSnapshot,
        config: GateConfig,
        retrieval: MemoryRetrievalConfig,
        *,
        answers: AnswerSource | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._config = config
        self._answers = answers if asks_model(snapshot.policy) else None
        # A store without an index of archived memories finds none in a prompt.
        has_archive = archive_index_of(snapshot.backend) is not None
        # Nor is anything held back: a drawn question may have little evidence, and a group would stay by chance.
        least = {"standing": Shown.ANY, "min_relevance": 0.0}
        changed = {"zoom": retrieval.zoom and has_archive, **least}
        self._retrieval = retrieval.without_model().model_copy(update=changed)
        self._backend = vector_backend_of(snapshot.backend) if config.enabled else None
        self._recorded: dict[str, list[tuple[int, int, str]]] = {}
        self._asked: tuple[ShadowMemories, ProbingTests] | None = None
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
        if self._asked is None:
            self._recorded = self._read_recorded()
            made_of = await ShadowMemories.of(self._backend, agent_id)
            self._asked = made_of, await ProbingTests.of(self._snapshot, made_of)
        (shadow, tests), is_written = self._asked, not _MODELS.isdisjoint(summary.entry.metadata.tags)
        if summary in shadow:
            # Stored by an earlier run, of the same sources, which the agent has stored once more.
            return None
        await tests.add(sources)
        source_ids = [source.entry.id for source in sources]
        if fallback_id is not None:
            shadow.hide([fallback_id])
        texts, content = [source.entry.content for source in sources], summary.entry.content
        most = MOST_PROBES if self._judged < LATER_FROM else MOST_LATER
        drawn = probes_of(texts, content, rarity=shadow.rarity, most=most)
        recorded = islice(self._asked_before(sources, content, shadow.rarity), MOST_RECORDED)
        probes = tuple(dict.fromkeys((*recorded, *await self._asked_for(sources), *drawn)))
        self._judged += 1
        terms: defaultdict[str, set[str]] = defaultdict(set)
        for probe in probes:
            terms[probe.question].add(probe.answer)
        await shadow.ask(terms)
        made = await self._replace(shadow, sources, replace(summary, vectors=None))
        kept, has_failed = await self._found(probes, shadow, is_written=is_written)
        broken = tests.broken_by(sources, made)
        # What is found with the replacement is not lost; of the rest, what was found without it.
        missed = [probe for probe in probes if probe not in kept]
        lost: list[Probe] = []
        if missed or has_failed or broken:
            shadow.drop_last()
            shadow.restore(source_ids)
            lost, failed_before = await self._found(missed, shadow, is_written=is_written)
            has_failed |= failed_before
        figures = GateFigures(probes=len(probes), found_before=len(kept) + len(lost), found_after=len(kept))
        is_refused = has_failed or bool(broken) or figures.loss > self._config.max_loss
        if is_refused and fallback_id is not None:
            shadow.restore([fallback_id])
            shadow.hide(source_ids)
        elif not is_refused:
            tests.adopt()
            if missed:
                await self._replace(shadow, sources, made)
        return Verdict(summary=made, figures=figures, tests=broken, is_refused=is_refused)

    async def _is_searched(self, probe: Probe, shadow: ShadowMemories) -> bool:
        """Whether one of the memories that a search shows answers."""
        query = MemoryQuery(text=probe.question)
        lists = await shadow.retrieve_rankings(self._snapshot.agent_id, query)
        scores = weighted_rankings(lists, dense_weight=shadow.dense_weight, question=probe.question)
        texts = {hit.entry.id: hit.entry.content for hit in (*lists.dense, *lists.sparse)}
        wanted, best = terms_of(probe.question), sorted(scores, key=scores.__getitem__, reverse=True)[: query.limit]
        return any(_answers(texts[memory_id], probe, wanted) for memory_id in best)

    async def _replace(
        self, shadow: ShadowMemories, sources: Sequence[MemoryRecord], summary: MemoryRecord
    ) -> MemoryRecord:
        """Let the summary stand for the archived sources; return it with its vectors."""
        made = await shadow.add([summary])
        await shadow.index_archived(
            self._snapshot.agent_id,
            [ArchivedCopy(archival_id=each.entry.id, summary_id=summary.entry.id, record=each) for each in sources],
        )
        return replace(summary, vectors=made[0]) if made else summary

    def _read_recorded(self) -> dict[str, list[tuple[int, int, str]]]:
        """Return the agent's recorded questions by the memories shown for them: place of the memory, age, question."""
        found: dict[str, list[tuple[int, int, str]]] = {}
        if self._retrieval.record_queries:
            snapshot = self._snapshot
            since = snapshot.now - timedelta(days=self._retrieval.query_days)
            recorded = snapshot.ledger.recorded_queries.of(snapshot.company, snapshot.agent_id, since=since)
            for age, query in enumerate(recorded):
                for place, memory_id in enumerate(query.memory_ids):
                    found.setdefault(memory_id, []).append((place, age, query.question))
        return found

    def _asked_before(
        self, sources: Sequence[MemoryRecord], summary: str, rarity: Callable[[str], float]
    ) -> Iterator[Probe]:
        """Yield the recorded questions for which one of these memories was shown, each about the best of them.

        First those for which it was the best of all memories, of these the newest.
        """
        shown = sorted(
            (*each, source.entry.content) for source in sources for each in self._recorded.get(source.entry.id, ())
        )
        best: dict[str, str] = {}
        for _, _, question, text in shown:
            best.setdefault(question, text)
        for question, text in best.items():
            if (probe := recorded_probe(question, text, summary, rarity=rarity)) is not None:
                yield probe

    async def _asked_for(self, sources: Sequence[MemoryRecord]) -> tuple[Probe, ...]:
        """Return a model's probes; none where it was not asked about these memories, or its answer is of no use."""
        if self._answers is None:
            return ()
        try:
            reply = await self._answers.ask(probe_question(sources, self._snapshot.policy))
        except AnswerMissingError:
            return ()
        return probes_in(reply.text or "", sources)

    async def _found(
        self, probes: Sequence[Probe], shadow: ShadowMemories, *, is_written: bool
    ) -> tuple[list[Probe], bool]:
        """Return the probes that a prompt answers, and whether a part of any prompt failed.

        Of a text that a model wrote, the archive is closed, so that what was replaced does not answer for what replaces
        it, and search must answer too. Sentences kept word for word are judged as agents see them.
        """
        config = self._retrieval.model_copy(update={"zoom": False}) if is_written else self._retrieval
        prompts = ContextInjectionStrategy(
            backend=cast("MemoryBackend", shadow), config=config, clock=lambda: self._snapshot.now
        )
        found: list[Probe] = []
        with noting_degraded() as failed:
            for probe in probes:
                messages = await prompts.prepare_messages(
                    self._snapshot.agent_id, probe.question, self._config.prompt_tokens
                )
                is_shown = any(answers(message.content, probe) for message in messages[1:])
                is_found = is_shown and (not is_written or await self._is_searched(probe, shadow))
                found += [probe] if is_found else []
        return found, bool(failed)
