"""Feasts, in the words of five languages, and the days on which they fall."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.backends.feasts import FEASTS, feast
from memcore.backends.when import asked_range

#: A Thursday.
NOW = datetime(2026, 11, 26, 9, 30, tzinfo=UTC)

#: By the first and the last day.
SAID = {
    ("2026-05-24", "2026-05-25"): (
        "What did we eat at Whitsun?",
        "Where were we over Pentecost?",
        "Was gab es zu Pfingsten?",
        "Qu'a-t-on mangé à la Pentecôte ?",
        "¿Qué comimos en Pentecostés?",
        "Cosa abbiamo mangiato a Pentecoste?",
    ),
    ("2026-05-14", "2026-05-14"): (
        "What did we drink on Ascension Day?",
        "Wohin fuhren wir an Christi Himmelfahrt?",
        "Où sommes-nous allés à l'Ascension ?",
    ),
    ("2026-02-17", "2026-02-17"): (
        "Where did we go on Shrove Tuesday?",
        "Wo waren wir am Faschingsdienstag?",
        "Qui est venu à mardi gras ?",
        "¿Quién vino el martes de carnaval?",
        "Chi c'era a martedì grasso?",
    ),
    ("2026-03-29", "2026-03-29"): (
        "Who came on Palm Sunday?",
        "¿Quién vino el Domingo de Ramos?",
        "Chi è venuto la domenica delle palme?",
    ),
    ("2026-03-29", "2026-04-05"): (
        "Was machten wir in der Karwoche?",
        "¿Adónde fuimos en Semana Santa?",
    ),
    ("2026-04-06", "2026-04-06"): ("Dove siamo andati a Pasquetta?", "Wo waren wir am Ostermontag?"),
    ("2025-12-24", "2025-12-24"): (
        "What broke on Christmas Eve?",
        "Was gab es an Heiligabend?",
        "¿Qué cenamos en Nochebuena?",
    ),
    ("2025-12-27", "2025-12-30"): ("Was passierte zwischen den Jahren?",),
    ("2026-08-15", "2026-08-15"): ("Cosa abbiamo fatto a Ferragosto?",),
    ("2025-04-18", "2025-04-21"): (
        "Was war letztes Jahr zu Ostern?",
        "Cosa abbiamo fatto a Pasqua dell'anno scorso?",
    ),
}


@pytest.mark.parametrize(("question", "days"), [(each, days) for days, every in SAID.items() for each in every])
def test_a_feast_names_its_days(question: str, days: tuple[str, str]) -> None:
    asked = asked_range(question, NOW)
    assert asked is not None
    assert (f"{asked.start:%Y-%m-%d}", f"{asked.end - timedelta(days=1):%Y-%m-%d}") == days


@given(st.integers(1900, 2100))
def test_easter_is_a_sunday_of_spring_and_what_follows_from_it_keeps_its_weekday(year: int) -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    sunday = feast("easter", day, year)[0] + timedelta(days=2)
    assert date(year, 3, 22) <= sunday.date() <= date(year, 4, 25)
    weekdays = {name: feast(name, day, year)[0].weekday() for name in ("ascension", "whitsun", "shrove tuesday")}
    assert sunday.weekday() == 6
    assert weekdays == {"ascension": 3, "whitsun": 6, "shrove tuesday": 1}


@pytest.mark.parametrize("name", FEASTS)
@pytest.mark.parametrize("year", [1999, 2024, 2026])
def test_every_feast_that_is_read_has_its_days(name: str, year: int) -> None:
    start, end = feast(name, NOW.replace(hour=0, minute=0), year)
    assert timedelta(days=1) <= end - start <= timedelta(days=23)
    assert start.year == year
