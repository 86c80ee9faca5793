"""Operations: methods of the service that its doors offer; each says once what doors say of it."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, Final, TypeVar, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, Field, create_model

from memcore.client.results import JobReceipt
from memcore.ledger.access.keys import Verb
from memcore.models.base import Frozen
from memcore.models.memory import MAX_KEY_CHARS

#: Parameters that take who asks, and what the guardrail asks a person for: no arguments of a door.
SAID_BY: Final = frozenset({"by", "reason", "confirmation", "decision", "author"})

_EMPTY: Final = inspect.Parameter.empty

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
        tool: its name in MCP; it reads, or a person confirms it, and its first argument says of what.
    """

    http: str
    verb: Verb
    confirms: bool = False
    status: int = 200
    shows: Any = None
    under: str | None = None
    tool: str | None = None


def operation(http: str, verb: Verb, **more: Any) -> Callable[[Method], Method]:
    """Return a decorator that offers a method."""
    declared = Operation(http=http, verb=verb, **more)

    def add(method: Method) -> Method:
        method.__operation__ = declared  # type: ignore[attr-defined]  # read by operations_of
        return method

    return add


@dataclass(frozen=True, kw_only=True)
class Offered:
    """A method that is offered.

    Attributes:
        hints: the types of its parameters and of its result.
    """

    method: Callable[..., Awaitable[Any]]
    declared: Operation
    hints: Mapping[str, Any]

    @property
    def about(self) -> str:
        """The first paragraph of its docstring, on one line, without what it raises."""
        return (inspect.getdoc(self.method) or "").split("\n\n")[0].replace("\n", " ").partition(" Raises ")[0]

    @property
    def said(self) -> list[str]:
        """The parameters that take what is known of the caller, and what a person says with a request."""
        return [each for each in self.hints if each in SAID_BY]

    @property
    def defaults(self) -> dict[str, Any]:
        """The other parameters, each with its default; ``...`` without one."""
        own = {name: each.default for name, each in inspect.signature(self.method).parameters.items()}
        return {each: ... if own[each] is _EMPTY else own[each] for each in self.hints if each in own.keys() - SAID_BY}

    def model(self, name: str, base: type[BaseModel], among: Collection[str]) -> Any:
        """Return a model of these arguments: the only one itself where that is a model."""
        models = [self.hints[each] for each in among if is_model(self.hints[each])]
        if len(among) == len(models) == 1:
            # With what the guardrail asks for beside its own fields, or as the door reads its arguments.
            return (
                create_model(name, __base__=(base, models[0]), __doc__=self.about) if base.model_fields else models[0]
            )
        defaults = self.defaults
        fields: dict[str, Any] = {each: (self.hints[each], defaults[each]) for each in among}
        return create_model(name, __base__=base, __doc__=self.about, **fields)

    def given(self, asked: Any, among: Collection[str]) -> dict[str, Any]:
        """Return these arguments from their model."""
        if len(among) == 1 and is_model(kind := self.hints[next(iter(among))]):
            own = asked if type(asked) is kind else kind(**{each: getattr(asked, each) for each in kind.model_fields})
            return {next(iter(among)): own}
        return {each: getattr(asked, each) for each in among}

    def shown(self) -> tuple[Any, Callable[[Any], Any]]:
        """Return the type of what is shown of a result, and what makes it."""
        shows, result = self.declared.shows, self.hints["return"]
        if shows is None:
            return result, lambda done: done
        if get_args(result)[1:] == (...,):
            return GenericAlias(tuple, (shows, ...)), lambda done: tuple(map(shows.of, done))
        return shows, shows.of


def operations_of(kind: type, types: Mapping[str, Any] | None = None) -> Iterator[Offered]:
    """Yield what a class offers, in order; ``types`` has those that it imports for type checkers alone."""
    for each in vars(kind).values():
        if hasattr(each, "__operation__"):
            hints = get_type_hints(each, localns=dict(types or {}), include_extras=True)
            yield Offered(method=each, declared=each.__operation__, hints=hints)


def is_model(kind: Any) -> bool:
    """Return whether a type is a model."""
    return inspect.isclass(kind) and issubclass(kind, BaseModel)
