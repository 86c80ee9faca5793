"""The names under which compression logs; ids and counts stand beside them in ``extra``, no text ever does."""

from enum import StrEnum


class ExperienceEvent(StrEnum):
    """A log event of the compression of experience."""

    COMPRESSED = "experience.compress.complete"
    #: The answer was not so much shorter than the experience as the policy asks for.
    WEAK = "experience.compress.weak"
    #: The model answered twice in no form that can be read.
    MALFORMED = "experience.compress.malformed"
    #: The model did not answer; the experience stays raw.
    FAILED = "experience.compress.failed"
    NIGHT_COMPLETED = "experience.night.complete"
