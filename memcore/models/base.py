"""The base class of every value object: frozen, closed to unknown keys, and silent about its input when it fails."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    model_validator,
)

from memcore.errors import MemoryInputError

#: Longest term of a policy, in days: 1,000 years. Some 2,000 before now there is no date.
MAX_DAYS = 365_250


class Frozen(BaseModel):
    """Base of memtend's value objects: immutable, no unknown fields, no NaN.

    ``hide_input_in_errors`` keeps the text of a memory out of error messages and so out of logs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class View(Frozen):
    """What is shown of something: those of its fields that the view has."""

    @classmethod
    def of(cls, whole: Any) -> Self:
        """Return what is shown of it."""
        return cls(**{name: getattr(whole, name) for name in cls.model_fields})


def is_unsaid(value: object) -> bool:
    """Return whether a field that a release has added is left out when its model is written: nothing is said in it.

    A release before that refuses a field that it does not know, and its workers may get the job.
    """
    return not value


#: Characters that act on a terminal or a line instead of being seen: control characters (C0, DEL, C1), separators of
#: lines and paragraphs, marks that turn the direction of writing (Unicode's Bidi_Control), and lone surrogates. White
#: space and joiners stay: names of people need them.
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str, *, keep: str = "") -> str:
    """Return the text with an escape sequence for each character, but these, that acts instead of being seen."""
    return UNSEEN.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def escaped_json(text: str) -> str:
    """Return JSON text of the same value in which nothing acts instead of being seen, but line breaks and tabs."""
    return UNSEEN.sub(lambda found: found[0] if found[0] in "\n\t" else f"\\u{ord(found[0]):04x}", text)


#: Text that still says something once its outer white space is gone.
NotBlankStr = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _contained(value: str) -> str:
    # Both parsers: "a\\..\\b" is one harmless name to POSIX and an escape to Windows.
    if ".." in PurePosixPath(value).parts or ".." in PureWindowsPath(value).parts:
        raise ValueError("must not contain '..', which would lead out of the data folder")
    if "\\" in value or PureWindowsPath(value).drive:
        raise ValueError("must be a POSIX path: no drive letter and no backslash")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


#: A POSIX path without "..", drive letter, backslash or NUL.
DataPath = Annotated[NotBlankStr, AfterValidator(_contained)]


_K = TypeVar("_K")
_V = TypeVar("_V")


class ReadOnlyMap(Mapping[_K, _V], Generic[_K, _V]):
    """Hold a copy of a mapping, to read only.

    A policy travels to worker processes by pickle, and pydantic copies defaults that it cannot hash.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[_K, _V]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: _K) -> _V:
        return self._items[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


def _plain(items: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        str(key): value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        for key, value in items.items()
    }


#: A field whose mapping is copied, to read only; it is written as JSON has it.
ReadOnlyMapping = Annotated[
    Mapping[_K, _V], AfterValidator(ReadOnlyMap), PlainSerializer(_plain, return_type=dict[str, Any])
]


@contextmanager
def naming_fields(*, prefix: str = "", name: str | None = None) -> Iterator[None]:
    """Turn a pydantic error into a MemoryInputError that names the field and the limit.

    ``prefix`` stands before the field; ``name`` is what the caller calls a value for which pydantic knows no name.
    """
    try:
        yield
    except ValidationError as error:
        found = MemoryInputError.of(error, prefix=prefix)
        raise (found if name is None else MemoryInputError(name, found.problem)) from None


class ValidatedModel(Frozen):
    """Raise MemoryInputError, which names the field and the limit, instead of pydantic's ValidationError.

    A validator over several fields (``mode="after"``) raises MemoryInputError itself: it runs outside of this one.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_sentence(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        with naming_fields():
            return handler(value)
