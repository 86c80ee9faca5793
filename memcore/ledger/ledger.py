"""The ledger: companies, agents, runs and journal behind one name."""

from typing import Self

from memcore.clock import Clock, utc_now
from memcore.config.urls import LedgerUrls
from memcore.ledger.access.distrusts import Distrusts
from memcore.ledger.access.idempotency import Idempotency
from memcore.ledger.access.keys import ApiKeys
from memcore.ledger.access.raised import RaisedMemories
from memcore.ledger.agents import Agents, Ticks
from memcore.ledger.archive import Archive
from memcore.ledger.collections import Checkpoints, CollectionPointers, Reindexes, ReindexMarks
from memcore.ledger.companies import Companies
from memcore.ledger.consolidation_groups import ConsolidationGroups
from memcore.ledger.conversation.memory import ConversationMemory
from memcore.ledger.conversation.notes import CrisisLog, SessionFeedback
from memcore.ledger.conversation.turns import Sessions, Turns
from memcore.ledger.database import Database
from memcore.ledger.dead_letters import Attempts, DeadLetters
from memcore.ledger.erasure.ends import RecordEnds
from memcore.ledger.erasure.erasures import Erasures, SigningKeys
from memcore.ledger.erasure.hidden import HiddenOwners
from memcore.ledger.erasure.rows import ErasableRows
from memcore.ledger.erasure.shared_rows import rewrite_file
from memcore.ledger.finetune_runs import FineTuneRuns
from memcore.ledger.journal import Journal, MemoryKeys, Uses
from memcore.ledger.learning.core_slots import CoreSlots
from memcore.ledger.learning.experiences import ChangeFinding, Compressions, Experiences, NoteWriting
from memcore.ledger.learning.lessons import Lessons
from memcore.ledger.learning.patterns import Patterns
from memcore.ledger.learning.skill_cycles import SkillCycles
from memcore.ledger.learning.skills import Skills
from memcore.ledger.learning.trajectories import Trajectories
from memcore.ledger.lineage import LineageReader
from memcore.ledger.llm_answers import Answers, Syntheses
from memcore.ledger.llm_usage import ModelSpending, ModelUsage
from memcore.ledger.monitoring.activity import ActivityReader
from memcore.ledger.monitoring.figures import Figures
from memcore.ledger.monitoring.measures import Measures
from memcore.ledger.monitoring.memory_tests import MemoryTests
from memcore.ledger.monitoring.model_servers import ModelServers
from memcore.ledger.organization.approvals import Approvals
from memcore.ledger.organization.audit import Audit
from memcore.ledger.organization.facts import OrgLog
from memcore.ledger.organization.shared_log import SharedLog
from memcore.ledger.recorded_queries import RecordedQueries
from memcore.ledger.runs import Runs
from memcore.ledger.webhooks.deliveries import Deliveries
from memcore.ledger.webhooks.endpoints import WebhookEndpoints
from memcore.ledger.work_items import WorkItems


class Ledger:
    """The ledger and its journal in one object; open it with :meth:`open` after :func:`memcore.ledger.migrate.migrate`.

    It may be opened before a fork and used after it, and by any number of threads.
    """

    def __init__(self, *, ledger: Database, journal: Database, history: Database | None = None, clock: Clock) -> None:
        self._databases = (ledger, journal)
        self.work = WorkItems(ledger, clock=clock)
        self.agents = Agents(ledger, clock=clock)
        self.runs = Runs(ledger, clock=clock)
        self.companies = Companies(ledger, clock=clock)
        self.ticks = Ticks(ledger, clock=clock)
        self.measures = Measures(ledger, clock=clock)
        self.figures, self.memory_tests = Figures(ledger, clock=clock), MemoryTests(ledger, clock=clock)
        self.dead_letters = DeadLetters(ledger, clock=clock)
        self.shared_log = SharedLog(ledger, clock=clock)
        self.syntheses = Syntheses(ledger, clock=clock)
        self.consolidation_groups = ConsolidationGroups(ledger, clock=clock)
        self.recorded_queries = RecordedQueries(ledger, clock=clock)
        self.answers = Answers(ledger, clock=clock)
        self.approvals = Approvals(ledger, clock=clock)
        self.experiences = Experiences(ledger, clock=clock)
        self.compressions = Compressions(ledger, clock=clock)
        self.note_writing, self.change_finding = NoteWriting(ledger, clock=clock), ChangeFinding(ledger, clock=clock)
        self.trajectories, self.patterns = Trajectories(ledger), Patterns(ledger)
        self.lessons = Lessons(ledger, clock=clock)
        self.skills = Skills(ledger, clock=clock)
        self.skill_cycles = SkillCycles(ledger, clock=clock)
        self.core_slots = CoreSlots(ledger, clock=clock)
        self.conversation = ConversationMemory(ledger, clock=clock)
        self.turns = Turns(ledger, clock=clock)
        self.sessions = Sessions(ledger, clock=clock)
        self.crises = CrisisLog(ledger, clock=clock)
        self.feedback = SessionFeedback(ledger, clock=clock)
        self.spending = ModelSpending(ledger, clock=clock)
        self.usage, self.model_servers = ModelUsage(ledger, clock=clock), ModelServers(ledger, clock=clock)
        self.org = OrgLog(ledger, clock=clock)
        self.audit = Audit(ledger, clock=clock)
        self.collection_pointers = CollectionPointers(ledger, clock=clock)
        self.reindexes = Reindexes(ledger, clock=clock)
        self.reindex_marks = ReindexMarks(ledger)
        self.finetune_runs = FineTuneRuns(ledger, clock=clock)
        self.checkpoints = Checkpoints(ledger, clock=clock)
        self.attempts = Attempts(ledger, clock=clock)
        self.api_keys, self.raised = ApiKeys(ledger, clock=clock), RaisedMemories(ledger, clock=clock)
        self.idempotency = Idempotency(ledger, clock=clock)
        self.erasures, self.hidden = Erasures(ledger, clock=clock), HiddenOwners(ledger, clock=clock)
        self.distrusts, self.signing_keys = Distrusts(ledger, clock=clock), SigningKeys(ledger, clock=clock)
        self.webhooks = WebhookEndpoints(ledger, clock=clock)
        self.deliveries = Deliveries(ledger, clock=clock)
        self.erasable = ErasableRows(ledger=ledger, journal=journal)
        self.journal, self.archive = Journal(journal, clock=clock), Archive(journal, clock=clock)
        self.lineage = LineageReader(journal=journal, ledger=ledger)
        self.activity = ActivityReader(journal=journal, ledger=ledger)
        self.uses, self.keys = Uses(journal, clock=clock), MemoryKeys(journal, clock=clock)
        self.ends = RecordEnds(ledger=ledger, journal=journal, history=history)

    @classmethod
    def open(cls, urls: LedgerUrls, *, clock: Clock = utc_now) -> Self:
        """Return the ledger at these URLs; nothing is connected to before the first call.

        Raises:
            MemoryConfigError: a URL is neither SQLite's nor PostgreSQL's.
        """
        ledger, journal = Database(urls.ledger, name="ledger"), Database(urls.journal, name="journal")
        history = None if urls.history is None else Database(urls.history, name="history")
        return cls(ledger=ledger, journal=journal, history=history, clock=clock)

    def rewrite_files(self) -> bool:
        """Write SQLite's files anew, without the bytes of deleted rows; False where a database is no SQLite file.

        Raises MemoryConnectionError while others use a file.
        """
        rewritten = [rewrite_file(each) for each in self._databases]
        return all(rewritten)

    def close(self) -> None:
        """Close the connections that are kept."""
        for each in (*self._databases, self.ends):
            each.close()
