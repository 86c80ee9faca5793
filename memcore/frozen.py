"""The base class of every value object: frozen, closed to unknown keys, and silent about its input when it fails."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints


class Frozen(BaseModel):
    """Base of memtend's value objects: immutable, no unknown fields, no NaN.

    ``hide_input_in_errors`` keeps the text of a memory out of error messages and so out of logs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain the character NUL")
    return value


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


#: Text that still says something once its outer white space is gone.
NotBlankStr = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

#: Text kept exactly as it was given, but refused when it is blank.
NotBlankText = Annotated[str, AfterValidator(_not_blank)]

#: Beside a key's type: PostgreSQL keeps no NUL in a text, and would refuse it long after it was sent.
NoNul = AfterValidator(_without_nul)

#: Tags in the order they were given, each once.
Tags = Annotated[tuple[NotBlankStr, ...], AfterValidator(_unique)]
