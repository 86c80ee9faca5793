"""The text of a memory that is indexed."""

from datetime import UTC, datetime, timedelta, timezone

from support.memories import record

from memcore.backends.mem0.writer import PLAIN, IndexedText
from memcore.config.memory import TEMPLATE_FIELDS

AT = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def test_the_content_alone_is_the_default() -> None:
    assert IndexedText().of(record("ada", "a {brace} stays").entry) == "a {brace} stays"
    assert IndexedText().template == PLAIN


def test_date_and_speaker_stand_where_the_template_says() -> None:
    entry = record("ada", "I ran a race", created_at=AT, tags=("sport", "speaker:Mel")).entry
    assert IndexedText("[{date}] {speaker}: {content}").of(entry) == "[8 May 2023] Mel: I ran a race"


def test_the_day_is_that_of_utc() -> None:
    late = AT.replace(hour=23).astimezone(timezone(timedelta(hours=9)))
    assert IndexedText("{date} {content}").of(record("ada", "x", created_at=late).entry) == "8 May 2023 x"


def test_a_field_that_is_not_known_is_empty() -> None:
    assert IndexedText("{speaker}{source}{tags}|{content}").of(record("ada", "x").entry) == "|x"


def test_every_field_that_the_policy_allows_is_filled() -> None:
    entry = record("ada", "x", created_at=AT, tags=("speaker:Mel",)).entry
    for name in TEMPLATE_FIELDS - {"content", "source"}:
        assert IndexedText(f"{{{name}}}").of(entry), name
