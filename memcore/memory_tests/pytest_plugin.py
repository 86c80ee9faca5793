"""The pytest plug-in, loaded by ``-p``: pytest collects the memory tests of folders named ``memory_tests``.

No entry point loads it: pytest rewrites all modules of a package that has one, in every test run where it is installed.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memcore.memory.memory import Memory
    from memcore.memory_tests.running import Asking
    from memcore.models.memory_test import MemoryTest
    from memcore.remote import RemoteMemory

_OPENED: "pytest.StashKey[Memory | RemoteMemory]" = pytest.StashKey()
_ASKING: "pytest.StashKey[Asking]" = pytest.StashKey()


class UnmetExpectationError(AssertionError):
    """A memory test failed; the message says why, a line for each reason."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("memtend")
    group.addoption("--memtend-url", help="Ask the server at this address, with the key in MEMTEND_KEY.")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "MemoryTests | None":
    """Collect a file of memory tests."""
    if file_path.parent.name != "memory_tests":
        return None
    from memcore.memory_tests.files import SUFFIXES  # noqa: PLC0415  # see above

    return MemoryTests.from_parent(parent, path=file_path) if file_path.suffix in SUFFIXES else None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the memory that was asked."""
    if (opened := config.stash.get(_OPENED, None)) is not None:
        opened.close()


class MemoryTests(pytest.File):
    """A file of memory tests."""

    def collect(self) -> "Iterator[MemoryTestItem]":
        """Yield the tests of the file; a wrong one is an error of the collection."""
        from memcore.memory_tests.files import read_memory_tests  # noqa: PLC0415  # see above

        for test in read_memory_tests([self.path]):
            yield MemoryTestItem.from_parent(self, name=test.name, test=test)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_how: Any, **_more: Any) -> Any:
        """Show what is wrong with the file alone, without a traceback."""
        return _sentence(excinfo.value) or super().repr_failure(excinfo)


class MemoryTestItem(pytest.Item):
    """A memory test."""

    def __init__(self, *, test: "MemoryTest", **about: Any) -> None:
        super().__init__(**about)
        self._test = test

    def runtest(self) -> None:
        """Ask the question of the test. Raises UnmetExpectationError, also where the memory gives no answer."""
        result = _asking(self.config).result(self._test)
        if result.reasons:
            raise UnmetExpectationError("\n".join(result.reasons))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_how: Any, **_more: Any) -> Any:
        """Show the reasons alone, without a traceback."""
        return _sentence(excinfo.value) or super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the test stands."""
        return self.path, None, self.name


def _sentence(error: BaseException) -> str | None:
    """Return an error of memtend's in words; a traceback would show the arguments of calls, and so the key."""
    from memcore.errors import MemoryError  # noqa: A004, PLC0415  # the reference fixes the name; see above

    if isinstance(error, MemoryError):
        return f"{type(error).__name__}: {error}"
    return str(error) if isinstance(error, UnmetExpectationError) else None


def _asking(config: pytest.Config) -> "Asking":
    if _ASKING not in config.stash:
        from memcore.memory.memory import Memory  # noqa: PLC0415  # see above
        from memcore.memory_tests.running import Asking  # noqa: PLC0415  # see above

        url = config.getoption("memtend_url")
        opened = Memory.connect(url, key=os.environ.get("MEMTEND_KEY")) if url else Memory.from_environment()
        config.stash[_OPENED] = opened
        # One for all: after tests in a row without an answer no further one waits for it.
        config.stash[_ASKING] = Asking(opened)
    return config.stash[_ASKING]
