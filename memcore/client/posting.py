"""A job on its way to the broker: what differs between two messages of the same task."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """One job to be published.

    Attributes:
        queue: where it goes.
        payload: its JSON; never shown in a repr.
        summary: all that monitoring shows of its arguments.
    """

    job_id: str
    queue: str
    payload: str = field(repr=False)
    summary: str
