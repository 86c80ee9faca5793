"""Memory tests, the YAML and JSON files that hold them, and a file of recorded questions for a person to confirm."""

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from memcore.config.loader import parse_yaml, read_bounded
from memcore.errors import MemoryInputError
from memcore.models.answers import Shown
from memcore.models.base import Frozen, NotBlankStr, escaped
from memcore.models.memory import (
    BoundedTime,
    Key,
    KnownAgentId,
    MemoryEntry,
    NoNul,
    OneLine,
    day_of,
)
from memcore.models.origin import Authority

#: Largest file, in bytes (1 MiB), and most tests of one run.
MAX_FILE_BYTES, MAX_TESTS = 1_048_576, 10_000

#: Longest question and longest text of an expectation, in characters, and most of these in one list.
MAX_QUESTION_CHARS, MAX_TEXT_CHARS, MAX_EXPECTED = 4_096, 2_000, 64

#: What files of tests end with.
SUFFIXES = (".yaml", ".yml", ".json")

#: Characters of an expected text that a sentence repeats.
_SAID_CHARS = 60

#: Characters of a memory that a recorded test asks for. Not its id: a summary that takes its place has another.
_RECORDED_CHARS = 200


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


class NamedMemory(Frozen):
    """How a test names a memory, by one of these; in a file, a bare text stands for ``text``.

    Attributes:
        id: its id; a summary that replaces it has another.
        key: its key.
        text: a text that it contains, without regard to case and white space.
    """

    id: Key | None = None
    key: Key | None = None
    text: _Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_text(cls, given: Any) -> Any:
        return {"text": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("must name a memory by one of id, key and text")
        return self

    def names(self, entry: MemoryEntry) -> bool:
        """Return whether a memory is meant."""
        if self.text is not None:
            return folded(self.text) in folded(entry.content)
        return entry.id == self.id if self.id is not None else entry.key == self.key

    def __str__(self) -> str:
        """Return it in words; a long text is cut."""
        ((field, value),) = self.model_dump(exclude_none=True).items()
        value = " ".join(value.split())
        return f"{field} {value}" if len(value) <= _SAID_CHARS else f"{field} {value[:_SAID_CHARS]}..."


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
    def of_search(self) -> bool:
        """Whether a search is needed."""
        return bool(self.finds or self.shows_not or self.order or self.shows_nothing or self.authority)

    @property
    def filters(self) -> dict[str, Any]:
        """The filters of the search, as far as the test says any."""
        named = {each: getattr(self, each) for each in ("as_of", "limit", "standing", "min_authority")}
        return {name: value for name, value in named.items() if value is not None}


class _File(Frozen):
    """A file of tests; ``agent`` is that of tests that name none."""

    agent: KnownAgentId | None = None
    tests: tuple[Any, ...] = Field(min_length=1, max_length=MAX_TESTS)


def read_memory_tests(paths: Iterable[Path | str]) -> tuple[MemoryTest, ...]:
    """Return the tests of files, and of all ``.yaml``, ``.yml`` and ``.json`` files in folders.

    A file is a mapping: ``tests`` is the list of tests, ``agent`` the agent of those that name none.

    Raises:
        MemoryInputError: a test is wrong, a name is used twice, or there is none; it names file, test and field.
        MemoryConfigError: a file cannot be read, or is not YAML.
    """
    found: dict[tuple[str, str], MemoryTest] = {}
    for file in _files(map(Path, paths)):
        for test in _tests_of(file):
            if (test.agent, test.name) in found:
                raise MemoryInputError(f"{file}, test {test.name!r}, name", "is that of another test of this agent")
            found[test.agent, test.name] = test
            if len(found) > MAX_TESTS:
                raise MemoryInputError("tests", f"are more than {MAX_TESTS}")
    return tuple(found.values())


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not os.path.isdir(path):  # noqa: PTH112  # Path.is_dir raises for a name that is too long
            yield path
            continue
        files = sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES)
        if not files:
            raise MemoryInputError(str(path), f"has no file that ends with {', '.join(SUFFIXES)}")
        yield from files


def _tests_of(file: Path) -> Iterator[MemoryTest]:
    text = read_bounded(file, most_bytes=MAX_FILE_BYTES)
    try:
        document = _parse_json(text, file) if file.suffix == ".json" else parse_yaml(text, str(file))
    except (ValueError, RecursionError):
        raise MemoryInputError(str(file), "is not valid JSON") from None
    if not isinstance(document, dict):
        raise MemoryInputError(str(file), "should be a mapping with tests, and agent for all of them if wanted")
    try:
        read = _File.model_validate(document)
    except ValidationError as error:
        wrong = MemoryInputError.of(error)
        raise MemoryInputError(f"{file}, {wrong.field}", wrong.problem) from None
    above = {} if read.agent is None else {"agent": read.agent}
    for number, given in enumerate(read.tests, start=1):
        if not isinstance(given, dict):
            raise MemoryInputError(
                f"{file}, test {number}", "should be a mapping with name, question and what it finds"
            )
        try:
            yield MemoryTest.model_validate(above | given)
        except ValidationError as error:
            wrong, name = MemoryInputError.of(error), given.get("name")
            test = repr(name[:_SAID_CHARS]) if isinstance(name, str) else str(number)
            raise MemoryInputError(f"{file}, test {test}, {wrong.field}", wrong.problem) from None


def _parse_json(text: str, file: Path) -> Any:
    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in pairs:
            # JSON itself takes the last of two equal keys: an expectation would be lost silently.
            if key in made:
                raise MemoryInputError(str(file), f"gives the key {escaped(key[:_SAID_CHARS])} twice")
            made[key] = value
        return made

    return json.loads(text, object_pairs_hook=mapping)


def recorded_tests(agent_id: str, found: Iterable[tuple[str, Sequence[MemoryEntry]]]) -> str:
    """Return a file of tests in YAML: each question, and the texts that it finds, for a person to confirm."""
    parts = [
        "# Recorded questions, and what they find today. Keep what is right, and delete the rest.\n",
        yaml.safe_dump({"agent": agent_id}, allow_unicode=True),
        "tests:\n",
    ]
    names = set[str]()
    for question, entries in found:
        name = beginning = escaped(" ".join(question.split()))[:_RECORDED_CHARS].strip()
        number = 1
        while name in names:
            number += 1
            name = f"{beginning} ({number})"
        names.add(name)
        test = {
            "name": name,
            "question": question,
            "finds": [{"text": _beginning(entry.content)} for entry in entries],
        }
        shown = ", ".join(f"{entry.id} of {day_of(entry.created_at)}" for entry in entries)
        parts += [f"# found: {shown}\n", yaml.safe_dump([test], allow_unicode=True, sort_keys=False)]
    return "".join(parts)


def _beginning(content: str) -> str:
    """Return the first words of a text, or a part of its first word."""
    text = " ".join(content.split())
    if len(text) <= _RECORDED_CHARS:
        return text
    return text[:_RECORDED_CHARS].rpartition(" ")[0] or text[:_RECORDED_CHARS]
