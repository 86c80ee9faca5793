"""Approvals: propose a text for all agents; list, show and decide the proposals that wait for a person."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field

from memcore.approvals import diff_of, shared_proposal, superseded_by_id, visible
from memcore.errors import MemoryConflictError, MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.ledger.erasure.hidden import Hidden
from memcore.maintenance.provenance import trace_memory
from memcore.memories import Memories
from memcore.models.approval import (
    MEMORY_RAISE,
    Approval,
    ApprovalNeed,
    ApprovalRisk,
    ApprovalState,
    Decision,
    RaisedTo,
    Raising,
    raise_proposal,
)
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, Key, MemoryStoreRequest
from memcore.models.origin import (
    OPERATOR,
    UNKNOWN,
    Authority,
    Origin,
    current_writer,
    digest_of,
    least_shown,
    writing_as,
)
from memcore.service.operation import operation
from memcore.service.resources import CompanyPart
from memcore.skills.publication import SkillApprovals, promoted_of

#: Most approvals of a page.
MAX_PAGE = 100

ApprovalId = Annotated[Key, Field(description="An approval's id, from the list.")]

_ONE = "/approvals/{approval_id}"

#: Who proposes where no name is given.
ANYBODY = "somebody"

#: What a list may show of the texts of a proposal that names none.
DEFAULT_TITLE = "A text for all agents"


class ApprovalInfo(Frozen):
    """An approval as a list shows it: everything but its texts.

    Attributes:
        needs: what it still waits for.
        supersedes: the ids of what it would take the place of.
        figures: what speaks for it, by name.
        effect: the id of what it left.
        distrusted: whether what it shows came of a distrusted source; only people are shown such a proposal.
    """

    id: str
    state: ApprovalState
    needs: ApprovalNeed | None
    risk: ApprovalRisk
    action: str
    title: str
    proposed_by: str
    supersedes: tuple[str, ...]
    figures: dict[str, Any]
    created_at: BoundedTime
    expires_at: BoundedTime
    decided_at: BoundedTime | None
    decided_by: str | None
    reason: str | None
    effect: str | None
    undone_at: BoundedTime | None
    undone_by: str | None
    undo_reason: str | None
    distrusted: bool

    @classmethod
    def of(cls, approval: Approval) -> Self:
        """Return what a list shows of an approval."""
        return cls(**{name: value for name, value in approval_facts(approval).items() if name in cls.model_fields})


class ApprovalDetail(ApprovalInfo):
    """An approval whole: the proposed text, and what it changes, sentence by sentence, as a unified diff."""

    content: str
    diff: tuple[str, ...]

    @classmethod
    def of(cls, approval: Approval) -> Self:
        """Return an approval whole."""
        facts = {name: value for name, value in approval_facts(approval).items() if name in cls.model_fields}
        return cls(**facts, content=approval.proposal.content, diff=diff_of(approval))


class ApprovalOperations(CompanyPart):
    """Files proposals and a person's decisions. Every call raises MemoryConnectionError."""

    async def propose(
        self,
        request: MemoryStoreRequest,
        *,
        by: str,
        title: str | None = None,
        risk: ApprovalRisk = ApprovalRisk.MEDIUM,
        supersedes: Sequence[str] = (),
    ) -> Approval:
        """Propose a text as shared knowledge of all agents; it is published once a person approves it.

        The same text waits once. Raises MemoryInputError; MemoryNotFoundError for an id to supersede that is not
        published; ApprovalLimitError where too many wait.
        """
        log = self._ledger.shared_log
        wanted = dict.fromkeys(supersedes)
        old = [await self._resources.run(superseded_by_id, log, self._company, each) for each in wanted]
        proposal = shared_proposal(
            request,
            title=title or DEFAULT_TITLE,
            proposed_by=by,
            risk=risk,
            supersedes=old,
            origin=current_writer().origin(),
        )
        return await self._decisions().propose_once(proposal)

    @operation("POST /agents/{agent_id}/memories/{memory_id}/raise", Verb.WRITE, status=201, shows=ApprovalInfo)
    async def propose_raise(
        self, agent_id: str, memory_id: str, *, to: RaisedTo = Authority.INFORM, by: str | None = None
    ) -> Approval:
        """Propose to raise a memory above what its channels give it; it is raised once a person approves it.

        The proposal shows the text, and the texts that it was made of. Nothing made of the memory is raised, and
        neither is its next version.

        Raises MemoryNotFoundError, MemoryInputError, ApprovalLimitError.
        """
        resources = self._resources
        backend, policy = await resources.backend(), resources.policy
        kept = Memories(backend, self._ledger, company=self._company, policy=policy, clock=resources.clock)
        entry = await kept.get(agent_id, memory_id)
        if entry is None:
            raise MemoryNotFoundError("memory_id: names no memory of this agent")
        # People read it, also where a program proposed it.
        with writing_as(OPERATOR):
            history = await trace_memory(
                entry.id,
                backend=backend,
                ledger=self._ledger,
                company=self._company,
                journal_days=policy.memory.consolidation.journal_days,
                agent_id=agent_id,
                with_text=True,
            )
        proposal = raise_proposal(
            entry,
            to,
            by=by or ANYBODY,
            policy=policy.memory.origins.authority,
            made_of={each.memory_id: each.text for each in history.sources()},
        )
        return await self._decisions().propose_once(proposal)

    @operation("GET /approvals", Verb.READ, shows=ApprovalInfo, under="approvals", tool="list_approvals")
    async def list(
        self,
        *,
        state: Annotated[
            ApprovalState | None, Field(description="Only those of this state; pending ones wait.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Most rows, newest first.")] = 20,
    ) -> tuple[Approval, ...]:
        """Return the proposals that wait for a person, and those that were decided, newest first."""
        hidden, most = await self._resources.hidden(), min(limit, MAX_PAGE)
        found, page = list[Approval](), self._ledger.approvals.page
        last: Approval | None = None
        while len(found) < most and (more := await self._ask(page, state=state, before=last, limit=most)):
            found += [seen for each in more if (seen := self._seen(each, hidden)) is not None]
            last = more[-1]
        return tuple(found[:most])

    async def get(self, approval_id: str) -> Approval:
        """Return an approval. Raises MemoryNotFoundError, also where what it shows is not shown to this reader."""
        approval = await self._ask(self._ledger.approvals.get, approval_id)
        seen = None if approval is None else self._seen(approval, await self._resources.hidden())
        if seen is None:
            raise MemoryNotFoundError(f"approval_id: {approval_id!r} names no approval; see `memtend approvals list`")
        return seen

    @operation(f"GET {_ONE}", Verb.READ, tool="show_approval")
    async def detail(self, approval_id: ApprovalId) -> ApprovalDetail:
        """Return one proposal: who proposed and decided, its figures, its text, and what it changes.

        Raises MemoryNotFoundError.
        """
        return await self._resources.run(ApprovalDetail.of, await self.get(approval_id))

    @operation(f"POST {_ONE}/approve", Verb.APPROVE, shows=ApprovalInfo, tool="approve_proposal")
    async def approve(self, approval_id: ApprovalId, decision: Decision) -> Approval:
        """Approve a proposal, which a person must have read, and carry it out; refused when somebody decided before.

        Raises ApprovalClosedError; MemoryNotFoundError, MemoryInputError, SkillLimitError,
        MemoryCapabilityError; of a memory to raise MemoryChannelError unless a person decides, and MemoryConflictError
        where it does not say any more what the proposal shows.
        """
        found = await self.get(approval_id)
        if found.proposal.action == MEMORY_RAISE and found.state is ApprovalState.PENDING:
            await self._require_as_shown(Raising.of(found.proposal))
        return await (await self._effective()).approve(approval_id, decision)

    async def _require_as_shown(self, wanted: Raising) -> None:
        stored = await (await self._resources.backend()).get_many(wanted.agent_id, [wanted.memory_id])
        if not any(digest_of(each.entry.content) == wanted.digest for each in stored):
            raise MemoryConflictError("memory_id: the memory is gone, or was changed; reject this, and propose it anew")

    @operation(f"POST {_ONE}/reject", Verb.APPROVE, shows=ApprovalInfo, tool="reject_proposal")
    async def reject(self, approval_id: ApprovalId, decision: Decision) -> Approval:
        """Reject a proposal: nothing is published; refused when somebody decided before.

        Raises ApprovalClosedError, MemoryNotFoundError.
        """
        await self.get(approval_id)
        return await self._decisions().reject(approval_id, decision)

    @operation(f"POST {_ONE}/undo", Verb.APPROVE, shows=ApprovalInfo)
    async def undo(self, approval_id: ApprovalId, decision: Decision) -> Approval:
        """Undo an approval: remove what it published, and restore what it superseded.

        Raises ApprovalClosedError, MemoryNotFoundError, MemoryCapabilityError.
        """
        await self.get(approval_id)
        return await (await self._effective()).undo(approval_id, decision)

    def _seen(self, approval: Approval, hidden: Hidden) -> Approval | None:
        """Return an approval as this reader sees it; None where it shows what the reader is not shown.

        People see also what is distrusted, marked: they decide.
        """
        proposal, sources, origin = approval.proposal, promoted_of(approval), _origin_of(approval)
        if proposal.action == MEMORY_RAISE:
            of = Raising.of(proposal)
            if hidden.hides(of.agent_id, of.namespace):
                return None
            is_distrusted = hidden.may_distrust(of.agent_id, of.memory_id, origin)
            # It may have been raised before.
            is_shown = Authority(str(proposal.figures["authority"])).reaches(least_shown(Authority.QUARANTINED))
        else:
            named = {approval.effect, *(each.id for each in proposal.supersedes)}
            is_distrusted = any(map(hidden.distrusts_source, sources)) or not named.isdisjoint(hidden.fallen)
            is_shown = self._is_shown(origin)
        if not is_shown or (is_distrusted and not current_writer().is_person):
            return None
        return approval.model_copy(update={"distrusted": True}) if is_distrusted else approval

    def _decisions(self) -> SkillApprovals:
        resources = self._resources
        return SkillApprovals.configured(resources.settings, resources.policy, self._ledger, clock=resources.clock)

    async def _effective(self) -> SkillApprovals:
        resources = self._resources
        backend = await resources.backend()
        return SkillApprovals.configured(
            resources.settings, resources.policy, self._ledger, backend=backend, clock=resources.clock
        )


def _origin_of(approval: Approval) -> Origin:
    """Return the origin of what a proposal shows: of the memory, the lessons, or the key that filed it."""
    proposal = approval.proposal
    if proposal.action == MEMORY_RAISE:
        named = {"via": str(proposal.figures["channels"]).split(", "), "by": json.loads(str(proposal.figures["keys"]))}
        return Origin.read(named) or UNKNOWN
    if sources := promoted_of(approval):
        return Origin.of(each.origin for each in sources)
    return Origin.read(proposal.details.get("origin")) or UNKNOWN


def approval_facts(approval: Approval) -> dict[str, Any]:
    """Return what may be shown of an approval without being asked for: everything but its texts."""
    proposal = approval.proposal
    return {
        "id": approval.approval_id,
        "state": str(approval.state),
        "needs": approval.needs and str(approval.needs),
        "risk": str(proposal.risk),
        "action": proposal.action,
        "title": visible(proposal.title),
        "proposed_by": visible(proposal.proposed_by),
        "supersedes": [each.id for each in proposal.supersedes],
        "figures": proposal.figures,
        **approval.model_dump(exclude={"approval_id", "proposal", "state", "needs"}),
    }
