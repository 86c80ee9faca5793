"""Memory tests: a question to an agent's memory with what is expected of the answer, and what came of one."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from memcore.models.answers import Shown
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import BoundedTime, Key, KnownAgentId, MemoryEntry, NoNul, OneLine
from memcore.models.origin import Authority

#: Longest question and longest text of an expectation, in characters, and most of these in one list.
MAX_QUESTION_CHARS, MAX_TEXT_CHARS, MAX_EXPECTED = 4_096, 2_000, 64

#: Longest pattern, in characters: in the longest memory the worst one takes some 20 ms.
MAX_PATTERN_CHARS = 100

#: A set of characters in a pattern; what only regular expressions have.
_SET, _REGULAR = re.compile(r"\[!?+.[^\[\]]*\]"), re.compile(r"[\].][+{]|\\[dsw][+{]")

#: Characters of a text or a name, ids, and names of tests, that a sentence repeats.
SAID_CHARS, _SAID_IDS, _SAID_NAMES = 60, 5, 5


def folded(text: str) -> str:
    """Return the text as tests compare it: without regard to case, white space and how accents are coded."""
    return unicodedata.normalize("NFC", " ".join(text.split()).casefold())


def _findable(text: str) -> str:
    # Every memory contains the empty text.
    if not folded(text):
        raise ValueError("must have a character that is no white space")
    return text


#: What a person wrote who looks for it in a memory.
_Text = Annotated[NotBlankStr, StringConstraints(max_length=MAX_TEXT_CHARS), NoNul, AfterValidator(_findable)]


@lru_cache(maxsize=512)
def matcher(pattern: str) -> re.Pattern[str]:
    """Return what matches a folded text that contains the pattern: ``*``, ``?`` and ``[0-9]``, as a shell has them.

    Its time grows with the text alone: ``translate`` puts all up to each ``*`` into an atomic group.
    """
    return re.compile(translate(f"*{folded(pattern)}*"))


def _matchable(pattern: str) -> str:
    # Without these, a regular expression would match nothing: what must not be shown would never be found.
    plain = _SET.sub("", folded(pattern))
    if _REGULAR.search(pattern):
        raise ValueError("reads like a regular expression; a pattern has *, ? and [0-9]")
    if "[" in plain:
        raise ValueError("has a [ without its ]; [[] is the character")
    if "(?!)" in matcher(pattern).pattern:
        raise ValueError("has a range that no character is in, such as [9-0]")
    if not folded(pattern).strip("*? "):
        raise ValueError("must have a character besides *, ? and white space")
    if plain == folded(pattern) and not {"*", "?"}.intersection(plain):
        raise ValueError("has no *, ? or [0-9]; give it as text")
    return pattern


_Pattern = Annotated[NotBlankStr, StringConstraints(max_length=MAX_PATTERN_CHARS), NoNul, AfterValidator(_matchable)]


class NamedMemory(Frozen):
    """How a test names a memory, by one of these; in a file, a bare text stands for ``text``.

    Attributes:
        id: its id; a summary that replaces it has another.
        key: its key.
        text: a text that it contains, without regard to case and white space.
        pattern: as ``text``, with ``*`` for any characters, ``?`` for one, and ``[0-9]`` or ``[!0-9]`` for one of a
            set, as in a shell.
    """

    id: Key | None = None
    key: Key | None = None
    text: _Text | None = None
    pattern: _Pattern | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_text(cls, given: Any) -> Any:
        return {"text": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("must name a memory by one of id, key, text and pattern")
        return self

    def names(self, entry: MemoryEntry) -> bool:
        """Return whether a memory is meant."""
        if self.id is None and self.key is None:
            return self.is_said(folded(entry.content))
        return entry.id == self.id if self.id is not None else entry.key == self.key

    def is_said(self, said: str) -> bool:
        """Return whether one of several memories has the text or pattern; each is a folded line."""
        if self.pattern is not None:
            return any(map(matcher(self.pattern).match, said.split("\n")))
        return self.text is not None and folded(self.text) in said

    def is_among(self, names: Collection[str], said: str) -> bool:
        """Return whether one of several memories is meant, which have these ids and keys, and say this together."""
        return self.is_said(said) or (self.id or self.key) in names

    def __str__(self) -> str:
        """Return it in words; a long text is cut."""
        ((field, value),) = self.model_dump(exclude_none=True).items()
        value = " ".join(value.split())
        return f"{field} {value}" if len(value) <= SAID_CHARS else f"{field} {value[:SAID_CHARS]}..."


class PersonFact(Frozen):
    """A fact of a person, as memory keeps it: ``predicate`` such as ``LIVES_IN``, and its ``value``."""

    predicate: Annotated[_Text, OneLine]
    value: Annotated[_Text, OneLine]

    def __str__(self) -> str:
        """Return it as a prompt has it."""
        return f"{self.predicate} {self.value}"


_Named = Annotated[tuple[NamedMemory, ...], Field(max_length=MAX_EXPECTED)]


class MemoryTest(Frozen):
    """A question to an agent's memory, and what is expected of what a search shows for it.

    Attributes:
        name: says what is tested; an agent's tests have different names.
        as_of: asks what was known at this time; with a time zone.
        limit, standing, min_authority: as in ``Memory.search``.
        finds: memories that are shown.
        shows_not: memories that are not shown.
        order: memories that are shown in this order, others between them or not.
        shows_nothing: whether nothing is shown, for what nobody said; ``standing: strong`` goes well with it.
        authority: the least authority of each memory that is shown.
        tokens: most tokens of the whole prompt for the question. It is prepared as for an agent, and counts as use.
        person: whose facts are expected; a ``user_id``.
        facts: what is remembered of the person when the question is asked.
    """

    name: Key
    agent: KnownAgentId
    question: Annotated[NotBlankStr, StringConstraints(max_length=MAX_QUESTION_CHARS), NoNul]
    as_of: BoundedTime | None = None
    limit: int | None = Field(default=None, ge=1, le=1000, strict=True)
    standing: Shown | None = None
    min_authority: Authority | None = None
    finds: _Named = ()
    shows_not: _Named = ()
    order: _Named = ()
    shows_nothing: bool = Field(default=False, strict=True)
    authority: Authority | None = None
    tokens: int | None = Field(default=None, ge=0, strict=True)
    person: Key | None = None
    facts: tuple[PersonFact, ...] = Field(default=(), max_length=MAX_EXPECTED)

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        if not (self.of_search or self.tokens is not None or self.facts):
            raise ValueError("finds: is missing, as is any other expectation; a test expects something")
        if self.shows_nothing and (self.finds or self.order):
            raise ValueError("shows_nothing: contradicts finds and order")
        if bool(self.facts) != (self.person is not None):
            raise ValueError(f"{'person' if self.facts else 'facts'}: is missing; facts are those of a person")
        if self.as_of is not None and (self.tokens is not None or self.facts):
            raise ValueError("as_of: is of searches alone; prompts and facts are those of today")
        return self

    @property
    def named(self) -> tuple[NamedMemory, ...]:
        """The memories that it names, whatever it expects of them."""
        return (*self.finds, *self.shows_not, *self.order)

    def following(self, texts: Mapping[str, str]) -> "MemoryTest":
        """Return the test with the texts of these memories in the place of their ids: they have left the store.

        So what has taken the place of a memory counts for it exactly where it says all that the memory said.
        """
        if not any(each.id in texts for each in self.named):
            return self

        def followed(named: tuple[NamedMemory, ...]) -> tuple[NamedMemory, ...]:
            # A whole memory may be longer than what a person writes down.
            gone = (each if each.id is None else texts.get(each.id, each) for each in named)
            return tuple(
                each if isinstance(each, NamedMemory) else NamedMemory.model_construct(text=each) for each in gone
            )

        lists = {"finds": followed(self.finds), "shows_not": followed(self.shows_not), "order": followed(self.order)}
        return self.model_copy(update=lists)

    @property
    def of_search(self) -> bool:
        """Whether a search is needed."""
        return bool(self.finds or self.shows_not or self.order or self.shows_nothing or self.authority)

    @property
    def filters(self) -> dict[str, Any]:
        """The filters of the search, as far as the test says any."""
        named = {each: getattr(self, each) for each in ("as_of", "limit", "standing", "min_authority")}
        return {name: value for name, value in named.items() if value is not None}


class Outcome(StrEnum):
    """How a test ended: ``error`` where nobody knows, because the memory gave no answer."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


class MemoryTestResult(Frozen):
    """What came of a test.

    Attributes:
        reasons: what was expected and what was there instead, a sentence each; no text of a memory.
        shown: ids of the memories that the search showed, best first.
    """

    agent: str
    name: str
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    seconds: float = 0.0


def failures(test: MemoryTest, shown: Sequence[MemoryEntry]) -> Iterator[str]:
    """Yield a sentence for each expectation that what a search shows does not meet."""
    listed = _listed(shown)
    for named in test.finds:
        if not any(map(named.names, shown)):
            yield f"finds: {named} is not shown; shown: {listed}"
    for named in test.shows_not:
        if (place := _place(named, shown)) is not None:
            yield f"shows_not: {named} is shown at place {place}: {shown[place - 1].id}"
    yield from _out_of_order(test, shown)
    if test.shows_nothing and shown:
        yield f"shows_nothing: shown: {listed}"
    if test.authority is not None:
        below = [each for each in shown if each.authority is None or not each.authority.reaches(test.authority)]
        if below:
            yield f"authority: less than {test.authority} have: {_listed(below)}"


def _out_of_order(test: MemoryTest, shown: Sequence[MemoryEntry]) -> Iterator[str]:
    placed: list[tuple[int, NamedMemory]] = []
    for named in test.order:
        place = _place(named, shown)
        if place is None:
            yield f"order: {named} is not shown; shown: {_listed(shown)}"
        else:
            placed.append((place, named))
    for (first, one), (second, other) in pairwise(placed):
        if first >= second:
            yield f"order: {other} stands at place {second}, and {one} at place {first}"


def _place(named: NamedMemory, shown: Sequence[MemoryEntry]) -> int | None:
    """Return the first place of what is meant, from 1."""
    return next((place for place, entry in enumerate(shown, start=1) if named.names(entry)), None)


def _listed(entries: Sequence[MemoryEntry]) -> str:
    named = ", ".join(each.id for each in entries[:_SAID_IDS]) or "nothing"
    return named if len(entries) <= _SAID_IDS else f"{named} and {len(entries) - _SAID_IDS} more"


def listed_names(names: Sequence[str]) -> str:
    """Return names of tests in words; of many the first ones, and a long one is cut."""
    shown = [repr(each if len(each) <= SAID_CHARS else f"{each[:SAID_CHARS]}...") for each in names[:_SAID_NAMES]]
    more = [f"{len(names) - _SAID_NAMES} more"] if len(names) > _SAID_NAMES else []
    return ", ".join([*shown, *more])
