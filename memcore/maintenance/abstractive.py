"""Short versions of chatty memories, one by one, by a language model."""

import asyncio
import logging
from collections.abc import Sequence

from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.errors import MemoryConfigError, MemoryError  # noqa: A004  # the reference fixes the name
from memcore.llm.completion import CompletionRequest
from memcore.maintenance.concatenation import beginning
from memcore.maintenance.draft import Draft
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.llm_synthesis import digests
from memcore.maintenance.question import Answers, Question
from memcore.maintenance.synthesis_prompt import shorten_messages

#: Characters of a memory that stand in for its summary when the model gave none (the reference's figure).
TRUNCATED_CHARS = 200

#: Characters of a memory that the model sees.
MAX_INPUT_CHARS = 20_000

#: Between the parts of a summary.
SEPARATOR = "\n---\n"

_PROMPT_VERSION = "shorten-1"

_log = logging.getLogger(__name__)


class AbstractiveSummarizer:
    """Let a model shorten memories, each alone.

    Args:
        answers: where the answers come from.
        model: whose; must not be blank.
        max_summary_tokens: longest short version.
        temperature: sampling temperature.

    Raises:
        MemoryConfigError: the model's name is blank.
    """

    def __init__(
        self, answers: Answers, *, model: str, max_summary_tokens: int = 200, temperature: float = 0.3
    ) -> None:
        if not model.strip():
            raise MemoryConfigError("consolidation.archival.dual_mode.summarization_model: must not be blank")
        self._answers = answers
        self._model = model
        self._max_tokens = max_summary_tokens
        self._temperature = temperature

    async def summarize(self, source: MemoryRecord) -> str:
        """Return the short version, or the first 200 characters where the model gave none."""

        async def request() -> CompletionRequest:
            return CompletionRequest(
                messages=shorten_messages(source, max_tokens=self._max_tokens, max_entry_chars=MAX_INPUT_CHARS),
                model=self._model,
                temperature=self._temperature,
                max_tokens=self._max_tokens,
            )

        question = Question(
            purpose=f"system:memory:summarize:{source.entry.category}",
            model=self._model,
            about=(_PROMPT_VERSION, str(self._max_tokens), *digests([source])),
            max_tokens=self._max_tokens,
            request=request,
        )
        found = await self._answers.ask(question)
        if found.text is not None:
            return found.text
        _log.warning(
            MaintenanceEvent.ABSTRACTIVE_FALLBACK, extra={"memory_id": source.entry.id, "reason": found.reason}
        )
        return beginning(source.entry.content, TRUNCATED_CHARS)

    async def summarize_batch(self, sources: Sequence[MemoryRecord]) -> tuple[tuple[str, str], ...]:
        """Return id and short version of each, in order; all are asked for at once.

        Raises one of the errors of ``summarize``; what was answered meanwhile is kept. Trouble of this process goes
        before a missing answer, which would hide it.
        """
        found = await asyncio.gather(*(self.summarize(source) for source in sources), return_exceptions=True)
        failures = [each for each in found if isinstance(each, BaseException)]
        if failures:
            raise min(failures, key=lambda error: isinstance(error, MemoryError))
        return tuple((source.entry.id, str(text)) for source, text in zip(sources, found, strict=True))


class AbstractiveSummarizationOp:
    """Join the short versions.

    Args:
        summarizer: makes them.
    """

    def __init__(self, summarizer: AbstractiveSummarizer) -> None:
        self._summarizer = summarizer

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
        """Return one short version a memory; raises what the summarizer raises."""
        del kept
        texts = [text for _, text in await self._summarizer.summarize_batch(sources)]
        return Draft(content=SEPARATOR.join(texts), tags=("mode:abstractive",), mode=ArchivalMode.ABSTRACTIVE)
