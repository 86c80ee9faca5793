"""One range for all dates: found by walking every model there is, so that a new field cannot be forgotten."""

import importlib
import pkgutil
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel, NaiveDatetime, ValidationError, create_model

import memcore
import workers
from memcore.ledger.agents import MAX_RETENTION_DAYS
from memcore.models.memory import EARLIEST, LATEST, within_range

#: What was seen to overflow in a worker, and their like at the other end.
OVERFLOWING = (
    "9999-12-31T23:59:59-12:00",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00Z",
    "0999-12-31T23:59:59Z",
    "9000-01-01T00:00:01Z",
)
WITHIN = ("1000-01-01T00:00:00Z", "1969-12-31T23:59:59+05:30", "2026-03-01T12:00:00-12:00", "9000-01-01T00:00:00Z")


def modules(package: Any) -> Iterator[Any]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        # Migrations run by Alembic alone, and an entry point does its work when it is imported.
        if ".migrations" not in found.name and not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def holds_time(annotation: Any) -> bool:
    return annotation in {datetime, AwareDatetime, NaiveDatetime} or any(map(holds_time, get_args(annotation)))


def fields() -> Iterator[Any]:
    seen: set[type] = set()
    for module in [*modules(memcore), *modules(workers)]:
        for model in vars(module).values():
            if not (isinstance(model, type) and issubclass(model, BaseModel) and model not in seen):
                continue
            seen.add(model)
            if model.__module__.startswith(("memcore.", "workers.")):
                for name, field in model.model_fields.items():
                    if holds_time(field.annotation):
                        yield pytest.param(field, id=f"{model.__name__}.{name}")


FIELDS = list(fields())


def test_the_walk_finds_what_engines_send_and_what_rows_hold() -> None:
    found = {str(each.id) for each in FIELDS}
    assert found >= {
        "MemoryStoreRequest.expires_at",
        "ImportRecord.created_at",
        "MemoryQuery.since",
        "StoreItem.created_at",
        "Use.last_used_at",
        "ExecutionTrace.ended_at",
        "Approval.expires_at",
        "OrgFact.created_at",
        "Run.planned_at",
    }
    assert len(found) >= 60


@pytest.mark.parametrize("field", FIELDS)
def test_every_date_of_every_model_has_one_range(field: Any) -> None:
    alone: Any = create_model("Alone", at=(field.annotation, field))
    if typing.get_origin(field.annotation) in {dict, frozenset, tuple}:
        pytest.fail("a container of dates: extend this test")
    for text in OVERFLOWING:
        with pytest.raises(ValidationError, match="must lie from the year 1000 to the year 9000"):
            alone(at=text)
    for text in WITHIN:
        made: Any = alone(at=text)
        assert made.at == datetime.fromisoformat(text)


@given(
    at=st.datetimes(min_value=EARLIEST.replace(tzinfo=None), max_value=LATEST.replace(tzinfo=None)),
    hours=st.integers(min_value=-23, max_value=23),
)
def test_what_is_in_the_range_bears_any_zone_and_any_retention(at: datetime, hours: int) -> None:
    moved = at.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=hours)))
    longest = timedelta(days=MAX_RETENTION_DAYS + 366)
    for shifted in (moved - longest, moved + longest):
        assert shifted.astimezone(UTC).astimezone(timezone(timedelta(hours=-hours))) == shifted


def test_what_an_older_release_stored_is_moved_into_the_range() -> None:
    assert within_range(datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))) == LATEST
    assert within_range(datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))) == EARLIEST
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert within_range(now) == now
