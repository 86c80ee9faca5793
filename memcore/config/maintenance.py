"""Policy keys of maintenance: retention, consolidation, archival, pruning, the removal guard."""

from enum import StrEnum
from importlib.metadata import entry_points
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from memcore.models.base import MAX_DAYS, DataPath, Frozen, NotBlankStr
from memcore.models.memory import ConsolidationInterval, MemoryCategory


class RetentionRule(Frozen):
    """Keep the memories of one category for a number of days.

    Attributes:
        category: the category.
        retention_days: days until a memory of it expires.
    """

    category: MemoryCategory
    retention_days: int = Field(ge=1, le=MAX_DAYS)


def _one_rule_each(rules: tuple[RetentionRule, ...]) -> tuple[RetentionRule, ...]:
    seen: set[MemoryCategory] = set()
    for rule in rules:
        if rule.category in seen:
            raise ValueError(f"category {rule.category} has more than one rule")
        seen.add(rule.category)
    return rules


#: Rules of which no two name the same category.
RetentionRules = Annotated[tuple[RetentionRule, ...], AfterValidator(_one_rule_each)]


class RetentionConfig(Frozen):
    """Set the company's retention; an agent may have its own.

    Of these the first that exists decides: the agent's rule for the category, the company's rule for it, the agent's
    default, the company's default; without any a memory is kept for ever.

    Attributes:
        rules: the company's rules, at most one for a category.
        default_retention_days: the company's default for all other categories; None keeps memories for ever.
    """

    rules: RetentionRules = ()
    default_retention_days: int | None = Field(default=None, ge=1, le=MAX_DAYS)


class DualModeConfig(Frozen):
    """Keep the facts of dense texts word for word, and summarise sparse texts.

    Attributes:
        enabled: whether ``dual_mode`` may run; needs summarization_model.
        dense_threshold: the score from which a text is dense; 0.0 makes all texts dense, 1.0 makes all sparse.
        summarization_model: the model that writes the summaries; a cheap model suffices.
        max_summary_tokens: the most tokens of a summary.
        max_facts: the most facts that are kept of a dense text.
        anchor_length: the characters that are kept at the start, the middle and the end of a dense text.
    """

    enabled: bool = False
    dense_threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    summarization_model: NotBlankStr | None = None
    max_summary_tokens: int = Field(default=200, ge=50, le=1000)
    max_facts: int = Field(default=20, ge=1, le=100)
    anchor_length: int = Field(default=150, ge=50, le=500)

    @model_validator(mode="after")
    def _model_when_enabled(self) -> Self:
        if self.enabled and self.summarization_model is None:
            raise ValueError("summarization_model must be set when enabled is true")
        return self


class ArchivalConfig(Frozen):
    """Bound the archive, where everything goes that a summary replaces or the limit removes.

    Attributes:
        enabled: no effect: such memories are always archived; a file of the reference may name it.
        age_threshold_days: the least age of a memory that ``dual_mode`` consolidates.
        keep_days: days for which the archive keeps a memory; None keeps it for ever.
        dual_mode: how dense and sparse texts are treated.
    """

    enabled: bool = False
    age_threshold_days: int = Field(default=90, ge=1, le=MAX_DAYS)
    keep_days: int | None = Field(default=None, ge=1, le=MAX_DAYS)
    dual_mode: DualModeConfig = DualModeConfig()


class CondenseConfig(Frozen):
    """Bound the summaries of the ``condense`` strategy.

    Attributes:
        keep_share: the bytes of a summary, as a share of the bytes of its memories.
        target_tokens: the most tokens of the memories behind one summary, unless two memories have more.
    """

    keep_share: float = Field(default=0.5, gt=0.0, lt=1.0)
    target_tokens: int = Field(default=800, ge=50)


class GateConfig(Frozen):
    """Let a lossy summary replace memories only if the agent's prompts still answer what they answered.

    Attributes:
        enabled: whether summaries are judged; ``dedupe`` loses nothing, so it never is.
        max_loss: the share of a group's answered questions that its summary may lose; a group that loses more stays.
        prompt_tokens: the tokens of the agent's prompts that are for memories.
        ask_model: whether the model that writes a summary is asked for questions on its originals too. Their texts are
            sent once more, so nearly twice the tokens are read.
    """

    enabled: bool = True
    max_loss: float = Field(default=0.02, ge=0.0, le=1.0)
    prompt_tokens: int = Field(default=1000, ge=50)
    ask_model: bool = False


class LLMConsolidationConfig(Frozen):
    """Bound what one summary by a language model sends and receives.

    Attributes:
        group_threshold: the fewest memories in a group; of two, one would be merged with nothing.
        temperature: the sampling temperature.
        max_summary_tokens: the most tokens of a summary.
        include_distillation_context: whether the model sees recent trajectories.
        max_trajectory_context_entries: the most trajectories that it sees.
        max_trajectory_chars_per_entry: the most characters of each trajectory.
        max_entry_input_chars: the most characters of each memory; not above max_total_user_content_chars.
        max_total_user_content_chars: the most characters of all memories together.
        fallback_truncate_length: the characters of each memory in a summary that is made without the model.
    """

    group_threshold: int = Field(default=3, ge=3)
    temperature: float = Field(default=0.3, ge=0.0, le=2.0)
    max_summary_tokens: int = Field(default=500, ge=50)
    include_distillation_context: bool = True
    max_trajectory_context_entries: int = Field(default=5, ge=1)
    max_trajectory_chars_per_entry: int = Field(default=500, ge=50)
    max_entry_input_chars: int = Field(default=2000, ge=100)
    max_total_user_content_chars: int = Field(default=20_000, ge=1000)
    fallback_truncate_length: int = Field(default=200, ge=50)

    @model_validator(mode="after")
    def _entry_within_total(self) -> Self:
        if self.max_entry_input_chars > self.max_total_user_content_chars:
            raise ValueError("max_entry_input_chars must not exceed max_total_user_content_chars")
        return self


class ExperienceCompressorConfig(Frozen):
    """Compress raw experience (tier 1) into what agents see (tier 2).

    Attributes:
        enabled: whether raw experience is compressed; it is recorded in any case.
        model: the model that compresses; None takes ``memory.llm.model``.
        temperature: the sampling temperature.
        max_tokens: the most tokens of an answer.
        min_compression_ratio: the least share of the text that a compression must leave out; a smaller one is dropped.
            0.0 keeps all.
    """

    enabled: bool = False
    model: NotBlankStr | None = None
    temperature: float = Field(default=0.3, ge=0.0, le=1.0)
    max_tokens: int = Field(default=1000, ge=100, le=4000)
    min_compression_ratio: float = Field(default=0.0, ge=0.0, lt=1.0)


class SearchNotesConfig(Frozen):
    """Let a language model write words by which memories are found when they are asked for in other words.

    Attributes:
        enabled: whether memories without search notes get some after each maintenance run.
        model: the model that writes them; None takes ``memory.llm.model``. Another model writes all anew.
        temperature: the sampling temperature.
        max_tokens: the most tokens of an answer.
    """

    enabled: bool = False
    model: NotBlankStr | None = None
    temperature: float = Field(default=0.3, ge=0.0, le=1.0)
    max_tokens: int = Field(default=200, ge=100, le=1000)


class ChangesConfig(Frozen):
    """Let a language model say which memories newer ones replaced, where both are alike in other words.

    Attributes:
        enabled: whether memories are compared with older ones after each maintenance run.
        model: the model that compares them; None takes ``memory.llm.model``. Another model compares all anew.
        temperature: the sampling temperature.
        max_tokens: the most tokens of an answer.
    """

    enabled: bool = False
    model: NotBlankStr | None = None
    temperature: float = Field(default=0.0, ge=0.0, le=1.0)
    max_tokens: int = Field(default=100, ge=50, le=1000)


class WikiExportConfig(Frozen):
    """Export experience as Markdown files.

    Attributes:
        enabled: whether files are written.
        export_root: the folder of the files; a relative path begins at the data folder.
        trigger: when files are written: after each consolidation, or by hand.
        include_raw_tier: whether ``raw/`` is written.
        include_compressed_tier: whether ``wiki/`` is written.
        max_entries_per_view: the most files in a folder; None writes all.
    """

    enabled: bool = False
    export_root: DataPath = "/data/wiki"
    trigger: Literal["on_consolidation", "manual"] = "manual"
    include_raw_tier: bool = True
    include_compressed_tier: bool = True
    max_entries_per_view: int | None = Field(default=None, ge=1, le=1000)


#: Entry points of this group name strategies that other packages bring.
STRATEGY_GROUP = "memtend.consolidation"


class ConsolidationStrategyType(StrEnum):
    """How a group of memories becomes one.

    ``dedupe`` merges memories that say the same, word for word, and loses nothing. The others write summaries, which
    lose words: ``condense`` keeps the sentences that tell most, ``simple`` joins the memories' beginnings,
    ``dual_mode`` preserves dense and summarises chatty texts, ``llm`` has a model write the summary. ``none`` leaves
    memories alone while retention and the limit of memories go on.
    """

    NONE = "none"
    DEDUPE = "dedupe"
    CONDENSE = "condense"
    SIMPLE = "simple"
    DUAL_MODE = "dual_mode"
    LLM = "llm"


#: Strategies that ask a model.
ASKING_STRATEGIES = frozenset({ConsolidationStrategyType.DUAL_MODE, ConsolidationStrategyType.LLM})


class ConsolidationApply(StrEnum):
    """What a run does with the groups that its strategy would merge.

    ``auto`` merges them, under the removal guard. ``propose`` shows them to a person, who decides group by group.
    """

    AUTO = "auto"
    PROPOSE = "propose"


class ConsolidationConfig(Frozen):
    """Configure the maintenance runs of an agent.

    Attributes:
        enabled: the kill switch; false stops retention, consolidation and the limit of memories.
        interval: how often maintenance is due; wins over ``options.consolidation_interval``.
        max_memories_per_agent: the most memories of an agent; maintenance removes those above it. Wins over
            ``options.max_memories_per_agent``.
        retention: how long memories are kept.
        archival: how long the archive keeps memories, and how dense and sparse texts are treated.
        experience_compressor: how raw experience becomes compressed experience.
        search_notes: how memories get words by which they are found too.
        changes: how memories that newer ones replaced are noticed.
        wiki_export: how experience is exported as files.
        strategy: how a group of memories becomes one; also the name of a strategy that an installed package
            registers. Left out, it is ``dual_mode`` where ``archival.dual_mode.enabled`` is true.
        apply: ``auto`` merges; ``propose`` waits, with the limit of memories, until a person has decided about each
            group. Retention never waits.
        categories: the categories whose memories are consolidated; never ``working``, because a working memory ends
            with its task. Left out, it is all of them for ``dedupe``, ``episodic`` for the others.
        min_age_days: the least age of a memory that is consolidated; 0 takes all.
        group_threshold: the fewest memories of a category that are merged; ``llm`` and ``dedupe`` have their own.
        group_max_entries: the most memories behind one summary.
        group_max_tokens: the most tokens behind one summary.
        min_new: the fewest new memories that a model is asked about: an agent with fewer since its last run is not
            consolidated. Strategies without a model take no notice; 0 asks every time.
        max_tokens_per_run: the most tokens of the memories that one run shows to a model, an estimate; the other groups
            wait for the next run, and one group is asked about in any case. Instructions and answers come on top. None
            sets no cap.
        max_removed_fraction: the share of what retention leaves of an agent's memories: a run that would merge and
            evict more waits for the approval of a person. Retention never waits.
        max_removed_floor: a run that would merge and evict at most this many memories never waits for approval.
        first_runs_fraction: the share of what retention leaves that a scheduled run merges and evicts where it would
            wait for approval, as long as all runs of its agent were such first ones: after an import. Not below
            max_removed_floor; 0 lets the first runs wait like all others.
        journal_days: days in which a run can be undone.
        restored_hold_days: days in which restored memories are not removed again.
        gate: what a summary must not lose.
        condense: limits of the ``condense`` strategy.
        llm: limits of the ``llm`` strategy; None takes their defaults.
    """

    enabled: bool = True
    interval: ConsolidationInterval = ConsolidationInterval.DAILY
    max_memories_per_agent: int = Field(default=10_000, ge=1)
    retention: RetentionConfig = RetentionConfig()
    archival: ArchivalConfig = ArchivalConfig()
    experience_compressor: ExperienceCompressorConfig = ExperienceCompressorConfig()
    search_notes: SearchNotesConfig = SearchNotesConfig()
    changes: ChangesConfig = ChangesConfig()
    wiki_export: WikiExportConfig = WikiExportConfig()
    strategy: ConsolidationStrategyType | NotBlankStr = Field(
        default=ConsolidationStrategyType.DEDUPE, union_mode="left_to_right"
    )
    apply: ConsolidationApply = ConsolidationApply.AUTO
    categories: tuple[MemoryCategory, ...] | None = Field(default=None, min_length=1)
    min_age_days: int = Field(default=7, ge=0, le=MAX_DAYS)
    group_threshold: int = Field(default=3, ge=2)
    group_max_entries: int = Field(default=20, ge=2)
    group_max_tokens: int = Field(default=2000, ge=100)
    min_new: int = Field(default=3, ge=0)
    # Some fifty groups, half of the default budget of a day.
    max_tokens_per_run: int | None = Field(default=100_000, ge=100)
    max_removed_fraction: float = Field(default=0.5, gt=0.0, le=1.0)
    max_removed_floor: int = Field(default=20, ge=0)
    first_runs_fraction: float = Field(default=0.1, ge=0.0, le=1.0)
    journal_days: int = Field(default=7, ge=1, le=MAX_DAYS)
    restored_hold_days: int = Field(default=1, ge=0, le=MAX_DAYS)
    gate: GateConfig = GateConfig()
    condense: CondenseConfig = CondenseConfig()
    llm: LLMConsolidationConfig | None = None

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
            # The model is still being built. Not marked as given: the person did not name it.
            vars(self)["strategy"] = ConsolidationStrategyType.DUAL_MODE
        return self

    @field_validator("categories")
    @classmethod
    def _can_be_summarised(cls, categories: tuple[MemoryCategory, ...] | None) -> tuple[MemoryCategory, ...] | None:
        if categories is None:
            return None
        if MemoryCategory.WORKING in categories:
            raise ValueError("must not name working, whose memories end with their task")
        return tuple(dict.fromkeys(categories))


class PruningConfig(Frozen):
    """Bound the number and the age of an agent's procedural memories.

    Attributes:
        type: ``ttl`` forgets by age, ``pareto`` by relevance and recency, ``hybrid`` by both in this order.
        max_age_days: the age from which ``ttl`` forgets.
        max_entries: the number of memories that ``pareto`` keeps.
    """

    type: Literal["ttl", "pareto", "hybrid"] = "ttl"
    max_age_days: int = Field(default=90, ge=1, le=MAX_DAYS)
    max_entries: int = Field(default=100, ge=1)


class RecordsConfig(Frozen):
    """Set for how long it is known what happened; no term is shorter than what an undo or a text needs.

    What ends when, table by table: docs/reference/files.md.

    Attributes:
        explained_days: days for which maintenance runs, and what was removed, are known: ``memtend why``, ``memtend
            runs``. At least ``consolidation.journal_days``. For those alone it is known what ended with a session,
            project or task, and which run removed or changed a single memory.
        replaced_days: days for which the id of a memory that was changed or merged leads to what replaced it. At least
            ``explained_days``.
        history_days: days for which mem0's history has the rows of a memory that was removed; they have no text. At
            most ``consolidation.journal_days``. Of all companies the shortest counts: the rows name none.
        session_days: days for which the turns of a conversation are known behind the end of its session, without their
            text, at least ``conversation.transcript_hours``: a turn that is sent again within them is not read twice.
            Ends of sessions and tasks that removed nothing are known for so long, too: a memory that comes later
            waits for a time limit of ``options``.
        usage_days: days for which the calls of language models, and what they cost, are kept.
        audit_days: days for which the audit is kept.
        experience_days: days for which raw experience is kept once a model has looked at it.
    """

    explained_days: int = Field(default=30, ge=1, le=MAX_DAYS)
    replaced_days: int = Field(default=400, ge=1, le=MAX_DAYS)
    history_days: int = Field(default=1, ge=1, le=MAX_DAYS)
    session_days: int = Field(default=1, ge=1, le=MAX_DAYS)
    usage_days: int = Field(default=400, ge=1, le=MAX_DAYS)
    audit_days: int = Field(default=400, ge=1, le=MAX_DAYS)
    experience_days: int = Field(default=400, ge=1, le=MAX_DAYS)
