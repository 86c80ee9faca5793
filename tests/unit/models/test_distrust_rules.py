"""A rule can name whatever a memory can carry: nobody chooses a source that cannot be distrusted."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.memories import NOW

from memcore.errors import MemoryInputError
from memcore.models.distrust import DistrustRule
from memcore.models.memory import MAX_KEY_CHARS, MemoryCategory, MemoryEntry, MemoryMetadata
from memcore.models.origin import Channel, Origin

DAY = timedelta(days=1)


@pytest.mark.parametrize("source", ["crawler", "two\nlines", "\u200bunseen", " padded\u00a0", "x" * MAX_KEY_CHARS])
def test_every_source_that_a_memory_may_have_can_be_named(source: str) -> None:
    assert DistrustRule(source=source).source == MemoryMetadata(source=source).source


@pytest.mark.parametrize("memory_id", ["3", "no uuid", "00000000-0000-0000-0000-00000000000G", "{}"])
def test_the_id_of_no_memory_is_refused(memory_id: str) -> None:
    with pytest.raises(MemoryInputError, match="memory_id"):
        DistrustRule(agent_id="ada", memory_id=memory_id)


@pytest.mark.parametrize(
    ("rule", "days"),
    [
        ({"since": NOW}, [0, 1]),
        ({"until": NOW}, [-1]),
        ({"since": NOW - DAY, "until": NOW}, [-1]),
        ({"memory_id": str(UUID(int=1)), "agent_id": "ada"}, [1]),
        ({"source": "crawler", "session_id": "s-1", "agent_id": "ada"}, [-1, 0, 1]),
        ({"source": "crawler", "session_id": "s-2", "agent_id": "ada"}, []),
        ({"source": "crawler", "agent_id": "bob"}, []),
        ({"source": "crawler", "channel": "tool", "principal": "key"}, [-1, 0, 1]),
        ({"source": "crawler", "channel": "person"}, []),
        ({"source": "crawler", "principal": "another"}, []),
        ({"source": "another"}, []),
    ],
    ids=str,
)
def test_a_rule_takes_what_meets_all_of_it(rule: dict[str, Any], days: list[int]) -> None:
    """Of three memories, a day before, at and a day after a time; since is inclusive, until is not."""
    wanted = DistrustRule.model_validate({"source": "crawler", **rule})
    origin = Origin(channels=(Channel.TOOL,), principals=("key",))
    taken = [day for day in (-1, 0, 1) if wanted.takes(_memory(day, origin))]
    assert taken == days


def _memory(day: int, origin: Origin) -> MemoryEntry:
    return MemoryEntry(
        id=str(UUID(int=abs(day) if day >= 0 else 9)),
        agent_id="ada",
        category=MemoryCategory.SEMANTIC,
        content="a note",
        metadata=MemoryMetadata(source="crawler"),
        created_at=NOW + day * DAY,
        session_id="s-1",
        origin=origin,
    )
