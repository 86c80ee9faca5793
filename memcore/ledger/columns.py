"""Column types that read back the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator

from memcore.clock import in_range, within_range


class Moment(TypeDecorator[datetime]):
    """A point in time with microseconds: stored in UTC, read back aware; one without a zone is refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Turn an aware time into UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone cannot be stored")
        value = in_range(value).astimezone(UTC)
        # SQLite keeps times as text; leaving the zone out keeps them all one length, so that they sort as times do.
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time aware, in UTC."""
        del dialect
        if value is None:
            return None
        # Older releases took any date; a row must not become unreadable for one.
        return within_range(value.replace(tzinfo=UTC) if value.tzinfo is None else value).astimezone(UTC)


def document(*, none_as_null: bool = False) -> JSON:
    """Return the type of a small JSON object: binary on PostgreSQL, text on SQLite.

    Args:
        none_as_null: whether None is written as SQL's NULL rather than as JSON's.
    """
    return JSON(none_as_null=none_as_null).with_variant(JSONB(none_as_null=none_as_null), "postgresql")


#: What a row is made of before it is a value object.
Row = dict[str, Any]
