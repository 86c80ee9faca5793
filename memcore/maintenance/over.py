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
from memcore.backends.where import Where
from memcore.ledger.run import EndKind
from memcore.maintenance.pages import pages
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
_FIELDS: Mapping[EndKind, str] = MappingProxyType(
    {"end_session": "session_id", "end_project": "project_id", "end_task": "task_id"}
)

#: Filters end before their time, and what was stored at that very moment goes too.
_MOMENT = timedelta(microseconds=1)


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

    What was stored late, after its session's end had run, is found here too.
    """
    kinds: tuple[EndKind, ...] = ("end_session", "end_project")
    spans: dict[EndKind, dict[str, tuple[datetime, datetime]]] = {
        kind: {} for kind in kinds if view.terms.level in ENDED_LEVELS[kind]
    }
    if not spans:
        return NOTHING_OVER
    async for page in pages(view.backend, Where(agent_id=view.agent_id, without_ids=view.held)):
        for record in page:
            for kind, found in spans.items():
                scope_id = getattr(record.lineage, _FIELDS[kind])
                if scope_id is not None:
                    made = record.entry.created_at
                    # Pages come oldest first: the first one seen begins the span, the last one ends it.
                    found[scope_id] = (found.get(scope_id, (made, made))[0], made)
    timeouts = view.terms.timeouts
    return Over(
        sessions=_over(view, "end_session", spans.get("end_session", {}), timeouts.session),
        projects=_over(view, "end_project", spans.get("end_project", {}), timeouts.project),
    )


def end_filter(view: "View", kind: EndKind, scope_id: str, *, at: datetime) -> Where:
    """Name what goes with an end that was asked for at a time: what was made later stays."""
    everything = view.terms.level in ENDED_LEVELS[kind]
    return Where(
        agent_id=view.agent_id,
        categories=None if everything else frozenset({MemoryCategory.WORKING}),
        created_before=at + _MOMENT,
        session_id=scope_id if kind == "end_session" else None,
        project_id=scope_id if kind == "end_project" else None,
        task_id=scope_id if kind == "end_task" else None,
    )


def _over(
    view: "View", kind: EndKind, spans: Mapping[str, tuple[datetime, datetime]], timeout: timedelta | None
) -> Mapping[str, datetime]:
    ended = view.ended(kind, spans.keys()) if spans else {}
    found: dict[str, datetime] = {}
    for scope_id, (first, last) in spans.items():
        if timeout is not None and last <= view.now - timeout:
            found[scope_id] = last + _MOMENT
        elif scope_id in ended and first <= ended[scope_id]:
            found[scope_id] = ended[scope_id] + _MOMENT
    return found


def _ends(found: Mapping[str, datetime], scope_id: str | None, made: datetime) -> bool:
    return scope_id is not None and scope_id in found and made < found[scope_id]
