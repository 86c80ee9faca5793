"""What people say to an agent, and what is kept of it: turns, candidates, facts, arcs of sessions, and rules.

A subject is the person, or the session where nobody is named; an owner is a subject of one agent.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints

from memcore.errors import MemoryInputError
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import (
    MAX_KEY_CHARS,
    AgentId,
    BoundedTime,
    Key,
    NoNul,
    NotBlankText,
    StoredKey,
    require_text,
)
from memcore.models.origin import Authority, Channel, Origin, authority

#: What a subject's name begins with: a user and a session of the same name are two subjects.
USER, SESSION = "user:", "session:"

#: Longest id of a user or a session, in characters: with what stands before it, it is a key.
MAX_SUBJECT_CHARS = MAX_KEY_CHARS - len(SESSION)

#: Longest subject and object of a fact, and longest predicate, in characters.
MAX_TERM_CHARS, MAX_PREDICATE_CHARS = 200, 64

#: Longest quote, and longest rule, in characters.
MAX_QUOTE_CHARS = 500

#: Longest reason of a decision, in characters.
MAX_REASON_CHARS = 240

#: Longest summary of a session, in characters.
MAX_SUMMARY_CHARS = 2_000

#: Most candidates of one kind that are taken from a turn.
MAX_CANDIDATES = 16


def resolve_owner_id(*, user_id: str | None = None, session_id: str | None = None) -> str:
    """Return the name of the subject: the user, or else the session.

    Raises MemoryInputError without both, rather than writing to a place that everybody shares.
    """
    for field, prefix, given in (("user_id", USER, user_id), ("session_id", SESSION, session_id)):
        if given is None:
            continue
        name = require_text(given, field=field).strip()
        if not name:
            raise MemoryInputError(field, "must not be blank")
        if len(name) > MAX_SUBJECT_CHARS:
            raise MemoryInputError(field, f"has {len(name)} characters; the limit is {MAX_SUBJECT_CHARS}")
        return prefix + name
    raise MemoryInputError("user_id", "must be given where there is no session_id: whose memory is it?")


class Owner(Frozen):
    """Whose memory it is: a subject of one agent.

    Attributes:
        agent_id: the agent that the person talks to.
        subject: what ``resolve_owner_id`` returns.
    """

    agent_id: AgentId
    subject: Key


class MemoryMode(StrEnum):
    """Where a conversation's memory is kept."""

    #: In this process alone; it goes with it.
    INCOGNITO = "incognito"
    #: In the configured databases.
    LOCAL = "local"
    #: As local; the name is kept for a store elsewhere.
    SYNCED = "synced"


class FactCategory(StrEnum):
    """What a fact says something about."""

    IDENTITY = "identity"
    RELATIONSHIP = "relationship"
    PREFERENCE = "preference"
    WORK = "work"
    HEALTH = "health"
    COPING_STRATEGY = "coping_strategy"
    GOAL = "goal"
    INTEREST = "interest"
    PLACE = "place"
    BELIEF = "belief"
    POSSESSION = "possession"
    #: Somebody or something that the person has lost.
    LOSS = "loss"
    #: What upsets the person.
    TRIGGER = "trigger"
    #: What is true of this day or this talk.
    MOOD = "mood"
    EVENT = "event"
    SITUATION = "situation"


#: Categories of facts that outlive a session.
STABLE_CATEGORIES = frozenset(
    {
        FactCategory.IDENTITY,
        FactCategory.RELATIONSHIP,
        FactCategory.PREFERENCE,
        FactCategory.WORK,
        FactCategory.HEALTH,
        FactCategory.COPING_STRATEGY,
        FactCategory.GOAL,
        FactCategory.INTEREST,
        FactCategory.PLACE,
        FactCategory.BELIEF,
        FactCategory.POSSESSION,
    }
)

#: Categories that no turn writes by itself, whatever the model says of them: they hurt where they are wrong.
HELD_CATEGORIES = frozenset({FactCategory.LOSS, FactCategory.TRIGGER})

#: Categories of what holds for a session: written only once it was said again.
SESSION_CATEGORIES = frozenset(FactCategory) - STABLE_CATEGORIES - HELD_CATEGORIES


class Layer(StrEnum):
    """A kind of memory that is extracted from a turn."""

    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"


class WriteDecision(StrEnum):
    """What becomes of a candidate."""

    COMMIT_NOW = "commit_now"
    COMMIT_AT_SESSION_END = "commit_at_session_end"
    REQUIRE_REPETITION = "require_repetition"
    DROP = "drop"


#: Decisions by which a candidate waits for the end of its session.
HELD_DECISIONS = frozenset({WriteDecision.COMMIT_AT_SESSION_END, WriteDecision.REQUIRE_REPETITION})

Confidence = Literal["low", "medium", "high"]

#: A subject or an object.
Term = Annotated[NotBlankStr, StringConstraints(max_length=MAX_TERM_CHARS), NoNul]

#: A relation in capitals, as WORRIES_ABOUT; letters of any script.
Predicate = Annotated[
    NotBlankStr, StringConstraints(max_length=MAX_PREDICATE_CHARS, to_upper=True, pattern=r"^[^\W\d_][\w]*$")
]

#: Words of the person, as they stand in the turn.
Quote = Annotated[NotBlankStr, StringConstraints(max_length=MAX_QUOTE_CHARS), NoNul]

Rule = Annotated[NotBlankStr, StringConstraints(max_length=MAX_QUOTE_CHARS), NoNul]

Reason = Annotated[str, StringConstraints(max_length=MAX_REASON_CHARS)]


class SemanticCandidate(Frozen):
    """A fact that a turn may hold.

    Attributes:
        category: what it is about.
        subject: who or what; "User" for the person.
        predicate: the relation, in capitals.
        object: to whom or what.
        evidence_quote: the person's own words that say so.
    """

    category: FactCategory
    subject: Term
    predicate: Predicate
    object: Term
    evidence_quote: Quote


class ProceduralCandidate(Frozen):
    """A rule of how to answer that a turn may hold.

    Attributes:
        rule: what to do, in one sentence.
        evidence_quote: the person's own words.
        kind: whether the person asked for it, or it only shows.
    """

    rule: Rule
    evidence_quote: Quote
    kind: Literal["explicit", "implicit"]


Candidate = SemanticCandidate | ProceduralCandidate


class Decision(Frozen):
    """What the policy says of one candidate, after the guards.

    Attributes:
        decision: what becomes of it.
        reason: why, in a sentence.
        confidence: how sure that is.
        policy_version: the policy that said so.
        guard: the local rule that overruled the model; None where none did.
        safety_conflict: whether the candidate asks to leave out what keeps a person safe.
    """

    decision: WriteDecision
    reason: Reason
    confidence: Confidence
    policy_version: str
    guard: str | None = None
    safety_conflict: bool = False


class HeldCandidate(Frozen):
    """A candidate that waits in the buffer of its session.

    Attributes:
        candidate_id: deterministic, from its turn and its place there.
        layer: its kind.
        candidate: what may be kept.
        decision: why it waits.
        turn_id: the turn that held it.
        created_at: when that was said.
        origin: by which channels it came; None of an older release.
    """

    candidate_id: StoredKey
    layer: Layer
    candidate: Candidate
    decision: Decision
    turn_id: StoredKey
    created_at: BoundedTime
    origin: Origin | None = None


class FactState(StrEnum):
    """The state of a fact, a rule or an arc."""

    ACTIVE = "active"
    #: Another one says what holds now.
    SUPERSEDED = "superseded"
    #: The person asked to forget it: shown nowhere, brought back by a person alone.
    FORGOTTEN = "forgotten"
    #: Aged out of the memory that is read; still listed, and brought back by a person.
    ARCHIVED = "archived"


#: What a rule that made room for newer ones was superseded by.
EVICTION = "eviction"


class _Kept(Frozen):
    """What is the same of facts, rules and arcs.

    Attributes:
        state: whether it is read.
        superseded_by: the id of what replaced it.
        reason: why it is in its state, or why it was written.
        version: the version of the owner's memory in which it was written.
        session_id: the session that it was said in.
        created_at: when that was.
        last_referenced_at: when it was last said again.
        changed_at: when its state last changed.
        origin: by which channels that came which it is made of; None of an older release.
        authority: how far it may be trusted, by the policy; None where nobody has looked.
    """

    state: FactState = FactState.ACTIVE
    superseded_by: StoredKey | None = None
    reason: str = ""
    version: int = Field(ge=1)
    session_id: StoredKey
    created_at: BoundedTime
    last_referenced_at: BoundedTime
    changed_at: BoundedTime
    origin: Origin | None = None
    authority: Authority | None = Field(default=None, exclude=True)

    @property
    def is_reference(self) -> bool:
        """Whether it is shown apart, as somebody else's words."""
        return self.authority is not None and not self.authority.reaches(Authority.INFORM)

    def with_authority(self, policy: Mapping[Channel, Authority]) -> Self:
        """Return it with the authority that a policy gives its channels."""
        return self.model_copy(update={"authority": authority(self.origin, policy)})


class Fact(_Kept):
    """A fact about a person, with the words that said it.

    Attributes:
        fact_id: deterministic, from the turn or the end that wrote it.
        turn_id: the turn; None for one that a session's end promoted from several.
        confidence: how sure the policy was.
        policy_version: the policy that wrote it.
        unsure_with: ids of facts that were known when it was written, and of which a model is not sure whether one
            replaced the other: a person decides.
    """

    fact_id: StoredKey
    category: FactCategory
    subject: Term
    predicate: Predicate
    object: Term
    evidence_quote: Quote
    turn_id: StoredKey | None = None
    confidence: Confidence = "medium"
    policy_version: str = ""
    unsure_with: tuple[StoredKey, ...] = ()

    def is_superseded_by(self, fact_id: str) -> bool:
        """Return whether another fact says what holds now."""
        return self.state is FactState.SUPERSEDED and self.superseded_by == fact_id


class ProfileRule(_Kept):
    """A rule of how to answer a person.

    Attributes:
        rule_id: deterministic, from the turn or the end that wrote it.
        rule: what to do.
        quotes: the person's words, three at most.
        kind: whether the person asked for it.
    """

    rule_id: StoredKey
    rule: Rule
    quotes: tuple[Quote, ...] = Field(max_length=3)
    kind: Literal["explicit", "implicit"]
    turn_id: StoredKey | None = None
    confidence: Confidence = "medium"
    policy_version: str = ""


class Arc(_Kept):
    """What a session was about, in short.

    Attributes:
        summary: a few sentences.
        topics: words for what it was about.
        turns: how many turns it had.
        started_at: its first turn.
        ended_at: its last one.
    """

    summary: Annotated[NotBlankText, StringConstraints(max_length=MAX_SUMMARY_CHARS)]
    topics: tuple[Term, ...] = Field(default=(), max_length=12)
    turns: int = Field(ge=1)
    started_at: BoundedTime
    ended_at: BoundedTime


class LayerCounts(Frozen):
    """How many facts, arcs and rules an owner has, under the names of the layers.

    Attributes:
        semantic: active facts.
        episodic: arcs.
        procedural: active rules.
        held: candidates that wait for the end of a session.
        superseded: facts and rules that another one replaced.
        forgotten: what the person asked to forget.
        archived: what aged, or made room.
        open_sessions: sessions that have not ended.
        waiting_turns: turns that no model was asked about yet.
    """

    semantic: int = 0
    episodic: int = 0
    procedural: int = 0
    held: int = 0
    superseded: int = 0
    forgotten: int = 0
    archived: int = 0
    open_sessions: int = 0
    waiting_turns: int = 0


class CrisisLevel(StrEnum):
    """how serious the engine's detection says that a turn is."""

    CONCERN = "concern"
    HIGH = "high"
    IMMINENT = "imminent"


class ClassifierPath(StrEnum):
    """What detected it."""

    KEYWORD = "keyword"
    MODEL = "model"
    PERSON = "person"


class CrisisLogRecord(Frozen):
    """A record of a crisis that the engine detected; never part of a prompt, nor of what recall shows."""

    record_id: Key
    agent_id: AgentId
    subject: Key
    session_id: Key
    level: CrisisLevel
    path: ClassifierPath
    action: Annotated[NotBlankStr, StringConstraints(max_length=MAX_QUOTE_CHARS), NoNul]
    at: BoundedTime


class FeedbackLabel(StrEnum):
    """What a person thought of a session."""

    HELPFUL = "helpful"
    NEUTRAL = "neutral"
    UNHELPFUL = "unhelpful"


class FeedbackSource(StrEnum):
    """Where feedback came from."""

    PERSON = "person"
    ENGINE = "engine"


class SessionFeedbackRecord(Frozen):
    """What somebody thought of a session; never part of a prompt."""

    record_id: Key
    agent_id: AgentId
    subject: Key
    session_id: Key
    label: FeedbackLabel
    source: FeedbackSource
    comment: Annotated[str, StringConstraints(max_length=MAX_SUMMARY_CHARS), NoNul] = Field(default="", repr=False)
    at: BoundedTime
