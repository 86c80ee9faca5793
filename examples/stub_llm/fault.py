"""What the stub is told to do wrong."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from memcore.models.base import Frozen, NotBlankStr


class Fault(StrEnum):
    """A way to misbehave."""

    #: Answer with a status, in words that quote the prompt.
    STATUS = "status"
    #: Say nothing for some seconds, then answer well.
    HANG = "hang"
    #: Close the connection without a word.
    DROP = "drop"
    #: Write the answer down and bill it, then close the connection: it can be had again for the same key.
    LOSE = "lose"
    #: Answer with white space.
    BLANK = "blank"
    #: Answer with no choice, and a bill.
    NO_CHOICES = "no_choices"
    #: Answer with a body that is no JSON.
    MALFORMED = "malformed"
    #: Answer well in OpenAI's form, with a text that is no JSON where JSON was asked for.
    BAD_JSON = "bad_json"
    #: Answer with JSON of another form than was asked for.
    OTHER_JSON = "other_json"
    #: Put a code fence and a sentence around a good answer, as many models do.
    FENCED = "fenced"
    #: Write far more than was allowed.
    OVER_LONG = "over_long"
    #: Stop in the middle, for the length.
    CUT = "cut"
    #: Let the server's filter take the answer away.
    FILTERED = "filtered"
    #: Answer with the order's own text, whatever was asked.
    SAY = "say"
    #: Answer well, and count no tokens.
    UNCOUNTED = "uncounted"


class Scripted(Frozen):
    """One order to misbehave.

    Attributes:
        fault: how.
        times: for so many requests; None for all.
        contains: only for requests whose messages contain this.
        status: with ``status``, which.
        retry_after: with ``status``, the header's value.
        kind: with ``status``, the error's type.
        seconds: with ``hang``, for how long.
        text: with ``say``, what.
    """

    fault: Fault
    times: Annotated[int, Field(ge=1)] | None = 1
    contains: NotBlankStr | None = None
    status: int = Field(default=500, ge=300, le=599)
    retry_after: NotBlankStr | None = None
    kind: NotBlankStr = "server_error"
    seconds: float = Field(default=3600.0, ge=0.0)
    text: str = ""


class StubOrders(Frozen):
    """What a person or a test posts to ``/stub/orders``; whatever is left out is as after the start.

    Attributes:
        faults: in the order in which they are used up.
        obedient: do what the data say.
        key: the only bearer token that is let in; None lets everybody in.
        seconds: how long every answer takes.
    """

    faults: tuple[Scripted, ...] = ()
    obedient: bool = False
    key: NotBlankStr | None = None
    seconds: float = Field(default=0.0, ge=0.0)
