"""What makes the tests of services and commands quick: nothing is opened or read twice that a process keeps."""

from collections.abc import Iterator
from functools import cache

import pytest
from sqlalchemy.pool import QueuePool

from memcore.embedding.static import StaticTable

#: Folders whose tests fork, or share a database with processes that they start.
_AS_IN_PRODUCTION = {"cli", "jobs", "ledger", "wiki"}


@pytest.fixture(autouse=True)
def _kept_connections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep SQLite's connections, as PostgreSQL's are: to open one for each transaction takes 40 % of a run's time."""
    if request.path.parent.name not in _AS_IN_PRODUCTION:
        monkeypatch.setattr("memcore.ledger.database.NullPool", QueuePool)


@pytest.fixture(scope="session", autouse=True)
def _one_table() -> Iterator[None]:
    """Read the default embedder's table once: each command that runs in this process would read and weigh it anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticTable, "of_wheel", cache(StaticTable.of_wheel))
        yield
