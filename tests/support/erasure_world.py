"""A data folder with a real store, ledger and broker, in which two agents have used every feature that keeps texts."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from pydantic import SecretStr

from memcore import ids
from memcore.backends.deletion import Deletion
from memcore.backends.factory import create_worker_backend, mem0_config_of
from memcore.backends.mem0.backend import Mem0Backend
from memcore.client.client import MemoryClient
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.erasure.checkpoints import TrainedCheckpoints
from memcore.erasure.files import AgentFiles
from memcore.erasure.points import AgentPoints
from memcore.erasure.queues import BrokerMessages
from memcore.erasure.service import DRAIN_DELAY, ErasureService
from memcore.finetune.run_folder import runs_of
from memcore.ingest import Ingestor
from memcore.jobs import RecordedQuery, StorePayload
from memcore.ledger.consolidation_groups import CHANGES, ConsolidationGroup, GroupState
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.erasure.shared_rows import HistoryRows
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.learning.skills import Skill, SkillState
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.maintenance.changes import carry_out_pairs
from memcore.models.archival import ArchivalMode
from memcore.models.conversation import Owner
from memcore.models.execution import TerminationReason
from memcore.models.memory import ConsolidationInterval, MemoryCategory, MemoryLevel, MemoryStoreRequest, propagated_tag
from memcore.models.memory_test import MemoryTest
from memcore.procedural.skill_files import SkillFolders
from memcore.records import SearchNotes, Where
from memcore.wiki.exporter import WikiExporter
from support.conversations import record_turn
from support.execution_traces import trajectory
from support.experiences import experience
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import COMPANY
from support.lessons import lesson
from support.memories import NOW, StoppedClock, copied, record
from support.proposals import proposal
from support.store_items import item

SPACE = UUID("0c5f7d9e-5a3e-4c53-8a77-1f6f0b6a4a10")
WORD = Confirmation(actor="grace", confirm=True, reason="ada has left")
POLICY = Policy.model_validate(
    {
        "memory": {
            "consolidation": {"wiki_export": {"enabled": True, "export_root": "wiki"}},
            "procedural": {"skill_md_directory": "skills"},
        }
    }
)


@dataclass
class ErasureWorld:
    """One company's stores, and the secrets that its agents have put into them."""

    settings: Settings
    ledger: Ledger
    backend: Mem0Backend
    clock: StoppedClock
    secrets: dict[str, list[str]] = field(default_factory=dict)

    def secret(self, agent_id: str) -> str:
        """Return a text that no other place holds."""
        known = self.secrets.setdefault(agent_id, [])
        known.append(f"{uuid5(SPACE, f'{agent_id}{len(known)}').hex}")
        return f"the code is {known[-1]} today"

    async def fill(self, agent_id: str) -> None:
        """Use every feature as this agent."""
        await self._memories(agent_id)
        await self._lessons(agent_id)
        await self._conversations(agent_id)
        await self._files(agent_id)

    async def _memories(self, agent_id: str) -> None:
        ledger, clock = self.ledger, self.clock
        ledger.agents.register(COMPANY, [agent_id], interval=ConsolidationInterval.DAILY)
        ingestor = self.ingestor()
        items = [
            item(self.secret(agent_id), agent_id=agent_id, sent_at=clock(), key=f"k{n}" if n < 10 else None)
            for n in range(60)
        ]
        await ingestor.write(items)
        notes = [SearchNotes(by="m", texts=(self.secret(agent_id),)) for _ in range(10)]
        await self.backend.set_search_notes(agent_id, dict(zip([each.id for each in items[50:]], notes, strict=True)))
        # One that another one has superseded, as a model said.
        pair = ConsolidationGroup(
            company=COMPANY,
            run_id=f"changes of {agent_id}",
            agent_id=agent_id,
            category=MemoryCategory.SEMANTIC,
            strategy=CHANGES,
            state=GroupState.APPROVED,
            source_ids=(items[51].id, items[52].id),
        )
        ledger.consolidation_groups.note([pair])
        await carry_out_pairs(self.backend, ledger, COMPANY, agent_id, check=lambda: None)
        # A new version under a key, removals in the journal, archived memories with copies in the store.
        await ingestor.write([item(self.secret(agent_id), agent_id=agent_id, sent_at=clock(), key="k1")])
        changes = Deletion.over(ledger, company=COMPANY, clock=clock)
        await changes.delete_many(self.backend, agent_id, [each.id for each in items[20:30]])
        archived = [record(agent_id, self.secret(agent_id)) for _ in range(10)]
        for each in archived:
            ledger.archive.put(COMPANY, each, mode=ArchivalMode.EXTRACTIVE, archived_at=clock())
        copies = [copied(each, items[40].id) for each in archived[:5]]
        await self.backend.index_archived(agent_id, copies)
        queries = [
            RecordedQuery(
                agent_id=agent_id, question=self.secret(agent_id), memory_ids=(items[0].id,), asked_at=clock()
            )
            for _ in range(10)
        ]
        ledger.recorded_queries.record(COMPANY, queries)
        asked = {"agent": agent_id, "name": self.secret(agent_id), "question": self.secret(agent_id)}
        finds = [{"text": self.secret(agent_id)}]
        ledger.memory_tests.register(COMPANY, [MemoryTest.model_validate(asked | {"finds": finds})], notes=[])
        for n in range(10):
            request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=self.secret(agent_id))
            memory_id = await self.backend.publish(agent_id, request)
            if n % 2:
                await self.backend.retract(agent_id, memory_id)
        for n in range(10):
            payload = StorePayload(company=COMPANY, items=(item(self.secret(agent_id), agent_id=agent_id),))
            ledger.dead_letters.put(letter(f"{agent_id}-{n}", payload))

    def ingestor(self, backend: Any = None) -> Ingestor:
        """Return what writes memories in a worker."""
        daily, level = ConsolidationInterval.DAILY, MemoryLevel.PERSISTENT
        return Ingestor(backend or self.backend, self.ledger, company=COMPANY, interval=daily, level=level)

    async def _lessons(self, agent_id: str) -> None:
        ledger, clock = self.ledger, self.clock
        for n in range(20):
            ledger.experiences.append(
                COMPANY,
                experience(
                    f"{agent_id}-{n}", agent_id=agent_id, prompt=self.secret(agent_id), output=self.secret(agent_id)
                ),
            )
            made = trajectory(
                f"{agent_id}-{n}",
                agent_id=agent_id,
                task_title=self.secret(agent_id),
                termination_reason=TerminationReason.ERROR,
                error_category=f"only-{agent_id}",
                error_message=self.secret(agent_id),
            )
            ledger.trajectories.append(COMPANY, made, lesson_at=clock())
        for n in range(5):
            made_by = proposal(self.secret(agent_id), proposed_by=agent_id)
            ledger.approvals.file(COMPANY, f"{agent_id}-{n}", made_by, lasts=timedelta(days=9))
        asked = ledger.answers.claim_question(
            COMPANY, f"q-{agent_id}", agent_id=agent_id, run_id=None, purpose="test", lease=timedelta(minutes=1)
        )
        assert asked is not None
        assert asked.token is not None
        ledger.answers.finish(COMPANY, f"q-{agent_id}", asked.token, self.secret(agent_id))
        # A skill that only this agent's failures have shown, published for all, and copies of its lessons.
        text = lesson(discovery=self.secret(agent_id))
        request = MemoryStoreRequest(category=MemoryCategory.PROCEDURAL, content=self.secret(agent_id))
        skill_id = await self.backend.publish("approvals", request)
        skill = Skill(
            skill_id=skill_id,
            approval_id=f"skill-{agent_id}",
            pattern_id=ids.pattern_id(company=COMPANY, kind=str(PatternKind.FAILURE), key=f"only-{agent_id}"),
            state=SkillState.ACTIVE,
            confidence=0.5,
            text=text.model_dump_json(),
            published_at=clock(),
            changed_at=clock(),
        )
        ledger.skills.put(COMPANY, skill)
        skill_folders = SkillFolders(self.settings.home / "skills", company=COMPANY)
        skill_folders.write(text, memory_id=skill_id, source="test")
        ledger.agents.register(COMPANY, ["carol"], interval=ConsolidationInterval.DAILY)
        copies = [record("carol", self.secret(agent_id), tags=(propagated_tag(agent_id),)) for _ in range(5)]
        await self.backend.store_many(copies)
        changes = Deletion.over(ledger, company=COMPANY, clock=clock)
        await changes.delete_many(self.backend, "carol", [copies[0].entry.id])

    async def _conversations(self, agent_id: str) -> None:
        for n in range(10):
            owner = Owner(agent_id=agent_id, subject=f"user:{n % 2}")
            said: dict[str, Any] = {"user_text": self.secret(agent_id), "assistant_text": self.secret(agent_id)}
            record_turn(self.ledger, f"{agent_id}-{n}", owner=owner, session_id=f"{agent_id}-{n}", **said)

    async def _files(self, agent_id: str) -> None:
        wiki = POLICY.memory.consolidation.wiki_export
        home = self.settings.home
        await WikiExporter(self.backend, self.ledger, wiki, home=home, company=COMPANY, clock=self.clock).export(
            [agent_id]
        )
        passages = runs_of(home, COMPANY) / f"run-{agent_id}" / "generating_data-1"
        passages.mkdir(parents=True, exist_ok=True)
        (passages / "passages.jsonl").write_text(self.secret(agent_id))

    def service(self, **given: Any) -> ErasureService:
        """Return the service as a worker builds it."""
        settings, ledger = self.settings, self.ledger
        parts: dict[str, Any] = {
            "ledger": ledger,
            "backend": self.backend,
            "points": AgentPoints(mem0_config_of(settings), ledger, company=COMPANY),
            "history": HistoryRows(settings.history_url),
            "files": AgentFiles(settings, POLICY, ledger, self.backend),
            "broker": BrokerMessages(settings.broker_url),
            "trained": TrainedCheckpoints(ledger, company=COMPANY, home=settings.home),
            "company": COMPANY,
            "home": settings.home,
            "clock": self.clock,
        }
        return ErasureService(**{**parts, **given})

    def asked(self, agent_id: str = "ada", **given: Any) -> str:
        """Request an erasure, let the time pass that jobs get to end, and return its id."""
        erasure = self.ledger.erasures.request(COMPANY, agent_id, confirmation=WORD, **given)
        self.clock.now += DRAIN_DELAY
        return erasure.erasure_id

    def send(self, agent_id: str) -> None:
        """Send a memory of the agent, as an engine does."""
        with MemoryClient.from_settings(self.settings) as client:
            request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=self.secret(agent_id))
            client.store(agent_id, request)

    async def memories(self, agent_id: str) -> list[str]:
        """Return the texts of the agent's memories, in order."""
        page = await self.backend.scan(Where(agent_id=agent_id))
        return sorted(each.entry.content for each in page.records)


def letter(job_id: str, payload: StorePayload) -> NewDeadLetter:
    return NewDeadLetter(
        job_id=job_id,
        company=COMPANY,
        job=payload.task,
        queue="memory.store",
        payload=payload.model_dump_json(),
        reason="tired",
        attempts=1,
    )


@contextmanager
def ledger_of(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    ledger = Ledger.open(urls, clock=clock)
    try:
        yield ledger
    finally:
        ledger.close()


@asynccontextmanager
async def erasure_world(
    home: Path, urls: LedgerUrls, *, history_url: str, store: Any, broker_url: str
) -> AsyncIterator[ErasureWorld]:
    """Open the stores of a data folder."""
    clock = StoppedClock(NOW)
    settings = Settings(
        company=COMPANY,
        home=home,
        broker_url=broker_url,
        result_url="redis://127.0.0.1:1/0" if broker_url.startswith("amqp") else broker_url,
        database_url=urls.ledger,
        journal_url=urls.journal,
        history_url=history_url,
        qdrant_url=store.url,
        qdrant_api_key=SecretStr(store.api_key),
    )
    backend = create_worker_backend(settings, POLICY, embedder=HashingEmbedder(), clock=clock)
    assert isinstance(backend, Mem0Backend)
    await backend.connect()
    try:
        with ledger_of(urls, clock) as ledger:
            yield ErasureWorld(settings, ledger, backend, clock)
    finally:
        await backend.disconnect()
