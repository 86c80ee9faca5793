"""What one agent of the fleet went through."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from memcore.models.base import Frozen, NotBlankText


class StressTest(Frozen):
    """One experience, as an engine would send it.

    Attributes:
        agent: who went through it.
        prompt: what the agent was asked.
        output: what it answered.
        verification: what a check said.
        steps: between the two, in order.
    """

    agent: str
    prompt: NotBlankText
    output: NotBlankText
    verification: NotBlankText
    steps: tuple[NotBlankText, ...] = Field(min_length=1)


def create_stress_test() -> StressTest:
    """Read it."""
    found: Any = yaml.safe_load(Path(__file__).with_name("ordeal.yaml").read_text(encoding="utf-8"))
    return StressTest.model_validate(found)
