"""Rules of maintenance as filters of the store: retention, ended scopes, eligibility and archiving.

Per category, the first retention rule that exists decides: the agent's for the category, the company's for the
category, the agent's default, the company's default. Without any, a memory stays for ever. A memory's own
``expires_at`` always counts. A rule wins over a pin; only the temporary hold on memories that an undo has just
brought back is stronger.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, RetentionConfig
from memcore.config.memory import MemoryOptionsConfig
from memcore.errors import MemoryInputError
from memcore.ledger.agents import Agent
from memcore.ledger.runs import EndKind
from memcore.models.archival import ArchivalMode
from memcore.models.memory import (
    PROTECTED_FROM_CONSOLIDATION,
    MemoryCategory,
    MemoryEntry,
    MemoryLevel,
)
from memcore.records import MemoryRecord, Scope, Where

if TYPE_CHECKING:
    from memcore.maintenance.context import AgentSnapshot

_NO_OVERRIDES: Mapping[MemoryCategory, int] = MappingProxyType({})


def resolve_days(
    config: RetentionConfig,
    *,
    agent_days: int | None = None,
    agent_overrides: Mapping[MemoryCategory, int] = _NO_OVERRIDES,
) -> dict[MemoryCategory, int | None]:
    """Return how many days each category is kept for an agent; None keeps for ever.

    Raises:
        MemoryInputError: one of the agent's own values lies below 1 day.
    """
    if agent_days is not None and agent_days < 1:
        raise MemoryInputError("retention_days", f"is {agent_days}; the least is 1 day")
    for category, days in agent_overrides.items():
        if days < 1:
            raise MemoryInputError(f"retention_overrides.{category}", f"is {days}; the least is 1 day")
    company = {rule.category: rule.retention_days for rule in config.rules}
    return {
        category: _first(
            agent_overrides.get(category), company.get(category), agent_days, config.default_retention_days
        )
        for category in MemoryCategory
    }


def _first(*days: int | None) -> int | None:
    return next((value for value in days if value is not None), None)


def retention_cutoffs(keep_days: Mapping[MemoryCategory, int | None], now: datetime) -> dict[MemoryCategory, datetime]:
    """Return, for each category that has a rule, the time before which a memory is too old."""
    return {category: now - timedelta(days=days) for category, days in keep_days.items() if days is not None}


def is_old(entry: MemoryEntry, retention_cutoffs: Mapping[MemoryCategory, datetime], now: datetime) -> bool:
    """Return whether retention removes a memory for its age or its own expiry."""
    cutoff = retention_cutoffs.get(entry.category)
    return (cutoff is not None and entry.created_at < cutoff) or (
        entry.expires_at is not None and entry.expires_at <= now
    )


def expired_filter(agent_id: str, now: datetime, *, protected_by_undo: frozenset[str]) -> Where:
    """Return the filter for memories whose own ``expires_at`` has come."""
    return Where(agent_id=agent_id, expires_by=now, without_ids=protected_by_undo)


def aged_filters(
    agent_id: str, retention_cutoffs: Mapping[MemoryCategory, datetime], *, protected_by_undo: frozenset[str]
) -> dict[MemoryCategory, Where]:
    """Return the filters for memories that are too old, one per category."""
    return {
        category: Where(
            agent_id=agent_id, categories=frozenset({category}), created_before=cutoff, without_ids=protected_by_undo
        )
        for category, cutoff in retention_cutoffs.items()
    }


def aged_together(
    agent_id: str, retention_cutoffs: Mapping[MemoryCategory, datetime], *, protected_by_undo: frozenset[str]
) -> tuple[Where, ...]:
    """Return the same memories in one filter per cutoff, for counting."""
    return tuple(
        Where(
            agent_id=agent_id,
            categories=frozenset(category for category in retention_cutoffs if retention_cutoffs[category] == cutoff),
            created_before=cutoff,
            without_ids=protected_by_undo,
        )
        for cutoff in sorted(set(retention_cutoffs.values()))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The silence after which a scope ends; None means never.

    Attributes:
        session: since the last memory that was stored in it.
        project: since the last memory that was stored in it.
        task: since each working memory was stored.
    """

    session: timedelta | None = None
    project: timedelta | None = None
    task: timedelta | None = None

    @classmethod
    def of(cls, options: MemoryOptionsConfig) -> Self:
        """Return what the policy says."""
        return cls(
            session=_hours(options.session_timeout_hours),
            project=_hours(options.project_timeout_hours),
            task=_hours(options.task_timeout_hours),
        )


def _hours(count: int | None) -> timedelta | None:
    return None if count is None else timedelta(hours=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """The rules that apply to an agent.

    Attributes:
        keep_days: days per category; None keeps for ever.
        max_memories: the most memories it may have.
        level: how long its memories live.
        timeouts: when its sessions and projects end.
        working_timeout: when its working memories end; None where a retention rule decides instead.
    """

    keep_days: Mapping[MemoryCategory, int | None]
    max_memories: int
    level: MemoryLevel
    timeouts: Timeouts
    working_timeout: timedelta | None

    @classmethod
    def of(cls, agent: Agent | None, policy: ConsolidationConfig, *, level: MemoryLevel, timeouts: Timeouts) -> Self:
        """Resolve an agent's rules; an agent that is not registered has the company's."""
        ruled = {rule.category for rule in policy.retention.rules} | set(agent.retention_overrides if agent else ())
        working_timeout = None if MemoryCategory.WORKING in ruled else timeouts.task
        if agent is None:
            return cls(
                keep_days=resolve_days(policy.retention),
                max_memories=policy.max_memories_per_agent,
                level=level,
                timeouts=timeouts,
                working_timeout=working_timeout,
            )
        return cls(
            keep_days=resolve_days(
                policy.retention, agent_days=agent.retention_days, agent_overrides=agent.retention_overrides
            ),
            max_memories=policy.max_memories_per_agent if agent.max_memories is None else agent.max_memories,
            level=level if agent.level is None else agent.level,
            timeouts=timeouts,
            working_timeout=working_timeout,
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

    def __bool__(self) -> bool:
        """Whether any scope has ended."""
        return bool(self.sessions or self.projects)

    def filters(self, agent_id: str, *, protected_by_undo: frozenset[str]) -> Iterator[Where]:
        """Yield one filter for each session and project."""
        for session_id, before in self.sessions.items():
            yield Where(agent_id=agent_id, session_id=session_id, created_before=before, without_ids=protected_by_undo)
        for project_id, before in self.projects.items():
            yield Where(agent_id=agent_id, project_id=project_id, created_before=before, without_ids=protected_by_undo)

    def takes(self, record: MemoryRecord) -> bool:
        """Return whether one of the filters matches a memory that is under no hold."""
        made, lineage = record.entry.created_at, record.lineage
        return _ends(self.sessions, lineage.session_id, made) or _ends(self.projects, lineage.project_id, made)


#: No scope has ended.
NOTHING_ENDED = EndedScopes()


async def find_ended_scopes(snapshot: "AgentSnapshot") -> EndedScopes:
    """Return the sessions and projects that were ended, or silent for too long, and still have memories.

    So memories that were stored after the run of their session's end are found too. The store collects and counts: an
    agent without an ended session costs a few calls, however many memories it has.
    """
    timeouts = snapshot.terms.timeouts
    return EndedScopes(
        sessions=await _ended_scopes(snapshot, "end_session", timeouts.session),
        projects=await _ended_scopes(snapshot, "end_project", timeouts.project),
    )


def end_filter(snapshot: "AgentSnapshot", kind: EndKind, scope_id: str, *, at: datetime) -> Where:
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


async def _ended_scopes(snapshot: "AgentSnapshot", kind: EndKind, silence: timedelta | None) -> Mapping[str, datetime]:
    if snapshot.terms.level not in ENDED_LEVELS[kind]:
        return {}
    field_name, mine = _FIELDS[kind], Where(agent_id=snapshot.agent_id, without_ids=snapshot.protected_by_undo)
    known = await snapshot.backend.scopes(mine, field_name)
    found: dict[str, datetime] = {}
    if known and silence is not None:
        heard_since = snapshot.now - silence + MOMENT
        # Old memories first: a new agent has none.
        if old := await snapshot.backend.scopes(mine.model_copy(update={"created_before": heard_since}), field_name):
            heard = await snapshot.backend.scopes(mine.model_copy(update={"created_since": heard_since}), field_name)
            found = dict.fromkeys(sorted(old - heard), heard_since)
    ended = snapshot.ended(kind, known - found.keys()) if known else {}
    for scope_id, at in sorted(ended.items()):
        before = at + MOMENT
        if await snapshot.backend.count_where(mine.model_copy(update={field_name: scope_id, "created_before": before})):
            found[scope_id] = before
    return found


def _ends(found: Mapping[str, datetime], scope_id: str | None, made: datetime) -> bool:
    return scope_id is not None and scope_id in found and made < found[scope_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """The rule which memories consolidation may take at a moment.

    Attributes:
        now: the moment.
        categories: memories of other categories stay as they are.
        min_age_days: younger memories stay as they are.
        level: the agent's level. At level session the end of a session removes its memories, so one that still names
            a session belongs to an open one and stays; at other levels the least age decides.
        retention_cutoffs: memories that retention would remove are not summarised first.
        protected_by_undo: ids that an undo has just brought back.
        ended_scopes: memories that end with their session or project are not summarised first.
    """

    now: datetime
    categories: tuple[MemoryCategory, ...]
    min_age_days: int
    level: MemoryLevel
    retention_cutoffs: Mapping[MemoryCategory, datetime]
    protected_by_undo: frozenset[str]
    ended_scopes: EndedScopes = NOTHING_ENDED

    def where(self, agent_id: str, category: MemoryCategory) -> Where | None:
        """Return the filter for one category, or None when nothing of it can be taken."""
        newest = self.now - timedelta(days=self.min_age_days)
        oldest = self.retention_cutoffs.get(category)
        if category not in self.categories or (oldest is not None and oldest >= newest):
            return None
        return Where(
            agent_id=agent_id,
            categories=frozenset({category}),
            without_tags=PROTECTED_FROM_CONSOLIDATION,
            created_before=newest,
            created_since=oldest,
            without_ids=self.protected_by_undo,
            # A lesson would lose its form and its outcomes; pruning keeps lessons few.
            lessons=False if category is MemoryCategory.PROCEDURAL else None,
            outside="session_id" if self.level is MemoryLevel.SESSION else None,
        )

    def allows(self, record: MemoryRecord) -> bool:
        """Return whether a match may be taken, by the conditions that the store cannot filter."""
        expires_at = record.entry.expires_at
        if expires_at is not None and expires_at <= self.now:
            return False
        if self.ended_scopes.takes(record):
            return False
        return self.level is not MemoryLevel.SESSION or record.lineage.session_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiving:
    """The rule which memories enforcement archives in one attempt; the sources of a summary are always archived.

    Memories that retention, an expiry or an end removes are not archived: they were to be deleted.

    Attributes:
        config: whether memories are archived, and from which age.
        now: the attempt's moment.
    """

    config: ArchivalConfig
    now: datetime

    def mode_of(self, record: MemoryRecord) -> ArchivalMode | None:
        """Return the mode under which a memory over the limit is archived, or None when it is not."""
        return ArchivalMode.EXTRACTIVE if self.takes(record.entry.created_at) else None

    def takes(self, created_at: datetime) -> bool:
        """Return whether enforcement archives a memory of that time."""
        return self.config.enabled and created_at <= self.now - timedelta(days=self.config.age_threshold_days)
