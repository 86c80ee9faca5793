"""What makes a lesson of an experience."""

from typing import Protocol

from memcore.experience_models import CompressedExperience, DetailedExperience


class ExperienceCompressor(Protocol):
    """Compress one experience at a time.

    Attributes:
        version: which compressor it is; another version has another answer.
    """

    @property
    def version(self) -> str:
        """Return the name that stands in what it makes."""
        ...

    async def compress(self, experience: DetailedExperience) -> CompressedExperience:
        """Return the lesson; its id follows from the experience and the version.

        Raises:
            MalformedAnswerError: nothing usable came, and nothing better is to be hoped for.
            ProviderError: the model did not answer.
            BudgetExceededError: the agent has nothing left today.
            AnswerMissingError: another worker asks about this experience now.
        """
        ...
