"""One running stack for all tests of the HTTP API; tests keep apart by their agents."""

from collections.abc import Generator

import pytest
from support.running_stack import StackAddress, running_stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("http") / "home") as address:
        yield address
