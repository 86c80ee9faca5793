"""Summaries by a language model: the question and its answer, prompts, recent trajectories; a fallback without one."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from memcore import errors
from memcore.backends.protocol import MemoryBackend
from memcore.config.maintenance import LLMConsolidationConfig
from memcore.errors import MemoryConfigError
from memcore.llm.grounding import Coverage, Fault, ungrounded
from memcore.llm.protocol import CompletionRequest
from memcore.maintenance.consolidation.strategy import ConcatenationOp, SummaryDraft
from memcore.models.archival import ArchivalMode
from memcore.models.execution import ChatMessage, prompt
from memcore.models.memory import DISTILLATION, FALLBACK_TAG, SYNTHESIZED_TAG, MemoryQuery
from memcore.records import MemoryRecord
from memcore.telemetry.events import Event
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted

#: Most characters of an answer for each token that it may have: no tokenizer makes longer tokens on average, so a
#: longer answer comes from a server that heeds no limit.
_CHARS_PER_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question to a model; questions of the same purpose, model and subject have one answer.

    Attributes:
        about: all that the answer depends on: ids and digests of texts, never the texts.
        request: makes the prompt; called only when the model is really asked.
        fault: says why a text may not be kept, or None; of an answer that becomes no memory there is nothing to say.
    """

    purpose: str
    model: str | None
    about: tuple[str, ...]
    max_tokens: int
    request: Callable[[], Awaitable[CompletionRequest]]
    fault: Callable[[str], Fault | None] = lambda _text: None

    @property
    def max_chars(self) -> int:
        """Longest text that counts as an answer."""
        return self.max_tokens * _CHARS_PER_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to a question, stripped and not blank; or None, and the reason why there is none."""

    text: str | None = None
    reason: str = ""


class AnswerSource(Protocol):
    """Answers an op's questions: from the ledger in a maintenance run, from a model in a synthesis job."""

    async def ask(self, question: Question) -> Reply:
        """Return the reply to the question.

        Raises AnswerMissingError while the model has not been asked or is being asked, ProviderError when its server
        refuses, and will again, or is away and asked again later, and BudgetExceededError.
        """
        ...


#: The fence around one memory.
ENTRY_TAG = "entry"

#: The fence around one trajectory.
TRAJECTORY_TAG = "trajectory"

#: Words that an answer may have, for each token of its limit: three quarters, for most languages need more tokens.
_WORDS_PER_TOKEN = 0.6

_MERGE = f"""\
You merge the memories of an AI agent into one text. Keep every name, number, date, decision, reason, preference and \
open question, each once, in the memories' own words; leave out only what says nothing or is said twice. Where two \
memories contradict each other, keep both and say which is newer. Add nothing that they do not say. Write plain \
sentences in their language, "I" where they say "I", without tags, lists, headings or remarks of your own; shorter \
than the memories together, and in at most {{words}} words. For example, of
<{ENTRY_TAG}>
2026-02-03: Phoned the roofer about the barn. It leaks above the door, not at the window as I had thought at first. \
Friday would be possible for her, provided that it does not rain.
</{ENTRY_TAG}>
<{ENTRY_TAG}>
2026-02-06: The roofer came and put six new tiles on the barn. It took her about two hours. The price is 85 euros, \
which I find fair, and the bill will come by mail some time soon.
</{ENTRY_TAG}>
you write:
2026-02-03: Phoned the roofer about the barn: it leaks above the door, not at the window; Friday would be possible \
unless it rains. 2026-02-06: The roofer put six new tiles on it in two hours, for 85 euros, which I find fair; the \
bill comes by mail."""

_SHORTEN = (
    "You shorten one memory of an AI agent. Keep every name, number, date, decision and reason; leave out what says "
    "nothing. Add nothing. Write in its language, without a heading or a remark of your own, in at most {words} words."
)

_CONTEXT = "What the agent was doing when these memories were made:"


def merge_messages(
    sources: Sequence[MemoryRecord], *, trajectories: Sequence[str], max_tokens: int, max_entry_chars: int
) -> tuple[ChatMessage, ...]:
    """Return the prompt that merges memories, oldest first; trajectories are data as well.

    Each memory is cut to ``max_entry_chars``.
    """
    system = [_MERGE.format(words=int(max_tokens * _WORDS_PER_TOKEN)), untrusted_content_directive(ENTRY_TAG)]
    if trajectories:
        system += [untrusted_content_directive(TRAJECTORY_TAG), _CONTEXT]
        system += [wrap_untrusted(TRAJECTORY_TAG, text) for text in trajectories]
    return prompt("\n\n".join(system), entries_prompt(sources, max_entry_chars))


def entries_prompt(sources: Sequence[MemoryRecord], max_entry_chars: int) -> str:
    """Return memories, each in its fence and cut, as the data of a prompt."""
    return "\n".join(_entry(source, max_entry_chars) for source in sources)


def shorten_messages(source: MemoryRecord, *, max_tokens: int, max_entry_chars: int) -> tuple[ChatMessage, ...]:
    """Return the prompt that shortens one memory."""
    words = int(max_tokens * _WORDS_PER_TOKEN)
    system = f"{_SHORTEN.format(words=words)}\n\n{untrusted_content_directive(ENTRY_TAG)}"
    return prompt(system, _entry(source, max_entry_chars))


def _entry(source: MemoryRecord, max_chars: int) -> str:
    entry = source.entry
    return wrap_untrusted(ENTRY_TAG, f"{entry.created_at:%Y-%m-%d}: {entry.content[:max_chars]}")


def fault_of(text: str, sources: Sequence[MemoryRecord]) -> Fault | None:
    """Return why a text that was made of these memories may not be kept, or None."""
    shown = (f"{source.entry.created_at:%Y-%m-%d}: {source.entry.content}" for source in sources)
    instructions = f"{_MERGE} {_SHORTEN} {untrusted_content_directive(ENTRY_TAG)}"
    days = [source.entry.created_at.date() for source in sources]
    return ungrounded(text, shown, instructions=instructions, said_on=days)


def completed(text: str, sources: Sequence[MemoryRecord]) -> str:
    """Return a model's text with what it leaves out of the memories that it replaces, word for word and dated."""
    coverage = Coverage(text)
    left_out = ((source.entry.created_at, coverage.left_out(source.entry.content)) for source in sources)
    return "\n".join([text, *(f"{day:%Y-%m-%d}: {statements}" for day, statements in left_out if statements)])


#: How the purposes of questions begin whose answers become summaries; the category follows.
MERGE_PURPOSE, SHORTEN_PURPOSE = "system:memory:consolidate:", "system:memory:summarize:"

#: Part of a question's id: a changed prompt is another question.
_PROMPT_VERSION = "merge-3"

#: Recent trajectories of an agent, already cut.
Trajectories = Callable[[str], Awaitable[tuple[str, ...]]]

_log = logging.getLogger(__name__)


async def no_trajectories(_agent_id: str) -> tuple[str, ...]:
    """Return none: a model is asked without context."""
    return ()


class LLMSynthesisOp:
    """Merges memories with a model, or else the provider's default; joins their beginnings when it gives no text."""

    def __init__(
        self,
        answers: AnswerSource,
        *,
        config: LLMConsolidationConfig | None = None,
        model: str | None = None,
        trajectories: Trajectories = no_trajectories,
    ) -> None:
        self._answers = answers
        self._config = config or LLMConsolidationConfig()
        self._model = model
        self._trajectories = trajectories
        self._fallback = ConcatenationOp(max_entry_chars=self._config.fallback_truncate_length)

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return the model's text, completed, or the beginnings of the memories where it gave none.

        The memory that is kept is not shown to the model. Raises what AnswerSource.ask raises, and MemoryConfigError
        when the sources are longer than the total cap: a part that is not shown must not be removed.
        """
        total = sum(min(len(source.entry.content), self._config.max_entry_input_chars) for source in sources)
        if total > self._config.max_total_user_content_chars:
            raise MemoryConfigError(
                f"consolidation.llm.max_total_user_content_chars: {total} in one group; lower group_max_tokens"
            )
        found = await self._answers.ask(self._question(sources))
        if found.text is None:
            draft = await self._fallback.write(sources, kept=kept)
            return SummaryDraft(content=draft.content, tags=(FALLBACK_TAG,))
        text = completed(found.text, sources)
        return SummaryDraft(content=text, tags=(SYNTHESIZED_TAG,), mode=ArchivalMode.ABSTRACTIVE)

    def _question(self, sources: Sequence[MemoryRecord]) -> Question:
        config = self._config

        async def request() -> CompletionRequest:
            trajectories: tuple[str, ...] = ()
            if config.include_distillation_context:
                trajectories = await self._trajectories(sources[0].entry.agent_id)
            _warn_of_cuts(sources, config.max_entry_input_chars)
            return CompletionRequest(
                messages=merge_messages(
                    sources,
                    trajectories=trajectories,
                    max_tokens=config.max_summary_tokens,
                    max_entry_chars=config.max_entry_input_chars,
                ),
                model=self._model,
                temperature=config.temperature,
                max_tokens=config.max_summary_tokens,
                whole=True,
            )

        return Question(
            purpose=f"{MERGE_PURPOSE}{sources[0].entry.category}",
            model=self._model,
            about=(_PROMPT_VERSION, str(config.max_summary_tokens), *digests(sources)),
            max_tokens=config.max_summary_tokens,
            request=request,
            fault=lambda text: fault_of(text, sources),
        )


def digests(sources: Sequence[MemoryRecord]) -> tuple[str, ...]:
    """Return id and digest of each text, sorted: the order of the sources does not change the question."""
    found = []
    for source in sources:
        text = source.entry.content.encode("utf-8", "surrogatepass")
        found.append(f"{source.entry.id}:{hashlib.blake2b(text, digest_size=16).hexdigest()}")
    return tuple(sorted(found))


def _warn_of_cuts(sources: Sequence[MemoryRecord], max_chars: int) -> None:
    cut = [source.entry.id for source in sources if len(source.entry.content) > max_chars]
    if cut:
        _log.warning(Event.CONSOLIDATION_LLM_PROMPT_CUT, extra={"memory_ids": cut, "max_chars": max_chars})


class RecentTrajectories:
    """Reads an agent's newest distillations."""

    def __init__(self, backend: MemoryBackend, config: LLMConsolidationConfig) -> None:
        self._backend = backend
        self._config = config

    async def __call__(self, agent_id: str) -> tuple[str, ...]:
        """Return the newest first, each cut; none, with a warning, when they cannot be read."""
        query = MemoryQuery(tags=(DISTILLATION,), limit=self._config.max_trajectory_context_entries)
        try:
            found = await self._backend.retrieve(agent_id, query)
        except errors.MemoryError as error:
            facts = {"agent_id": agent_id, "error_type": type(error).__name__}
            _log.warning(Event.CONSOLIDATION_LLM_CONTEXT_MISSING, extra=facts)
            return ()
        return tuple(entry.content[: self._config.max_trajectory_chars_per_entry] for entry in found)
