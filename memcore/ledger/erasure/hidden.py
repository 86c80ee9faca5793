"""What no reader is shown: what is being erased, from the moment that it is asked for, and what is distrusted.

And what a person has raised: readers learn of it at once, too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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
from memcore.ledger.learning.skills import Skill, Skills, SkillSource, SkillState
from memcore.ledger.tables import ERASE_WORK, OPEN_WORK, erasures, work_items
from memcore.ledger.work_items import WorkState
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
        skills: these, and the skills of what is not trusted, by the ids of their publications.
        standing: of the skills that the latter have replaced the newest that are trusted.
        returned: the ids under which these were published last.
        distrusts: what is not trusted.
        distrusted: what came of it, by its agent.
        raised: the memories of each agent that approvals have given more authority, by their ids.
    """

    agents: frozenset[str] = frozenset()
    people: frozenset[tuple[str, str]] = frozenset()
    derived: frozenset[str] = frozenset()
    skills: frozenset[str] = frozenset()
    standing: frozenset[str] = frozenset()
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

    def distrusts_experience(self, experience: DetailedExperience) -> bool:
        """Return whether a raw experience is of what is distrusted."""
        agent_id, at = experience.agent_id, experience.created_at
        return experience.id in self.distrusted.get(agent_id, ()) or any(
            each.rule.takes_task(agent_id, experience.origin, at) for each in self.distrusts
        )

    def distrusts_origin(self, agent_id: str, origin: Origin | None) -> bool:
        """Return whether the origin of what an agent has is distrusted."""
        return any(
            each.rule.follows_origin and each.rule.is_of(agent_id) and each.rule.names(origin)
            for each in self.distrusts
        )

    def rules_of(self, agent_id: str) -> tuple[DistrustRule, ...]:
        """Return the rules that concern an agent."""
        return tuple(each.rule for each in self.distrusts if each.rule.is_of(agent_id))

    def subjects(self, agent_id: str) -> frozenset[str]:
        """Return the people of an agent that are hidden."""
        return frozenset(subject for agent, subject in self.people if agent == agent_id)


def fallen_skills(
    versions: Sequence[Skill], rules: Collection[DistrustRule], distrusted: Mapping[str, frozenset[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the skills that stand and are of what is distrusted, each with those that take its place.

    These are the newest of those that it has replaced, and that those had, none of whose sources is distrusted.
    """
    replaced: dict[str | None, list[Skill]] = {}
    for skill in versions:
        replaced.setdefault(skill.superseded_by, []).append(skill)

    def is_trusted(skill: Skill) -> bool:
        return not any(_is_of(each, rules, distrusted) for each in skill.sources)

    def instead_of(skill: Skill) -> tuple[str, ...]:
        older = replaced.pop(skill.skill_id, [])
        return tuple(chain(*((each.skill_id,) if is_trusted(each) else instead_of(each) for each in older)))

    standing = [each for each in versions if each.state is SkillState.ACTIVE]
    return {each.skill_id: instead_of(each) for each in standing if not is_trusted(each)}


def _is_of(
    lesson: Lesson | SkillSource, rules: Collection[DistrustRule], distrusted: Mapping[str, frozenset[str]]
) -> bool:
    made, at = {lesson.lesson_id, lesson.memory_id}, lesson.created_at
    return not made.isdisjoint(distrusted.get(lesson.agent_id, ())) or any(
        each.takes_task(lesson.agent_id, lesson.origin, at) for each in rules
    )


class HiddenOwners(Repository):
    """Reads what is hidden: of each erasure that has not ended or has failed, and of each distrust in force."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        super().__init__(database, clock=clock)
        self._skill_rows, self._skills = SkillRows(database), Skills(database, clock=clock)
        self._publications = Publications(database)
        self._distrusts = Distrusts(database, clock=clock)
        self._last: dict[str, Hidden] = {}

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
        known = Hidden(
            agents=agents,
            people=people,
            derived=derived,
            distrusts=distrusts,
            distrusted=distrusted,
            raised=raised_of(row for row in found if row[2] is not None),
        )
        rules = [each.rule for each in distrusts]
        fallen = fallen_skills(self._skills.versions(company), rules, distrusted) if distrusts else {}
        instead = frozenset(chain(*fallen.values())) - derived
        published = self._publications.of_facts(company, instead.union(fallen)) if fallen else {}
        gone = chain(derived, fallen, *(published.get(each, ()) for each in fallen))
        back = frozenset(published[each][-1] for each in instead if each in published)
        return known.model_copy(update={"skills": frozenset(gone), "standing": instead, "returned": back})

    def _derived(self, company: str, agents: frozenset[str]) -> frozenset[str]:
        scopes = (ErasureScope(company=company, agent_id=agent, tag=propagated_tag(agent)) for agent in agents)
        return frozenset(skill.skill_id for scope in scopes for skill in self._skill_rows.find(scope))
