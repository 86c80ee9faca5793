"""To whom a lesson is passed on."""

from typing import Literal

from pydantic import Field

from memcore.frozen import Frozen


class PropagationConfig(Frozen):
    """Pass an agent's lessons to its like.

    Attributes:
        type: to nobody, to agents of the same role, or of the same department.
        max_propagation_targets: most agents for one lesson, 1 or more.
    """

    type: Literal["none", "role", "department"] = "none"
    max_propagation_targets: int = Field(default=10, ge=1)
