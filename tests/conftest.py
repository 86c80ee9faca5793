"""What every test process must know before anything else is imported, and the servers and files that all may share."""

import atexit
import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import pytest
from hypothesis import HealthCheck, settings
from pydantic import SecretStr
from sqlalchemy import Engine, create_engine
from support.ledger_records import StoppedClock, copied_urls, empty, postgres_database, sqlite_urls
from support.postgres_server import postgres_server
from support.running_stack import last_words
from support.seen_events import LoggedEvents, seen
from support.thorough import THOROUGH
from support.webhook_server import Listener, listening

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate, migrate_history

if TYPE_CHECKING:
    from support.store_servers import StoreAddress

    from memcore.backends.mem0.config import Mem0Config

# Compiled once, not by each of the processes that the tests start: an image for containers often switches this off.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# In memory where there is room: databases and stores wait for the disk at every commit, and here no power is ever cut.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108  # pytest makes a private folder inside it
_SPACE_NEEDED = 12 * 1024**3
_MEMORY = Path("/proc/meminfo")


def _fits_in_memory() -> bool:
    # A folder in memory says what it may take, whatever others have taken of the memory.
    if not (_IN_MEMORY.is_dir() and _MEMORY.is_file() and shutil.disk_usage(_IN_MEMORY).free > _SPACE_NEEDED):
        return False
    (available,) = (line.split()[1] for line in _MEMORY.read_text().splitlines() if line.startswith("MemAvailable:"))
    return int(available) * 1024 > _SPACE_NEEDED


if "TMPDIR" not in os.environ and _fits_in_memory():
    os.environ["TMPDIR"] = str(_IN_MEMORY)
    tempfile.tempdir = None

# mem0 reads these once, when any test imports it first: without them it would call home and write to the home folder.
os.environ["MEM0_TELEMETRY"] = "False"
os.environ["MEM0_DIR"] = tempfile.mkdtemp(prefix="memtend-mem0-")
atexit.register(shutil.rmtree, os.environ["MEM0_DIR"], ignore_errors=True)
os.environ["HF_HUB_OFFLINE"] = "1"
# Every client would read all authorities of the web, 40 ms of processor time: one is enough where nobody outside is
# asked. Only this process is meant: what a test starts has an installation's own trust, and not the machine's.
if not any(value.startswith("https:") for name, value in os.environ.items() if name.startswith("MEMTEND_TEST_")):
    _END = "-----END CERTIFICATE-----\n"
    _AUTHORITY = Path(os.environ["MEM0_DIR"]) / "authority.pem"
    _AUTHORITY.write_text(certifi.contents().partition(_END)[0] + _END)
    pytest.MonkeyPatch().setattr(certifi, "where", lambda: str(_AUTHORITY))
    for _name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        os.environ.pop(_name, None)
# A person's own stack must not be what a test talks to; what names servers for tests stays.
for _name in [name for name in os.environ if name.startswith("MEMTEND_") and not name.startswith("MEMTEND_TEST_")]:
    del os.environ[_name]

# Every run tries the same examples, so that a change and nothing else makes a test fail, and no example is too slow for
# a busy machine. `make test-thorough` searches for new ones; the numbers are those of properties that name none.
settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("search", settings.get_profile("same"), derandomize=False, max_examples=1_000)
settings.load_profile("search" if THOROUGH else "same")


# What is imported and collected stays to the end: the collector need not look at it while it grows, nor ever after.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage again, of the tests alone."""
    gc.freeze()
    gc.enable()


_LOGGED = LoggedEvents(seen())
_LOGGED.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Hold a test to the events that it is there to see."""
    _LOGGED.start()
    yield
    _LOGGED.check(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a failure show what the stacks that run beside it logged."""
    report = yield
    if report.failed and (words := last_words()):
        report.sections.append((f"logs beside {item.name}", words))
    return report


@pytest.fixture(autouse=True)
def _audible() -> None:
    """Let warnings be heard in every test: a Celery worker that ran in this process leaves the root logger at ERROR."""
    logging.getLogger().setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server on which databases may be created."""
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_url(postgres: str) -> Iterator[str]:
    """A database with a migrated ledger, which all tests of a session share."""
    with postgres_database(postgres) as url:
        migrate(LedgerUrls(ledger=url, journal=url))
        yield url


@pytest.fixture(scope="session")
def postgres_engine(postgres_url: str) -> Iterator[Engine]:
    """One connection for the whole session, which knows every table: a new one would look each of them up again."""
    engine = create_engine(postgres_url, pool_pre_ping=True)
    yield engine
    engine.dispose()


@pytest.fixture
def postgres_ledger(postgres_url: str, postgres_engine: Engine) -> LedgerUrls:
    """The ledger on PostgreSQL, empty."""
    empty(postgres_engine)
    return LedgerUrls(ledger=postgres_url, journal=postgres_url)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def urls(request: pytest.FixtureRequest) -> LedgerUrls:
    """A migrated, empty ledger on each database."""
    found: LedgerUrls = request.getfixturevalue("sqlite_ledger" if request.param == "sqlite" else "postgres_ledger")
    return found


@pytest.fixture(scope="session")
def ledger_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a migrated, empty ledger on SQLite, to be copied; mem0's history is in it, as by default."""
    folder = tmp_path_factory.mktemp("ledger-template")
    migrate(sqlite_urls(folder))
    migrate_history(sqlite_urls(folder).ledger)
    return folder


@pytest.fixture
def sqlite_ledger(ledger_template: Path, tmp_path: Path) -> LedgerUrls:
    """A migrated, empty ledger of the test's own, in the test's folder."""
    return copied_urls(ledger_template, tmp_path)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def ledger(sqlite_ledger: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    """A ledger of the test's own, by a clock that the test moves."""
    opened = Ledger.open(sqlite_ledger, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A server that takes webhooks."""
    with listening() as made:
        yield made


@pytest.fixture(scope="session")
def history_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty history on SQLite, to be copied."""
    file = tmp_path_factory.mktemp("history-template") / "history.db"
    migrate_history(f"sqlite:///{file}")
    return file


@pytest.fixture
def sqlite_history(history_template: Path, tmp_path: Path) -> str:
    """The URL of a migrated, empty history of the test's own."""
    return f"sqlite:///{shutil.copy(history_template, tmp_path / 'history.db')}"


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[StoreAddress]":
    """A store server for all tests of a session that use collections of their own: each start takes two seconds."""
    from support.store_servers import store_server  # noqa: PLC0415  # most tests need no store, and its client is large

    with store_server(tmp_path_factory.mktemp("shared-store")) as address:
        yield address


@pytest.fixture(scope="session")
def shared_place(
    shared_store: "StoreAddress", history_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> "Mem0Config":
    """Where a backend on that server keeps its memories, with a history that all share."""
    from memcore.backends.mem0.config import Mem0Config  # noqa: PLC0415  # see shared_store

    history = shutil.copy(history_template, tmp_path_factory.mktemp("history") / "history.db")
    return Mem0Config(
        url=shared_store.url,
        api_key=SecretStr(shared_store.api_key),
        history_url=f"sqlite:///{history}",
        collection="of-the-test",
    )
