"""When memories are merged, which, how, and how much one night may remove."""

from enum import StrEnum
from importlib.metadata import entry_points
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from memcore.config.added import Added
from memcore.config.archival import ArchivalConfig
from memcore.config.condense import CondenseConfig
from memcore.config.experience import ExperienceCompressorConfig
from memcore.config.llm_consolidation import LLMConsolidationConfig
from memcore.config.retention import RetentionConfig
from memcore.config.wiki import WikiExportConfig
from memcore.frozen import Frozen, NotBlankStr
from memcore.models import ConsolidationInterval, MemoryCategory

#: Entry points of this group name strategies that other packages bring.
STRATEGY_GROUP = "memtend.consolidation"


class ConsolidationStrategyType(StrEnum):
    """How a group of memories becomes a summary.

    ``condense`` keeps the sentences that tell most, ``simple`` joins the memories' beginnings, ``dual_mode`` preserves
    dense and summarises chatty texts, ``llm`` has a model write the summary; ``none`` leaves them alone while
    retention and the limit of memories go on.
    """

    NONE = "none"
    CONDENSE = "condense"
    SIMPLE = "simple"
    DUAL_MODE = "dual_mode"
    LLM = "llm"


class ConsolidationConfig(Frozen):
    """Tune an agent's maintenance.

    Attributes:
        enabled: the kill switch: off, neither retention nor consolidation nor the limit runs.
        interval: how often maintenance is due; wins over ``options.consolidation_interval``.
        max_memories_per_agent: wins over ``options.max_memories_per_agent``.
        retention: how long memories are kept.
        archival: what is archived.
        experience_compressor: two-tier experience.
        wiki_export: export as files.
        strategy: how groups are summarised; beside the shipped ones, a strategy that an installed package registers.
            ``dual_mode`` where it is left out and ``archival.dual_mode.enabled`` is true.
        categories: whose memories may be replaced by summaries; never working, whose memories end with their task.
        min_age_days: younger memories are not consolidated; 0 takes all.
        group_threshold: least memories of a category that are merged; ``llm`` has a threshold of its own.
        group_max_entries: most memories behind one summary.
        group_max_tokens: most tokens behind one summary.
        max_removed_fraction: share of an agent's memories, above 0 up to 1, over which a run is held for a person.
        max_removed_floor: so many removals are never held, whatever their share.
        journal_days: how long a run can be undone.
        restored_hold_days: how long restored memories are left alone.
        condense: what the ``condense`` strategy keeps.
        llm: limits of the ``llm`` strategy; None takes their defaults.
    """

    enabled: bool = True
    interval: ConsolidationInterval = ConsolidationInterval.DAILY
    max_memories_per_agent: int = Field(default=10_000, ge=1)
    retention: RetentionConfig = RetentionConfig()
    archival: ArchivalConfig = ArchivalConfig()
    experience_compressor: ExperienceCompressorConfig = ExperienceCompressorConfig()
    wiki_export: WikiExportConfig = WikiExportConfig()
    strategy: Annotated[
        ConsolidationStrategyType | NotBlankStr, Added("the reference picks the strategy in code, not in a file")
    ] = Field(default=ConsolidationStrategyType.CONDENSE, union_mode="left_to_right")
    categories: Annotated[
        tuple[MemoryCategory, ...],
        Added("a summary loses words; of a fact, a skill or a person none may be lost unasked"),
    ] = Field(default=(MemoryCategory.EPISODIC,), min_length=1)
    min_age_days: Annotated[int, Added("recent memories are still in use and stay as they are")] = Field(
        default=7, ge=0
    )
    group_threshold: Annotated[int, Added("a group is worth a summary from so many entries on")] = Field(
        default=3, ge=2
    )
    group_max_entries: Annotated[int, Added("a summary of too many entries says nothing of any")] = Field(
        default=20, ge=2
    )
    group_max_tokens: Annotated[int, Added("a summary of too long a text loses most of it")] = Field(
        default=2000, ge=100
    )
    max_removed_fraction: Annotated[
        float, Added("the brake: a run that would remove a larger share is held and asks a person")
    ] = Field(default=0.5, gt=0.0, le=1.0)
    max_removed_floor: Annotated[int, Added("keeps the brake from holding every run of a small agent")] = Field(
        default=20, ge=0
    )
    journal_days: Annotated[int, Added("how long `memtend runs undo` can bring a run's memories back")] = Field(
        default=7, ge=1
    )
    restored_hold_days: Annotated[int, Added("the next night would otherwise remove again what was restored")] = Field(
        default=1, ge=0
    )
    condense: Annotated[CondenseConfig, Added("measured: docs/consolidation-quality.md")] = CondenseConfig()
    llm: Annotated[LLMConsolidationConfig | None, Added("the reference passes these limits in code")] = None

    @field_validator("strategy")
    @classmethod
    def _is_known(cls, strategy: str) -> str:
        if not isinstance(strategy, ConsolidationStrategyType) and not entry_points(
            group=STRATEGY_GROUP, name=strategy
        ):
            shipped = ", ".join(ConsolidationStrategyType)
            raise ValueError(f"should be {shipped}, or the name of an entry point of the group {STRATEGY_GROUP}")
        return strategy

    @model_validator(mode="after")
    def _dual_mode_unless_named(self) -> Self:
        if "strategy" not in self.model_fields_set and self.archival.dual_mode.enabled:
            # The model is still being built: nobody else has seen it. Not marked as given: the person did not name it.
            vars(self)["strategy"] = ConsolidationStrategyType.DUAL_MODE
        return self

    @field_validator("categories")
    @classmethod
    def _can_be_summarised(cls, categories: tuple[MemoryCategory, ...]) -> tuple[MemoryCategory, ...]:
        if MemoryCategory.WORKING in categories:
            raise ValueError("must not name working, whose memories end with their task")
        return tuple(dict.fromkeys(categories))

    @property
    def least_age_days(self) -> int:
        """Return how old a memory must be under the chosen strategy; the dual mode waits until it can be archived."""
        if self.strategy == ConsolidationStrategyType.DUAL_MODE:
            return max(self.min_age_days, self.archival.age_threshold_days)
        return self.min_age_days

    @property
    def selection_threshold(self) -> int:
        """Return the least group size that counts under the chosen strategy."""
        if self.strategy == ConsolidationStrategyType.LLM:
            return (self.llm or LLMConsolidationConfig()).group_threshold
        return self.group_threshold
