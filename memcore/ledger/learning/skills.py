"""Skills that a person approved, and how often agents applied them and their own lessons."""

import math
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import Field
from sqlalchemy import ColumnElement, Connection, and_, case, delete, exists, func, not_, select, true, update

from memcore.errors import SkillLimitError
from memcore.jobs import AppliedPayload
from memcore.ledger.database import CompanyRecords, count_rows, equals, insert_for, insert_one, later_of, record_of
from memcore.ledger.learning.bounds import lower_bound, upper_bound
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.organization.shared_log import lock_shared_head
from memcore.ledger.tables import BY_ADDED_AGENT, approvals, skill_applications, skill_counts, skills
from memcore.models.approval import ApprovalNeed
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime
from memcore.models.origin import OWN, Origin


class SkillState(StrEnum):
    """The state of a skill."""

    #: Agents find it.
    ACTIVE = "active"
    #: Another skill replaced it.
    SUPERSEDED = "superseded"
    #: A person undid its approval.
    RETIRED = "retired"


class SkillSource(Frozen):
    """A lesson of those among which a skill was chosen."""

    agent_id: str
    lesson_id: str
    memory_id: str | None
    origin: Origin
    created_at: BoundedTime

    @classmethod
    def of(cls, lesson: Lesson) -> Self:
        """Return what is kept of a lesson."""
        return cls(**{name: getattr(lesson, name) for name in cls.model_fields})


class Skill(Frozen):
    """A skill's row: the id under which it was published first, also when it comes back under another.

    Its text is the lesson (memcore.procedural.records) as JSON. Those of older releases name no sources. A person has
    approved it, so its origin is that of its publication, whatever its sources are.
    """

    origin: ClassVar[Origin] = OWN

    skill_id: str
    approval_id: str
    pattern_id: str
    state: SkillState
    superseded_by: str | None = None
    confidence: float
    text: str = Field(repr=False)
    published_at: BoundedTime
    changed_at: BoundedTime
    sources: tuple[SkillSource, ...] = ()


class SkillView(Frozen):
    """How readers see skills, where that is not as their rows say.

    Attributes:
        hidden: skills that nobody is shown.
        standing: superseded skills that stand again, each with the hidden one in whose place it does.
    """

    hidden: frozenset[str] = frozenset()
    standing: Mapping[str, str] = Field(default_factory=dict)

    def shows(self, state: SkillState | None) -> ColumnElement[bool]:
        """Return the condition of skills that are shown, and are in this state."""
        shown = skills.c.skill_id.not_in(sorted(self.hidden)) if self.hidden else true()
        if state is None:
            return shown
        is_so = skills.c.state == state.value
        if self.standing:  # else the index of states would not be used
            is_back = skills.c.skill_id.in_(sorted(self.standing))
            is_so = is_so | is_back if state is SkillState.ACTIVE else is_so & not_(is_back)
        return and_(shown, is_so)

    def of(self, skill: Skill) -> Skill:
        """Return a skill that is shown as it is seen."""
        is_back = skill.skill_id in self.standing
        return skill.model_copy(update={"state": SkillState.ACTIVE, "superseded_by": None}) if is_back else skill


#: Where nothing is hidden.
ALL_SKILLS = SkillView()


class Applications(Frozen):
    """How often a lesson or a skill was applied, and how often that went well."""

    applications: int
    successes: int
    last_applied_at: BoundedTime

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the most that the share of successes may really be."""
        return lower_bound(self.successes, self.applications), upper_bound(self.successes, self.applications)

    def corrected(self, confidence: float) -> float:
        """Return the confidence, as far as the bounds allow it: no lower than the least, no higher than the most."""
        least, most = self.bounds
        return min(most, max(least, confidence))


#: Most skills of a page.
MAX_PAGE = 128


class Skills(CompanyRecords[Skill]):
    """The tables of skills."""

    _table = skills
    _model = Skill
    _newest_by = (skills.c.published_at, skills.c.skill_id)
    _page_size = MAX_PAGE

    def put(self, company: str, skill: Skill) -> bool:
        """Keep a skill and return True; False when its id is there already, and stays as it was."""
        row = {
            **skill.model_dump(exclude={"text", "state", "sources"}),
            "company": company,
            "sources": [each.model_dump(mode="json") for each in skill.sources] or None,
            "state": str(skill.state),
            "body": skill.text.encode(),
        }
        with self._database.write() as connection:
            return insert_one(connection, skills, row)

    def supersede(self, company: str, skill_id: str, *, by: str) -> bool:
        """Mark a skill as superseded by another one, and return whether that changed it.

        False when this one is not active, or the other one was retired: a delayed writer changes nothing.
        """
        both = select(skills.c.skill_id, skills.c.state).where(
            skills.c.company == company, skills.c.skill_id.in_([skill_id, by])
        )
        with self._database.write() as connection:
            # In one order everywhere, so that two writers never wait for each other.
            rows = connection.execute(both.order_by(skills.c.skill_id).with_for_update())
            states: dict[str, str] = {row.skill_id: row.state for row in rows}
            if states.get(skill_id) != SkillState.ACTIVE or states.get(by, SkillState.RETIRED) == SkillState.RETIRED:
                return False
            values = {"state": SkillState.SUPERSEDED.value, "superseded_by": by, "changed_at": self._clock()}
            connection.execute(update(skills).where(self._is(company, skill_id)).values(values))
            return True

    def restore(self, company: str, skill_id: str, *, by: str) -> bool:
        """Make a superseded skill active again; False unless ``by`` superseded it."""
        ended_so = self._is(company, skill_id) & equals(skills, state=SkillState.SUPERSEDED.value, superseded_by=by)
        values = {"state": SkillState.ACTIVE.value, "superseded_by": None, "changed_at": self._clock()}
        return self._update(ended_so, values) > 0

    def retire(self, company: str, skill_id: str) -> bool:
        """Mark a skill as retired, for good; False when it was before, or there is none."""
        not_yet = self._is(company, skill_id) & (skills.c.state != SkillState.RETIRED.value)
        return self._update(not_yet, {"state": SkillState.RETIRED.value, "changed_at": self._clock()}) > 0

    def page(
        self,
        company: str,
        *,
        state: SkillState | None = None,
        before: Skill | None = None,
        limit: int = MAX_PAGE,
        seen: SkillView = ALL_SKILLS,
    ) -> tuple[Skill, ...]:
        """Return at most 128 skills as they are ``seen``, newest first; ``before`` is the last of the page before."""
        query = select(skills).where(skills.c.company == company, seen.shows(state))
        return tuple(map(seen.of, self._page(query, before=before, limit=limit)))

    def stream(self, company: str, *, seen: SkillView = ALL_SKILLS) -> Iterator[Skill]:
        """Yield active skills, newest first; no more than a page is held, and no transaction stays open."""
        last: Skill | None = None
        while page := self.page(company, state=SkillState.ACTIVE, before=last, seen=seen):
            yield from page
            last = page[-1]

    def versions(self, company: str) -> tuple[Skill, ...]:
        """Return all skills in whatever state, without their texts, the newest first."""
        columns = [column for column in skills.c if column.name != "body"]
        mine = skills.c.company == company
        rows = self._database.rows(select(*columns).where(mine).order_by(*(each.desc() for each in self._newest_by)))
        return tuple(record_of(Skill, row, text="", sources=row["sources"] or ()) for row in rows)

    def changes(self, company: str) -> tuple[tuple[str, int, datetime], ...]:
        """Return for each state how many skills have it, and the last change of one: another answer, another version.

        It reads no text and no source, so it costs far less than :meth:`versions`.
        """
        last = func.max(skills.c.changed_at).label("last")
        query = select(skills.c.state, func.count().label("skills"), last).where(skills.c.company == company)
        rows = self._database.rows(query.group_by(skills.c.state).order_by(skills.c.state))
        return tuple((row["state"], row["skills"], row["last"]) for row in rows)

    def count(self, company: str, *, seen: SkillView = ALL_SKILLS) -> int:
        """Return how many skills are active, as they are ``seen``."""
        return self._database.count(skills, (skills.c.company == company) & seen.shows(SkillState.ACTIVE))

    def apply(self, payload: AppliedPayload, *, skill_id: str) -> bool:
        """Count one application under this id of what was applied; False when it was counted before."""
        # An engine's clock may be ahead: nothing was applied later than now.
        at = min(payload.applied_at, self._clock())
        known = {
            "company": payload.company,
            "application_id": payload.application_id,
            "skill_id": skill_id,
            "agent_id": payload.agent_id,
            "outcome": payload.outcome,
            "applied_at": at,
        }
        with self._database.write() as connection:
            if not insert_one(connection, skill_applications, known):
                return False
            fresh = insert_for(connection, skill_counts).values(
                company=payload.company,
                skill_id=skill_id,
                applications=1,
                successes=int(payload.outcome == "success"),
                last_applied_at=at,
            )
            table = skill_counts.c
            statement = fresh.on_conflict_do_update(
                index_elements=["company", "skill_id"],
                set_={
                    "applications": table.applications + 1,
                    "successes": table.successes + fresh.excluded.successes,
                    "last_applied_at": later_of(fresh.excluded.last_applied_at, table.last_applied_at),
                },
            )
            connection.execute(statement)
        return True

    def applications(self, company: str, skill_ids: Collection[str]) -> dict[str, Applications]:
        """Return how often each was applied; one that never was is left out."""
        query = select(skill_counts).where(skill_counts.c.company == company)
        rows = self._database.rows_with(query, skill_counts.c.skill_id, skill_ids)
        return {row["skill_id"]: record_of(Applications, row) for row in rows}

    def votes(self, company: str, skill_ids: Collection[str], *, since: datetime) -> dict[str, float]:
        """Return for each of these that was applied since then the sum of its agents' votes.

        Each agent that a person added votes once, from -1, it failed each time, to 1, it helped each time.
        """
        table = skill_applications.c
        vote = func.avg(case((table.outcome == "success", 1.0), else_=-1.0)).label("vote")
        each = select(table.skill_id, vote).where(table.company == company, table.applied_at >= since, BY_ADDED_AGENT)
        votes = each.group_by(table.skill_id, table.agent_id)
        found: dict[str, list[float]] = {}
        for row in self._database.rows_with(votes, table.skill_id, skill_ids):
            found.setdefault(row["skill_id"], []).append(float(row["vote"]))
        return {skill_id: math.fsum(cast) for skill_id, cast in found.items()}

    def expire_applications(self, company: str, *, before: datetime) -> int:
        """Forget single applications before then, which stay counted, and return how many there were."""
        table = skill_applications.c
        query = delete(skill_applications).where(table.company == company, table.applied_at < before)
        return self._database.change(query)

    def _record(self, row: Mapping[Any, Any]) -> Skill:
        return record_of(Skill, row, text=row["body"].decode(), sources=row["sources"] or ())


def require_skill_capacity(
    connection: Connection, company: str, *, limit: int, action: str, frees: Collection[str]
) -> None:
    """Raise SkillLimitError when one more skill would be too many, beside active ones and approved ones not published.

    ``action`` is that of the approvals that make skills, ``frees`` the skills that the new one supersedes.
    """
    # The row by which publications take turns: what this decision leads to is one.
    lock_shared_head(connection, company)
    stand = equals(skills, company=company, state=SkillState.ACTIVE.value) & not_(skills.c.skill_id.in_(sorted(frees)))
    has_row = exists().where(skills.c.company == company, skills.c.approval_id == approvals.c.approval_id)
    coming = equals(approvals, company=company, action=action, needs=ApprovalNeed.EFFECT.value) & not_(has_row)
    taken = count_rows(connection, skills, stand) + count_rows(connection, approvals, coming)
    if taken >= limit:
        raise SkillLimitError(taken, limit=limit)
