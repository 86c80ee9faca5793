"""The YAML and JSON files that hold memory tests, and a file of recorded questions for a person to confirm."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from memcore.config.loader import parse_yaml, read_bounded
from memcore.errors import MemoryInputError
from memcore.models.base import Frozen, escaped
from memcore.models.memory import KnownAgentId, MemoryEntry, day_of
from memcore.models.memory_test import SAID_CHARS, MemoryTest

#: Largest file, in bytes (1 MiB), and most tests of one run.
MAX_FILE_BYTES, MAX_TESTS = 1_048_576, 10_000

#: What files of tests end with.
SUFFIXES = (".yaml", ".yml", ".json")

#: Characters of a memory that a recorded test asks for. Not its id: a summary that takes its place has another.
_RECORDED_CHARS = 200


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
            test = repr(name[:SAID_CHARS]) if isinstance(name, str) else str(number)
            raise MemoryInputError(f"{file}, test {test}, {wrong.field}", wrong.problem) from None


def _parse_json(text: str, file: Path) -> Any:
    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in pairs:
            # JSON itself takes the last of two equal keys: an expectation would be lost silently.
            if key in made:
                raise MemoryInputError(str(file), f"gives the key {escaped(key[:SAID_CHARS])} twice")
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
