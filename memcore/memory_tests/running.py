"""Asks a memory the questions of tests, and says of each what was expected and is not so."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from memcore.errors import MemoryConnectionError, MemoryError  # noqa: A004  # the reference fixes the name
from memcore.memory_tests.report import MemoryTestReport
from memcore.models.memory import MemoryEntry
from memcore.models.memory_test import MemoryTest, MemoryTestResult, Outcome, failures, folded

if TYPE_CHECKING:
    from memcore.models.execution import ChatMessage, PreparedMessages

#: Tests that are asked at one time; a server gives each key some 500 requests a second.
AT_ONCE = 4

#: Tests in a row without an answer after which no further one is asked: each waits for seconds.
MOST_ERRORS = 8

#: Tokens of a prompt that nothing is left out of, and characters of a token.
_ALL_TOKENS, _CHARS_PER_TOKEN = 100_000, 4


class Remembered(Protocol):
    """What is remembered of a person."""

    @property
    def degraded(self) -> Sequence[str]:
        """The parts that did not answer."""
        ...

    @property
    def messages(self) -> "Callable[[], Sequence[ChatMessage]]":
        """Return the messages of a prompt."""
        ...


class AskedMemory(Protocol):
    """The calls of ``Memory`` that tests need, as ``Memory.connect`` has them too."""

    @property
    def search(self) -> Callable[..., Sequence[MemoryEntry]]:
        """Find memories, best first."""
        ...

    @property
    def prepare(self) -> "Callable[..., PreparedMessages]":
        """Return the messages of a prompt."""
        ...

    @property
    def load_turn(self) -> Callable[..., Remembered]:
        """Return what is remembered of a person."""
        ...


def run_memory_tests(
    memory: AskedMemory,
    tests: Iterable[MemoryTest],
    *,
    at_once: int = AT_ONCE,
    on_result: Callable[[MemoryTestResult], None] | None = None,
) -> MemoryTestReport:
    """Ask a memory the questions of tests, and return what came of each.

    A test that the memory does not answer is an ``error``, and after eight in a row no further one is asked. Nothing is
    written, but that prompts count as use, and that questions are recorded where the policy says so.

    Args:
        memory: a ``Memory``, or what ``Memory.connect`` returns. It stays open.
        tests: as ``read_memory_tests`` returns them, or made in Python.
        at_once: tests that are asked at one time.
        on_result: called with each result, in the order of the tests.
    """
    began, results, run = monotonic(), list[MemoryTestResult](), Asking(memory)
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="memory-test")
    try:
        for result in threads.map(run.result, tests):
            results.append(result)
            if on_result is not None:
                on_result(result)
    finally:
        # After Ctrl-C nobody waits for the rest.
        threads.shutdown(cancel_futures=True)
    return MemoryTestReport(results=tuple(results), seconds=round(monotonic() - began, 4))


class Asking:
    """Asks one test after another, in several threads, until too many in a row have no answer."""

    def __init__(self, memory: AskedMemory) -> None:
        self._memory = memory
        self._errors_in_a_row = 0

    def result(self, test: MemoryTest) -> MemoryTestResult:
        """Return what came of a test."""
        began, outcome, shown = monotonic(), Outcome.ERROR, tuple[MemoryEntry, ...]()
        reasons: tuple[str, ...] = ("not asked, since others had no answer",)
        if self._errors_in_a_row < MOST_ERRORS:
            try:
                if test.of_search:
                    shown = tuple(self._memory.search(test.agent, test.question, **test.filters))
                reasons = (*failures(test, shown), *self._of_prompt(test), *self._of_person(test))
                outcome = Outcome.FAILED if reasons else Outcome.PASSED
                self._errors_in_a_row = 0
            except MemoryError as error:
                reasons = (f"{type(error).__name__}: {error}",)
                self._errors_in_a_row += 1
        return MemoryTestResult(
            agent=test.agent,
            name=test.name,
            outcome=outcome,
            reasons=reasons,
            shown=tuple(entry.id for entry in shown),
            seconds=round(monotonic() - began, 4),
        )

    def _of_prompt(self, test: MemoryTest) -> Iterator[str]:
        if test.tokens is None:
            return
        least = {} if test.min_authority is None else {"min_authority": test.min_authority}
        # A prompt of which a part is missing is short for another reason.
        messages = self._memory.prepare(test.agent, test.question, token_budget=_ALL_TOKENS, require_all=True, **least)
        tokens = sum(len(each.content) for each in messages) // _CHARS_PER_TOKEN
        if tokens > test.tokens:
            yield f"the prompt has {tokens} tokens, more than {test.tokens}"

    def _of_person(self, test: MemoryTest) -> Iterator[str]:
        if not test.facts:
            return
        least = {} if test.min_authority is None else {"min_authority": test.min_authority}
        remembered = self._memory.load_turn(test.agent, test.question, user_id=test.person, **least)
        if remembered.degraded:
            raise MemoryConnectionError(f"no answer of: {', '.join(remembered.degraded)}")
        # A fence writes each < in another way.
        said = folded("\n".join(each.content for each in remembered.messages())).replace("&lt;", "<")
        for fact in test.facts:
            # Whole: Port is not Porto. What the person said follows a fact.
            if f' {folded(str(fact))} — "' not in said:
                yield f"facts: {fact} is not remembered of {test.person} for this question"
