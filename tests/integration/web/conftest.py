"""One running stack for all tests of the console; each module fills it for itself."""

from collections.abc import Generator

import pytest
from support.console_world import ConsoleWorld, console_world
from support.running_stack import StackAddress, running_stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("console") / "home") as address:
        yield address


@pytest.fixture(scope="module")
def world(stack: StackAddress) -> Generator[ConsoleWorld]:
    with console_world(stack) as filled:
        yield filled
