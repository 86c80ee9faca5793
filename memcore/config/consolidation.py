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
    """Configure the maintenance runs of an agent.

    Attributes:
        enabled: the kill switch; false stops retention, consolidation and the limit of memories.
        interval: how often maintenance is due; wins over ``options.consolidation_interval``.
        max_memories_per_agent: the most memories of an agent; maintenance removes those above it. Wins over
            ``options.max_memories_per_agent``.
        retention: how long memories are kept.
        archival: which removed memories are archived, and how dense and sparse texts are treated.
        experience_compressor: how raw experience becomes compressed experience.
        wiki_export: how experience is exported as files.
        strategy: how a group of memories becomes a summary; also the name of a strategy that an installed package
            registers. Left out, it is ``dual_mode`` where ``archival.dual_mode.enabled`` is true.
        categories: the categories whose memories may be replaced by summaries; never ``working``, because a working
            memory ends with its task.
        min_age_days: the least age of a memory that is consolidated; 0 takes all.
        group_threshold: the fewest memories of a category that are merged; ``llm`` has a threshold of its own.
        group_max_entries: the most memories behind one summary.
        group_max_tokens: the most tokens behind one summary.
        max_removed_fraction: the share of an agent's memories above which a run waits for the approval of a person.
        max_removed_floor: a run that removes at most this many memories never waits for approval.
        journal_days: days in which a run can be undone.
        restored_hold_days: days in which restored memories are not removed again.
        condense: limits of the ``condense`` strategy.
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
        ConsolidationStrategyType | NotBlankStr, Added("the reference chooses the strategy in code, not in a file")
    ] = Field(default=ConsolidationStrategyType.CONDENSE, union_mode="left_to_right")
    categories: Annotated[
        tuple[MemoryCategory, ...],
        Added("a summary loses words; facts, skills and people must not lose words unless somebody asks for it"),
    ] = Field(default=(MemoryCategory.EPISODIC,), min_length=1)
    min_age_days: Annotated[int, Added("recent memories are still in use and must not change")] = Field(default=7, ge=0)
    group_threshold: Annotated[int, Added("a small group is not worth a summary")] = Field(default=3, ge=2)
    group_max_entries: Annotated[int, Added("a summary of too many entries says nothing about any of them")] = Field(
        default=20, ge=2
    )
    group_max_tokens: Annotated[int, Added("a summary of a very long text loses most of it")] = Field(
        default=2000, ge=100
    )
    max_removed_fraction: Annotated[
        float, Added("the removal guard: a run that would remove a larger share waits for the approval of a person")
    ] = Field(default=0.5, gt=0.0, le=1.0)
    max_removed_floor: Annotated[int, Added("keeps the removal guard from stopping every run of a small agent")] = (
        Field(default=20, ge=0)
    )
    journal_days: Annotated[int, Added("`memtend runs undo` needs the journal of the run")] = Field(default=7, ge=1)
    restored_hold_days: Annotated[int, Added("the next run would otherwise remove again what was restored")] = Field(
        default=1, ge=0
    )
    condense: Annotated[
        CondenseConfig, Added("the defaults are the best measured values (docs/benchmarks/2026-11.md)")
    ] = CondenseConfig()
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
