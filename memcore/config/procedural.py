"""How lessons are learned, kept and shared."""

from typing import Annotated

from pydantic import Field

from memcore.config.added import Added
from memcore.config.capture import CaptureConfig
from memcore.config.data_path import DataPath
from memcore.config.evolver import EvolverConfig
from memcore.config.propagation import PropagationConfig
from memcore.config.pruning import PruningConfig
from memcore.frozen import Frozen, NotBlankStr

#: The reference's example, which is no model of any server.
NO_MODEL = "example-small-001"


class ProceduralMemoryConfig(Frozen):
    """Configure how lessons are drawn from executions.

    Attributes:
        enabled: whether lessons are drawn.
        model: the model that proposes lessons; the default names none and takes ``memory.llm.model``.
        temperature: the sampling temperature.
        max_tokens: the most tokens of an answer.
        min_confidence: a proposal with less confidence is dropped.
        skill_md_directory: a folder in which each lesson is also written as a skill folder; None writes none.
        capture: the executions from which lessons are drawn.
        pruning: which lessons are forgotten.
        propagation: which agents receive a lesson.
        evolver: what is proposed to the whole organisation.
    """

    enabled: bool = True
    model: NotBlankStr = NO_MODEL
    temperature: float = Field(default=0.3, ge=0.0, le=2.0)
    max_tokens: int = Field(default=1500, ge=1)
    min_confidence: float = Field(default=0.5, ge=0.0, le=1.0)
    skill_md_directory: DataPath | None = None
    capture: Annotated[CaptureConfig, Added("the reference has this model, but no key for it")] = CaptureConfig()
    pruning: Annotated[PruningConfig, Added("the reference has this model, but no key for it")] = PruningConfig()
    propagation: Annotated[PropagationConfig, Added("the reference has this model, but no key for it")] = (
        PropagationConfig()
    )
    evolver: Annotated[EvolverConfig, Added("the reference has this model, but no key for it")] = EvolverConfig()

    @property
    def asked_model(self) -> str | None:
        """The model to ask; None for that of ``memory.llm``."""
        return None if self.model == NO_MODEL else self.model
