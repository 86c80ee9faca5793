"""One scan over several children: oldest first, ties by id, each match once.

A child's own cursor stands at the end of that child's page, and a merged page ends somewhere in the middle of it. So
the cursor here is a value, not a place: the time and the id of the last memory that was returned. Each child is asked
for what was created then or later, and what was returned before is passed over. That costs one memory read twice a
page, needs no memory of the scan in this process, and holds whatever is written or removed between two pages.
"""

from collections.abc import Mapping
from datetime import datetime

from memcore.backends.composite.child import Child
from memcore.backends.composite.fan_out import all_answers
from memcore.backends.protocol import MAX_PAGE
from memcore.backends.record import MemoryRecord, Page
from memcore.backends.where import Where
from memcore.errors import MemoryInputError

#: The age of a memory: its creation time, and its id among those of one time.
Age = tuple[datetime, str]


async def merged_page(
    children: Mapping[str, Child], where: Where, *, cursor: str | None, limit: int, with_vectors: bool
) -> Page:
    """Return the next page over all children. Raises MemoryInputError for a cursor that no page gave."""
    size = max(1, min(limit, MAX_PAGE))
    after = None if cursor is None else _parse(cursor)
    rests = await all_answers(
        {name: _rest(child, where, after, size, with_vectors=with_vectors) for name, child in children.items()}
    )
    found = sorted((record for records, _ in rests for record in records), key=_age)
    is_last = len(found) <= size and not any(goes_on for _, goes_on in rests)
    page = found[:size]
    return Page(records=tuple(page), cursor=None if is_last or not page else _cursor(page[-1]))


async def _rest(
    child: Child, where: Where, after: Age | None, size: int, *, with_vectors: bool
) -> tuple[list[MemoryRecord], bool]:
    # At least `size` of the child's memories that follow, fewer only when there are no more; and whether there are.
    if after is not None and (where.created_since is None or where.created_since < after[0]):
        where = where.model_copy(update={"created_since": after[0]})
    found: list[MemoryRecord] = []
    cursor: str | None = None
    while True:
        page = await child.scan(where, cursor=cursor, limit=min(size + 1, MAX_PAGE), with_vectors=with_vectors)
        found += [record for record in page.records if after is None or _age(record) > after]
        cursor = page.cursor
        if cursor is None or len(found) >= size:
            return found, cursor is not None


def _age(record: MemoryRecord) -> Age:
    return record.entry.created_at, record.entry.id


def _cursor(record: MemoryRecord) -> str:
    return f"{record.entry.created_at.isoformat()} {record.entry.id}"


def _parse(cursor: str) -> Age:
    at, _, memory_id = cursor.partition(" ")
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None or not memory_id:
        raise MemoryInputError("cursor", "must be one that a page of the same scan gave")
    return time, memory_id
