"""Proposals, and the decisions of people on them."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from memcore.errors import MemoryInputError
from memcore.models.base import Frozen, NotBlankStr, ValidatedModel
from memcore.models.memory import BoundedTime, Key, KnownAgentId, MemoryEntry, NoNul, NotBlankText, OneLine, StoredKey
from memcore.models.origin import UNKNOWN, Authority, Channel, Origin, authority, digest_of

#: Longest title of a proposal, in characters: it is one line of a list.
MAX_TITLE_CHARS = 200

#: Longest name of who proposes or decides, in characters; with what stands before it, it is still a tag.
MAX_NAME_CHARS = 128

#: Longest reason for a decision, in characters.
MAX_REASON_CHARS = 2_000

#: Most things that one proposal may take the place of: a person reads each of them.
MAX_SUPERSEDED = 32

#: Most figures of a proposal.
MAX_FIGURES = 64

#: Who proposes or decides.
Name = Annotated[NotBlankStr, StringConstraints(max_length=MAX_NAME_CHARS), OneLine]

#: Why somebody decides so.
Reason = Annotated[NotBlankStr, StringConstraints(max_length=MAX_REASON_CHARS), NoNul]


class ApprovalState(StrEnum):
    """The state of a proposal; ``approved`` becomes ``undone`` when a person takes it back, the rest is final."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    UNDONE = "undone"


class ApprovalRisk(StrEnum):
    """How much a wrong approval would cost."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ApprovalNeed(StrEnum):
    """What an approval still waits for.

    ``word``: a person's. ``effect``: what was approved is still to be carried out. ``taking_back``: what was undone is
    still to be taken back.
    """

    WORD = "word"
    EFFECT = "effect"
    TAKING_BACK = "taking_back"


class Superseded(Frozen):
    """What a proposal would take the place of; of a memory to raise, what that has taken the place of.

    Attributes:
        content: its text when the proposal was made; never shown in a repr.
        owner: who published it; None where nobody in particular did.
    """

    id: StoredKey
    content: NotBlankText = Field(repr=False)
    owner: StoredKey | None = None


class Proposal(ValidatedModel):
    """A proposal that a person decides on.

    Attributes:
        action: what approving does, such as ``shared:publish``.
        title: one line, which lists, logs of others and the webhook may show: no text of a memory.
        content: what is proposed, in full; never shown in a repr.
        proposed_by: who proposes it, a person or a part of memtend.
        supersedes: what it would take the place of.
        figures: what speaks for it, by name, such as ``{"agents": 4, "precision": 0.92}``.
        details: what the action needs beside the content; JSON values alone.
    """

    action: Key
    risk: ApprovalRisk = ApprovalRisk.MEDIUM
    title: Annotated[NotBlankStr, StringConstraints(max_length=MAX_TITLE_CHARS), OneLine]
    content: NotBlankText = Field(repr=False)
    proposed_by: Name
    supersedes: Annotated[tuple[Superseded, ...], Field(max_length=MAX_SUPERSEDED)] = ()
    figures: Annotated[dict[str, int | float | str], Field(max_length=MAX_FIGURES)] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict, repr=False)


#: The action of a proposal to raise a memory: to let it have more authority than its channels give it.
MEMORY_RAISE = "memory:raise"

#: To what a memory can be raised.
RaisedTo = Literal[Authority.INFORM, Authority.INSTRUCT]


class Witness(Frozen):
    """A memory that says word for word what a raised one says, and where that came from."""

    memory_id: StoredKey
    origin: Origin


_WITNESSES = TypeAdapter(tuple[Witness, ...])


def witnesses_of(proposal: Proposal) -> tuple[Witness, ...]:
    """Return the memories by which the policy has raised one; none of what a person has raised."""
    return _WITNESSES.validate_python(proposal.details.get("witnesses", ()), extra="ignore")


class Raising(Frozen):
    """Which memory a proposal would raise, to what, and the digest of the text that it shows."""

    agent_id: KnownAgentId
    namespace: NotBlankStr
    memory_id: StoredKey
    to: RaisedTo
    digest: NotBlankStr

    @classmethod
    def of(cls, proposal: Proposal) -> "Raising":
        """Return what a proposal would raise; MemoryInputError where it does not say so."""
        try:
            return cls.model_validate(proposal.details, extra="ignore")
        except ValidationError as error:
            raise MemoryInputError.of(error, prefix="details") from None


def raise_proposal(
    entry: MemoryEntry,
    to: RaisedTo,
    *,
    by: str,
    policy: Mapping[Channel, Authority],
    made_of: Mapping[str, str | None],
) -> Proposal:
    """Return the proposal to raise a memory; ``made_of`` has the texts that it was made of, as far as they are kept.

    Raises MemoryInputError where it has that authority already, or was made of more texts than a person can read.
    """
    has = authority(entry.origin, policy, entry.raised)
    if has.reaches(to):
        raise MemoryInputError("to", f"is {to}, and the memory has the authority {has} already")
    if len(made_of) > MAX_SUPERSEDED:
        problem = f"was made of {len(made_of)} memories, and a person can read {MAX_SUPERSEDED}; store it anew"
        raise MemoryInputError("memory_id", problem)
    origin = UNKNOWN if entry.origin is None else entry.origin
    texts = {memory_id: text for memory_id, text in made_of.items() if text is not None and text.strip()}
    of_mem0 = entry.attributes.get("mem0")
    user = {"user_id": of_mem0.get("user_id")} if isinstance(of_mem0, Mapping) else {}
    return Proposal(
        action=MEMORY_RAISE,
        risk=ApprovalRisk.HIGH if to is Authority.INSTRUCT else ApprovalRisk.MEDIUM,
        title=f"Raise a memory to {to}",
        content=entry.content,
        proposed_by=by,
        supersedes=tuple(Superseded(id=memory_id, content=text) for memory_id, text in texts.items()),
        figures={
            # In quotes: a name must not look like another figure.
            "agent": json.dumps(entry.agent_id),
            "memory": entry.id,
            "authority": has.value,
            "to": to.value,
            "channels": ", ".join(origin.channels),
            "keys": json.dumps(origin.principals),
            "made_of": len(made_of),
            "texts_gone": len(made_of) - len(texts),
        },
        details={
            "agent_id": entry.agent_id,
            "namespace": entry.namespace,
            "memory_id": entry.id,
            "to": to.value,
            "digest": digest_of(entry.content),
            # As a job has it: by this an erasure finds the proposals about a person.
            "request": {"namespace": entry.namespace, "attributes": {"mem0": user}},
        },
    )


class Decision(ValidatedModel):
    """A person's decision on a proposal, kept with the person's name and the reason. Raises MemoryInputError."""

    by: Name
    reason: Reason | None = None


class Approval(Frozen):
    """A proposal and what became of it.

    Attributes:
        needs: what it still waits for; None when it is settled.
        created_at: when it was filed.
        expires_at: from then on nobody can approve it.
        decided_at: when a person approved or rejected it.
        effect: what the approval left, an id; None until it is carried out.
        undone_at: when a person took the approval back.
        distrusted: whether what it shows came of a distrusted source, where a person reads it; never stored.
    """

    approval_id: str
    proposal: Proposal
    state: ApprovalState
    needs: ApprovalNeed | None
    created_at: BoundedTime
    expires_at: BoundedTime
    decided_at: BoundedTime | None = None
    decided_by: str | None = None
    reason: str | None = None
    effect: str | None = None
    undone_at: BoundedTime | None = None
    undone_by: str | None = None
    undo_reason: str | None = None
    distrusted: bool = False


#: The public name of ``Decision`` up to 0.1.
Word = Decision
