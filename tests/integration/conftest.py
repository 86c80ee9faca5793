"""What makes the tests of services and commands quick: nothing is opened or read twice that a process keeps."""

from collections.abc import Iterator
from functools import cache

import pytest

from memcore.embedding.static import StaticTable


@pytest.fixture(scope="session", autouse=True)
def _one_table() -> Iterator[None]:
    """Read the default embedder's table once: each command that runs in this process would read and weigh it anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticTable, "of_wheel", cache(StaticTable.of_wheel))
        yield
