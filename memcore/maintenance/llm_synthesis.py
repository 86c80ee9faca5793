"""A summary by a language model, and what stands in for it when the model cannot."""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.config.llm_consolidation import LLMConsolidationConfig
from memcore.errors import MemoryConfigError
from memcore.llm.completion import CompletionRequest
from memcore.maintenance.concatenation import ConcatenationOp
from memcore.maintenance.draft import Draft
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.question import Answers, Question
from memcore.maintenance.synthesis_prompt import merge_messages

#: Tag of a summary that a model wrote.
SYNTHESIZED_TAG = "llm-synthesized"

#: Tag of a summary that was to be a model's and could not.
FALLBACK_TAG = "concat-fallback"

#: Part of a question's id: a changed prompt is another question.
_PROMPT_VERSION = "merge-1"

#: Recent trajectories of an agent, already cut.
Trajectories = Callable[[str], Awaitable[tuple[str, ...]]]

_log = logging.getLogger(__name__)


async def no_trajectories(_agent_id: str) -> tuple[str, ...]:
    """Return none: a model is asked without context."""
    return ()


class LLMSynthesisOp:
    """Let a model merge the memories; one that cannot costs only the beauty of the summary.

    Args:
        answers: where the answer comes from.
        config: the caps.
        model: whose answer; None takes the provider's default.
        trajectories: recent trajectories for the prompt.
    """

    def __init__(
        self,
        answers: Answers,
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

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
        """Return the model's text, or the beginnings of the memories where it gave none.

        The memory that is kept is not shown to the model.

        Raises:
            MemoryConfigError: the sources are longer than the total cap; a part that is not shown must not be removed.
            AnswerMissingError, ProviderError, BudgetExceededError: there is no answer yet.
        """
        total = sum(min(len(source.entry.content), self._config.max_entry_input_chars) for source in sources)
        if total > self._config.max_total_user_content_chars:
            raise MemoryConfigError(
                f"consolidation.llm.max_total_user_content_chars: {total} in one group; lower group_max_tokens"
            )
        found = await self._answers.ask(self._question(sources))
        if found.text is None:
            draft = await self._fallback.write(sources, kept=kept)
            return Draft(content=draft.content, tags=(FALLBACK_TAG,))
        return Draft(content=found.text, tags=(SYNTHESIZED_TAG,), mode=ArchivalMode.ABSTRACTIVE)

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
            )

        return Question(
            purpose=f"system:memory:consolidate:{sources[0].entry.category}",
            model=self._model,
            about=(_PROMPT_VERSION, str(config.max_summary_tokens), *digests(sources)),
            max_tokens=config.max_summary_tokens,
            request=request,
        )


def digests(sources: Sequence[MemoryRecord]) -> tuple[str, ...]:
    """Return id and digest of each text, sorted: another order is the same question, another text another one."""
    found = []
    for source in sources:
        text = source.entry.content.encode("utf-8", "surrogatepass")
        found.append(f"{source.entry.id}:{hashlib.blake2b(text, digest_size=16).hexdigest()}")
    return tuple(sorted(found))


def _warn_of_cuts(sources: Sequence[MemoryRecord], max_chars: int) -> None:
    cut = [source.entry.id for source in sources if len(source.entry.content) > max_chars]
    if cut:
        _log.warning(MaintenanceEvent.PROMPT_CUT, extra={"memory_ids": cut, "max_chars": max_chars})
