"""The compressor that asks a language model."""

from memcore import ids
from memcore.clock import Clock, utc_now
from memcore.config.experience import ExperienceCompressorConfig
from memcore.experience.lesson import Lesson
from memcore.experience.prompt import messages_of, raw_chars
from memcore.experience_models import COMPRESSED_TAG, CompressedExperience, DetailedExperience
from memcore.llm.attribution import Attribution
from memcore.llm.completion import CompletionRequest
from memcore.llm.protocol import Model
from memcore.llm.structured import ask_structured
from memcore.models import MemoryMetadata

#: What is paid for.
PURPOSE = "system:memory:compress:episodic"

#: The least and the largest ratio; nothing is compressed to nothing, and what grew counts as not compressed.
_LEAST_RATIO = 0.01
_LARGEST_RATIO = 1.0


class LLMExperienceCompressor:
    """Ask a model what an experience teaches (see memcore.experience.compressor.ExperienceCompressor).

    The model reads the experience as data and writes two lists of sentences; ids, tags, owner and times are made here.

    Args:
        model: who is asked; give one that keeps its answers, so that a crash pays for none twice.
        config: which model, how warm, how long.
        company: whose agents.
        clock: the time.
    """

    #: Raise it with any change of the prompt: the same experience is then another question.
    version = "llm-v1"

    def __init__(
        self, model: Model, config: ExperienceCompressorConfig, *, company: str, clock: Clock = utc_now
    ) -> None:
        self._model = model
        self._config = config
        self._company = company
        self._clock = clock

    async def compress(self, experience: DetailedExperience) -> CompressedExperience:
        """Return the lesson, its ratio the length of its sentences over that of all texts of the experience.

        Raises:
            MalformedAnswerError: two answers, and none of the form.
            BudgetExceededError, RetryExhaustedError, ProviderError, AnswerMissingError: no answer.
        """
        agent_id, config = experience.agent_id, self._config
        request = CompletionRequest(
            messages=messages_of(experience),
            model=config.model,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
        )
        key = ids.question_id(
            company=self._company,
            agent_id=agent_id,
            purpose=PURPOSE,
            model=config.model or "",
            about=(experience.id, self.version),
        )
        by = Attribution(company=self._company, agent_id=agent_id, run_id=None, purpose=PURPOSE)
        lesson = await ask_structured(self._model, request, Lesson, by=by, key=key)
        ratio = lesson.chars / raw_chars(experience)
        return CompressedExperience(
            id=ids.compressed_id(
                company=self._company, agent_id=agent_id, experience_id=experience.id, version=self.version
            ),
            agent_id=agent_id,
            strategic_decisions=lesson.strategic_decisions,
            applicable_contexts=lesson.applicable_contexts,
            source_artifact_ids=(experience.id,),
            compression_ratio=min(max(ratio, _LEAST_RATIO), _LARGEST_RATIO),
            compressor_version=self.version,
            metadata=MemoryMetadata(source=experience.id, tags=(COMPRESSED_TAG,)),
            created_at=self._clock(),
        )
