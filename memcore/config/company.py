"""The ``memory`` section: all that a company decides about its agents' memories."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import model_validator

from memcore.config.added import Added
from memcore.config.approvals import ApprovalsConfig
from memcore.config.budgets import BudgetsConfig
from memcore.config.composite import CompositeBackendConfig
from memcore.config.consolidation import ConsolidationConfig
from memcore.config.embedder import EmbedderOverrideConfig
from memcore.config.finetune import FineTuneExecutionConfig
from memcore.config.llm import LLMConfig
from memcore.config.options import MemoryOptionsConfig
from memcore.config.procedural import ProceduralMemoryConfig
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.config.storage import MemoryStorageConfig
from memcore.config.twins import reconcile
from memcore.frozen import Frozen
from memcore.models import MemoryLevel


class CompanyMemoryConfig(Frozen):
    """Write the ``memory`` section.

    Attributes:
        backend: who keeps the memories; ``inmemory`` is for engines and tests, workers refuse it.
        level: how long memories live unless an agent says otherwise; the reference's ``session`` would refuse every
            memory that names no session.
        storage: where they lie.
        options: limits, in the guide's words; ``consolidation`` wins where both speak.
        retrieval: how they are found.
        consolidation: how they are maintained.
        embedder: which embedder; None leaves it to the stack.
        procedural: how lessons are learned.
        composite: routes; present exactly when backend is ``composite``.
        llm: which language model, and how it is asked.
        budgets: what language models may cost.
        approvals: how long a proposal waits for a person.
        fine_tune: where the stages of a fine-tune run.
    """

    backend: Literal["mem0", "composite", "inmemory"] = "mem0"
    level: MemoryLevel = MemoryLevel.PERSISTENT
    storage: MemoryStorageConfig = MemoryStorageConfig()
    options: MemoryOptionsConfig = MemoryOptionsConfig()
    retrieval: MemoryRetrievalConfig = MemoryRetrievalConfig()
    consolidation: ConsolidationConfig = ConsolidationConfig()
    embedder: EmbedderOverrideConfig | None = None
    procedural: ProceduralMemoryConfig = ProceduralMemoryConfig()
    composite: CompositeBackendConfig | None = None
    llm: Annotated[LLMConfig, Added("the reference passes its models in code, and has no price list")] = LLMConfig()
    budgets: Annotated[BudgetsConfig, Added("language models cost money, and maintenance runs unattended")] = (
        BudgetsConfig()
    )
    approvals: Annotated[ApprovalsConfig, Added("what nobody read for weeks should not take effect by one click")] = (
        ApprovalsConfig()
    )
    fine_tune: Annotated[FineTuneExecutionConfig, Added("the reference has this model, but no key for it")] = (
        FineTuneExecutionConfig()
    )

    @property
    def backends(self) -> Mapping[str, str]:
        """The backends that keep memories, by the dotted key that names each: of a composite, its children."""
        return {"memory.backend": self.backend} if self.composite is None else self.composite.names

    @model_validator(mode="after")
    def _routes_for_composite(self) -> Self:
        if self.backend == "composite" and self.composite is None:
            raise ValueError("composite must be given when backend is composite")
        if self.backend != "composite" and self.composite is not None:
            raise ValueError(f"composite must not be given when backend is {self.backend}")
        return self

    @model_validator(mode="after")
    def _twins_agree(self) -> Self:
        for name, section in reconcile(self):
            # The model is still being built: nobody else has seen it, so freezing it is not broken.
            object.__setattr__(self, name, section)
        return self
