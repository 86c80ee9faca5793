"""How long a memory may stay: the company's and the agent's rules, turned into filters that the store applies.

Of four rules the first that exists decides, per category: the agent's for the category, the company's for the
category, the agent's default, the company's default; without any a memory stays for ever. Beside that, a memory's
own ``expires_at`` always counts. A rule is the operator's word and wins over a pin; only the hold on memories that
an undo has just brought back is stronger, and it ends.
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
    """Name the memories whose own ``expires_at`` has come."""
    return Where(agent_id=agent_id, expires_by=now, without_ids=protected_by_undo)


def aged_filters(
    agent_id: str, retention_cutoffs: Mapping[MemoryCategory, datetime], *, protected_by_undo: frozenset[str]
) -> dict[MemoryCategory, Where]:
    """Name the memories that are older than their category may be, one filter a category."""
    return {
        category: Where(
            agent_id=agent_id, categories=frozenset({category}), created_before=cutoff, without_ids=protected_by_undo
        )
        for category, cutoff in retention_cutoffs.items()
    }


def aged_together(
    agent_id: str, retention_cutoffs: Mapping[MemoryCategory, datetime], *, protected_by_undo: frozenset[str]
) -> tuple[Where, ...]:
    """Name the same memories with as few filters as there are cutoffs, to be counted."""
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
    """How long each may be silent; None waits for its end for ever.

    Attributes:
        session: since the last memory that was stored in it.
        project: the same.
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
    """What applies to an agent.

    Attributes:
        keep_days: per category, None for ever.
        max_memories: the most it may have.
        level: how long its memories live.
        timeouts: when its sessions and projects are over.
        working_timeout: when its working memories are; None where a retention rule for them says so instead.
    """

    keep_days: Mapping[MemoryCategory, int | None]
    max_memories: int
    level: MemoryLevel
    timeouts: Timeouts
    working_timeout: timedelta | None

    @classmethod
    def of(cls, agent: Agent | None, policy: ConsolidationConfig, *, level: MemoryLevel, timeouts: Timeouts) -> Self:
        """Resolve an agent's terms; an agent that nobody registered has the company's."""
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


# A working memory lives as long as its task, every other one as long as its agent's level says. What ends takes the
# memories that were made in it and were to live no longer: the end of a task the working ones; the end of a session
# the
# working ones, and all of them at level session; the end of a project the working ones, and all of them at the levels
# session and project. At level persistent nothing but working memory ends.

#: Levels at which an end takes every memory made in what ends; at the others it takes the working ones.
ENDED_LEVELS: Mapping[EndKind, frozenset[MemoryLevel]] = MappingProxyType(
    {
        "end_session": frozenset({MemoryLevel.SESSION}),
        "end_project": frozenset({MemoryLevel.SESSION, MemoryLevel.PROJECT}),
        "end_task": frozenset(),
    }
)

#: The field of a memory's lineage that names it.
_FIELDS: Mapping[EndKind, Scope] = MappingProxyType(
    {"end_session": "session_id", "end_project": "project_id", "end_task": "task_id"}
)

#: Filters end before their time, and what was stored at that very moment goes too.
MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedScopes:
    """What a run finds over: per session and project, the time before which what was made in it goes."""

    sessions: Mapping[str, datetime] = field(default_factory=dict)
    projects: Mapping[str, datetime] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is over."""
        return bool(self.sessions or self.projects)

    def filters(self, agent_id: str, *, protected_by_undo: frozenset[str]) -> Iterator[Where]:
        """Yield what goes, one filter for each session and project."""
        for session_id, before in self.sessions.items():
            yield Where(agent_id=agent_id, session_id=session_id, created_before=before, without_ids=protected_by_undo)
        for project_id, before in self.projects.items():
            yield Where(agent_id=agent_id, project_id=project_id, created_before=before, without_ids=protected_by_undo)

    def takes(self, record: MemoryRecord) -> bool:
        """Return whether one of the filters matches a memory that is not held."""
        made, lineage = record.entry.created_at, record.lineage
        return _ends(self.sessions, lineage.session_id, made) or _ends(self.projects, lineage.project_id, made)


#: A company whose memories stay: nothing is over.
NOTHING_ENDED = EndedScopes()


async def find_ended_scopes(snapshot: "AgentSnapshot") -> EndedScopes:
    """Look for sessions and projects that were ended, or have been silent for too long, and still have memories.

    What was stored late, after its session's end had run, is found here too. The store itself gathers and counts: an
    agent of whose sessions none is over costs a few calls, however many memories it has.
    """
    timeouts = snapshot.terms.timeouts
    return EndedScopes(
        sessions=await _ended_scopes(snapshot, "end_session", timeouts.session),
        projects=await _ended_scopes(snapshot, "end_project", timeouts.project),
    )


def end_filter(snapshot: "AgentSnapshot", kind: EndKind, scope_id: str, *, at: datetime) -> Where:
    """Name what goes with an end that was asked for at a time: what was made later stays."""
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
        # What is old first: an agent that began a moment ago has nothing of the kind.
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
    """Decide what consolidation may take at a moment.

    Attributes:
        now: the moment.
        categories: memories of others stay as they are.
        min_age_days: younger memories are left alone.
        level: the agent's level. Ending a session removes a session-level agent's memories of it, so one that still
            names a session belongs to an open one and is left alone; at other levels the least age stands for that.
        retention_cutoffs: what retention would remove is not summarised first.
        protected_by_undo: ids that an undo has just brought back.
        ended_scopes: what goes with its session or project is not summarised first.
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
            # A lesson would lose its form, and what is known about it; pruning keeps them few.
            lessons=False if category is MemoryCategory.PROCEDURAL else None,
            outside="session_id" if self.level is MemoryLevel.SESSION else None,
        )

    def allows(self, record: MemoryRecord) -> bool:
        """Return whether a match may be taken, by what the store cannot filter."""
        expires_at = record.entry.expires_at
        if expires_at is not None and expires_at <= self.now:
            return False
        if self.ended_scopes.takes(record):
            return False
        return self.level is not MemoryLevel.SESSION or record.lineage.session_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiving:
    """Decide for one attempt what enforcement archives; what a summary replaces is archived always.

    What retention, an expiry or an end removes was to be deleted, and an archive that kept it would break that word.

    Attributes:
        config: whether anything is, and from which age.
        now: the attempt's moment.
    """

    config: ArchivalConfig
    now: datetime

    def mode_of(self, record: MemoryRecord) -> ArchivalMode | None:
        """Return the mode under which a memory over the limit is archived, or None when it is not."""
        return ArchivalMode.EXTRACTIVE if self.takes(record.entry.created_at) else None

    def takes(self, created_at: datetime) -> bool:
        """Return whether a memory of that time is archived when the limit takes it."""
        return self.config.enabled and created_at <= self.now - timedelta(days=self.config.age_threshold_days)
