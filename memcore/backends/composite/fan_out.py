"""Wait for several children at once, and tell the answers from the failures."""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from memcore import errors

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Answers(Generic[Answer]):
    """What the children said, by their names, in the order in which they were asked."""

    given: dict[str, Answer] = field(default_factory=dict)
    failed: dict[str, errors.MemoryError] = field(default_factory=dict)


async def fan_out(calls: Mapping[str, Awaitable[Answer]]) -> Answers[Answer]:
    """Make the calls at once and return when all are done.

    Only memory errors count as a child's failure; anything else, the builtin MemoryError above all, is raised.
    """
    answers: Answers[Answer] = Answers()
    for name, outcome in zip(calls, await asyncio.gather(*calls.values(), return_exceptions=True), strict=True):
        if isinstance(outcome, errors.MemoryError):
            answers.failed[name] = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            answers.given[name] = outcome
    return answers


async def all_answers(calls: Mapping[str, Awaitable[Answer]]) -> list[Answer]:
    """Make the calls at once and return every answer; a failure is raised when all are done."""
    answers = await fan_out(calls)
    for error in answers.failed.values():
        raise error
    return list(answers.given.values())
