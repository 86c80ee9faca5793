"""One running stack for all command line tests of a worker process; tests keep apart by their agents."""

from collections.abc import Generator

import pytest
from support.command_line import CommandLine
from support.running_stack import StackAddress, running_stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    # A name that URLs, configuration files and shells read otherwise: every command must work there too.
    with running_stack(tmp_path_factory.mktemp("cli") / "50% %41 #1?x='ü\"") as address:
        yield address


@pytest.fixture(scope="package")
def memtend(stack: StackAddress) -> CommandLine:
    return CommandLine(home=stack.home)
