"""Skills that a person approved, and how often agents applied them and their own lessons."""

from collections.abc import Collection, Iterator
from datetime import datetime
from enum import StrEnum

from pydantic import Field
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    case,
    delete,
    exists,
    func,
    not_,
    or_,
    select,
    true,
    update,
)

from memcore.clock import Clock
from memcore.errors import SkillLimitError
from memcore.jobs.payloads import AppliedPayload
from memcore.ledger.database import Database, id_chunks, insert_for
from memcore.ledger.tables import approvals, shared_heads, skill_applications, skill_counts, skills
from memcore.models.approval import ApprovalNeed
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime


class SkillState(StrEnum):
    """The state of a skill."""

    #: Agents find it.
    ACTIVE = "active"
    #: Another skill replaced it.
    SUPERSEDED = "superseded"
    #: A person undid its approval.
    RETIRED = "retired"


class Skill(Frozen):
    """A skill's row.

    Attributes:
        skill_id: the id under which it was published first; it keeps it when it comes back under another.
        approval_id: whose effect it is.
        pattern_id: what it was learned from.
        superseded_by: the skill that took its place, if one did.
        confidence: 0 to 1.
        text: the lesson (memcore.procedural.records) as JSON; never in a repr.
    """

    skill_id: str
    approval_id: str
    pattern_id: str
    state: SkillState
    superseded_by: str | None = None
    confidence: float
    text: str = Field(repr=False)
    published_at: BoundedTime
    changed_at: BoundedTime


class Applications(Frozen):
    """How often a lesson or a skill was applied.

    Attributes:
        applications: in all.
        successes: those that went well.
        last_applied_at: the last one.
    """

    applications: int
    successes: int
    last_applied_at: BoundedTime


#: Most skills of a page.
MAX_PAGE = 128


class Skills:
    """The tables of skills; every method is one short transaction.

    Args:
        database: the ledger.
        clock: the time.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def put(self, company: str, skill: Skill) -> bool:
        """Keep a skill and return True; False when its id is there already, and stays as it was."""
        row = {
            **skill.model_dump(exclude={"text", "state"}),
            "company": company,
            "state": str(skill.state),
            "body": skill.text.encode(),
        }
        with self._database.write() as connection:
            statement = insert_for(connection, skills).values(row).on_conflict_do_nothing()
            return connection.execute(statement.returning(skills.c.skill_id)).scalar_one_or_none() is not None

    def get(self, company: str, skill_id: str) -> Skill | None:
        """Return the skill, or None when this company has none with that id."""
        with self._database.read() as connection:
            row = connection.execute(select(skills).where(_is(company, skill_id))).mappings().one_or_none()
        return _skill(row) if row else None

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
            return self._change(connection, _is(company, skill_id), state=SkillState.SUPERSEDED, superseded_by=by)

    def restore(self, company: str, skill_id: str, *, by: str) -> bool:
        """Make a superseded skill active again; False unless ``by`` superseded it."""
        ended_so = and_(
            _is(company, skill_id), skills.c.state == str(SkillState.SUPERSEDED), skills.c.superseded_by == by
        )
        with self._database.write() as connection:
            return self._change(connection, ended_so, state=SkillState.ACTIVE, superseded_by=None)

    def retire(self, company: str, skill_id: str) -> bool:
        """Mark a skill as retired, for good; False when it was before, or there is none."""
        not_yet = and_(_is(company, skill_id), skills.c.state != str(SkillState.RETIRED))
        with self._database.write() as connection:
            return self._change(connection, not_yet, state=SkillState.RETIRED)

    def page(
        self, company: str, *, state: SkillState | None = None, before: Skill | None = None, limit: int = MAX_PAGE
    ) -> tuple[Skill, ...]:
        """Return at most 128 skills, newest first; ``before`` is the last of the page before."""
        at, key = skills.c.published_at, skills.c.skill_id
        query = select(skills).where(_in(company, state))
        if before is not None:
            query = query.where(or_(at < before.published_at, and_(at == before.published_at, key < before.skill_id)))
        query = query.order_by(at.desc(), key.desc()).limit(min(limit, MAX_PAGE))
        with self._database.read() as connection:
            return tuple(_skill(row) for row in connection.execute(query).mappings())

    def stream(self, company: str, *, state: SkillState = SkillState.ACTIVE) -> Iterator[Skill]:
        """Yield skills in a state, newest first; no more than a page is held, and no transaction stays open."""
        last: Skill | None = None
        while page := self.page(company, state=state, before=last):
            yield from page
            last = page[-1]

    def count(self, company: str, *, state: SkillState = SkillState.ACTIVE) -> int:
        """Return how many skills are in a state."""
        with self._database.read() as connection:
            return connection.execute(select(func.count()).select_from(skills).where(_in(company, state))).scalar_one()

    def apply(self, payload: AppliedPayload, *, skill_id: str) -> bool:
        """Count one application and return True; False when it was counted before.

        Args:
            payload: the application.
            skill_id: what was applied, under the id by which it is counted.
        """
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
            new = insert_for(connection, skill_applications).values(known).on_conflict_do_nothing()
            if connection.execute(new.returning(skill_applications.c.application_id)).scalar_one_or_none() is None:
                return False
            fresh = insert_for(connection, skill_counts).values(
                company=payload.company,
                skill_id=skill_id,
                applications=1,
                successes=int(payload.outcome == "success"),
                last_applied_at=at,
            )
            table, newest = skill_counts.c, fresh.excluded.last_applied_at
            statement = fresh.on_conflict_do_update(
                index_elements=[table.company, table.skill_id],
                set_={
                    "applications": table.applications + 1,
                    "successes": table.successes + fresh.excluded.successes,
                    "last_applied_at": case((newest > table.last_applied_at, newest), else_=table.last_applied_at),
                },
            )
            connection.execute(statement)
        return True

    def applications(self, company: str, skill_ids: Collection[str]) -> dict[str, Applications]:
        """Return how often each was applied; one that never was is left out."""
        found: dict[str, Applications] = {}
        table = skill_counts.c
        with self._database.read() as connection:
            for part in id_chunks(sorted(skill_ids)):
                query = select(skill_counts).where(table.company == company, table.skill_id.in_(part))
                for row in connection.execute(query).mappings():
                    found[row["skill_id"]] = Applications(
                        applications=row["applications"],
                        successes=row["successes"],
                        last_applied_at=row["last_applied_at"],
                    )
        return found

    def expire_applications(self, company: str, *, before: datetime) -> int:
        """Forget single applications before then, which stay counted, and return how many there were."""
        old = and_(skill_applications.c.company == company, skill_applications.c.applied_at < before)
        with self._database.write() as connection:
            return connection.execute(delete(skill_applications).where(old)).rowcount

    def _change(
        self, connection: Connection, which: ColumnElement[bool], *, state: SkillState, **more: str | None
    ) -> bool:
        changes = {"state": str(state), "changed_at": self._clock(), **more}
        return connection.execute(update(skills).where(which).values(changes)).rowcount > 0


def _is(company: str, skill_id: str) -> ColumnElement[bool]:
    return and_(skills.c.company == company, skills.c.skill_id == skill_id)


def _in(company: str, state: SkillState | None) -> ColumnElement[bool]:
    return and_(skills.c.company == company, true() if state is None else skills.c.state == str(state))


def _skill(row: RowMapping) -> Skill:
    return Skill(
        skill_id=row["skill_id"],
        approval_id=row["approval_id"],
        pattern_id=row["pattern_id"],
        state=SkillState(row["state"]),
        superseded_by=row["superseded_by"],
        confidence=row["confidence"],
        text=row["body"].decode(),
        published_at=row["published_at"],
        changed_at=row["changed_at"],
    )


class SkillCapacity:
    """Refuses a skill beyond the limit; active skills count, and approved ones that are not published yet.

    Args:
        limit: most skills.
        action: the action of the approvals that make skills.
        frees: the skills that the new one supersedes.
    """

    def __init__(self, *, limit: int, action: str, frees: Collection[str]) -> None:
        self._limit = limit
        self._action = action
        self._frees = sorted(frees)

    def require(self, connection: Connection, company: str) -> None:
        """Raise SkillLimitError when one more would be too many."""
        _take_turns(connection, company)
        stand = and_(skills.c.company == company, skills.c.state == str(SkillState.ACTIVE))
        survives_retention = not_(skills.c.skill_id.in_(self._frees))
        has_row = exists().where(skills.c.company == company, skills.c.approval_id == approvals.c.approval_id)
        coming = and_(
            approvals.c.company == company,
            approvals.c.action == self._action,
            approvals.c.needs == str(ApprovalNeed.EFFECT),
            not_(has_row),
        )
        count = select(func.count())
        standing = connection.execute(count.select_from(skills).where(stand, survives_retention)).scalar_one()
        on_their_way = connection.execute(count.select_from(approvals).where(coming)).scalar_one()
        if standing + on_their_way >= self._limit:
            raise SkillLimitError(standing + on_their_way, limit=self._limit)


def _take_turns(connection: Connection, company: str) -> None:
    # The row by which publications take turns: what this decision leads to is one.
    first = insert_for(connection, shared_heads).values(company=company, last=0, head=0)
    connection.execute(first.on_conflict_do_nothing())
    connection.execute(select(shared_heads.c.last).where(shared_heads.c.company == company).with_for_update())
