"""Sessions, projects and tasks that are over, and which memories go with them.

A working memory lives as long as its task, every other one as long as its agent's level says. What ends takes the
memories that were made in it and were to live no longer: the end of a task the working ones; the end of a session the
working ones, and all of them at level session; the end of a project the working ones, and all of them at the levels
session and project. At level persistent nothing but working memory ends.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from memcore.backends.record import MemoryRecord
from memcore.backends.where import Scope, Where
from memcore.ledger.run import EndKind
from memcore.models import MemoryCategory, MemoryLevel

if TYPE_CHECKING:
    from memcore.maintenance.attempt import View

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
class Over:
    """What a night finds over: per session and project, the time before which what was made in it goes."""

    sessions: Mapping[str, datetime] = field(default_factory=dict)
    projects: Mapping[str, datetime] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is over."""
        return bool(self.sessions or self.projects)

    def filters(self, agent_id: str, *, held: frozenset[str]) -> Iterator[Where]:
        """Yield what goes, one filter for each session and project."""
        for session_id, before in self.sessions.items():
            yield Where(agent_id=agent_id, session_id=session_id, created_before=before, without_ids=held)
        for project_id, before in self.projects.items():
            yield Where(agent_id=agent_id, project_id=project_id, created_before=before, without_ids=held)

    def takes(self, record: MemoryRecord) -> bool:
        """Return whether one of the filters matches a memory that is not held."""
        made, lineage = record.entry.created_at, record.lineage
        return _ends(self.sessions, lineage.session_id, made) or _ends(self.projects, lineage.project_id, made)


#: A company whose memories stay: nothing is over.
NOTHING_OVER = Over()


async def find_over(view: "View") -> Over:
    """Look for sessions and projects that were ended, or have been silent for too long, and still have memories.

    What was stored late, after its session's end had run, is found here too. The store itself gathers and counts: an
    agent of whose sessions none is over costs a few calls, however many memories it has.
    """
    timeouts = view.terms.timeouts
    return Over(
        sessions=await _over(view, "end_session", timeouts.session),
        projects=await _over(view, "end_project", timeouts.project),
    )


def end_filter(view: "View", kind: EndKind, scope_id: str, *, at: datetime) -> Where:
    """Name what goes with an end that was asked for at a time: what was made later stays."""
    everything = view.terms.level in ENDED_LEVELS[kind]
    return Where(
        agent_id=view.agent_id,
        categories=None if everything else frozenset({MemoryCategory.WORKING}),
        created_before=at + MOMENT,
        session_id=scope_id if kind == "end_session" else None,
        project_id=scope_id if kind == "end_project" else None,
        task_id=scope_id if kind == "end_task" else None,
    )


async def _over(view: "View", kind: EndKind, silence: timedelta | None) -> Mapping[str, datetime]:
    if view.terms.level not in ENDED_LEVELS[kind]:
        return {}
    field_name, mine = _FIELDS[kind], Where(agent_id=view.agent_id, without_ids=view.held)
    known = await view.backend.scopes(mine, field_name)
    found: dict[str, datetime] = {}
    if known and silence is not None:
        heard_since = view.now - silence + MOMENT
        # What is old first: an agent that began a moment ago has nothing of the kind.
        if old := await view.backend.scopes(mine.model_copy(update={"created_before": heard_since}), field_name):
            heard = await view.backend.scopes(mine.model_copy(update={"created_since": heard_since}), field_name)
            found = dict.fromkeys(sorted(old - heard), heard_since)
    ended = view.ended(kind, known - found.keys()) if known else {}
    for scope_id, at in sorted(ended.items()):
        before = at + MOMENT
        if await view.backend.count_where(mine.model_copy(update={field_name: scope_id, "created_before": before})):
            found[scope_id] = before
    return found


def _ends(found: Mapping[str, datetime], scope_id: str | None, made: datetime) -> bool:
    return scope_id is not None and scope_id in found and made < found[scope_id]
