"""Origin and authority: through which channels a memory came, and how far what it says may be trusted.

The platform stamps the origin at the write, and nothing changes it. Authority follows from it by policy: the least of
its channels. So what is made of several memories never has more than the least of them, whatever rewrote it.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Self

from pydantic import ValidationError, field_validator

from memcore.errors import MemoryChannelError
from memcore.models.attributes import canonical_json
from memcore.models.base import Frozen, NotBlankStr, ReadOnlyMap


class Channel(StrEnum):
    """The way by which a text came; who may claim one may claim those below it.

    ``person`` is what a person said, ``operator`` what somebody wrote who runs the installation, ``agent`` what an
    agent wrote, ``unknown`` what an older release stored, ``tool`` what a tool answered, ``document`` what a file or
    page says, ``peer`` what another company's agent said, ``import`` what came out of another system. ``suspect`` is no
    way: memtend adds it to the last four where a text reads like an order, a password or an account to pay to.
    """

    PERSON = "person"
    OPERATOR = "operator"
    AGENT = "agent"
    UNKNOWN = "unknown"
    TOOL = "tool"
    DOCUMENT = "document"
    PEER = "peer"
    IMPORT = "import"
    SUSPECT = "suspect"


_CLAIMS = tuple(Channel)


class Authority(StrEnum):
    """How far a text may be trusted, from the most to the least.

    ``instruct`` may say what to do, ``inform`` what is so, ``reference`` is shown as somebody else's words,
    ``quarantined`` is shown to people alone.
    """

    INSTRUCT = "instruct"
    INFORM = "inform"
    REFERENCE = "reference"
    QUARANTINED = "quarantined"

    @property
    def rank(self) -> int:
        """Its place, 0 for the least."""
        return _RANKS[self]

    def reaches(self, least: "Authority") -> bool:
        """Return whether it is this much or more."""
        return self.rank >= least.rank


_RANKS = {authority: rank for rank, authority in enumerate(reversed(Authority))}


#: The authority of each channel where the policy says nothing else.
AUTHORITIES: Mapping[Channel, Authority] = ReadOnlyMap(
    {
        Channel.PERSON: Authority.INSTRUCT,
        Channel.OPERATOR: Authority.INSTRUCT,
        Channel.AGENT: Authority.INFORM,
        Channel.UNKNOWN: Authority.INFORM,
        Channel.TOOL: Authority.REFERENCE,
        Channel.DOCUMENT: Authority.REFERENCE,
        Channel.PEER: Authority.REFERENCE,
        Channel.IMPORT: Authority.REFERENCE,
        Channel.SUSPECT: Authority.REFERENCE,
    }
)


class Origin(Frozen):
    """Where a memory comes from; session and time are the memory's own.

    Attributes:
        channels: one for what was written directly, those of all sources for what was made of several.
        principals: ids of the keys that wrote it; empty for a process of the installation itself.
    """

    channels: tuple[Channel, ...] = (Channel.AGENT,)
    principals: tuple[NotBlankStr, ...] = ()

    @field_validator("channels", "principals")
    @classmethod
    def _sorted(cls, given: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted(set(given)))

    @field_validator("channels")
    @classmethod
    def _some(cls, given: tuple[Channel, ...]) -> tuple[Channel, ...]:
        if not given:
            raise ValueError("must name a channel")
        return given

    @classmethod
    def of(cls, sources: "Iterable[Origin | None]") -> Self:
        """Return the origin of what is made of several: all their channels; None is that of an older release."""
        known = [UNKNOWN if each is None else each for each in sources] or [UNKNOWN]
        return cls(
            channels=tuple(channel for each in known for channel in each.channels),
            principals=tuple(principal for each in known for principal in each.principals),
        )

    @classmethod
    def read(cls, stored: object) -> "Origin | None":
        """Return the origin that a memory carries; None where it has none, ``unknown`` where it cannot be read."""
        if not isinstance(stored, Mapping) or not ("via" in stored or "by" in stored):
            return None
        via, by = stored.get("via"), stored.get("by", ())
        if not (isinstance(via, list | tuple) and isinstance(by, list | tuple)):
            return UNREADABLE
        try:
            return _read(tuple(via), tuple(by))
        except (ValidationError, TypeError):
            # A channel of a later release, or somebody else's key: never trusted.
            return UNREADABLE

    # Once for an origin, and those of a key's stores are one object.
    @cached_property
    def is_own(self) -> bool:
        """Whether it is that of what an agent writes in a process of the installation."""
        return self is OWN or self == OWN

    @cached_property
    def part_of_id(self) -> tuple[str, ...]:
        """What tells a memory from one of the same text and another origin; nothing for a process' own agent's.

        ``suspect`` follows from the text, and tells nothing.
        """
        if self.is_own:
            return ()
        stored = self.stored()
        via = [each for each in stored["via"] if each != Channel.SUSPECT.value]
        return (f"origin {canonical_json(stored | {'via': via})}",)

    def is_within(self, other: "Origin") -> bool:
        """Return whether another one has all of its channels and keys: who trusts the other one trusts it, too."""
        return {*self.channels} <= {*other.channels} and {*self.principals} <= {*other.principals}

    def stored(self) -> dict[str, Any]:
        """Return it as a memory carries it."""
        by = {"by": list(self.principals)} if self.principals else {}
        return {"via": [channel.value for channel in self.channels], **by}


# Every memory of a search carries one, and the origins of an installation are few.
@lru_cache(maxsize=10_000)
def _read(via: tuple[Any, ...], by: tuple[Any, ...]) -> Origin:
    return Origin.model_validate({"channels": via, "principals": by})


#: The origin of what an agent writes in a process of the installation.
OWN = Origin()

#: The origin of a person's own words.
SPOKEN = Origin(channels=(Channel.PERSON,))

#: The origin of a memory that has none, and of one whose origin this release cannot read.
UNKNOWN = Origin(channels=(Channel.UNKNOWN,))
UNREADABLE = Origin(channels=(Channel.UNKNOWN, Channel.IMPORT))


class Raised(Frozen):
    """A person's decision that one memory has more authority than its channels give it; nothing made of it has.

    The ledger alone knows it (``memcore.ledger.access.raised``): what a caller, an export or a store says of it counts
    for nothing, and once it is undone, no copy of the memory has it.

    Attributes:
        to: the authority that the memory has at least.
        approval_id: the approval that says so.
        digest: that of the text which the person was shown; another text is not raised.
    """

    to: Authority
    approval_id: NotBlankStr
    digest: NotBlankStr

    def is_for(self, text: str) -> bool:
        """Return whether this is the text that the person was shown."""
        return self.digest == digest_of(text)


def digest_of(text: str) -> str:
    """Return what tells a text from every other."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def authority(origin: Origin | None, policy: Mapping[Channel, Authority], raised: Raised | None = None) -> Authority:
    """Return the least authority of an origin's channels, or that to which a person has raised it.

    Without an origin it is that of ``unknown``.
    """
    channels = (UNKNOWN if origin is None else origin).channels
    least = policy[channels[0]]
    if len(channels) > 1:
        least = min((policy[channel] for channel in channels), key=lambda each: each.rank)
    return least if raised is None or least.reaches(raised.to) else raised.to


def came_through(origin: Origin | None, channels: Collection[Channel]) -> bool:
    """Return whether any of an origin's channels is among these."""
    return not frozenset(channels).isdisjoint((UNKNOWN if origin is None else origin).channels)


def may_replace(
    new: Origin | None, old: Origin | None, policy: Mapping[Channel, Authority], *, raised: Raised | None = None
) -> bool:
    """Return whether one memory may take another's place: somebody else's words never take that of more authority.

    ``raised`` is what raises the old one; that the new one is raised lets it take no place.
    """
    trusted = authority(new, policy)
    return trusted.reaches(Authority.INFORM) or trusted.reaches(authority(old, policy, raised))


def channels_below(least: Authority, policy: Mapping[Channel, Authority]) -> frozenset[Channel]:
    """Return the channels whose authority does not reach another."""
    return frozenset(channel for channel in Channel if not policy[channel].reaches(least))


class Writer(Frozen):
    """Who writes: it stamps what is written, and refuses a channel above its own.

    Attributes:
        principal: the id of its key; None for a process of the installation itself.
        limit: the highest channel that it may claim.
        usual: the channel of what claims none.
        least: the least authority of what it is shown, whatever it asks for; None for the usual.
    """

    principal: NotBlankStr | None = None
    limit: Channel = Channel.PERSON
    usual: Channel = Channel.AGENT
    least: Authority | None = None

    @property
    def is_person(self) -> bool:
        """Whether a person reads: an operator in a process of the installation, or whose key may speak for one."""
        return self._speaks_for in {Channel.PERSON, Channel.OPERATOR}

    @property
    def _speaks_for(self) -> Channel:
        return self.usual if self.principal is None else self.limit

    def require_person(self) -> None:
        """Raise MemoryChannelError unless a person decides here, as ``is_person`` says."""
        if not self.is_person:
            raise MemoryChannelError(Channel.PERSON.value, limit=self._speaks_for.value, field="decision")

    def may_claim(self, channel: Channel) -> bool:
        """Return whether it may say that something came by a channel."""
        return _CLAIMS.index(channel) >= _CLAIMS.index(self.limit)

    def origin(self, claimed: Channel | None = None) -> Origin:
        """Return the origin of what it writes. Raises MemoryChannelError for a channel above its limit."""
        if claimed is None:
            claimed = self.usual if self.may_claim(self.usual) else self.limit
        if not self.may_claim(claimed):
            raise MemoryChannelError(claimed.value, limit=self.limit.value)
        return OWN if claimed is Channel.AGENT and self.principal is None else _direct(claimed, self.principal)

    def spoken(self) -> Origin | None:
        """Return the origin of a person's words that it passes on: a person's, or the most that it may claim.

        None for a person's own in a process of the installation. Raises MemoryChannelError for a writer that may claim
        less than an agent, who says what people said.
        """
        self.origin(Channel.AGENT)
        return None if self.principal is None and self.limit is Channel.PERSON else self.origin(self.limit)

    def imported(self, given: Origin | None) -> Origin:
        """Return the origin of what it loads in bulk: its own where none is given, else the given one and its key.

        Raises MemoryChannelError, naming ``origin``, for one that has a channel above its limit.
        """
        if given is None:
            return self.origin()
        for channel in given.channels:
            if not self.may_claim(channel):
                raise MemoryChannelError(channel.value, limit=self.limit.value, field="origin")
        by = self.principal
        if by is None:
            if self.limit is Channel.PERSON or not given.principals:
                return given
            by = (
                Channel.IMPORT.value
            )  # Lines that are not trusted with everything prove no key: no one alone said them.
        return Origin(channels=given.channels, principals=(*given.principals, by))


@lru_cache(maxsize=10_000)
def _direct(channel: Channel, principal: str | None) -> Origin:
    return Origin(channels=(channel,), principals=() if principal is None else (principal,))


#: A person at the command line, who runs the installation.
OPERATOR = Writer(usual=Channel.OPERATOR)

_WRITER: ContextVar[Writer] = ContextVar("memtend_writer")

#: A process of the installation itself.
ENGINE = Writer()


def current_writer() -> Writer:
    """Return who writes here; a process of the installation itself where no door has said otherwise."""
    return _WRITER.get(ENGINE)


@contextmanager
def writing_as(writer: Writer) -> Iterator[None]:
    """Let everything that the block writes, also in its tasks and threads, be this writer's.

    One place for each door: a call that forgot to pass the writer on would write with more than its key may claim.
    """
    token = _WRITER.set(writer)
    try:
        yield
    finally:
        _WRITER.reset(token)


_LEAST: ContextVar[Authority] = ContextVar("memtend_least_authority")


@contextmanager
def showing_least(least: Authority | None) -> Iterator[None]:
    """Let what the block reads, also in its tasks and threads, leave out what has less; None changes nothing.

    In one place, as the writer: a source of memories that forgot the argument would show what was not asked for.
    """
    token = _LEAST.set(least_shown(least or Authority.QUARANTINED))
    try:
        yield
    finally:
        _LEAST.reset(token)


def least_shown(asked: Authority = Authority.REFERENCE) -> Authority:
    """Return the least authority that is shown here; what is in quarantine to a person alone who asks for it."""
    reader = current_writer()
    least = Authority.QUARANTINED if reader.is_person else Authority.REFERENCE
    return max(asked, least, reader.least or least, _LEAST.get(least), key=lambda each: each.rank)


def is_shown(origin: Origin | None, policy: Mapping[Channel, Authority], raised: Raised | None = None) -> bool:
    """Return whether this reader is shown what has this origin, where it is named or listed.

    What every list and every reading of one thing asks: what a search finds has ``MemoryQuery.under``.
    """
    return authority(origin, policy, raised).reaches(least_shown(Authority.QUARANTINED))
