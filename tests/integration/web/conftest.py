"""One running stack for all tests of the console; each module fills it for itself."""

from collections.abc import Generator
from pathlib import Path

import pytest
from support.console_world import ConsoleWorld, console_world
from support.running_stack import StackAddress, running_stack
from support.served_console import Serve, served_console
from support.store_servers import StoreAddress

from memcore.backends.mem0.config import Mem0Config
from memcore.config.loader import load_policy
from memcore.config.urls import LedgerUrls


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("console") / "home") as address:
        yield address


@pytest.fixture(scope="module")
def world(stack: StackAddress) -> Generator[ConsoleWorld]:
    with console_world(stack) as filled:
        yield filled


@pytest.fixture
def serve(
    sqlite_ledger: LedgerUrls,
    shared_place: Mem0Config,
    shared_store: StoreAddress,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Serve:
    """Serve a console in this process, under a policy."""
    return lambda policy="": served_console(
        sqlite_ledger, shared_place, shared_store, tmp_path, monkeypatch, load_policy(policy)
    )
