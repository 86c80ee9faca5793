"""One agent's experience, from which the demo compresses a lesson."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from memcore.models.base import Frozen
from memcore.models.memory import NotBlankText


class FleetExperience(Frozen):
    """One experience, as an engine would send it.

    Attributes:
        agent: whose experience it is.
        prompt: what the agent was asked.
        output: what it answered.
        verification: what a check said.
        steps: the steps between the two, in order.
    """

    agent: str
    prompt: NotBlankText
    output: NotBlankText
    verification: NotBlankText
    steps: tuple[NotBlankText, ...] = Field(min_length=1)


def experience() -> FleetExperience:
    """Return the experience."""
    found: Any = yaml.safe_load(Path(__file__).with_name("ordeal.yaml").read_text(encoding="utf-8"))
    return FleetExperience.model_validate(found)
