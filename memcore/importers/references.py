"""``References``: the ids that the memories of a file had, and those that they get where they are stored now."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from memcore.client.envelopes import ImportRecord

#: Released are records that replace none which is still held back; of several that replace one another, all.
_FREE = """
    SELECT place FROM held WHERE place NOT IN (
        SELECT replaced.place FROM replaced JOIN held AS old ON old.name = replaced.name)
    ORDER BY place
"""


class References:
    """Holds back what replaces other memories until these have their new ids, and names them by those.

    A file may have the old memory behind the new one, far from it, or not at all. What is held back lies on disk.
    """

    def __init__(self) -> None:
        self._kept = sqlite3.connect("")
        self._kept.executescript(
            "CREATE TABLE ids (name TEXT PRIMARY KEY, memory_id TEXT) WITHOUT ROWID;"
            "CREATE TABLE repeated (name TEXT PRIMARY KEY, first TEXT) WITHOUT ROWID;"
            "CREATE TABLE held (place INTEGER PRIMARY KEY, name TEXT, record TEXT);"
            "CREATE INDEX held_by_name ON held (name);"
            "CREATE TABLE replaced (place INTEGER, name TEXT, PRIMARY KEY (place, name)) WITHOUT ROWID;"
        )

    def sendable(self, records: Iterable[ImportRecord]) -> Iterator[ImportRecord]:
        """Yield the records that replace nothing, as they come; then take the others from ``released``."""
        for record in records:
            if not record.supersedes:
                yield record
                continue
            row = (record.id, record.model_dump_json())
            place = self._kept.execute("INSERT INTO held (name, record) VALUES (?, ?)", row).lastrowid
            old = [(place, name) for name in record.supersedes]
            self._kept.executemany("INSERT INTO replaced VALUES (?, ?)", old)

    def note(self, records: Sequence[ImportRecord], memory_ids: Sequence[str]) -> None:
        """Remember the ids that records got, which are on their way or stored."""
        named = [(each.id, new) for each, new in zip(records, memory_ids, strict=True) if each.id is not None]
        self._kept.executemany("INSERT OR REPLACE INTO ids VALUES (?, ?)", named)

    def repeat(self, name: str, first: str) -> None:
        """Remember that a record says what one before it says, and so is not sent."""
        self._kept.execute("INSERT OR IGNORE INTO repeated VALUES (?, ?)", (name, first))

    def released(self) -> Iterator[ImportRecord]:
        """Yield held records whose old memories have their new ids by now; none once all were yielded.

        An old memory that the file does not have keeps the id that the file says. Let each round be stored and noted
        before the next is asked for: a worker marks what it finds.
        """
        free = [place for (place,) in self._kept.execute(_FREE)]
        free = free or [place for (place,) in self._kept.execute("SELECT place FROM held ORDER BY place")]
        for place in free:
            (text,) = self._kept.execute("SELECT record FROM held WHERE place = ?", (place,)).fetchone()
            self._kept.execute("DELETE FROM held WHERE place = ?", (place,))
            self._kept.execute("DELETE FROM replaced WHERE place = ?", (place,))
            record = ImportRecord.model_validate_json(text)
            new = dict.fromkeys(map(self._new_id, record.supersedes))
            yield record.model_copy(update={"supersedes": tuple(new)})

    def close(self) -> None:
        """Forget all of it."""
        self._kept.close()

    def _new_id(self, name: str) -> str:
        found = self._kept.execute(
            "SELECT memory_id FROM ids WHERE name = coalesce((SELECT first FROM repeated WHERE name = ?), ?)",
            (name, name),
        ).fetchone()
        return name if found is None else str(found[0])
