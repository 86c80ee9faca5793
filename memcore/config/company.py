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
    """Configure the memories of a company's agents.

    Attributes:
        backend: the backend that keeps the memories; ``inmemory`` is for engines and tests, and workers refuse it.
        level: how long a memory lives, unless its agent has a level of its own; ``session`` and ``project`` refuse a
            memory that names no session or project.
        storage: where memories are stored, and which text of them is indexed.
        options: general limits; ``consolidation`` wins where both sections set the same value.
        retrieval: how memories are found, ranked and put into a prompt.
        consolidation: how memories are maintained.
        embedder: the embedder; None takes the one that ``MEMTEND_EMBEDDER`` names.
        procedural: how lessons are learned from executions.
        composite: which backend keeps which namespace; required when backend is ``composite``, and refused otherwise.
        llm: which language model is asked, and how.
        budgets: what the language models may cost.
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
    llm: Annotated[LLMConfig, Added("the reference passes its models in code and has no price list")] = LLMConfig()
    budgets: Annotated[BudgetsConfig, Added("language models cost money, and maintenance runs unattended")] = (
        BudgetsConfig()
    )
    approvals: Annotated[
        ApprovalsConfig, Added("a proposal that nobody read for weeks must not take effect by one click")
    ] = ApprovalsConfig()
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
