"""The range of time that a question names, and what it weighs."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import record

from memcore.backends.evidence import Candidate, best_of, evidence_of, weight_of_time
from memcore.backends.when import AskedRange, asked_range, in_time, subject_of
from memcore.models.memory import zone_of

#: A Thursday.
NOW = datetime(2026, 11, 26, 9, 30, tzinfo=UTC)


#: What ranges are made of.
PARTS = (
    "last",
    "31",
    "february",
    "999",
    "years",
    "ago",
    "in",
    "may",
    "2026",
    "5年",
    "月",
    "3月",
    "前",
    "to",
    "week",
    "days",
)


def named(question: str, now: datetime = NOW) -> tuple[str, str] | None:
    """Return the first and the last day of the range that a question names."""
    asked = asked_range(question, now)
    if asked is None:
        return None
    assert asked.start.time() == asked.end.time() == datetime.min.time()
    return asked.start.date().isoformat(), (asked.end - timedelta(days=1)).date().isoformat()


def of(start: datetime, days: float = 1.0) -> AskedRange:
    return AskedRange(start=start, end=start + timedelta(days=days))


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What happened last week?", "2026-11-16", "2026-11-22"),
        ("Was war letzte Woche los?", "2026-11-16", "2026-11-22"),
        ("vorige Woche", "2026-11-16", "2026-11-22"),
        ("Wat deed ik vorige week?", "2026-11-16", "2026-11-22"),
        ("Qu'ai-je fait la semaine dernière ?", "2026-11-16", "2026-11-22"),
        ("¿Qué hice la semana pasada?", "2026-11-16", "2026-11-22"),
        ("la settimana scorsa", "2026-11-16", "2026-11-22"),
        ("na semana passada", "2026-11-16", "2026-11-22"),
        ("先週何をしましたか", "2026-11-16", "2026-11-22"),
        ("上周我做了什么?", "2026-11-16", "2026-11-22"),
        ("지난주에 뭐 했어", "2026-11-16", "2026-11-22"),
        ("what is new this week", "2026-11-23", "2026-11-29"),
        ("what did we do three weeks ago", "2026-11-02", "2026-11-08"),
        ("what did I do in May", "2026-05-01", "2026-05-31"),
        ("im Mai", "2026-05-01", "2026-05-31"),
        ("en mayo", "2026-05-01", "2026-05-31"),
        ("au mois de mai", "2026-05-01", "2026-05-31"),
        ("8月に何をしましたか", "2026-08-01", "2026-08-31"),
        ("in December", "2025-12-01", "2025-12-31"),
        ("last November", "2025-11-01", "2025-11-30"),
        ("in November", "2026-11-01", "2026-11-30"),
        ("February 2024", "2024-02-01", "2024-02-29"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("letztes Jahr", "2025-01-01", "2025-12-31"),
        ("in 2023", "2023-01-01", "2023-12-31"),
        ("on 3 March", "2026-03-03", "2026-03-03"),
        ("am 3. März", "2026-03-03", "2026-03-03"),
        ("What did Ada do on 8 May 2023?", "2023-05-08", "2023-05-08"),
        ("May 8th, 2023", "2023-05-08", "2023-05-08"),
        ("2023-05-08", "2023-05-08", "2023-05-08"),
        ("am 8.5.2023", "2023-05-08", "2023-05-08"),
        ("2023年5月8日", "2023-05-08", "2023-05-08"),
        ("on 27 November", "2025-11-27", "2025-11-27"),
        ("on 29 February", "2024-02-29", "2024-02-29"),
        ("three days ago", "2026-11-23", "2026-11-23"),
        ("vor drei Tagen", "2026-11-23", "2026-11-23"),
        ("il y a trois jours", "2026-11-23", "2026-11-23"),
        ("hace tres días", "2026-11-23", "2026-11-23"),
        ("3日前に何をした", "2026-11-23", "2026-11-23"),
        ("What did I do yesterday?", "2026-11-25", "2026-11-25"),
        ("Qu'est-ce que j'ai fait hier?", "2026-11-25", "2026-11-25"),
        ("the day before yesterday", "2026-11-24", "2026-11-24"),
        ("on Tuesday", "2026-11-24", "2026-11-24"),
        ("am Dienstag", "2026-11-24", "2026-11-24"),
        ("last Thursday", "2026-11-19", "2026-11-19"),
        ("on Thursday", "2026-11-26", "2026-11-26"),
        ("lundi dernier", "2026-11-23", "2026-11-23"),
        ("月曜日に", "2026-11-23", "2026-11-23"),
        ("last weekend", "2026-11-21", "2026-11-22"),
        ("in the last two weeks", "2026-11-12", "2026-11-26"),
        ("from 3 May to 10 May", "2026-05-03", "2026-05-10"),
        ("In May I moved. What did I do last week?", "2026-11-16", "2026-11-22"),
    ],
)
def test_a_range_is_recognised(question: str, first: str, last: str) -> None:
    assert named(question) == (first, last)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Where does Ada live?",
        "May I use the second form?",
        "which database does the march of progress use",
        "how may people call 12 of them",
        "she may 5 times",
        "the second one is better",
        "Who is April?",
        "Is the sun shining?",
        "do we use version 3.12 or 2.1",
        "the port is 8080, is it?",
        "the lock file of 2020.1.3",
        "quel est le nom de mars",
        "Wer arbeitet hier?",
        "Deployments happen on Tuesdays",
        "what do we do every Monday",
        "How many hours a day does she work?",
        "on the last day of the trip",
        "what is due tomorrow",
        "31 June",
        "2023-13-40",
        "私の名前は何ですか",
    ],
)
def test_what_names_no_time_has_no_range(question: str) -> None:
    assert named(question) is None


def test_days_are_those_of_utc() -> None:
    late = datetime.fromisoformat("2026-11-26T23:30:00-05:00")
    assert named("yesterday", late) == ("2026-11-26", "2026-11-26")


@given(st.text() | st.lists(st.sampled_from(PARTS)).map(" ".join), st.datetimes(timezones=st.just(UTC)))
def test_no_text_raises_and_a_range_begins_before_its_end(question: str, now: datetime) -> None:
    asked = asked_range(question, now)
    assert asked is None or asked.start < asked.end


def test_a_memory_of_the_time_is_nearer_than_one_of_soon_after() -> None:
    asked = of(NOW, days=2)
    ages = (-0.1, 0.0, 1.9, 2.0, 3.9, 4.0)
    entries = [record("ada", "x", created_at=NOW + timedelta(days=age)).entry for age in ages]
    assert [asked.nearness(entry) for entry in entries] == [0.0, 1.0, 1.0, 0.5, 0.5, 0.0]
    summary = entries[0].model_copy(update={"covers_until": NOW})
    assert asked.has(summary)


def test_nothing_is_dropped_and_the_best_stays_as_good() -> None:
    scores = {"a": 0.9, "b": 0.5, "c": 0.4}
    assert in_time(scores, {"b": 1.0, "c": 0.5}, 1.0) == pytest.approx(
        {"b": 0.9, "a": 0.9 * 0.9 / 1.4, "c": 0.9 * 0.85 / 1.4}
    )
    assert in_time(scores, {}, 1.0) == scores
    assert in_time({"a": 0.0, "b": 0.0}, {"b": 1.0}, 1.0) == {"a": 0.0, "b": 1.0}


def test_the_time_weighs_more_where_nothing_else_is_asked() -> None:
    judged = [Candidate(text="Ada painted the boat of Ben")]
    alone, beside = "what happened in May 2026", "Which boat did Ada paint for Ben in May 2026?"
    weights = [
        weight_of_time(question, asked, judged, noise=0.4)
        for question in (alone, beside)
        if (asked := asked_range(question, NOW)) is not None
    ]
    assert weights[0] > 1.0
    assert weights[1] < 0.5


def test_a_time_that_is_counted_from_now_weighs_more_than_a_date_beside_the_same_words() -> None:
    judged = [Candidate(text="The landlord raised the rent")]
    counted, dated = "What did the landlord say last Thursday?", "What did the landlord say on 19 November 2026?"
    weights = [
        weight_of_time(question, asked, judged, noise=0.4)
        for question in (counted, dated)
        if (asked := asked_range(question, NOW)) is not None
    ]
    assert weights[0] > weights[1]


@pytest.mark.parametrize(
    ("question", "gain"),
    [
        ("Which boat did Ada paint for Ben last week?", 2.0),
        ("Which boat did Ada paint for Ben yesterday evening?", 2.0),
        ("Which boat did Ada paint for Ben in June last year?", 2.0),
        ("Which boat has Ada painted for Ben since Monday?", 2.0),
        ("Which boat does Ada paint for Ben on Monday?", 1.0),
        ("Which boat does Ada paint for Ben today?", 1.0),
        ("Which boat did Ada paint for Ben on 3 May 2026?", 0.0),
        ("Which boat did Ada paint for Ben recently?", 0.0),
    ],
)
def test_words_that_say_that_a_time_is_past_raise_what_is_of_it(question: str, gain: float) -> None:
    asked = asked_range(question, NOW)
    assert asked is not None
    assert asked.gain == gain


def test_what_is_of_the_time_gains_by_what_else_it_says() -> None:
    scores = {"other": 0.9, "there": 0.5, "nothing": 0.0}
    found = in_time(scores, {"there": 1.0, "nothing": 1.0}, 0.0, own_gain=2.0)
    assert sorted(found, key=found.__getitem__) == ["nothing", "other", "there"]
    assert found["nothing"] == 0.0


def test_what_is_of_soon_after_gains_nothing_of_its_own_beside_a_time_that_is_no_date() -> None:
    counted, dated = asked_range("what was said last week", NOW), asked_range("what was said in May", NOW)
    assert counted is not None
    assert dated is not None
    assert (counted.gain, counted.soon_gain) == (2.0, 0.0)
    assert (dated.gain, dated.soon_gain) == (1.0, 1.0)
    found = in_time({"soon": 0.9, "there": 0.4}, {"soon": 0.5, "there": 1.0}, 0.0, own_gain=2.0, soon_gain=0.0)
    assert found["there"] > found["soon"]


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("What did Ann say about the boat last week?", "What did Ann say about the boat ?"),
        ("What happened last Monday?", "What  ?"),
        ("Was war vor zwei Wochen mit dem Ofen?", "Was war  mit dem Ofen?"),
        ("Qu'a dit Paul l'autre jour ?", "Qu'a dit Paul  ?"),
        ("¿Qué pidió Rosa el lunes pasado?", "¿Qué pidió Rosa el ?"),
        ("Cosa è cambiato una settimana fa?", "Cosa è  ?"),
        # A date may stand in a memory's own words, and so may a name: the choir sings on Mondays.
        ("What did Ann say on Monday?", "What did Ann say on Monday?"),
        ("What did Ann say in May?", "What did Ann say in May?"),
        ("What did Ann say?", "What did Ann say?"),
    ],
)
def test_what_was_read_as_a_time_is_no_subject(question: str, subject: str) -> None:
    asked = asked_range(question, NOW)
    assert subject_of(question, asked) == subject
    other = Candidate(text="Last Monday of a week: weekly list, letzten Wochen, jour, lunes, settimana.")
    if subject != question:
        assert evidence_of(question, [other], asked=asked)[0].words == 0.0


def test_what_was_before_a_time_has_no_soon_after() -> None:
    asked = asked_range("what did I know before March", NOW)
    assert asked is not None
    at = [datetime(year, 3, 2, tzinfo=UTC) for year in (2019, 2025, 2026)]
    assert [asked.nearness_of(each, each) for each in at] == [1.0, 1.0, 0.0]


def test_days_begin_and_end_in_the_zone_of_the_asker() -> None:
    now = datetime(2026, 10, 26, 23, 30, tzinfo=UTC)
    asked = asked_range("what did I do yesterday", now, zone=zone_of("Europe/Berlin"))
    assert asked is not None
    assert (asked.start, asked.end) == (datetime(2026, 10, 25, 23, tzinfo=UTC), datetime(2026, 10, 26, 23, tzinfo=UTC))
    # A Sunday of 25 hours.
    asked = asked_range("what did I do on Sunday", now, zone=zone_of("Europe/Berlin"))
    assert asked is not None
    assert asked.end - asked.start == timedelta(hours=25)


def test_seasons_are_those_of_the_hemisphere() -> None:
    asked = [asked_range("what did we do last summer", NOW, hemisphere=half) for half in ("north", "south")]
    assert [(each.start.month, each.start.year) for each in asked if each is not None] == [(6, 2026), (12, 2025)]


@pytest.mark.parametrize(
    "question",
    [
        "What did the vet say about the kettle a while ago?",
        "Was hat der Tierarzt damals über den Kessel gesagt?",
        "Qu'a dit le vétérinaire jadis du kettle ?",
        "¿Qué dijo el veterinario antaño sobre el kettle?",
    ],
)
def test_a_time_that_cannot_be_read_is_no_subject(question: str) -> None:
    assert asked_range(question, NOW) is None
    without = " ".join(
        word for word in question.split() if word.strip("?") not in {"while", "damals", "jadis", "antaño"}
    )
    judged = [Candidate(text="The vet: the kettle. Der Tierarzt: der Kessel. Le vétérinaire. El veterinario.")]
    assert best_of(evidence_of(question, judged)) == pytest.approx(best_of(evidence_of(without, judged)))


def test_words_of_time_count_where_nothing_else_is_asked() -> None:
    assert best_of(evidence_of("how many weeks", [Candidate(text="A sprint has two weeks.")])) > 0.4


@pytest.mark.parametrize(
    "question",
    [
        "what happened last week",
        "Was war letzten Monat los?",
        "¿Qué hice la semana pasada?",
        "上周我做了什么?",
        "先週は何をしましたか",
    ],
)
def test_an_asked_time_is_evidence_of_what_is_of_it(question: str) -> None:
    asked = asked_range(question, NOW)
    inside, outside = (Candidate(text="The kettle broke.", is_in_time=is_inside) for is_inside in (True, False))
    assert best_of(evidence_of(question, [inside], asked=asked)) > 0.5
    assert best_of(evidence_of(question, [outside], asked=asked)) == 0.0


def test_an_asked_time_is_no_evidence_of_another_name() -> None:
    inside = Candidate(text="The kettle broke.", is_in_time=True)
    other = "Which colour has the boat that Ilja bought last week?"
    assert best_of(evidence_of(other, [inside], asked=asked_range(other, NOW))) < 0.45
