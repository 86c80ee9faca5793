"""What no reader is shown: what is being erased, from the moment that it is asked for, and what is distrusted.

And what a person has raised: readers learn of it at once, too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pydantic import Field
from sqlalchemy import null, select

from memcore.clock import Clock
from memcore.errors import MemoryConnectionError
from memcore.ledger.access.distrusts import Distrust, Distrusts
from memcore.ledger.access.raised import raised_of, raised_rows
from memcore.ledger.database import Database, Repository
from memcore.ledger.erasure.decisions import ErasureScope
from memcore.ledger.erasure.shared_rows import Publications, SkillRows
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.learning.skills import Skill, Skills, SkillSource, SkillState, SkillView
from memcore.ledger.organization.approvals import Approvals
from memcore.ledger.tables import ERASE_WORK, OPEN_WORK, erasures, work_items
from memcore.ledger.work_items import WorkState
from memcore.models.approval import Witness, witnesses_of
from memcore.models.base import Frozen
from memcore.models.distrust import DistrustRule
from memcore.models.experience import DetailedExperience
from memcore.models.memory import MemoryEntry, propagated_tag
from memcore.models.origin import Origin, Raised

#: The columns of what is raised that say by what.
_RAISED = ("approval_id", "authority", "digest")

_SHOWS_ALL: ContextVar[bool] = ContextVar("memtend_shows_all", default=False)


@contextmanager
def showing_all() -> Iterator[None]:
    """Let the block read what is hidden, too, to find what came of it."""
    token = _SHOWS_ALL.set(True)
    try:
        yield
    finally:
        _SHOWS_ALL.reset(token)


def shows_all() -> bool:
    """Return whether what is hidden is read here, too."""
    return _SHOWS_ALL.get()


class Hidden(Frozen):
    """The agents that are being erased as a whole, and the people who are, each with the agent that they talked to.

    Attributes:
        derived: the skills that only tasks of these agents have shown.
        skills: these, and every version of the skills of what is not trusted, by the ids of their publications, too.
        standing: the newest trusted skills that such ones have replaced, each with the one in whose place it stands.
        returned: the ids under which these were published last.
        distrusts: what is not trusted.
        distrusted: what came of it, by its agent.
        raised: the memories of each agent that approvals have given more authority, by their ids.
    """

    agents: frozenset[str] = frozenset()
    people: frozenset[tuple[str, str]] = frozenset()
    derived: frozenset[str] = frozenset()
    skills: frozenset[str] = frozenset()
    standing: Mapping[str, str] = Field(default_factory=dict)
    returned: frozenset[str] = frozenset()
    distrusts: tuple[Distrust, ...] = ()
    distrusted: Mapping[str, frozenset[str]] = Field(default_factory=dict)
    raised: Mapping[str, Mapping[str, Raised]] = Field(default_factory=dict)

    def hides(self, agent_id: str, subject: str) -> bool:
        """Return whether nobody may be shown what an agent has of a person, whose name is that of a namespace."""
        return agent_id in self.agents or (agent_id, subject) in self.people

    def hides_memory(self, entry: MemoryEntry) -> bool:
        """Return whether nobody may be shown a memory; of an erased agent, others have copies of lessons and skills."""
        if self.hides(entry.agent_id, entry.namespace) or entry.id in self.skills or self.distrusts_memory(entry):
            return True
        return any(propagated_tag(agent) in entry.metadata.tags for agent in self.agents)

    def distrusts_memory(self, entry: MemoryEntry) -> bool:
        """Return whether a memory is distrusted, or came of what is."""
        return entry.id in self.distrusted.get(entry.agent_id, ()) or any(
            each.rule.takes(entry) for each in self.distrusts
        )

    def with_raised(self, entry: MemoryEntry) -> MemoryEntry:
        """Return a memory with the approval that has raised it, where it is raised and says the same still."""
        raised = self.raised.get(entry.agent_id, {}).get(entry.id)
        if raised is None or not raised.is_for(entry.content):
            return entry
        return entry.model_copy(update={"raised": raised})

    def keeps_unmerged(self, entry: MemoryEntry) -> bool:
        """Return whether no merge may take a memory: the distrusted hides the others, the raised would be lowered."""
        return entry.id in self.raised.get(entry.agent_id, ()) or self.distrusts_memory(entry)

    def distrusts_lesson(self, lesson: Lesson) -> bool:
        """Return whether the lesson of a finished task is distrusted, or what it says is."""
        return _is_of(lesson, [each.rule for each in self.distrusts], self.distrusted)

    def distrusts_source(self, source: SkillSource) -> bool:
        """Return whether a lesson among which a skill was chosen is distrusted."""
        return _is_of(source, [each.rule for each in self.distrusts], self.distrusted)

    def may_distrust(self, agent_id: str, memory_id: str, origin: Origin) -> bool:
        """Return whether a memory of this origin is distrusted, or may be found to be: a rule is still followed."""
        if memory_id in self.distrusted.get(agent_id, ()) or self.distrusts_origin(agent_id, origin):
            return True
        return any(
            each.completed_at is None and not each.rule.follows_origin and each.rule.is_of(agent_id)
            for each in self.distrusts
        )

    @property
    def fallen(self) -> frozenset[str]:
        """The skills and publications that distrusts hide, without those that erasures do."""
        return self.skills - self.derived

    def distrusts_experience(self, experience: DetailedExperience) -> bool:
        """Return whether a raw experience is of what is distrusted."""
        return experience.id in self.distrusted.get(experience.agent_id, ()) or any(
            each.rule.takes_experience(experience) for each in self.distrusts
        )

    def distrusts_origin(self, agent_id: str, origin: Origin | None) -> bool:
        """Return whether the origin of what an agent has is distrusted."""
        return any(
            each.rule.follows_origin and each.rule.is_of(agent_id) and each.rule.names(origin)
            for each in self.distrusts
        )

    @property
    def seen_skills(self) -> SkillView:
        """How readers see the organisation's skills."""
        return SkillView(hidden=self.skills, standing=self.standing)

    def rules_of(self, agent_id: str) -> tuple[DistrustRule, ...]:
        """Return the rules that concern an agent."""
        return tuple(each.rule for each in self.distrusts if each.rule.is_of(agent_id))

    def subjects(self, agent_id: str) -> frozenset[str]:
        """Return the people of an agent that are hidden."""
        return frozenset(subject for agent, subject in self.people if agent == agent_id)


def distrusted_skills(
    versions: Iterable[Skill], rules: Collection[DistrustRule], distrusted: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the skills of which a source is of what is distrusted, in whatever state they are."""
    return frozenset(
        skill.skill_id for skill in versions if any(_is_of(each, rules, distrusted) for each in skill.sources)
    )


def fallen_skills(versions: Sequence[Skill], distrusted: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the skills that stand and are distrusted, each with those that take its place.

    These are the newest of those that it has replaced, and that those had, which are not distrusted.
    """
    replaced: dict[str | None, list[str]] = {}
    for skill in versions:
        if skill.state is SkillState.SUPERSEDED:
            replaced.setdefault(skill.superseded_by, []).append(skill.skill_id)

    def instead_of(skill_id: str) -> tuple[str, ...]:
        older = replaced.pop(skill_id, [])
        return tuple(chain(*(instead_of(each) if each in distrusted else (each,) for each in older)))

    standing = [each.skill_id for each in versions if each.state is SkillState.ACTIVE]
    return {each: instead_of(each) for each in standing if each in distrusted}


def _is_of(
    lesson: Lesson | SkillSource, rules: Collection[DistrustRule], distrusted: Mapping[str, frozenset[str]]
) -> bool:
    made, at = {lesson.lesson_id, lesson.memory_id}, lesson.created_at
    return not made.isdisjoint(distrusted.get(lesson.agent_id, ())) or any(
        each.takes_task(lesson.agent_id, lesson.origin, at) for each in rules
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fallen:
    """What distrusts take of the skills, as Hidden has it, and what that was read of."""

    read_of: object = None
    gone: frozenset[str] = frozenset()
    standing: Mapping[str, str] = field(default_factory=dict[str, str])
    returned: frozenset[str] = frozenset()


class HiddenOwners(Repository):
    """Reads what is hidden: of each erasure that has not ended or has failed, and of each distrust in force."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        super().__init__(database, clock=clock)
        self._skill_rows, self._skills = SkillRows(database), Skills(database, clock=clock)
        self._publications = Publications(database)
        self._distrusts = Distrusts(database, clock=clock)
        self._approvals = Approvals(database, clock=clock)
        self._witnesses: dict[tuple[str, str], tuple[Witness, ...]] = {}
        self._last: dict[str, Hidden] = {}
        self._fallen: dict[str, _Fallen] = {}

    def of(self, company: str) -> Hidden:
        """Return what is hidden now; while the ledger is away, what was when it last answered.

        Nobody can ask for an erasure or a distrust there meanwhile.

        Raises MemoryConnectionError where it has never answered.
        """
        try:
            self._last[company] = self._database.remembered(("hidden", company), lambda: self._read(company))
        except MemoryConnectionError:
            if company not in self._last:
                raise
        return self._last[company]

    def _read(self, company: str) -> Hidden:
        its = (erasures.c.company == work_items.c.company) & (erasures.c.erasure_id == work_items.c.key)
        erased = (
            select(erasures.c.agent_id, erasures.c.subject, *[null().label(name) for name in _RAISED])
            .join(work_items, its)
            .where(ERASE_WORK, work_items.c.company == company)
            .where(OPEN_WORK | (work_items.c.state == WorkState.FAILED.value))
        )
        # Of both at once: every read of an agent's asks.
        both = erased.union_all(raised_rows(company)).subquery()
        found: list[tuple[Any, ...]] = [tuple(row.values()) for row in self._database.rows(select(both))]
        rows = [(str(row[0]), row[1]) for row in found if row[2] is None]
        agents = frozenset(agent for agent, subject in rows if subject is None)
        people = frozenset((agent, str(subject)) for agent, subject in rows if subject is not None)
        last = self._last.get(company)
        # An agent that is being erased shows no new skill: one look for each is enough.
        derived = last.derived if last is not None and last.agents == agents else self._derived(company, agents)
        distrusts = self._distrusts.in_force(company)
        if last is not None and last.distrusts == distrusts and all(each.completed_at for each in distrusts):
            distrusted = last.distrusted
        else:
            distrusted = self._distrusts.all_reached(company, [each.distrust_id for each in distrusts])
        fallen = self._read_fallen(company, distrusts, distrusted, derived)
        hidden = Hidden(
            agents=agents,
            people=people,
            derived=derived,
            skills=derived | fallen.gone,
            standing=fallen.standing,
            returned=fallen.returned,
            distrusts=distrusts,
            distrusted=distrusted,
        )
        raised = (row for row in found if row[2] is not None and self._is_raised(hidden, company, row[0], row[2]))
        return hidden.model_copy(update={"raised": raised_of(raised)})

    def _is_raised(self, hidden: Hidden, company: str, agent_id: str, approval_id: str) -> bool:
        """Whether an approval raises: not where a memory by which the policy decided is, or may be, distrusted."""
        if not hidden.distrusts:
            return True
        key = (company, approval_id)
        if key not in self._witnesses:
            approval = self._approvals.get(*key)
            self._witnesses[key] = () if approval is None else witnesses_of(approval.proposal)
        return not any(hidden.may_distrust(agent_id, each.memory_id, each.origin) for each in self._witnesses[key])

    def _read_fallen(
        self,
        company: str,
        distrusts: tuple[Distrust, ...],
        distrusted: Mapping[str, frozenset[str]],
        derived: frozenset[str],
    ) -> "_Fallen":
        """Return what distrusts take of the skills; these are read again only where something of it has changed."""
        rules = [each.rule for each in distrusts]
        if not distrusted and not any(each.takes_tasks for each in rules):
            return _Fallen()
        # Each memory that is found moves the time at which one was completed.
        found = None if all(each.completed_at for each in distrusts) else distrusted
        read_of = (distrusts, found, derived, self._skills.changes(company), self._publications.head(company))
        last = self._fallen.get(company)
        if last is not None and last.read_of == read_of:
            return last
        versions = self._skills.versions(company)
        gone = distrusted_skills(versions, rules, distrusted)
        fell = fallen_skills(versions, gone)
        instead = {old: new for new, olds in fell.items() for old in olds if old not in derived}
        published = self._publications.of_facts(company, gone.union(instead)) if gone else {}
        self._fallen[company] = fallen = _Fallen(
            read_of=read_of,
            gone=gone.union(*(published.get(each, ()) for each in gone)),
            standing=instead,
            returned=frozenset(published[each][-1] for each in instead if each in published),
        )
        return fallen

    def _derived(self, company: str, agents: frozenset[str]) -> frozenset[str]:
        scopes = (ErasureScope(company=company, agent_id=agent, tag=propagated_tag(agent)) for agent in agents)
        return frozenset(skill.skill_id for scope in scopes for skill in self._skill_rows.find(scope))
