"""``Import``: the memories of a source, each validated, and a report of what was read and what was refused."""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from memcore.client.envelopes import ImportRecord
from memcore.errors import MemoryChannelError, MemoryInputError
from memcore.importers import langgraph, letta, mem0, zep
from memcore.importers.documents import Found, lines, opened
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime
from memcore.models.origin import OPERATOR, Writer

#: Agents that a report names; it counts all of them.
NAMED_AGENTS = 20

#: What a report calls a field that it may not name: names of free metadata are text of a user's.
_OTHER_FIELD = "another field"

#: Fields of a source, beside those of a record, that a refusal may name.
_SOURCE_FIELDS = frozenset(
    {"file", "line", "record", "point", "value", "valid_at", "invalid_at", "expired_at", "updated_at"}
)


class Source(NamedTuple):
    """One system: reads its files, and says what a record of them is as a memory; None for what is none."""

    read: Callable[[Path], Iterator[Found]]
    fields: Callable[[Found], dict[str, Any] | None]


def _jsonl(path: Path) -> Iterator[Found]:
    with opened(path) as file:
        yield from lines(file)


def _record(found: Found) -> dict[str, Any]:
    if not isinstance(found.value, dict):
        raise MemoryInputError("record", "must be an object")
    return found.value


#: The systems that memories are imported from, by name.
SOURCES: Mapping[str, Source] = {
    "mem0": Source(mem0.read, mem0.fields),
    "langgraph": Source(langgraph.read, langgraph.fields),
    "letta": Source(letta.read, letta.fields),
    "zep": Source(zep.read, zep.fields),
    "jsonl": Source(_jsonl, _record),
}


class ImportReport(Frozen):
    """What an import read and did.

    Attributes:
        source: the system.
        read: records of the file.
        accepted: those that are memories and break no limit, each text of an agent once.
        duplicates: those that say what one before them says.
        skipped: those that are no memories, such as messages of tools.
        refused: how many break a limit, by the field that breaks it.
        oldest, newest: the first and last creation time of those accepted; None where none is.
        agents: whose they are, with their counts; the first 20 by name.
        agent_count: how many agents there are.
    """

    source: str
    read: int = 0
    accepted: int = 0
    duplicates: int = 0
    skipped: int = 0
    refused: Mapping[str, int] = {}
    oldest: BoundedTime | None = None
    newest: BoundedTime | None = None
    agents: Mapping[str, int] = {}
    agent_count: int = 0


@dataclass(kw_only=True)
class Import:
    """The memories of one file or folder, which is read as they are taken.

    Args:
        source: the system that it comes from, one of SOURCES.
        path: the file, or the folder.
        now: the creation time of a memory that has none.
        agent: the agent that gets all memories; None leaves them to the agents that the source names.
        writer: who imports; a record that claims more than it may is refused.
        on_refused: called with the number of each refused record, and a sentence that names its field and limit.
        on_repeated: called with the id of a duplicate, and with that of the record that said the same, where both
            have one.
    """

    source: str
    path: Path
    now: datetime
    agent: str | None = None
    writer: Writer = OPERATOR
    on_refused: Callable[[int, str], None] = lambda _number, _sentence: None
    on_repeated: Callable[[str, str], None] = lambda _repeated, _first: None
    _counts: Counter[str] = field(default_factory=Counter)
    _refused: Counter[str] = field(default_factory=Counter)
    _oldest: datetime | None = None
    _newest: datetime | None = None

    def __post_init__(self) -> None:
        # On disk, where it is large: the digests and agents of a hundred million records are.
        self._seen = sqlite3.connect("")
        self._seen.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY, id TEXT) WITHOUT ROWID")
        self._seen.execute("CREATE TABLE agents (agent TEXT PRIMARY KEY, count INTEGER) WITHOUT ROWID")

    def records(self) -> Iterator[ImportRecord]:
        """Yield the memories that can be stored, in the order of the file. Raises MemoryInputError, as its reader.

        What breaks a limit is counted and left out, and never ends the rest.
        """
        source = SOURCES[self.source]
        for found in source.read(self.path):
            self._counts["read"] += 1
            try:
                record = self._record_of(found, source)
            except (MemoryInputError, MemoryChannelError) as error:
                self._refuse(found.number, error)
                continue
            if record is None:
                self._counts["skipped"] += 1
            elif self._is_new(record):
                yield record

    @property
    def report(self) -> ImportReport:
        """What was read and refused until now."""
        named = self._seen.execute("SELECT agent, count FROM agents ORDER BY agent LIMIT ?", (NAMED_AGENTS,))
        agents = dict(named.fetchall())
        (agent_count,) = self._seen.execute("SELECT count(*) FROM agents").fetchone()
        return ImportReport(
            source=self.source,
            **self._counts,
            refused=dict(sorted(self._refused.items())),
            oldest=self._oldest,
            newest=self._newest,
            agents=agents,
            agent_count=agent_count,
        )

    def close(self) -> None:
        """Forget what was read."""
        self._seen.close()

    def _record_of(self, found: Found, source: Source) -> ImportRecord | None:
        if found.problem is not None:
            raise found.problem
        fields = source.fields(found)
        if fields is None:
            return None
        given = dict(fields) if self.agent is None else {**fields, "agent_id": self.agent}
        try:
            record = ImportRecord.model_validate(given).dated(self.now)
        except ValidationError as error:
            wrong = MemoryInputError.of(error)
        else:
            record.stamped(self.writer)
            return record
        if wrong.field == "agent_id" and "agent_id" not in given:
            raise MemoryInputError("agent_id", "is missing: name one with --agent")
        raise wrong

    def _refuse(self, number: int, error: MemoryInputError | MemoryChannelError) -> None:
        # Only the first part: what stands below is a key of free metadata, or the number of a tag.
        first, _, rest = error.field.partition(".")
        if first == "metadata" and rest:
            first = rest.partition(".")[0]
        known = first in ImportRecord.model_fields or first in {"source", "tags", "confidence"} | _SOURCE_FIELDS
        name = first if known else _OTHER_FIELD
        self._refused[name] += 1
        self.on_refused(number, f"{name}: {error.problem}")

    def _is_new(self, record: ImportRecord) -> bool:
        parts = (
            record.agent_id,
            record.category,
            record.namespace,
            record.content,
            record.metadata.source or "",
            *record.holding,
            *(() if record.origin is None else record.origin.part_of_id),
        )
        digest = hashlib.blake2b("\0".join(f"{len(part)}:{part}" for part in parts).encode(), digest_size=16).digest()
        if not self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (digest, record.id)).rowcount:
            self._counts["duplicates"] += 1
            (first,) = self._seen.execute("SELECT id FROM seen WHERE digest = ?", (digest,)).fetchone()
            if record.id is not None and first is not None:
                self.on_repeated(record.id, first)
            return False
        self._counts["accepted"] += 1
        self._seen.execute(
            "INSERT INTO agents VALUES (?, 1) ON CONFLICT (agent) DO UPDATE SET count = count + 1", (record.agent_id,)
        )
        made = record.created_at or self.now
        self._oldest, self._newest = min(self._oldest or made, made), max(self._newest or made, made)
        return True
