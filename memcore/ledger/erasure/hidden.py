"""What is being erased: hidden from every reader from the moment the erasure is asked for, whatever it waits for."""

from sqlalchemy import select

from memcore.clock import Clock
from memcore.errors import MemoryConnectionError
from memcore.ledger.database import Database, Repository
from memcore.ledger.erasure.decisions import ErasureScope
from memcore.ledger.erasure.shared_rows import SkillRows
from memcore.ledger.tables import ERASE_WORK, OPEN_WORK, erasures, work_items
from memcore.ledger.work_items import WorkState
from memcore.models.base import Frozen
from memcore.models.memory import MemoryEntry, propagated_tag


class Hidden(Frozen):
    """The agents that are being erased as a whole, and the people who are, each with the agent that they talked to.

    Attributes:
        skills: the skills that only tasks of these agents have shown, by the ids of their publications.
    """

    agents: frozenset[str] = frozenset()
    people: frozenset[tuple[str, str]] = frozenset()
    skills: frozenset[str] = frozenset()

    def hides(self, agent_id: str, subject: str) -> bool:
        """Return whether nobody may be shown what an agent has of a person, whose name is that of a namespace."""
        return agent_id in self.agents or (agent_id, subject) in self.people

    def hides_memory(self, entry: MemoryEntry) -> bool:
        """Return whether nobody may be shown a memory; of an erased agent, others have copies of lessons and skills."""
        if self.hides(entry.agent_id, entry.namespace) or entry.id in self.skills:
            return True
        return any(propagated_tag(agent) in entry.metadata.tags for agent in self.agents)

    def subjects(self, agent_id: str) -> frozenset[str]:
        """Return the people of an agent that are hidden."""
        return frozenset(subject for agent, subject in self.people if agent == agent_id)


class HiddenOwners(Repository):
    """Reads from the table of erasures whose memory is hidden: of each that has not ended, and of each that failed."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        super().__init__(database, clock=clock)
        self._skill_rows = SkillRows(database)
        self._last: dict[str, Hidden] = {}

    def of(self, company: str) -> Hidden:
        """Return what is hidden now; while the ledger is away, what was when it last answered.

        Nobody can ask for an erasure there meanwhile. Raises MemoryConnectionError where it has never answered.
        """
        try:
            self._last[company] = self._database.remembered(("hidden", company), lambda: self._read(company))
        except MemoryConnectionError:
            if company not in self._last:
                raise
        return self._last[company]

    def _read(self, company: str) -> Hidden:
        its = (erasures.c.company == work_items.c.company) & (erasures.c.erasure_id == work_items.c.key)
        query = (
            select(erasures.c.agent_id, erasures.c.subject)
            .join(work_items, its)
            .where(ERASE_WORK, work_items.c.company == company)
            .where(OPEN_WORK | (work_items.c.state == WorkState.FAILED.value))
        )
        rows = [(str(row["agent_id"]), row["subject"]) for row in self._database.rows(query)]
        agents = frozenset(agent for agent, subject in rows if subject is None)
        people = frozenset((agent, str(subject)) for agent, subject in rows if subject is not None)
        last = self._last.get(company)
        # An agent that is being erased shows no new skill: one look for each is enough.
        skills = last.skills if last is not None and last.agents == agents else self._skills(company, agents)
        return Hidden(agents=agents, people=people, skills=skills)

    def _skills(self, company: str, agents: frozenset[str]) -> frozenset[str]:
        scopes = (ErasureScope(company=company, agent_id=agent, tag=propagated_tag(agent)) for agent in agents)
        return frozenset(skill.skill_id for scope in scopes for skill in self._skill_rows.find(scope))
