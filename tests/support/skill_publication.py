"""Skills of an organisation for tests: proposed, approved, and everything that can be seen of them at once."""

from pathlib import Path
from typing import Any

from memcore.approvals import ApprovalService, EffectRegistry, PublicationLog, SharedPublication
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.config.learning import ApprovalsConfig
from memcore.ledger.learning.skills import SkillState
from memcore.ledger.ledger import Ledger
from memcore.models.approval import Approval, Proposal
from memcore.models.memory import MemoryQuery
from memcore.procedural.skill_files import SkillFolders
from memcore.skills.publication import ORG_PROMOTION, SkillRows, SkillStore, promotion, superseded_skill
from support.fault_injection import Faults
from support.ledger_records import COMPANY, StoppedClock
from support.lessons import lesson
from support.proposals import ADA

Store = InMemoryBackend | Mem0Backend


class SkillWorld:
    """One ledger, one store, one directory of skills; as many processes as one likes."""

    def __init__(self, store: Store, ledger: Ledger, root: Path, clock: StoppedClock) -> None:
        self.store = store
        self.ledger = ledger
        self.root = root
        self.clock = clock
        self.log: PublicationLog = store.shared_log if isinstance(store, InMemoryBackend) else ledger.shared_log

    def effect(self, *, limit: int = 1_000, faults: Faults | None = None) -> SharedPublication:
        """A process's effect; with faults, every call to store and rows is counted."""
        watched = (lambda thing, _: thing) if faults is None else faults.watched
        rows: Any = watched(self.ledger.skills, "skills")
        skill_store = SkillStore(watched(SkillFolders(self.root, company=COMPANY), "folders"), rows, company=COMPANY)
        notes = SkillRows(rows, self.log, company=COMPANY, limit=limit, clock=self.clock, skill_store=skill_store)
        return SharedPublication(
            watched(self.store, "store"),
            watched(self.log, "log"),
            self.ledger.approvals,
            company=COMPANY,
            clock=self.clock,
            action=ORG_PROMOTION,
            notes=notes,
        )

    def service(self, *, limit: int = 1_000, faults: Faults | None = None) -> ApprovalService:
        table = self.ledger.approvals if faults is None else faults.watched(self.ledger.approvals, "approvals")
        effects = EffectRegistry([self.effect(limit=limit, faults=faults)])
        return ApprovalService(table, effects, company=COMPANY, lasts=ApprovalsConfig().lasts)

    def proposal(self, name: str, *instead_of: str, **changed: Any) -> Proposal:
        """A lesson that its name makes one of its own."""
        return promotion(
            lesson(discovery=f"The lift: {name}.", **changed),
            title="A skill for all agents",
            pattern_id=f"pattern of {name}",
            cycle_id="cycle",
            figures={"agents": 3},
            supersedes=[superseded_skill(self.log, COMPANY, each) for each in instead_of],
        )

    async def approved(self, name: str, *instead_of: str) -> str:
        """Propose a skill under its name, approve it, and return its id."""
        await self.service().propose(name, self.proposal(name, *instead_of))
        return effect_of(await self.service().approve(name, ADA))

    def states(self) -> dict[str, str]:
        """Return the state of each skill by its approval."""
        rows = self.ledger.skills.page(COMPANY)
        return {each.approval_id: str(each.state) for each in rows}

    async def standing(self) -> set[str]:
        """Return the approvals whose skill is found, which searches, rows and folders agree about."""
        found = await self.store.search_shared(MemoryQuery(limit=1000))
        texts = [entry.content.split("\n")[1] for entry in found]
        assert len(set(texts)) == len(texts), "a skill is found twice"
        names = {text.removeprefix("The lift: ").removesuffix(".") for text in texts}
        assert {name for name, state in self.states().items() if state == SkillState.ACTIVE} == names
        assert {
            each.name.removeprefix("the-lift-").rsplit("-", 1)[0] for each in self.root.glob("*") if each.is_dir()
        } == names
        return names


def effect_of(approval: Approval) -> str:
    assert approval.effect is not None
    return approval.effect
