"""What makes the tests of services quick."""

import pytest
from sqlalchemy.pool import QueuePool

#: Folders whose tests fork, or share a database with processes that they start.
_AS_IN_PRODUCTION = {"cli", "jobs", "ledger", "wiki"}


@pytest.fixture(autouse=True)
def _kept_connections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep SQLite's connections, as PostgreSQL's are: to open one for each transaction takes 40 % of a run's time."""
    if request.path.parent.name not in _AS_IN_PRODUCTION:
        monkeypatch.setattr("memcore.ledger.database.NullPool", QueuePool)
