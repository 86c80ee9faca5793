"""Search notes: words, written by a language model, by which memories are found when they are asked for in other words.

They are indexed beside a memory and shown to nobody. A model proposes words; which of them are kept is decided here.
"""

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import partial
from typing import Self

import numpy as np
from pydantic import ConfigDict, Field, field_validator

from memcore import ids
from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import vector_backend_of
from memcore.company import CompanyContext
from memcore.config.maintenance import ConsolidationConfig
from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.calibration import UNRELATED, noise_among
from memcore.errors import BudgetExceededError, MalformedAnswerError, ProviderError
from memcore.jobs import Skipped, Step
from memcore.ledger.attempt import Lease, worked_slice
from memcore.ledger.ledger import Ledger
from memcore.llm.protocol import NOTES_PURPOSE, Attribution, CompletionRequest, Model
from memcore.llm.structured import ask_structured
from memcore.models.base import UNSEEN, Frozen
from memcore.models.execution import prompt
from memcore.models.memory import MemoryEntry
from memcore.records import NOTES_VERSION, MemoryRecord, SearchNotes, Where
from memcore.telemetry.events import Event
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive, wrap_untrusted

#: Characters of a memory that the model reads.
MAX_INPUT_CHARS = 2_000

#: Fewest and most phrases that a note has, the longest of them in characters, and its most words.
_FEWEST, _MOST, _LONGEST, _MOST_WORDS = 3, 14, 40, 5

#: Memories that are asked about at a time, and how long one job works for an agent before others have a turn.
AT_A_TIME = 4
SLICE = timedelta(minutes=5)

_SYSTEM = f"""\
An agent keeps a memory, and somebody will ask for it in other words than it has. Write such words, in the memory's
language. {untrusted_content_directive(TAG_MEMORY_ENTRY)}
Answer with one JSON object and nothing else:
"kind": what kind of thing the memory is about, in general words;
"who": whom or what it is about, as others would call it: husband, friend, pet, customer, test machine;
"words": ten everyday words for what it says that are not in it: synonyms, kinds, uses, reasons. No names, no numbers.
Two examples:
<{TAG_MEMORY_ENTRY}>
Ben is lactose intolerant since 2019.
</{TAG_MEMORY_ENTRY}>
{{"kind": "food problem, health", "who": "friend, visitor, husband", "words": ["milk", "dairy", "cheese", "cream",
"allergy", "diet", "stomach", "dessert", "cooking", "digestion"]}}
<{TAG_MEMORY_ENTRY}>
The staging server is rebuilt every Sunday at four in the morning.
</{TAG_MEMORY_ENTRY}>
{{"kind": "maintenance of a computer", "who": "test environment, pre-production", "words": ["reset", "reinstall",
"weekend", "weekly", "early", "machine", "schedule", "downtime", "host", "deploy"]}}"""

#: A phrase: words and what joins them. Anything else is markup, or a sentence.
_PHRASE = re.compile(r"[^\W_][\w '\u2019/+#&-]*")

_tokenizer = Tokenizer()

_log = logging.getLogger(__name__)


class WrittenNotes(Frozen):
    """What a model writes about one memory."""

    model_config = ConfigDict(extra="ignore")

    # Small limits, for servers that keep to the schema: they end lists that would repeat themselves, and a grammar of
    # large ones takes llama.cpp seconds a token. An answer beyond them is read all the same.
    kind: str = Field(json_schema_extra={"maxLength": 60})
    who: str = Field(json_schema_extra={"maxLength": 60})
    words: tuple[str, ...] = Field(json_schema_extra={"maxItems": 12})

    @field_validator("who", mode="before")
    @classmethod
    def _nobody(cls, given: object) -> object:
        return "" if given is None else given

    def note_for(self, memory: str) -> str:
        """Return the phrases that may stand beside a memory, in small letters, each once; blank for too few.

        Left out are sentences and markup, what names a number or a person that the memory does not name, and what
        brings no word that it lacks: repetitions would keep its vector where it is.
        """
        given = [each for part in (self.kind, self.who, *self.words) for each in re.split(r"[,;\n]", part)]
        phrases = [" ".join(UNSEEN.sub(" ", each).split()).strip(" .") for each in given]
        has_names = sum(each[:1].isupper() for each in phrases) * 2 < len(phrases)
        said, known = memory.casefold(), frozenset(_tokenizer.terms(memory))
        kept: dict[str, None] = {}
        for phrase in phrases:
            words = phrase.casefold().split()
            invents = any(
                (any(map(str.isdigit, word)) or (has_names and written[:1].isupper())) and word not in said
                for word, written in zip(words, phrase.split(), strict=True)
            )
            is_short = len(phrase) <= _LONGEST and len(words) <= _MOST_WORDS
            is_new = not known.issuperset(_tokenizer.terms(phrase))
            if _PHRASE.fullmatch(phrase) and is_short and is_new and not invents:
                kept.setdefault(" ".join(words))
        return ", ".join([*kept][:_MOST]) if len(kept) >= _FEWEST else ""


@dataclass(frozen=True, eq=False)
class SearchNotesService:
    """Writes search notes for the memories of one company's agents.

    A memory without notes of the present model and prompt is asked about once; notes that are of no use leave it with
    none. What a model did not answer is asked again after the next run. The answers are kept in the store alone: a
    crash may pay for those of one page twice, and nothing of a memory stays in the ledger.
    """

    backend: WorkerBackend
    ledger: Ledger
    policy: ConsolidationConfig
    _: KW_ONLY
    company: str
    model: Model | None
    default_model: str | None
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
        )

    @property
    def by(self) -> str:
        """What its notes are written by: model and prompt."""
        return SearchNotes.by_model(self.policy.search_notes.model or self.default_model)

    async def run(self, agent_id: str) -> Step:
        """Write what is missing for one slice of time; whatever happens, calling it again goes on where it stopped.

        Returns:
            Done: every memory without notes was asked about, or it is the next agent's turn; the facts count them.
            Deferred: it waits for a budget, the end of a pause, or a store that is away.
            Skipped: switched off, or no model.
            Dead: no run has asked for it.
        """
        if self.model is None:
            return Step(outcome=Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL"))
        return await worked_slice(
            self.ledger.note_writing,
            self.company,
            ids.search_notes_id(company=self.company, agent_id=agent_id),
            agents=self.ledger.agents,
            is_enabled=self.policy.enabled,
            refusal=self._refusal,
            walk=partial(self._walk, agent_id, self.model),
        )

    def _refusal(self) -> str | None:
        return None if self.policy.search_notes.enabled else "memory.consolidation.search_notes.enabled is false"

    async def _walk(self, agent_id: str, model: Model, lease: Lease) -> tuple[Counter[str], bool]:
        """Return what became of how many memories, and whether more wait for another slice."""
        until, counts = self.monotonic() + SLICE.total_seconds(), Counter[str]()
        where = Where(agent_id=agent_id, unnoted_by=self.by, lessons=False)
        cursor: str | None = ""
        while cursor is not None:
            page = await self.backend.scan(where, cursor=cursor or None, limit=AT_A_TIME)
            lease.enter()
            became = await self._page(agent_id, model, page.records)
            counts.update(became)
            cursor = page.cursor
            if became and set(became) == {"failed"}:
                break  # the model is away, and every further question would only wait
            if cursor is not None and self.monotonic() >= until:
                return counts, True
        _log.info(Event.SEARCH_NOTES_COMPLETE, extra={"agent_id": agent_id, **counts})
        return counts, False

    async def _page(self, agent_id: str, model: Model, records: Sequence[MemoryRecord]) -> list[str]:
        """Ask about a page of memories, and keep what is of use; return what became of each."""
        answers = await asyncio.gather(*(self._written(model, each.entry) for each in records), return_exceptions=True)
        answered = [(record, note) for record, note in zip(records, answers, strict=True) if isinstance(note, str)]
        noted = [
            record.with_search_notes(SearchNotes(by=self.by, texts=(note,) if note else ()))
            for record, note in answered
        ]
        refused = await self._refused([each for each in noted if each.entry.search_notes])
        # Also what has no use is noted as asked about.
        notes = {
            each.entry.id: SearchNotes(by=self.by, texts=() if each.entry.id in refused else each.entry.search_notes)
            for each in noted
        }
        if notes:
            await self.backend.set_search_notes(agent_id, notes)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer  # after what was paid for is kept
        kept = ["noted" if each.texts else "refused" if key in refused else "unusable" for key, each in notes.items()]
        return kept + ["failed"] * (len(records) - len(answered))

    async def _written(self, model: Model, entry: MemoryEntry) -> str | None:
        """Return what may stand beside a memory, blank for nothing; None where the model did not answer."""
        config, text = self.policy.search_notes, entry.content[:MAX_INPUT_CHARS]
        request = CompletionRequest(
            messages=prompt(_SYSTEM, wrap_untrusted(TAG_MEMORY_ENTRY, text)),
            model=config.model,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
        )
        by = Attribution(company=self.company, agent_id=entry.agent_id, run_id=None, purpose=NOTES_PURPOSE)
        key = by.question_id(config.model, entry.id, text, NOTES_VERSION)
        try:
            return (await ask_structured(model, request, WrittenNotes, by=by, key=key)).note_for(text)
        except MalformedAnswerError:
            return ""
        except BudgetExceededError:
            raise
        except ProviderError as error:
            about = {"agent_id": entry.agent_id, "memory_id": entry.id, "error": type(error).__name__}
            _log.warning(Event.SEARCH_NOTES_FAILED, extra=about)
            return None

    async def _refused(self, noted: Sequence[MemoryRecord]) -> frozenset[str]:
        """Return the memories whose notes are about something else, or bring foreign questions near."""
        backend = vector_backend_of(self.backend)
        if backend is None or not noted:
            return frozenset()
        entries = [each.entry for each in noted]
        bare = [each.model_copy(update={"search_notes": ()}) for each in entries]
        alone = [
            one.model_copy(update={"content": each.search_notes[0]}) for one, each in zip(bare, entries, strict=True)
        ]
        unrelated = [bare[0].model_copy(update={"content": text}) for text in UNRELATED]
        made = await backend.document_vectors([*entries, *bare, *alone, *unrelated])
        count = len(entries)
        both, texts, notes, others = np.split(np.stack([each.dense for each in made]), [count, 2 * count, 3 * count])
        asked = await backend.query_vectors(UNRELATED)
        near, before = ((rows @ asked.T).max(axis=1) for rows in (both, texts))
        is_foreign = (near > before) & (near > noise_among(asked, others))
        is_other = (notes * texts).sum(axis=1) <= (notes @ others.T).mean(axis=1)
        return frozenset(each.id for each, is_refused in zip(entries, is_foreign | is_other, strict=True) if is_refused)
