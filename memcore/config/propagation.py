"""To whom a lesson is passed on."""

from typing import Literal

from pydantic import Field

from memcore.frozen import Frozen


class PropagationConfig(Frozen):
    """Pass an agent's lessons to similar agents.

    Attributes:
        type: to no agent, to agents of the same role, or to agents of the same department.
        max_propagation_targets: the most agents that receive one lesson.
    """

    type: Literal["none", "role", "department"] = "none"
    max_propagation_targets: int = Field(default=10, ge=1)
