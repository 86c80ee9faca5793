"""A rule can name whatever a memory can carry: nobody chooses a source that cannot be distrusted."""

import pytest

from memcore.errors import MemoryInputError
from memcore.models.distrust import DistrustRule
from memcore.models.memory import MAX_KEY_CHARS, MemoryMetadata


@pytest.mark.parametrize("source", ["crawler", "two\nlines", "\u200bunseen", " padded\u00a0", "x" * MAX_KEY_CHARS])
def test_every_source_that_a_memory_may_have_can_be_named(source: str) -> None:
    assert DistrustRule(source=source).source == MemoryMetadata(source=source).source


@pytest.mark.parametrize("memory_id", ["3", "no uuid", "00000000-0000-0000-0000-00000000000G", "{}"])
def test_the_id_of_no_memory_is_refused(memory_id: str) -> None:
    with pytest.raises(MemoryInputError, match="memory_id"):
        DistrustRule(agent_id="ada", memory_id=memory_id)
