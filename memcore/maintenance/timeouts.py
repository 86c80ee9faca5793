"""When a session, a project or a task counts as over although nobody has ended it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from memcore.config.options import MemoryOptionsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long each may be silent; None waits for its end for ever.

    Attributes:
        session: since the last memory that was stored in it.
        project: the same.
        task: since each working memory was stored.
    """

    session: timedelta | None = None
    project: timedelta | None = None
    task: timedelta | None = None

    @classmethod
    def of(cls, options: MemoryOptionsConfig) -> Self:
        """Return what the policy says."""
        return cls(
            session=_hours(options.session_timeout_hours),
            project=_hours(options.project_timeout_hours),
            task=_hours(options.task_timeout_hours),
        )


def _hours(count: int | None) -> timedelta | None:
    return None if count is None else timedelta(hours=count)
