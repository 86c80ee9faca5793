"""Changes: memories that newer ones replaced in other words, as a language model says, who is asked about pairs.

A model proposes; code decides which verdict counts. No text is changed and nothing is removed: the older memory stays,
ranks behind the newer one, and says so. What is not sure waits for a person (``memtend conflicts``).
"""

import asyncio
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Self

from pydantic import ConfigDict

from memcore import ids
from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import BatchBackend
from memcore.backends.succession import reinstate, supersede
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.maintenance import ConsolidationConfig
from memcore.embedding.bm25 import Tokenizer, bare, fold
from memcore.errors import BudgetExceededError, MalformedAnswerError, ProviderError
from memcore.jobs import Skipped, Step
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.attempt import Lease, worked_slice
from memcore.ledger.consolidation_groups import CHANGES, ConsolidationGroup, GroupState
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkItem
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.structured import ask_structured
from memcore.models.answers import Shown
from memcore.models.base import Frozen
from memcore.models.execution import prompt
from memcore.models.memory import (
    COMPRESSED_TAG,
    CONSOLIDATED_TAG,
    CORE_TAG,
    DISTILLATION,
    PROTECTED_FROM_CONSOLIDATION,
    SELF_EDITED_TAG,
    SUPERSEDED_TAG,
    MemoryEntry,
    MemoryQuery,
)
from memcore.records import COMPARED_KEY, MemoryRecord, Where
from memcore.telemetry.events import Event
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive, wrap_untrusted

#: The purpose that the account names.
PURPOSE = "system:memory:changes"

#: Raise it with any change of the prompt, or of which verdicts count: all memories are then compared anew.
VERSION = "changes-2"

#: Characters of a memory that the model reads.
MAX_INPUT_CHARS = 1_000

#: Older memories that one is compared with, the most alike; and so many of a search are looked at for them.
MOST_OLDER, _MOST_FOUND = 3, 20

#: Least time between two memories of which one may replace the other: what was told at once is one story.
APART = timedelta(hours=1)

#: Memories that are read at a time, and how long one job works for an agent before others have a turn.
AT_A_TIME = 16
SLICE = timedelta(minutes=5)

#: What is nobody's statement, or holds no longer itself: neither side of a pair.
_NO_STATEMENTS = (CONSOLIDATED_TAG, COMPRESSED_TAG, SUPERSEDED_TAG)

#: Who asks says "I", and is called the user.
_SELF = frozenset({"i", "me", "my", "mine", "we", "our", "us", "user", "ich", "wir", "mein", "je", "yo", "ik"})

#: The first word of a text but for an article.
_FIRST_WORD = re.compile(
    r"\W*(?:(?:the|a|an|der|die|das|le|la|les|el|los|las|il|gli|de|het)\s+)?([^\W\d_]+)", re.IGNORECASE
)

#: What narrows the word before it: "the recipe for the glaze", "der Kurs am Samstag", "el puerto del servicio".
_NARROWED = re.compile(
    r"\S*\s+(?:of|for|in|on|at|from|with|near|von|vom|für|im|am|an|auf|aus|mit|bei|zu[mr]?|du|des?|pour|dans|sur|aux?|"
    r"avec|chez|del|para|con|por|del(?:l[ao])?|nell?[ao]?|per|d[aeo]s?|em|n[ao]s?|com|van|voor|op|bij|met|для|на|из|от|со)"
    r"\s+((?:\S+\s*){1,2})",
    re.IGNORECASE,
)

#: A text that begins with what somebody has: "Ada's office".
_OWNED = re.compile(r"\W*(?:the\s+)?[^\W\d_]+['\u2019]s\s+([^\W\d_]+)", re.IGNORECASE)

#: Words of a text about an earlier time.
_PAST = re.compile(
    r"\b(?:used to|former(?:ly)?|previously|back (?:in|then|when)|at th(?:e|at) time|in those days|years ago|"
    r"once (?:was|had|lived|worked)|as an? (?:child|kid|boy|girl|student|teenager)|when \w+ (?:was|were)|"
    r"früher|damals|ehemals|autrefois|antes|vroeger)\b"
)

#: Words of an answer that something has ended; they need not stand in the text that says so.
_ENDED = frozenset({"no", "not", "none", "nothing", "nobody", "nowhere", "never", "nichts", "nein", "rien", "nada"})

#: A year, as texts write it.
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")

_tokenizer = Tokenizer()

_log = logging.getLogger(__name__)


class Verdict(StrEnum):
    """What a newer memory means for an older one."""

    SUPERSEDES = "supersedes"
    BOTH_HOLD = "both_hold"
    UNSURE = "unsure"


class ChangeAnswer(Frozen):
    """How a model reads a pair.

    Attributes:
        question: what the earlier memory answers.
        then: its answer.
        now: the answer after the later memory.
    """

    model_config = ConfigDict(extra="ignore")

    question: str
    then: str
    now: str

    def verdict(self, old: str, new: str) -> Verdict:
        """Return what holds of a pair: a model says what is so, and not whether that is another thing.

        An answer that only adds to the earlier one, or leaves out of it, is none that replaced it. One that does not
        stand in the later memory is nobody's. A question in words of the later memory alone is none that the earlier
        one answers: who was born in Turin and lives in Graz has not moved.
        """
        then, now = (frozenset(Tokenizer.words(text)) for text in (self.then, self.now))
        if not then or not now or then <= now or now <= then:
            return Verdict.BOTH_HOLD
        asked, said, earlier, later = (bare(_tokenizer.terms(text)) for text in (self.question, self.now, old, new))
        is_said = not now.isdisjoint(_ENDED) or not said.isdisjoint(later)
        return Verdict.SUPERSEDES if is_said and asked & later <= earlier else Verdict.UNSURE


#: Pairs, and how they are to be read.
_EXAMPLES = (
    (
        ("The gym opens at six.", "Since the new owner came, nobody gets into the gym before eight."),
        ("When does the gym open?", "at six", "at eight"),
    ),
    (
        ("The gym opens at six.", "The gym has bought two rowing machines."),
        ("When does the gym open?", "at six", "at six"),
    ),
    (("Rosa teaches maths.", "Rosa's brother teaches music."), ("What does Rosa teach?", "maths", "maths")),
    (("Rosa teaches maths.", "Rosa retired last month."), ("What does Rosa teach?", "maths", "nothing")),
    (("Rosa likes jazz.", "Rosa likes chess."), ("What does Rosa like?", "jazz", "jazz and chess")),
    (("Tim is ill.", "Tim got well on Sunday and is back at work."), ("Is Tim ill?", "yes", "no")),
    (
        ("User rides to school with Tim.", "User has got a car and needs no lift any more."),
        ("How does the user get to school?", "with Tim", "by car"),
    ),
    (
        ("The code of the gate is 4411.", "The code of the gate was changed."),
        ("What is the code?", "4411", "another one"),
    ),
)


def shown_pair(old: str, new: str, *, newest_first: bool = False) -> str:
    """Return what a model is shown of two memories."""
    texts = [
        wrap_untrusted(TAG_MEMORY_ENTRY, text[:MAX_INPUT_CHARS], attributes={"is": name})
        for name, text in (("earlier", old), ("later", new))
    ]
    return "\n".join(reversed(texts) if newest_first else texts)


def _example(texts: tuple[str, str], answer: tuple[str, str, str]) -> str:
    return f"{shown_pair(*texts)}\n{json.dumps(dict(zip(ChangeAnswer.model_fields, answer, strict=True)))}"


_SYSTEM = f"""\
You are shown two memories of an agent, an earlier and a later one. {untrusted_content_directive(TAG_MEMORY_ENTRY)}
Answer with one JSON object: "question" is what the earlier memory answers; "then" is its answer; "now" is the answer
after the later memory. Where the later one does not change it, "now" is the same as "then".
Examples:
""" + "\n".join(_example(texts, answer) for texts, answer in _EXAMPLES)


def is_of_one_subject(one: str, other: str) -> bool:
    """Return whether two texts may be about the same: what one begins with stands in the other, or both say "I"."""
    first, second = _first_word(one), _first_word(other)
    if first == second or {first, second} <= _SELF:
        return True
    mine, theirs = (frozenset(_tokenizer.terms(text)) for text in (one, other))
    return not theirs.isdisjoint(_tokenizer.terms(first)) or not mine.isdisjoint(_tokenizer.terms(second))


def _begins_with_known(old: str, new: str) -> bool:
    """Return whether what a later text begins with, and what narrows it, stands in the earlier one; or both say "I"."""
    first, known = _FIRST_WORD.match(new), frozenset(_tokenizer.terms(old))
    if first is None or known.isdisjoint(_tokenizer.terms(first[1])):
        return {_first_word(old), _first_word(new)} <= _SELF
    narrowed = _NARROWED.match(new, first.end())
    return narrowed is None or known.issuperset(_tokenizer.terms(narrowed[1])[:1])


def _first_word(text: str) -> str:
    match = _FIRST_WORD.match(text)
    return "" if match is None else fold(match[1])


def may_be_replaced(old: MemoryEntry, new: MemoryEntry, *, kept_tags: Sequence[str] = ()) -> bool:
    """Return whether a model's verdict alone may let one memory supersede another; else a person decides.

    Not what people pinned or gave a key, nor what another source said, or said with more confidence. What an agent
    concluded does not replace what it was told, what Ada's brother does not what Ada does, the port of the metrics not
    the port, and a text about an earlier time not one of today.
    """
    protected = {*PROTECTED_FROM_CONSOLIDATION, *kept_tags} - {DISTILLATION}
    concluded = {DISTILLATION, SELF_EDITED_TAG}
    is_of_less = not concluded.isdisjoint(new.metadata.tags) and concluded.isdisjoint(old.metadata.tags)
    owned = _OWNED.match(new.content)
    years = [int(year) for year in _YEAR.findall(new.content)]
    return (
        protected.isdisjoint(old.metadata.tags)
        and old.metadata.source == new.metadata.source
        and old.metadata.confidence <= new.metadata.confidence
        and not is_of_less
        and _begins_with_known(old.content, new.content)
        and (owned is None or fold(owned[1]) in Tokenizer.words(old.content))
        and _PAST.search(fold(new.content)) is None
        and not (years and max(years) < old.created_at.year)
        and (new.valid_until is None or new.valid_until > old.last_stated_at)
    )


def _is_older(old: MemoryEntry, new: MemoryEntry) -> bool:
    """Return whether one memory was said before another, holds still, and may be about the same."""
    return (
        old.id != new.id
        and old.namespace == new.namespace
        and new.last_stated_at - old.last_stated_at >= APART
        and old.superseded_by is None
        and (old.valid_until is None or old.valid_until > new.last_stated_at)
        and frozenset(_NO_STATEMENTS).isdisjoint(old.metadata.tags)
        and is_of_one_subject(old.content, new.content)
    )


@dataclass(frozen=True, eq=False)
class ChangesService:
    """Looks for memories of one company's agents that newer ones replaced.

    A memory that the present model and prompt have not compared is compared once with the older memories that a search
    finds most alike. A verdict is written to the ledger before the store is changed, as part of a run that can be
    undone; after a crash it is carried out, and not asked for again. What a model did not answer is asked after the
    next run.
    """

    backend: WorkerBackend
    ledger: Ledger
    policy: ConsolidationConfig
    _: KW_ONLY
    company: str
    model: Model | None
    default_model: str | None
    core_tag: str = CORE_TAG
    clock: Clock = utc_now
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        memory = context.policy.memory
        return cls(
            context.backend,
            context.ledger,
            memory.consolidation,
            company=context.company,
            model=context.model,
            default_model=context.settings.llm(memory.llm).model,
            core_tag=memory.retrieval.self_editing.core_memory_tag,
            clock=context.clock,
        )

    @property
    def by(self) -> str:
        """What compares memories: model and prompt."""
        return f"{self.policy.changes.model or self.default_model or ''}/{VERSION}"

    async def run(self, agent_id: str) -> Step:
        """Compare memories for one slice of time; whatever happens, calling it again goes on where it stopped.

        Returns:
            Done: every memory was compared, or it is the next agent's turn; the facts count verdicts.
            Deferred: it waits for a budget, the end of a pause, or a store that is away.
            Skipped: switched off, or no model.
            Dead: no run has asked for it.
        """
        if self.model is None:
            return Step(outcome=Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL"))
        return await worked_slice(
            self.ledger.change_finding,
            self.company,
            ids.changes_id(company=self.company, agent_id=agent_id),
            switch=self._check_switch,
            refusal=self._refusal,
            walk=partial(self._walk, agent_id, self.model),
        )

    def _check_switch(self, item: WorkItem) -> None:
        check_kill_switch(self.ledger.agents, self.company, item.agent_id, is_enabled=self.policy.enabled)

    def _refusal(self) -> str | None:
        return None if self.policy.changes.enabled else "memory.consolidation.changes.enabled is false"

    async def _walk(self, agent_id: str, model: Model, lease: Lease) -> tuple[Counter[str], bool]:
        """Return how many pairs had which verdict, and whether more wait for another slice."""
        until, counts = self.monotonic() + SLICE.total_seconds(), Counter[str]()
        await carry_out_pairs(self.backend, self.ledger, self.company, agent_id, check=lease.enter)
        run = NewRun(company=self.company, agent_id=agent_id, kind="changes", planned_at=self.clock())
        where = Where(agent_id=agent_id, uncompared_by=self.by, lessons=False, without_tags=_NO_STATEMENTS)
        cursor: str | None = ""
        while cursor is not None:
            page = await self.backend.scan(where, cursor=cursor or None, limit=AT_A_TIME)
            cursor = page.cursor
            for place, record in enumerate(page.records, start=1):
                lease.enter()
                verdicts = await self._compared(model, record, run, lease)
                counts.update(verdicts)
                if "failed" in verdicts:
                    return counts, False  # the model is away, and every further question would only wait
                is_last = cursor is None and place == len(page.records)
                if not is_last and self.monotonic() >= until:
                    return counts, True
        _log.info(Event.CHANGES_COMPLETE, extra={"agent_id": agent_id, **counts})
        return counts, False

    async def _compared(self, model: Model, record: MemoryRecord, run: NewRun, lease: Lease) -> list[str]:
        """Compare one memory with older ones, keep what comes of it, and return the verdicts."""
        new, groups = record.entry, self.ledger.consolidation_groups
        known = groups.pairs(self.company, new.agent_id)
        older = await self._older(new, frozenset(pair.source_ids for pair in known))
        verdicts = await asyncio.gather(*(self.verdict(model, old, new) for old in older), return_exceptions=True)
        for verdict in verdicts:
            if isinstance(verdict, BaseException):
                raise verdict
        counted = [str(each or "failed") for each in verdicts if not isinstance(each, BaseException)]
        if "failed" in counted:
            return counted
        states = {Verdict.SUPERSEDES.value: GroupState.APPROVED, Verdict.UNSURE.value: GroupState.PROPOSED}
        found = [
            self._pair(old, new, run, states[verdict])
            for old, verdict in zip(older, counted, strict=True)
            if verdict in states
        ]
        watched = self.ledger.erasures.watch(self.company, [new.agent_id])
        if new.agent_id in watched.barred or new.namespace in watched.erased_people:
            return []
        try:
            if found:
                lease.enter()
                self.ledger.runs.note_done(run)
                groups.note(found)
                await carry_out_pairs(self.backend, self.ledger, self.company, new.agent_id, check=lease.check)
                known = groups.pairs(self.company, new.agent_id)
                self.ledger.runs.count(run.run_id, groups.pair_counts(self.company, new.agent_id, run.run_id))
            superseded = [
                each.source_ids[0]
                for each in known
                if each.source_ids[1] == new.id and each.state is GroupState.ADOPTED and each.is_found
            ]
            compared = {COMPARED_KEY: {"by": self.by, "superseded": superseded}}
            await self.backend.set_metadata_many(new.agent_id, [new.id], None, extra=compared)
        finally:
            self.ledger.erasures.end_write(watched)
        return counted

    async def _older(self, new: MemoryEntry, known: frozenset[tuple[str, ...]]) -> list[MemoryEntry]:
        """Return the older memories that a search finds most alike, without those that were judged before."""
        query = MemoryQuery(
            text=new.content.strip()[:MAX_INPUT_CHARS],
            namespaces=frozenset({new.namespace}),
            standing=Shown.ANY,
            limit=_MOST_FOUND,
        )
        found = await self.backend.retrieve(new.agent_id, query)
        likely = [each for each in found if _is_older(each, new) and (each.id, new.id) not in known]
        stored = await self.backend.get_many(new.agent_id, [each.id for each in likely]) if likely else ()
        lessons = {each.entry.id for each in stored if each.is_lesson}
        return [each for each in likely if each.id not in lessons][:MOST_OLDER]

    def _pair(self, old: MemoryEntry, new: MemoryEntry, run: NewRun, state: GroupState) -> ConsolidationGroup:
        return ConsolidationGroup(
            company=self.company,
            run_id=run.run_id,
            agent_id=new.agent_id,
            category=old.category,
            strategy=CHANGES,
            state=state,
            source_ids=(old.id, new.id),
            decided_by=run.run_id if state is GroupState.APPROVED else None,
            decided_at=self.clock() if state is GroupState.APPROVED else None,
        )

    async def verdict(self, model: Model, old: MemoryEntry, new: MemoryEntry) -> Verdict | None:
        """Return what holds of a pair; None where the model did not answer.

        That one superseded the other must be said whichever is read first, and be possible; else a person decides.
        """
        verdict = await self._asked(model, old, new)
        if verdict is not Verdict.SUPERSEDES:
            return verdict
        if not may_be_replaced(old, new, kept_tags=[self.core_tag]):
            return Verdict.UNSURE
        again = await self._asked(model, old, new, newest_first=True)
        return again if again in {None, Verdict.SUPERSEDES} else Verdict.UNSURE

    async def _asked(
        self, model: Model, old: MemoryEntry, new: MemoryEntry, *, newest_first: bool = False
    ) -> Verdict | None:
        config, shown = self.policy.changes, shown_pair(old.content, new.content, newest_first=newest_first)
        request = CompletionRequest(
            messages=prompt(_SYSTEM, shown),
            model=config.model,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
        )
        key = ids.question_id(
            company=self.company,
            agent_id=new.agent_id,
            purpose=PURPOSE,
            model=config.model or "",
            about=(old.id, new.id, shown, VERSION),
        )
        by = Attribution(company=self.company, agent_id=new.agent_id, run_id=None, purpose=PURPOSE)
        try:
            return (await ask_structured(model, request, ChangeAnswer, by=by, key=key)).verdict(
                old.content, new.content
            )
        except MalformedAnswerError:
            return Verdict.BOTH_HOLD
        except BudgetExceededError:
            raise
        except ProviderError as error:
            about = {"agent_id": new.agent_id, "memory_id": new.id, "error": type(error).__name__}
            _log.warning(Event.CHANGES_FAILED, extra=about)
            return None


async def carry_out_pairs(
    backend: BatchBackend, ledger: Ledger, company: str, agent_id: str, *, check: Callable[[], None]
) -> None:
    """Let an agent's older memories be superseded, or hold again, as the ledger says; a second time changes nothing.

    ``check`` is called before each change. Raises what it raises, and as ``supersede`` does.
    """
    groups = ledger.consolidation_groups
    for pair in groups.pairs(company, agent_id):
        if pair.state not in {GroupState.APPROVED, GroupState.UNDONE}:
            continue
        known = {each.entry.id: each for each in await backend.get_many(agent_id, pair.source_ids)}
        check()
        if pair.state is GroupState.UNDONE:
            await _freed(backend, pair, known)
            continue
        is_done = await _superseded(backend, pair, known)
        state = GroupState.ADOPTED if is_done else GroupState.REFUSED
        groups.decide(company, pair.run_id, [pair.place], state, reason=None if is_done else "one of them has changed")


async def _superseded(backend: BatchBackend, pair: ConsolidationGroup, known: Mapping[str, MemoryRecord]) -> bool:
    old, new = (known.get(memory_id) for memory_id in pair.source_ids)
    if old is None or new is None or new.entry.superseded_by == old.entry.id:
        return False
    if old.entry.last_stated_at > new.entry.last_stated_at:
        return False  # it was said again meanwhile
    if old.entry.superseded_by not in {None, new.entry.id}:
        return False  # an undo could not bring back by what it was replaced before
    await supersede(backend, old, new)
    return True


async def _freed(backend: BatchBackend, pair: ConsolidationGroup, known: Mapping[str, MemoryRecord]) -> None:
    old = known.get(pair.source_ids[0])
    if old is not None and old.entry.superseded_by == pair.source_ids[1]:
        await reinstate(backend, old)
