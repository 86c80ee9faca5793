"""Operations: methods of the service that its doors offer; each says once what doors say of it."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from memcore.client.results import JobReceipt
from memcore.ledger.access.keys import Verb
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS

Method = TypeVar("Method", bound=Callable[..., Any])


def said(value: str) -> str:
    """Return a name or an id; ValueError for one that names nothing."""
    if not value.strip() or "\0" in value:
        raise ValueError("must not be blank, and have no NUL character")
    return value


#: A name or an id that a list is narrowed to.
Named = Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS), AfterValidator(said)]


class JobAccepted(Frozen):
    """A job that the broker holds.

    Attributes:
        run_id: the run, or the cycle, that the job carries out.
    """

    run_id: str

    @classmethod
    def of(cls, receipt: JobReceipt) -> "JobAccepted":
        """Return what is shown of a receipt."""
        return cls(run_id=receipt.job_id)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """How doors offer a method: its parameters are the arguments, the first paragraph of its docstring the help.

    Attributes:
        http: method and path; what stands in braces is a parameter.
        verb: what a key must be for.
        confirms: whether a person confirms too, where a reason is asked for.
        status: of a success.
        shows: the model whose ``of`` makes what is shown of the result, or of each.
        under: the field that the result stands in.
        tool: its name in MCP; the result of what a person confirms says what it was done to.
        is_idempotent: whether the tool, called again, changes nothing more.
    """

    http: str
    verb: Verb
    confirms: bool = False
    status: int = 200
    shows: Any = None
    under: str | None = None
    tool: str | None = None
    is_idempotent: bool = False

    def shown(self, done: Any) -> Any:
        """Return what is shown of a result."""
        if self.shows is None:
            return done
        return tuple(map(self.shows.of, done)) if isinstance(done, tuple) else self.shows.of(done)


def operation(http: str, verb: Verb, **more: Any) -> Callable[[Method], Method]:
    """Return a decorator that offers a method."""
    declared = Operation(http=http, verb=verb, **more)

    def add(method: Method) -> Method:
        method.__operation__ = declared  # type: ignore[attr-defined]  # read by operations_of
        return method

    return add


def operations_of(kind: type) -> Iterator[tuple[Callable[..., Any], Operation]]:
    """Yield the methods of a class that are offered, in order."""
    return ((each, each.__operation__) for each in vars(kind).values() if hasattr(each, "__operation__"))


def about(method: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring, on one line, without what it raises."""
    return (inspect.getdoc(method) or "").split("\n\n")[0].replace("\n", " ").partition(" Raises ")[0]
