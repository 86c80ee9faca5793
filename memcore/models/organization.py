"""Facts of an organisation, their authors, and the log of publications and retractions.

Names, fields and validators are those of the reference (memory-api-reference, Org Memory).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from memcore.models.answers import Shown, Standing
from memcore.models.base import Frozen, NotBlankStr, is_unsaid
from memcore.models.distrust import DistrustRule
from memcore.models.memory import BoundedTime, Content, Key, Labels, NewLabels, NotBlankText
from memcore.models.origin import Authority, Channel, Origin, is_shown


class OrgFactCategory(StrEnum):
    """What kind of fact of the organisation it is."""

    CORE_POLICY = "core_policy"
    ADR = "adr"
    PROCEDURE = "procedure"
    CONVENTION = "convention"


class SeniorityLevel(StrEnum):
    """An agent's standing, lowest first; compare with ``at_least``, for ``<`` compares the letters."""

    JUNIOR = "junior"
    MID = "mid"
    SENIOR = "senior"
    LEAD = "lead"
    PRINCIPAL = "principal"
    DIRECTOR = "director"
    VP = "vp"
    C_SUITE = "c_suite"

    def at_least(self, other: "SeniorityLevel") -> bool:
        """Tell whether this standing is the other's or a higher one."""
        order = list(SeniorityLevel)
        return order.index(self) >= order.index(other)


OperationType = Literal["PUBLISH", "RETRACT"]


class AutonomyLevel(StrEnum):
    """How much an agent may do by itself."""

    FULL = "full"
    SEMI = "semi"
    SUPERVISED = "supervised"
    LOCKED = "locked"


def origin_of(*, is_human: bool, principal: str | None = None) -> Origin:
    """Return the origin of a fact: a person writes facts as an operator, an agent as an agent."""
    by = () if principal is None else (principal,)
    return Origin(channels=(Channel.OPERATOR if is_human else Channel.AGENT,), principals=by)


#: Both kinds of authors: whether it is a person.
EVERYBODY = frozenset({True, False})


def authors_shown(policy: Mapping[Channel, Authority]) -> frozenset[bool]:
    """Return of which kinds of authors this reader is shown facts: True for people, False for agents."""
    return frozenset(each for each in EVERYBODY if is_shown(origin_of(is_human=each), policy))


class FactView(Frozen):
    """What a reader is shown of the facts.

    Attributes:
        authors: of which kinds of authors, as of ``authors_shown``.
        rules: the distrusts in force.
        marks: whether what they take is shown, marked, as to people; else it is not there.
    """

    authors: frozenset[bool] = EVERYBODY
    rules: tuple[DistrustRule, ...] = ()
    marks: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it shows every fact."""
        return self.authors >= EVERYBODY and (self.marks or not self.rules)


#: Every fact; none is marked.
WHOLE = FactView()


class OrgFactAuthor(Frozen):
    """Who writes a fact: an agent with its id, standing and, if known, autonomy; or a person.

    ``name`` is a person's, as the log is to show it. The reference has no such field, and so no record of which person
    it was.
    """

    agent_id: Key | None = None
    seniority: SeniorityLevel | None = None
    autonomy_level: AutonomyLevel | None = None
    is_human: bool = False
    name: Key | None = None

    @property
    def origin(self) -> Origin:
        """The origin of what it writes."""
        return origin_of(is_human=self.is_human)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.is_human:
            for field in ("agent_id", "seniority", "autonomy_level"):
                if getattr(self, field) is not None:
                    raise ValueError(f"{field}: a person has none")
            return self
        for field in ("agent_id", "seniority"):
            if getattr(self, field) is None:
                raise ValueError(f"{field}: is missing; an agent has one")
        if self.name is not None:
            raise ValueError("name: an agent has none; its agent_id names it")
        return self


class OrgFact(Frozen):
    """A fact that stands for the whole organisation, who wrote its text of now, and when it was first published.

    ``standing`` says how surely it answers the question that found it; it is left out when the fact is serialised.
    ``distrusted`` marks what people alone are shown.
    """

    id: NotBlankStr
    content: NotBlankText
    category: OrgFactCategory
    tags: Labels = ()
    author: OrgFactAuthor
    created_at: BoundedTime
    standing: Standing | None = Field(default=None, exclude=True)
    distrusted: bool = Field(default=False, exclude_if=is_unsaid)


class OrgFactWriteRequest(Frozen):
    """A fact to write: a text of at most 65,536 bytes, kept exactly as given, and at most 64 tags."""

    content: Content
    category: OrgFactCategory
    tags: NewLabels = ()


class OrgMemoryQuery(Frozen):
    """What to look for; without ``context`` the newest facts come first.

    The policy's ``max_retrieved_per_query`` may be less than the limit.

    Attributes:
        min_evidence: the evidence of the best fact, 0.0 to 1.0, from which on what stands near it is strong. None
            leaves it to the policy (``memory.retrieval.min_evidence``).
        standing: which facts are shown, as of memories; None leaves it to the policy (``memory.retrieval.standing``).
    """

    context: NotBlankStr | None = None
    categories: frozenset[OrgFactCategory] | None = None
    limit: int = Field(default=5, ge=1, le=100, strict=True)
    min_evidence: float | None = Field(default=None, ge=0.0, le=1.0)
    standing: Shown | None = None


class OperationLogEntry(Frozen):
    """One line of the log, never changed.

    Attributes:
        operation_id: unique everywhere.
        content: what was published; None exactly for a retraction.
        author_name: of a person, where the author gave one.
        author_principal: the id of the key that wrote it; None for a process of the installation itself.
        timestamp: never before that of the version before.
        version: 1 for the fact's first line, and one more for each that follows.
        distrusted: marks what people alone are shown.
    """

    operation_id: NotBlankStr
    fact_id: NotBlankStr
    operation_type: OperationType
    content: NotBlankText | None = None
    category: OrgFactCategory | None = None
    tags: Labels = ()
    author_agent_id: NotBlankStr | None = None
    author_seniority: SeniorityLevel | None = None
    author_is_human: bool = False
    author_autonomy_level: AutonomyLevel | None = None
    author_name: NotBlankStr | None = None
    author_principal: NotBlankStr | None = Field(default=None, exclude=True)
    timestamp: BoundedTime
    version: int = Field(ge=1)
    distrusted: bool = Field(default=False, exclude_if=is_unsaid)

    @model_validator(mode="after")
    def _content_of_publications(self) -> Self:
        if (self.content is None) != (self.operation_type == "RETRACT"):
            raise ValueError("content: a publication has one, and a retraction has none")
        return self


class OperationLogSnapshot(Frozen):
    """A fact as its log left it at a time: what was published last; ``retracted_at`` is None while it stands.

    ``distrusted`` marks what people alone are shown.
    """

    fact_id: NotBlankStr
    content: NotBlankText
    category: OrgFactCategory
    tags: Labels = ()
    created_at: BoundedTime
    retracted_at: BoundedTime | None = None
    version: int = Field(ge=1)
    distrusted: bool = Field(default=False, exclude_if=is_unsaid)

    @model_validator(mode="after")
    def _ordered_times(self) -> Self:
        if self.retracted_at is not None and self.retracted_at < self.created_at:
            raise ValueError("retracted_at: lies before created_at")
        return self
