"""The asker's time zone, a name that this machine knows."""

from datetime import UTC, datetime, timedelta

import pytest

from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.errors import MemoryInputError
from memcore.memory.fields import checked_query
from memcore.models.memory import zone_of


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/New_York"])
def test_a_known_zone_is_taken(name: str) -> None:
    assert checked_query("yesterday", {"time_zone": name}).time_zone == name
    assert MemoryRetrievalConfig(time_zone=name).time_zone == name


@pytest.mark.parametrize("name", ["Europe/Atlantis", "Europe", "../etc/passwd", "", " ", "+01:00", "\0"])
def test_another_is_refused_and_the_field_is_named(name: str) -> None:
    with pytest.raises(MemoryInputError) as error:
        checked_query("yesterday", {"time_zone": name})
    assert error.value.field == "time_zone"


def test_a_machine_without_a_table_of_zones_knows_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memcore.models.memory.ZoneInfo", {}.__getitem__)
    assert zone_of("UTC") is UTC
    with pytest.raises(ValueError, match="tzdata"):
        zone_of("Europe/Berlin")


def test_summer_time_is_known() -> None:
    winter, summer = (datetime(2026, month, 1, tzinfo=zone_of("Europe/Berlin")) for month in (1, 7))
    assert (winter.utcoffset(), summer.utcoffset()) == (timedelta(hours=1), timedelta(hours=2))
