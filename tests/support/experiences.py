"""Raw experiences for tests."""

from datetime import timedelta
from typing import Any

from memcore.models.experience import DetailedExperience
from support.memories import DAWN


def experience(
    experience_id: str,
    *,
    agent_id: str = "ada",
    prompt: str = "The nightly import failed again. Find out why.",
    output: str = "The disk was full; I moved the old exports away and ran it once more.",
    younger: timedelta = timedelta(0),
    **more: Any,
) -> DetailedExperience:
    """Return an experience; only its id must be said."""
    return DetailedExperience(
        id=experience_id, agent_id=agent_id, prompt=prompt, output=output, created_at=DAWN + younger, **more
    )
