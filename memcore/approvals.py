"""Files proposals, stores a person's decision once, and carries it out once, whenever a process dies.

The effects of decisions stand here too, one for each action and each idempotent, and the webhook that notifies an
operator's address that a proposal waits, without its content.
"""

import asyncio
import logging
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from http import HTTPStatus
from itertools import count, groupby
from typing import NamedTuple, Protocol, runtime_checkable

from memcore import ids
from memcore.backends.protocol import ORGANISATION, SharedKnowledgeStore
from memcore.clock import Clock
from memcore.errors import (
    ApprovalClosedError,
    MemoryCapabilityError,
    MemoryError,  # noqa: A004  # the reference's name
    MemoryInputError,
    MemoryNotFoundError,
)
from memcore.ledger.access.raised import RaisedMemories
from memcore.ledger.organization import audit
from memcore.ledger.organization.approvals import Approvals, CapacityLimit
from memcore.ledger.organization.shared_log import SharedEntry
from memcore.models.approval import (
    MEMORY_RAISE,
    Approval,
    ApprovalNeed,
    ApprovalRisk,
    ApprovalState,
    Decision,
    Proposal,
    Raising,
    Superseded,
)
from memcore.models.attributes import canonical_json
from memcore.models.base import naming_fields
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryStoreRequest
from memcore.models.origin import (
    ENGINE,
    UNKNOWN,
    Origin,
    Raised,
    current_writer,
    digest_of,
    writing_as,
)
from memcore.telemetry.events import Event

#: How long the other side may take: the caller that files a proposal waits for it.
TIMEOUT = timedelta(seconds=5)

_log = logging.getLogger(__name__)


class Webhook:
    """Posts id, action, title and risk of a proposal as JSON; a failure is logged and never raised.

    The address may hold a secret, so it is in no log. A redirect is not followed.
    """

    def __init__(self, url: str, *, timeout: timedelta = TIMEOUT) -> None:
        self._url = url
        self._timeout = timeout

    async def notify(self, approval: Approval) -> None:
        """Send it, once; what is lost is lost, and `memtend approvals list` still shows the proposal."""
        # Few processes file proposals.
        import orjson  # noqa: PLC0415  # see above

        from memcore.bounded_http import AnswerTooSlowError, ask, open_client  # noqa: PLC0415  # see above

        proposal = approval.proposal
        body = {
            "id": approval.approval_id,
            "action": proposal.action,
            "title": proposal.title,
            "risk": str(proposal.risk),
        }
        problem = ""
        try:
            async with open_client(self._url) as client:
                content = orjson.dumps(body)
                answer = await ask(client, "POST", self._url, content=content, max_bytes=None, within=self._timeout)
            if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
                problem = f"status {answer.status}"
        except AnswerTooSlowError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # whatever an address or its server does, the proposal is filed
            # Its class alone: some messages name the address.
            problem = type(error).__name__
        if problem:
            _log.warning(Event.APPROVAL_WEBHOOK_FAILED, extra={"approval_id": approval.approval_id, "problem": problem})


@runtime_checkable
class ApprovalEffects(Protocol):
    """Carries out the approvals of one action, and takes them back.

    A process may die between any two steps, and a slow one may go on after another has finished: both calls may
    be repeated, at the same moment, and ``publish`` even after ``take_back``. Each counts once by the approval's id.
    """

    @property
    def action(self) -> str:
        """The action of the proposals that these are for, such as ``shared:publish``."""
        ...

    def room(self, approval: Approval) -> CapacityLimit | None:
        """Return the capacity that is checked while the decision is stored; None for no limit.

        Raises MemoryInputError when it could never be carried out; nothing is decided then.
        """
        ...

    async def publish(self, approval: Approval) -> str:
        """Carry it out and return the id of what it left; after it was taken back, nothing comes back.

        Raises MemoryError; the approval stays open then, and this is called again.
        """
        ...

    async def take_back(self, approval: Approval) -> None:
        """Take back what it left, and bring back what it took the place of; raises as publish does."""
        ...


class EffectRegistry:
    """The effects that this process can carry out, one for each action."""

    def __init__(self, effects: Iterable[ApprovalEffects] = ()) -> None:
        self._effects = {each.action: each for each in effects}

    def of(self, action: str) -> ApprovalEffects:
        """Return the effects of an action; MemoryCapabilityError when nothing here carries it out."""
        found = self._effects.get(action)
        if found is None:
            known = ", ".join(sorted(self._effects)) or "none"
            raise MemoryCapabilityError(f"nothing here carries out the action {action!r}; known are: {known}")
        return found


#: Under whose name approved texts are published: no agent's, so that each agent finds them and none takes them back.
PUBLISHER = "approvals"

#: The tag of every text that a person approved.
APPROVED_TAG = "approved"

_BY_TAG = "approved-by:"

#: What the source of an approved text begins with; the approval's id follows.
_SOURCE = "approval:"


def text_of(approval: Approval) -> MemoryStoreRequest:
    """Return what an approval publishes; raises as :func:`request_of`."""
    return request_of(approval.proposal, source=f"{_SOURCE}{approval.approval_id}", by=approval.decided_by)


def approval_id_of(entry: MemoryEntry) -> str | None:
    """Return the id of the approval that published an entry, or None."""
    source = entry.metadata.source or ""
    if entry.agent_id != PUBLISHER or not source.startswith(_SOURCE):
        return None
    return source.removeprefix(_SOURCE)


def request_of(proposal: Proposal, *, source: str, by: str | None) -> MemoryStoreRequest:
    """Return the publication of a proposal, with the approver among its tags. Raises MemoryInputError."""
    details = proposal.details
    tags = (*details.get("tags", ()), APPROVED_TAG, f"{_BY_TAG}{by}")
    with naming_fields():
        return MemoryStoreRequest.model_validate(
            {
                "category": details.get("category", MemoryCategory.SEMANTIC),
                "namespace": details.get("namespace", "default"),
                "content": proposal.content,
                "metadata": MemoryMetadata(source=source, confidence=details.get("confidence", 1.0), tags=tags),
            }
        )


class AuditNotes:
    """Records an approval's publication; this one records nothing.

    Every call may be repeated at any time, and then changes nothing. ``fact_id`` is the id under which the approval's
    text was published first.
    """

    def room(self, approval: Approval) -> CapacityLimit | None:  # noqa: ARG002  # for those that have one
        """Return the capacity; see ApprovalEffects.room."""
        return None

    async def published(self, approval: Approval, fact_id: str) -> None:
        """Record that the text can be found, unless it was taken back since."""

    async def superseded(self, fact_id: str, old: Superseded) -> None:
        """Record that the superseded one was retracted, if it was, while the text is still published."""

    async def withdrawn(self, fact_id: str) -> None:
        """Record that the text is being taken back, before anything else is done about it."""

    def ended(self, fact_id: str, old: Superseded) -> bool | None:  # noqa: ARG002  # for those that record it
        """Whether this text ended that one; None where nothing is recorded, and the log decides."""
        return None

    async def returned(self, fact_id: str, old: Superseded) -> None:
        """Record that the one that this text had ended is published again, if it is."""


#: The action's name.
SHARED_PUBLISH = "shared:publish"


class PublicationLog(Protocol):
    """The log of shared knowledge; the ledger's SharedLog is one."""

    def history(self, company: str, memory_id: str) -> Sequence[SharedEntry]:
        """Return all lines of the fact that was once published under this id, in order; none for an unknown id."""
        ...


@runtime_checkable
class SharedLogProvider(Protocol):
    """A store with a log of shared knowledge of its own, instead of the ledger's."""

    @property
    def shared_log(self) -> PublicationLog:
        """The log."""
        ...


@dataclass(frozen=True, eq=False)
class SharedPublication:
    """Publishes approved texts under the approval's id, and retracts what they supersede.

    The log of shared knowledge is the truth: a text is published at most once for each approval, also by a process that
    slept through its undo. A superseded text comes back only where this approval had ended it.
    """

    store: SharedKnowledgeStore
    log: PublicationLog
    approvals: Approvals
    _: KW_ONLY
    company: str
    clock: Clock
    action: str = SHARED_PUBLISH
    notes: AuditNotes = field(default_factory=AuditNotes)

    def room(self, approval: Approval) -> CapacityLimit | None:
        """Return the capacity; raises MemoryInputError when this text could not be published."""
        text_of(approval)
        return self.notes.room(approval)

    async def publish(self, approval: Approval) -> str:
        """Publish the text, then retract what it supersedes; return the id under which it is found."""
        memory_id = await self.store.publish(PUBLISHER, text_of(approval), once=True)
        lines = self.log.history(self.company, memory_id)
        # The store keeps its log to itself: its entry is all that is known.
        fact_id = lines[0].memory_id if lines else memory_id
        await self.notes.published(approval, fact_id)
        for each in approval.proposal.supersedes:
            # The very publication that the person saw: a later one is not this approval's to end.
            await self.store.retract(each.owner or PUBLISHER, each.id)
            await self.notes.superseded(fact_id, each)
        return memory_id

    async def take_back(self, approval: Approval) -> None:
        """Publish anew what it ended, then retract the text."""
        if approval.effect is None:
            return
        own = self.log.history(self.company, approval.effect)
        if not own:
            await self.notes.withdrawn(approval.effect)
            await self.store.retract(PUBLISHER, approval.effect)
            return
        fact_id = own[0].memory_id
        await self.notes.withdrawn(fact_id)
        for each in approval.proposal.supersedes:
            ended = self._ended(each, own)
            if ended is not None:
                again = MemoryStoreRequest.model_validate(ended, from_attributes=True)
                await self.store.publish(ended.agent_id, again)
            await self.notes.returned(fact_id, each)
        # By its last id: it may have been superseded and published again.
        await self.store.retract(own[-1].agent_id, own[-1].memory_id)

    def _ended(self, superseded: Superseded, own: Sequence[SharedEntry]) -> MemoryEntry | None:
        """Return what this approval retracted, unless others did, or it is published, or should not be."""
        lines = self.log.history(self.company, superseded.id)
        if not lines or lines[-1].kind != "retract" or lines[-1].memory_id != superseded.id:
            return None
        is_ours = self.notes.ended(own[0].memory_id, superseded)
        if not (_is_between(lines[-1], own) if is_ours is None else is_ours):
            return None
        records = (line.record for line in lines if line.memory_id == superseded.id)
        entry = next((record.entry for record in records if record is not None), None)
        if entry is None or (entry.expires_at is not None and entry.expires_at <= self.clock()):
            return None
        approval_id = approval_id_of(entry)
        approval = None if approval_id is None else self.approvals.get(self.company, approval_id)
        return None if approval is not None and approval.state is ApprovalState.UNDONE else entry


def shared_proposal(
    request: MemoryStoreRequest,
    *,
    title: str,
    proposed_by: str,
    risk: ApprovalRisk = ApprovalRisk.MEDIUM,
    supersedes: Sequence[Superseded] = (),
    origin: Origin = UNKNOWN,
) -> Proposal:
    """Return the proposal to publish a text for all agents; its source and confidence become those of the approval.

    ``origin`` says who proposes it: readers that are not shown such texts are not shown the proposal.

    Raises MemoryInputError when a value breaks its limit.
    """
    tags = list(request.metadata.tags)
    proposal = Proposal(
        action=SHARED_PUBLISH,
        risk=risk,
        title=title,
        content=request.content,
        proposed_by=proposed_by,
        supersedes=tuple(supersedes),
        details={
            "category": str(request.category),
            "namespace": request.namespace,
            "tags": tags,
            "origin": origin.stored(),
        },
    )
    # With the tags of an approval beside its own it must still be what can be published: better refused here than when
    # somebody has approved it.
    request_of(proposal, source="approval", by=proposed_by)
    return proposal


def superseded_by_id(log: PublicationLog, company: str, memory_id: str) -> Superseded:
    """Return shared knowledge as something to be superseded; MemoryNotFoundError when it is not published now."""
    lines = log.history(company, memory_id)
    if not lines or lines[-1].record is None or lines[-1].memory_id != memory_id:
        raise MemoryNotFoundError(f"supersedes: {memory_id!r} is not published; see `memtend shared search`")
    entry = lines[-1].record.entry
    if entry.agent_id == ORGANISATION:
        raise MemoryInputError("supersedes", f"{memory_id} is a fact of the organisation: `memtend org` changes those")
    return Superseded(id=memory_id, content=entry.content, owner=entry.agent_id)


def _is_between(retraction: SharedEntry, own: Sequence[SharedEntry]) -> bool:
    """Whether it was retracted while a text of this approval was published, and so by the approval."""
    since = own[0].version
    until = own[-1].version if own[-1].kind == "retract" else None
    return since <= retraction.version and (until is None or retraction.version <= until)


@dataclass(frozen=True, eq=False)
class MemoryRaising:
    """Raises memories as approvals say, and lowers them again.

    The ledger alone knows what is raised: nothing that is stored or sent can claim it, and no copy of a memory keeps
    it once the approval is undone.
    """

    raised: RaisedMemories
    _: KW_ONLY
    company: str
    action: str = MEMORY_RAISE

    def room(self, approval: Approval) -> CapacityLimit | None:
        """Return no limit; MemoryChannelError unless a person decides, MemoryInputError for a broken proposal."""
        Raising.of(approval.proposal)
        current_writer().require_person()
        return None

    async def publish(self, approval: Approval) -> str:
        """Raise the memory that was shown, and return its id; another text under its id is not raised."""
        wanted = Raising.of(approval.proposal)
        found = Raised(to=wanted.to, approval_id=approval.approval_id, digest=wanted.digest)
        where = {"agent_id": wanted.agent_id, "memory_id": wanted.memory_id}
        await asyncio.to_thread(self.raised.add, self.company, found, **where)
        return wanted.memory_id

    async def take_back(self, approval: Approval) -> None:
        """Lower the memory again, to what its channels give it, or another approval."""
        await asyncio.to_thread(self.raised.remove, self.company, approval.approval_id)


#: The end of a sentence inside a line: memories are often one long line, and a diff of one line shows nothing. The
#: number that begins the line of a list ends no sentence.
_SENTENCE_END = re.compile(r"(?<=[.!?。])(?<!^\d\.)(?<!^\d\d\.)\s+")


def diff_of(approval: Approval) -> tuple[str, ...]:
    """Return the proposed text against each text that it supersedes, or against nothing, whole.

    The lines are those of a unified diff, one for each sentence. Control characters, and marks that turn the direction
    of writing, are written as their escapes.
    """
    lines: list[str] = []
    new = sentences(approval.proposal.content)
    old = [(each.id, sentences(each.content)) for each in approval.proposal.supersedes] or [("nothing", [])]
    for name, before in old:
        if before != new:
            lines += [f"--- {name}", "+++ proposed", f"@@ -{_range(before)} +{_range(new)} @@"]
        for change in changes(before, new):
            if change.is_equal:
                lines += [f" {each}" for each in change.old]
            else:
                lines += [f"-{each}" for each in change.old] + [f"+{each}" for each in change.new]
    return tuple(lines)


def _range(lines: Sequence[str]) -> str:
    """All lines, as the head of a unified diff names them."""
    return "1" if len(lines) == 1 else f"{min(len(lines), 1)},{len(lines)}"


class Change(NamedTuple):
    """Parts of two sequences that stand beside one another."""

    is_equal: bool
    old: Sequence[str]
    new: Sequence[str]


def changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """Return what is equal in two sequences and what is not, in order, in n log n steps; difflib may take n cubed.

    An item is paired with that of the same number among its equals. Of these pairs the longest row that grows on both
    sides stays, and equal neighbours of a pair join it.
    """
    places = {each: place for place, each in enumerate(_numbered(new))}
    pairs = [(place, places[each]) for place, each in enumerate(_numbered(old)) if each in places]
    found, first, start = list[Change](), 0, 0
    for last, stop in (*_growing(pairs), (len(old), len(new))):
        if last < first or stop < start:
            continue  # joined the pair before it
        began, here, there = first, last, stop
        while first < last and start < stop and old[first] == new[start]:
            first, start = first + 1, start + 1
        found.append(Change(is_equal=True, old=old[began:first], new=old[began:first]))
        while here > first and there > start and old[here - 1] == new[there - 1]:
            here, there = here - 1, there - 1
        found.append(Change(is_equal=False, old=old[first:here], new=new[start:there]))
        found.append(Change(is_equal=True, old=old[here : last + 1], new=new[there : stop + 1]))
        first, start = last + 1, stop + 1
    return _joined(found)


def _numbered(items: Sequence[str]) -> Iterator[tuple[str, int]]:
    seen = Counter[str]()
    for each in items:
        seen[each] += 1
        yield each, seen[each]


def _growing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest row of pairs whose second numbers grow, as their first ones do."""
    ends, lasts, before = list[int](), list[int](), list[int | None]()
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        ends[length : length + 1] = [place]
        lasts[length : length + 1] = [index]
        before.append(lasts[length - 1] if length else None)
    row, at = list[tuple[int, int]](), lasts[-1] if lasts else None
    while at is not None:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]


def _joined(found: Sequence[Change]) -> list[Change]:
    """Return the changes without empty ones; neighbours of a kind are one."""
    return [
        Change(is_equal, [item for each in parts for item in each.old], [item for each in parts for item in each.new])
        for is_equal, group in groupby((each for each in found if each.old or each.new), key=lambda each: each.is_equal)
        for parts in [list(group)]
    ]


def visible(text: str) -> str:
    """Return a text in which nothing acts on a terminal, and nothing is hidden; line breaks and tabs stay."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


def sentences(text: str) -> list[str]:
    """Return the lines of a text, each cut into its sentences, as ``visible`` shows them."""
    return [sentence for line in visible(text).split("\n") for sentence in _SENTENCE_END.split(line)]


#: Approvals carried out in one call of `finish` at most: the sweep has other things to do.
AT_A_TIME = 20


class ApprovalNotifier(Protocol):
    """Tells somebody that a proposal waits."""

    async def notify(self, approval: Approval) -> None:
        """Send the notice; raises nothing."""
        ...


@dataclass(frozen=True, eq=False)
class ApprovalService:
    """Files proposals, and carries out a person's decisions.

    A decision is one committed row that says what remains to be done; then the effect runs; then the row is settled. A
    process that dies in between leaves a row that :meth:`finish`, or the next :meth:`approve`, carries on with. A
    proposal waits ``lasts`` for a person, whom ``notice`` tells of it; of those that callers file, ``most_waiting`` of
    each action wait.
    """

    approvals: Approvals
    effects: EffectRegistry
    _: KW_ONLY
    company: str
    lasts: timedelta
    notice: ApprovalNotifier | None = None
    most_waiting: int | None = None

    async def propose_once(self, proposal: Proposal) -> Approval:
        """File a caller's proposal and return it; while the same one waits, return that one.

        Who proposes it, and its figures, tell no two apart. Raises ApprovalLimitError where too many of its action
        wait.
        """
        said = proposal.model_dump(mode="json", exclude={"proposed_by", "figures"})
        digest = digest_of(canonical_json(said))
        numbers = count()
        while True:
            approval_id = ids.proposal_id(company=self.company, digest=digest, number=next(numbers))
            approval = await self.propose(approval_id, proposal, most_waiting=self.most_waiting)
            if self.approvals.waits(approval):
                return approval

    async def propose(self, approval_id: str, proposal: Proposal, *, most_waiting: int | None = None) -> Approval:
        """File a proposal and return it; for an existing id, return what was filed first and its state."""
        is_new = self.approvals.file(self.company, approval_id, proposal, lasts=self.lasts, most_waiting=most_waiting)
        approval = self._found(approval_id)
        if is_new:
            _logged(Event.APPROVAL_FILED, approval)
            if self.notice is not None:
                await self.notice.notify(approval)
        return approval

    async def approve(self, approval_id: str, word: Decision) -> Approval:
        """Approve a proposal and carry it out; the answer's ``effect`` is the id of the result.

        An approval that is not carried out yet is carried out first, and refused with ApprovalClosedError.

        Raises:
            ApprovalClosedError: somebody decided before, or it has expired.
            MemoryNotFoundError, MemoryCapabilityError, MemoryInputError, SkillLimitError: there is none with that id,
                nothing here carries it out, or it cannot be now; nothing was decided.
            MemoryError: the effect failed; the approval stands, and the effect is tried again later.
        """
        found = self._found(approval_id)
        capacity = self.effects.of(found.proposal.action).room(found)
        try:
            approval = self.approvals.decide(self.company, approval_id, ApprovalState.APPROVED, word, capacity=capacity)
        except ApprovalClosedError:
            await self._settled(self._found(approval_id))
            raise
        _logged(Event.APPROVAL_APPROVED, approval)
        return await self._settled(approval)

    async def approve_by_policy(self, approval_id: str, proposal: Proposal, key: str, *, reason: str) -> Approval:
        """Approve a proposal by a key of the policy and carry it out; what was decided before under its id stays so."""
        self.approvals.file(self.company, approval_id, proposal, lasts=self.lasts, for_person=False)
        found = self._found(approval_id)
        if self.approvals.waits(found):
            word, actor = Decision(by=key, reason=reason), audit.policy(key)
            found = self.approvals.decide(self.company, approval_id, ApprovalState.APPROVED, word, actor=actor)
            _logged(Event.APPROVAL_APPROVED, found)
        # Also what a process has decided that died before: this run would merge the memory away.
        return await self._settled(found)

    async def reject(self, approval_id: str, word: Decision) -> Approval:
        """Reject a proposal; raises ApprovalClosedError, MemoryNotFoundError."""
        approval = self.approvals.decide(self.company, approval_id, ApprovalState.REJECTED, word)
        _logged(Event.APPROVAL_REJECTED, approval)
        return approval

    async def undo(self, approval_id: str, word: Decision) -> Approval:
        """Take an approval back, and what it left.

        Raises:
            ApprovalClosedError: it is not approved, or was undone before; one that is not taken back yet is first.
            MemoryNotFoundError, MemoryCapabilityError: there is none with that id, or nothing here carries it out.
            MemoryError: taking back failed; the undo stands, and it is tried again later.
        """
        self.effects.of(self._found(approval_id).proposal.action)
        # Otherwise a pending effect could still be carried out after it was undone.
        await self._settled(self._found(approval_id))
        approval = self.approvals.undo(self.company, approval_id, word)
        _logged(Event.APPROVAL_UNDONE, approval)
        return await self._settled(approval)

    async def finish(self, *, limit: int = AT_A_TIME) -> int:
        """Carry on with what dead processes left open and return how many were settled; failures are logged."""
        settled = 0
        for approval in self.approvals.unsettled(self.company, limit=limit):
            try:
                await self._settled(approval)
            except MemoryError as error:
                _log.warning(Event.APPROVAL_UNSETTLED, extra={**_about(approval), "error": type(error).__name__})
            else:
                settled += 1
        return settled

    def expire(self) -> int:
        """Mark what waited too long, and return how many there were."""
        expired = self.approvals.expire(self.company)
        if expired:
            _log.info(Event.APPROVAL_EXPIRED, extra={"company": self.company, "count": expired})
        return expired

    async def _settled(self, approval: Approval) -> Approval:
        need, effect = approval.needs, None
        # In every process alike: another writer's text would have another id, and count as another.
        with writing_as(ENGINE):
            if need is ApprovalNeed.EFFECT:
                effect = await self.effects.of(approval.proposal.action).publish(approval)
            elif need is ApprovalNeed.TAKING_BACK:
                await self.effects.of(approval.proposal.action).take_back(approval)
            else:
                return approval
        if self.approvals.settle(self.company, approval.approval_id, need, effect=effect):
            _logged(Event.APPROVAL_SETTLED, approval)
        return self._found(approval.approval_id)

    def _found(self, approval_id: str) -> Approval:
        approval = self.approvals.get(self.company, approval_id)
        if approval is None:
            raise MemoryNotFoundError(f"approval_id: {approval_id!r} names no approval; see `memtend approvals list`")
        return approval


def _logged(event: Event, approval: Approval) -> None:
    _log.info(event, extra=_about(approval))


def _about(approval: Approval) -> dict[str, str]:
    proposal = approval.proposal
    return {
        "approval_id": approval.approval_id,
        "action": proposal.action,
        "risk": str(proposal.risk),
        "state": str(approval.state),
    }
