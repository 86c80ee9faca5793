"""Data of an evaluation: agents' memories, and questions with the ids of those that answer them."""

import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError

from memcore.client.envelopes import ImportRecord
from memcore.errors import MemoryInputError
from memcore.evaluation.published import locomo, longmemeval
from memcore.importers.documents import MAX_VALUE_BYTES, Found, lines, opened
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, Content, Key, MemoryCategory, NewAgentId

#: Most memories and questions of one evaluation: all are held in memory.
MAX_LINES = 500_000

#: What a file may be: memtend's own lines, a table of the same columns, or one of two public sets.
Format = Literal["jsonl", "csv", "locomo", "longmemeval"]

#: The format of a file by the end of its name.
_FORMATS: Mapping[str, Format] = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "csv"}

#: Between the values of a cell that has several.
_BETWEEN = ";"

_Ids = Annotated[tuple[Key, ...], Field(max_length=1_000)]


class Question(Frozen):
    """A question to an agent, and which of its memories answer it.

    Attributes:
        finds: ids of the memories that answer it; none where nothing does, and nothing should be shown.
        stale: ids of memories that were true once: none of these may be shown before one that answers.
        kind: by which figures are given apart, such as ``temporal``.
        asked_at: when it is asked; left out, an hour after the agent's last memory.
    """

    agent_id: NewAgentId
    question: Content
    finds: _Ids = ()
    stale: _Ids = ()
    kind: Key | None = None
    asked_at: BoundedTime | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """The memories of each agent in the order of the file, and the questions."""

    memories: Mapping[str, tuple[ImportRecord, ...]]
    questions: tuple[Question, ...]


def read_dataset(path: Path, form: Format | None = None) -> Dataset:
    """Read an evaluation's data. Raises MemoryInputError, which names line, field and limit.

    ``jsonl`` has the lines of ``memtend export``, each with an ``id``, and lines with ``agent_id``, ``question`` and
    ``finds``; ``csv`` has a table with the same columns, ids apart by semicolons. ``locomo`` is a file or folder of
    LoCoMo's conversations, ``longmemeval`` a file of LongMemEval's.
    """
    form = form or _FORMATS.get(path.suffix.lower())
    if form is None:
        known = ", ".join(get_args(Format))
        raise MemoryInputError("format", f"cannot be told from the name of the file; name one of {known}")
    memories: defaultdict[str, list[ImportRecord]] = defaultdict(list)
    questions: list[tuple[int, Question]] = []
    number = 0
    for number, found in enumerate(_READERS[form](path), start=1):
        if number > MAX_LINES:
            raise MemoryInputError("file", f"has more than {MAX_LINES} memories and questions")
        read = _read(found)
        if isinstance(read, Question):
            questions.append((found.number, read))
        else:
            memories[read.agent_id].append(read)
    if not questions:
        raise MemoryInputError("file", f"has no question among {number} lines")
    _check_ids(memories, questions)
    return Dataset(
        memories={agent_id: tuple(each) for agent_id, each in memories.items()},
        questions=tuple(question for _, question in questions),
    )


def _read(found: Found) -> Question | ImportRecord:
    where = f"line {found.number}"
    if found.problem is not None:
        raise MemoryInputError(f"{where}: {found.problem.field}", found.problem.problem)
    if not isinstance(found.value, dict):
        raise MemoryInputError(where, "must be an object")
    try:
        if "question" in found.value:
            return Question.model_validate(found.value)
        record = ImportRecord.model_validate({"category": MemoryCategory.EPISODIC, **found.value})
    except ValidationError as error:
        wrong = MemoryInputError.of(error)
        raise MemoryInputError(f"{where}: {wrong.field}", wrong.problem) from None
    if record.id is None:
        raise MemoryInputError(f"{where}: id", "is missing: questions name memories by it")
    return record


def _check_ids(memories: Mapping[str, list[ImportRecord]], questions: Iterable[tuple[int, Question]]) -> None:
    for agent_id, each in memories.items():
        twice = [name for name, count in Counter(record.id for record in each).items() if count > 1]
        if twice:
            raise MemoryInputError("id", f"{twice[0]!r} names two memories of agent {agent_id!r}")
    known = {agent_id: {record.id for record in each} for agent_id, each in memories.items()}
    for number, question in questions:
        for field in ("finds", "stale"):
            unknown = [name for name in getattr(question, field) if name not in known.get(question.agent_id, ())]
            if unknown:
                place = f"line {number}: {field}"
                raise MemoryInputError(place, f"{unknown[0]!r} is no memory of agent {question.agent_id!r}")


def _jsonl(path: Path) -> Iterator[Found]:
    with opened(path) as file:
        yield from lines(file)


def _csv(path: Path) -> Iterator[Found]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            csv.field_size_limit(MAX_VALUE_BYTES)
            rows = csv.DictReader(file, dialect="excel-tab" if path.suffix.lower() == ".tsv" else "excel")
            for row in rows:
                yield _filled(rows.line_num, row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MemoryInputError("file", f"cannot be read as a table ({type(error).__name__})") from None


def _filled(number: int, row: Mapping[str | None, Any]) -> Found:
    """Return the cells of a row that say something, those with several ids as lists."""
    if None in row:
        return Found(number=number, problem=MemoryInputError("row", "has more cells than the first"))
    said = {str(name): value for name, value in row.items() if isinstance(value, str) and value.strip()}
    several = {
        name: [part.strip() for part in said[name].split(_BETWEEN) if part.strip()]
        for name in ("finds", "stale")
        if name in said
    }
    return Found(number=number, value={**said, **several})


_READERS: Mapping[Format, Callable[[Path], Iterator[Found]]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "locomo": locomo,
    "longmemeval": longmemeval,
}
