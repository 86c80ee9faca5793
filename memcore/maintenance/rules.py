"""Rules of maintenance as filters of the store, and the snapshot of an agent under them.

Per category, the first retention rule that exists decides: the agent's for the category, the company's for the
category, the agent's default, the company's default. Without any, a memory stays for ever. A memory's own
``expires_at`` always counts. A rule wins over a pin; only the temporary hold on memories that an undo has just
brought back is stronger.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Self

from memcore.backends.protocol import BatchBackend
from memcore.config.maintenance import (
    ASKING_STRATEGIES,
    ConsolidationConfig,
    ConsolidationStrategyType,
    PruningConfig,
    RetentionConfig,
)
from memcore.config.memory import MemoryOptionsConfig
from memcore.errors import MemoryInputError
from memcore.ledger.agents import Agent
from memcore.ledger.erasure.hidden import Hidden
from memcore.ledger.journal import EntryReason
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import EndKind
from memcore.models.memory import (
    CONSOLIDATED_TAG,
    CORE_TAG,
    FALLBACK_TAG,
    PROTECTED_FROM_CONSOLIDATION,
    PROTECTED_FROM_ENFORCEMENT,
    MemoryCategory,
    MemoryEntry,
    MemoryLevel,
)
from memcore.models.origin import AUTHORITIES, Authority, Channel
from memcore.records import MemoryRecord, Scope, Where

_NO_OVERRIDES: Mapping[MemoryCategory, int] = MappingProxyType({})


def resolve_days(
    config: RetentionConfig,
    *,
    agent_days: int | None = None,
    agent_overrides: Mapping[MemoryCategory, int] = _NO_OVERRIDES,
) -> dict[MemoryCategory, int | None]:
    """Return how many days each category is kept for an agent; None keeps for ever.

    Raises MemoryInputError when one of the agent's own values lies below 1 day.
    """
    if agent_days is not None and agent_days < 1:
        raise MemoryInputError("retention_days", f"is {agent_days}; the least is 1 day")
    for category, days in agent_overrides.items():
        if days < 1:
            raise MemoryInputError(f"retention_overrides.{category}", f"is {days}; the least is 1 day")
    company = {rule.category: rule.retention_days for rule in config.rules}
    found: dict[MemoryCategory, int | None] = {}
    for category in MemoryCategory:
        rules = (agent_overrides.get(category), company.get(category), agent_days, config.default_retention_days)
        found[category] = next((days for days in rules if days is not None), None)
    return found


def is_old(entry: MemoryEntry, retention_cutoffs: Mapping[MemoryCategory, datetime], now: datetime) -> bool:
    """Return whether retention removes a memory for its age or its own expiry."""
    cutoff = retention_cutoffs.get(entry.category)
    return (cutoff is not None and entry.created_at < cutoff) or (
        entry.expires_at is not None and entry.expires_at <= now
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The silence after which a scope ends; None means never.

    That of a task counts since each working memory was stored, the others since the last memory of the scope.
    """

    session: timedelta | None = None
    project: timedelta | None = None
    task: timedelta | None = None

    @classmethod
    def of(cls, options: MemoryOptionsConfig) -> Self:
        """Return what the policy says."""
        hours = (options.session_timeout_hours, options.project_timeout_hours, options.task_timeout_hours)
        session, project, task = (None if count is None else timedelta(hours=count) for count in hours)
        return cls(session=session, project=project, task=task)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """The rules that apply to an agent; a category without a number of days is kept for ever.

    Its working memories end after ``working_timeout``; None where a retention rule decides instead.
    """

    keep_days: Mapping[MemoryCategory, int | None]
    max_memories: int
    level: MemoryLevel
    timeouts: Timeouts
    working_timeout: timedelta | None

    @classmethod
    def of(cls, agent: Agent | None, policy: ConsolidationConfig, *, level: MemoryLevel, timeouts: Timeouts) -> Self:
        """Resolve an agent's rules; an agent that is not registered has the company's."""
        overrides = agent.retention_overrides if agent else _NO_OVERRIDES
        ruled = {rule.category for rule in policy.retention.rules} | set(overrides)
        max_memories = agent.max_memories if agent else None
        return cls(
            keep_days=resolve_days(
                policy.retention, agent_days=agent.retention_days if agent else None, agent_overrides=overrides
            ),
            max_memories=policy.max_memories_per_agent if max_memories is None else max_memories,
            level=agent.level if agent and agent.level is not None else level,
            timeouts=timeouts,
            working_timeout=None if MemoryCategory.WORKING in ruled else timeouts.task,
        )


# A working memory lives as long as its task, every other one as long as its agent's level says. The end of a task, a
# session or a project removes the working memories made in it. At level session the end of a session or project removes
# all memories made in it; at level project the end of a project does. At level persistent only working memories end.

#: Levels at which an end removes every memory made in the scope; at the others it removes the working ones.
ENDED_LEVELS: Mapping[EndKind, frozenset[MemoryLevel]] = MappingProxyType(
    {
        "end_session": frozenset({MemoryLevel.SESSION}),
        "end_project": frozenset({MemoryLevel.SESSION, MemoryLevel.PROJECT}),
        "end_task": frozenset(),
    }
)

#: The field of a memory's lineage that names the scope.
_FIELDS: Mapping[EndKind, Scope] = MappingProxyType(
    {"end_session": "session_id", "end_project": "project_id", "end_task": "task_id"}
)

#: Filters exclude their end time, and a memory stored at that very moment goes too.
MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedScopes:
    """The sessions and projects that have ended, each with the time before which its memories go."""

    sessions: Mapping[str, datetime] = field(default_factory=dict)
    projects: Mapping[str, datetime] = field(default_factory=dict)

    def filters(self, mine: Where) -> Iterator[Where]:
        """Yield a filter for each session and project: what it matches of the agent's memories."""
        for field_name, found in (("session_id", self.sessions), ("project_id", self.projects)):
            for scope_id, before in found.items():
                yield mine.model_copy(update={field_name: scope_id, "created_before": before})

    def takes(self, record: MemoryRecord) -> bool:
        """Return whether a memory that is under no hold has ended with its session or project."""
        scopes = ((self.sessions, record.lineage.session_id), (self.projects, record.lineage.project_id))
        ends = (found.get(scope_id) for found, scope_id in scopes if scope_id is not None)
        return any(before is not None and record.entry.created_at < before for before in ends)


@dataclass(frozen=True, kw_only=True)
class AgentSnapshot:
    """An agent's memories and effective policy at one moment; all that planning needs.

    Attributes:
        now: one moment for the whole attempt: nothing becomes too old between two steps.
        protected_by_undo: ids that an undo has just brought back; no step touches them.
        ended_scopes: sessions and projects that have ended; a plan counts their memories, and pruned ones, as gone.
        core_tag: the tag of core memories, by the policy.
        authorities: the authority of each channel, by the policy.
        hidden: what no reader is shown.
    """

    company: str
    agent_id: str
    backend: BatchBackend
    ledger: Ledger
    policy: ConsolidationConfig
    terms: EffectivePolicy
    now: datetime
    protected_by_undo: frozenset[str]
    pruning: PruningConfig | None = None
    ended_scopes: EndedScopes = EndedScopes()
    pruned: frozenset[str] = frozenset()
    core_tag: str = CORE_TAG
    authorities: Mapping[Channel, Authority] = AUTHORITIES
    hidden: Hidden = field(default_factory=Hidden)

    @cached_property
    def unmerged_tags(self) -> tuple[str, ...]:
        """The tags of memories that consolidation leaves as they are."""
        return tuple(dict.fromkeys((*PROTECTED_FROM_CONSOLIDATION, self.core_tag)))

    @cached_property
    def kept_tags(self) -> tuple[str, ...]:
        """The tags of memories that a limit removes last, and pruning never."""
        return tuple(dict.fromkeys((*PROTECTED_FROM_ENFORCEMENT, self.core_tag)))

    @cached_property
    def free(self) -> Where:
        """The filter for all memories but those that an undo has just brought back."""
        return Where(agent_id=self.agent_id, without_ids=self.protected_by_undo)

    @cached_property
    def retention_cutoffs(self) -> dict[MemoryCategory, datetime]:
        """The time before which a memory is too old, for each category that has a rule or a time-out."""
        keep_days = self.terms.keep_days
        found = {each: self.now - timedelta(days=days) for each, days in keep_days.items() if days is not None}
        if self.terms.working_timeout is not None:
            silent = self.now - self.terms.working_timeout
            found[MemoryCategory.WORKING] = max(found.get(MemoryCategory.WORKING, silent), silent)
        return found

    @property
    def expired(self) -> Where:
        """The filter for memories whose own ``expires_at`` has come."""
        return self.free.model_copy(update={"expires_by": self.now})

    def due(self) -> list[tuple[EntryReason, Where]]:
        """Return every filter of retention: ended scopes, own expiries, then each category that has a rule."""
        aged = [
            self.free.model_copy(update={"categories": frozenset({category}), "created_before": cutoff})
            for category, cutoff in self.retention_cutoffs.items()
        ]
        return [
            *(("ended", where) for where in self.ended_scopes.filters(self.free)),
            ("expired", self.expired),
            *(("retention", where) for where in aged),
        ]

    @property
    def aged_together(self) -> Iterator[Where]:
        """The filters for memories that are too old, one per cutoff, for counting."""
        for cutoff in sorted(set(self.retention_cutoffs.values())):
            categories = frozenset(each for each, before in self.retention_cutoffs.items() if before == cutoff)
            yield self.free.model_copy(update={"categories": categories, "created_before": cutoff})

    def survives_retention(self, record: MemoryRecord) -> bool:
        """Return whether retention and pruning leave a memory that is under no hold."""
        is_gone = record.entry.id in self.pruned or is_old(record.entry, self.retention_cutoffs, self.now)
        return not (is_gone or self.ended_scopes.takes(record))

    @cached_property
    def merged_categories(self) -> tuple[MemoryCategory, ...]:
        """The categories whose memories are consolidated."""
        if self.policy.categories is not None:
            return self.policy.categories
        if self.policy.strategy == ConsolidationStrategyType.DEDUPE:
            return tuple(category for category in MemoryCategory if category is not MemoryCategory.WORKING)
        # A summary loses words: facts, skills and people keep theirs until somebody names them.
        return (MemoryCategory.EPISODIC,)

    def mergeable(self, category: MemoryCategory) -> Where | None:
        """Return the filter for what consolidation may take of a category; None when nothing of it can be taken.

        Memories that retention would remove are not summarised first.
        """
        least_age_days = self.policy.min_age_days
        if self.policy.strategy == ConsolidationStrategyType.DUAL_MODE:
            # It waits until a memory can be archived.
            least_age_days = max(least_age_days, self.policy.archival.age_threshold_days)
        newest = self.now - timedelta(days=least_age_days)
        oldest = self.retention_cutoffs.get(category)
        if category not in self.merged_categories or (oldest is not None and oldest >= newest):
            return None
        return Where(
            agent_id=self.agent_id,
            categories=frozenset({category}),
            without_tags=self.unmerged_tags,
            created_before=newest,
            created_since=oldest,
            without_ids=self.protected_by_undo,
            # A lesson would lose its form and its outcomes; pruning keeps lessons few.
            lessons=False if category is MemoryCategory.PROCEDURAL else None,
            # At level session the end of a session removes its memories: one that names a session is of an open one.
            outside="session_id" if self.terms.level is MemoryLevel.SESSION else None,
        )

    def fallbacks(self, category: MemoryCategory) -> Where | None:
        """Return the filter for the summaries of a category that were to be a model's, and may be replaced."""
        where = self.mergeable(category)
        if where is None or self.policy.strategy not in ASKING_STRATEGIES:
            return None
        kept = tuple(tag for tag in self.unmerged_tags if tag != CONSOLIDATED_TAG)
        return where.model_copy(update={"tags": (CONSOLIDATED_TAG, FALLBACK_TAG), "without_tags": kept})

    async def count_mergeable(self) -> int:
        """Return how many memories consolidation may take, by the conditions that the store can filter."""
        filters = filter(None, map(self.mergeable, self.merged_categories))
        return sum([await self.backend.count_where(where) for where in filters])

    def may_merge(self, record: MemoryRecord) -> bool:
        """Return whether a match may be merged, by the conditions that the store cannot filter."""
        expires_at = record.entry.expires_at
        if (expires_at is not None and expires_at <= self.now) or self.ended_scopes.takes(record):
            return False
        if self.hidden.keeps_unmerged(record.entry):
            return False
        if record.entry.attributes and self.policy.strategy != ConsolidationStrategyType.DEDUPE:
            # Somebody filters by them, and a summary has none.
            return False
        return self.terms.level is not MemoryLevel.SESSION or record.lineage.session_id is None


async def find_ended_scopes(snapshot: AgentSnapshot) -> EndedScopes:
    """Return the sessions and projects that were ended, or silent for too long, and still have memories.

    So memories that were stored after the run of their session's end are found too. The store collects and counts: an
    agent without an ended session costs a few calls, however many memories it has.
    """
    timeouts = snapshot.terms.timeouts
    return EndedScopes(
        sessions=await _ended_scopes(snapshot, "end_session", timeouts.session),
        projects=await _ended_scopes(snapshot, "end_project", timeouts.project),
    )


def end_filter(snapshot: AgentSnapshot, kind: EndKind, scope_id: str, *, at: datetime) -> Where:
    """Return the filter for an end that was requested at a time; memories made later stay."""
    everything = snapshot.terms.level in ENDED_LEVELS[kind]
    return Where(
        agent_id=snapshot.agent_id,
        categories=None if everything else frozenset({MemoryCategory.WORKING}),
        created_before=at + MOMENT,
        session_id=scope_id if kind == "end_session" else None,
        project_id=scope_id if kind == "end_project" else None,
        task_id=scope_id if kind == "end_task" else None,
    )


async def _ended_scopes(snapshot: AgentSnapshot, kind: EndKind, silence: timedelta | None) -> Mapping[str, datetime]:
    if snapshot.terms.level not in ENDED_LEVELS[kind]:
        return {}
    field_name, mine = _FIELDS[kind], snapshot.free
    known = await snapshot.backend.scopes(mine, field_name)
    found: dict[str, datetime] = {}
    if known and silence is not None:
        heard_since = snapshot.now - silence + MOMENT
        # Old memories first: a new agent has none.
        if old := await snapshot.backend.scopes(mine.model_copy(update={"created_before": heard_since}), field_name):
            heard = await snapshot.backend.scopes(mine.model_copy(update={"created_since": heard_since}), field_name)
            found = dict.fromkeys(sorted(old - heard), heard_since)
    runs = snapshot.ledger.runs
    ended = runs.ended(snapshot.company, snapshot.agent_id, kind, known - found.keys()) if known else {}
    for scope_id, at in sorted(ended.items()):
        before = at + MOMENT
        if await snapshot.backend.count_where(mine.model_copy(update={field_name: scope_id, "created_before": before})):
            found[scope_id] = before
    return found
