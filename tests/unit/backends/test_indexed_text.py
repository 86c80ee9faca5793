"""The text of a memory that is indexed."""

from datetime import UTC, datetime, timedelta, timezone

from support.memories import record

from memcore.backends.mem0.writer import PLAIN, IndexedText, label_of
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


def test_a_field_that_is_not_known_is_left_out_with_what_follows_it() -> None:
    entry = record("ada", "x", created_at=AT).entry
    assert IndexedText("{speaker}{source}{tags}|{content}").of(entry) == "x"
    assert IndexedText("[{date}] {speaker}: {content}").of(entry) == "[8 May 2023] x"


def test_what_a_content_begins_with_is_not_repeated() -> None:
    form = IndexedText("[{date}] {speaker}: {content}")
    for content in ("[8 May, 2023] Mel: I ran", "[8 May 2023] I ran"):
        assert form.of(record("ada", content, created_at=AT).entry) == content
    assert form.of(record("ada", "[9 May 2023] I ran", created_at=AT).entry) == "[8 May 2023] [9 May 2023] I ran"
    assert form.of(record("ada", "8 runs", created_at=AT).entry) == "[8 May 2023] 8 runs"


def test_every_field_that_the_policy_allows_is_filled() -> None:
    entry = record("ada", "x", created_at=AT, tags=("speaker:Mel",)).entry
    for name in TEMPLATE_FIELDS - {"content", "source"}:
        assert IndexedText(f"{{{name}}}").of(entry), name


def test_day_and_speaker_are_found_by_whatever_the_template_says() -> None:
    assert label_of(record("ada", "x", created_at=AT, tags=("sport", "speaker:Mel")).entry) == "8 May 2023 Mel"
    assert label_of(record("ada", "x", created_at=AT).entry) == "8 May 2023 "
