"""What makes the tests of services and commands quick, and what many of them talk to."""

from collections.abc import Iterator
from functools import cache

import pytest
from support.command_line import CommandLine
from support.running_stack import StackAddress
from support.stub_llm_process import StubLLM, stub_llm

from memcore.embedding.static import StaticTable


@pytest.fixture(scope="session", autouse=True)
def _one_table() -> Iterator[None]:
    """Read the default embedder's table once: each command that runs in this process would read and weigh it anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StaticTable, "of_wheel", cache(StaticTable.of_wheel))
        yield


@pytest.fixture(scope="session")
def stub_process() -> Iterator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture
def stub(stub_process: StubLLM) -> StubLLM:
    """A stub of a language model, in a process of its own, that remembers nothing."""
    stub_process.forget()
    return stub_process


@pytest.fixture
def memtend(stack: StackAddress) -> CommandLine:
    return CommandLine(home=stack.home)
