"""Times that are counted, or named by their place in a longer one, in the words of five languages."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.backends.when import asked_range

#: A Thursday.
NOW = datetime(2026, 11, 26, 9, 30, tzinfo=UTC)

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PLACES = ("first", "second", "third", "fourth")
COUNTS = ("two", "three", "four", "five")

#: Hours of a century.
MOMENTS = st.integers(0, 36_500 * 24).map(lambda hours: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(hours=hours))


def named(question: str, now: datetime = NOW) -> tuple[str, str] | None:
    """Return the first and the last day of the range that a question names; an open range begins with nothing."""
    asked = asked_range(question, now)
    if asked is None:
        return None
    first = "" if asked.start.year == 1 else asked.start.date().isoformat()
    return first, (asked.end - timedelta(microseconds=1)).date().isoformat()


#: By what is meant, the same in each language.
SAID = {
    ("2026-10-30", "2026-11-11"): (
        "What did the roofer say a good three weeks ago?",
        "What did we plan about three weeks ago?",
        "Was war vor gut drei Wochen?",
        "Qui a écrit il y a environ trois semaines ?",
        "¿Quién llamó hace unas tres semanas?",
        "Chi ha chiamato circa tre settimane fa?",
    ),
    ("2026-08-27", "2026-10-26"): (
        "Who wrote roughly two months ago?",
        "Was kam vor knapp zwei Monaten?",
        "Qui a écrit il y a presque deux mois ?",
        "¿Quién llamó hace casi dos meses?",
        "Chi ha scritto quasi due mesi fa?",
    ),
    ("2026-11-23", "2026-11-24"): (
        "What broke two or three days ago?",
        "Was war vor zwei bis drei Tagen?",
        "Que s'est-il passé il y a deux ou trois jours ?",
        "¿Qué pasó hace dos o tres días?",
        "Cosa è successo due o tre giorni fa?",
        "Cosa si è rotto a inizio settimana?",
    ),
    ("2026-11-15", "2026-11-17"): (
        "Was lief vor etwa zehn Tagen?",
        "Qui est venu il y a une dizaine de jours ?",
        "Chi è venuto una decina di giorni fa?",
    ),
    ("2026-08-22", "2026-08-31"): (
        "What was paid in the last ten days of August?",
        "Was kam in den letzten zehn Tagen im August?",
        "Qu'a-t-on payé les dix derniers jours d'août ?",
        "¿Qué se pagó en los últimos diez días de agosto?",
        "Cosa abbiamo pagato negli ultimi dieci giorni di agosto?",
    ),
    ("2026-10-01", "2026-10-03"): (
        "What did we eat in the first three days of October?",
        "Was kam in den ersten drei Tagen des Oktobers?",
        "Qu'a-t-on payé les trois premiers jours d'octobre ?",
        "¿Qué se pagó en los primeros tres días de octubre?",
        "Cosa abbiamo pagato nei primi tre giorni di ottobre?",
    ),
    ("2026-10-13", "2026-10-13"): (
        "What was on the second Tuesday in October?",
        "Was war am zweiten Dienstag im Oktober?",
        "Qu'a-t-on fait le deuxième mardi d'octobre ?",
        "¿Qué hubo el segundo martes de octubre?",
        "Cosa c'era il secondo martedì di ottobre?",
    ),
    ("2026-09-25", "2026-09-25"): (
        "What was on the last Friday of September?",
        "Was war am letzten Freitag im September?",
        "Qu'a-t-on fait le dernier vendredi de septembre ?",
        "¿Qué hubo el último viernes de septiembre?",
        "Cosa c'era l'ultimo venerdì di settembre?",
    ),
    ("2026-11-06", "2026-11-06"): (
        "Where did we eat three Fridays ago?",
        "Wo waren wir vor drei Freitagen?",
        "Où étions-nous il y a trois vendredis ?",
        "¿Dónde cenamos hace tres viernes?",
        "Dove eravamo tre venerdì fa?",
    ),
    ("2026-11-15", "2026-11-15"): (
        "Who came two Sundays ago?",
        "Wo waren wir vor zwei Sonntagen?",
        "¿Dónde comimos hace dos domingos?",
        "Dove eravamo due domeniche fa?",
    ),
    ("2025-06-01", "2025-08-31"): (
        "What did we do two summers ago?",
        "What did we do the summer before last?",
        "Wo waren wir vorletzten Sommer?",
        "Où étions-nous il y a deux étés ?",
        "¿Dónde estuvimos hace dos veranos?",
        "Dove eravamo due estati fa?",
    ),
    ("2026-11-19", "2026-11-19"): (
        "What did Ben say a week ago today?",
        "Was war heute vor einer Woche?",
        "Que faisait-on il y a une semaine jour pour jour ?",
        "¿Qué hice hoy hace una semana?",
        "Cosa ho fatto una settimana fa oggi?",
    ),
    ("2026-11-18", "2026-11-18"): ("What did Ben say a week ago yesterday?", "Was war gestern vor einer Woche?"),
    ("2026-10-26", "2026-10-26"): (
        "What did I do exactly a month ago?",
        "Was war vor genau einem Monat?",
        "Que faisait-on il y a exactement un mois ?",
        "¿Qué hice hace exactamente un mes?",
        "Cosa ho fatto esattamente un mese fa?",
    ),
    ("2025-11-11", "2025-12-11"): (
        "Where were we this time last year?",
        "Wo waren wir letztes Jahr um diese Zeit?",
        "Où étions-nous l'an dernier à cette époque ?",
        "¿Dónde estábamos el año pasado por estas fechas?",
        "Dove eravamo l'anno scorso in questo periodo?",
    ),
    ("2026-10-05", "2026-10-11"): (
        "What came in the week of 5 October?",
        "What came in the week beginning October 5?",
        "What came in the week of October 7?",
        "Was kam in der Woche vom 5. Oktober?",
        "Qu'a-t-on reçu la semaine du 5 octobre ?",
        "¿Qué llegó la semana del 5 de octubre?",
        "Cosa è arrivato nella settimana del 5 ottobre?",
    ),
    ("2026-10-10", "2026-10-11"): (
        "Where were we the weekend of 10 October?",
        "Was war am Wochenende vom 10. Oktober?",
    ),
    ("2026-03-01", "2026-11-26"): (
        "What changed from March onwards?",
        "What changed from March on?",
        "Was wurde von März an bezahlt?",
        "Was ist ab März neu?",
        "Qu'est-ce qui a changé à partir de mars ?",
        "¿Qué cambió de marzo en adelante?",
        "Cosa è cambiato da marzo in poi?",
    ),
    ("2026-10-05", "2026-11-26"): (
        "Was ist ab dem 5. Oktober passiert?",
        "Was war seit 5.10.?",
        "¿Qué cambió a partir del 5 de octubre?",
        "Cosa è cambiato dal 5 ottobre in poi?",
    ),
    ("2026-06-01", "2026-08-31"): (
        "What was going on from June to August?",
        "Was lief von Juni bis August?",
        "Qu'a-t-on visité de juin à août ?",
        "¿Qué visitamos de junio a agosto?",
        "Cosa abbiamo visitato da giugno ad agosto?",
    ),
    ("2026-11-16", "2026-11-18"): (
        "What went on between Monday and Wednesday last week?",
        "What went on last week between Monday and Wednesday?",
        "Was war letzte Woche von Montag bis Mittwoch?",
        "Was war zwischen Montag und Mittwoch letzter Woche?",
        "Qu'a-t-on fait la semaine dernière entre lundi et mercredi ?",
        "¿Qué hicimos la semana pasada de lunes a miércoles?",
        "Cosa abbiamo fatto tra lunedì e mercoledì della settimana scorsa?",
    ),
    ("2025-03-01", "2025-05-31"): (
        "What did we sell last year from March to May?",
        "Was verkauften wir 2025 zwischen März und Mai?",
    ),
    ("2026-05-01", "2026-05-10"): ("¿Qué pasó a primeros de mayo?", "Cosa è successo ai primi di maggio?"),
    ("2026-10-11", "2026-10-21"): ("How far were we halfway through October?", "¿Qué pasó a mitad de octubre?"),
    ("2026-10-01", "2026-10-31"): (
        "What was new throughout October?",
        "Was war im Laufe des Oktobers?",
        "Que s'est-il passé au cours d'octobre ?",
        "¿Qué pasó a lo largo de octubre?",
        "Cosa è successo nel corso di ottobre?",
    ),
    ("2025-12-17", "2025-12-23"): (
        "What happened just before Christmas?",
        "Was war kurz vor Weihnachten?",
        "Que s'est-il passé juste avant Noël ?",
        "¿Qué pasó poco antes de Navidad?",
        "Cosa è successo poco prima di Natale?",
    ),
    ("2026-10-01", "2026-10-16"): ("Was lief in der ersten Oktoberhälfte?",),
    ("2026-09-24", "2026-09-30"): ("Was lief in der letzten Septemberwoche?",),
    ("2026-11-01", "2026-11-10"): ("Was gab es am Monatsanfang?",),
    ("2025-07-02", "2025-12-31"): ("Was wurde in der zweiten Jahreshälfte 2025 gekauft?",),
    ("2026-05-28", "2026-11-26"): (
        "What did I buy in the last half year?",
        "Was habe ich im letzten halben Jahr gekauft?",
        "¿Qué compré en el último semestre?",
    ),
    ("2026-11-24", "2026-11-25"): (
        "Where did we stay the night before last?",
        "Was war vorletzte Nacht?",
        "¿Qué pasó anteanoche?",
    ),
    ("2026-11-16", "2026-11-22"): ("Qu'a-t-on fait la semaine d'avant ?", "What did we do the week before?"),
    ("2026-11-21", "2026-11-22"): ("Where was I this past weekend?",),
    ("2026-11-12", "2026-11-25"): ("Who came the other week?", "Cosa è successo l'altra settimana?"),
    ("2026-01-01", "2026-12-31"): ("Cosa è successo quest'anno?",),
    ("2026-01-01", "2026-03-02"): ("Que s'est-il passé en début d'année ?", "Cosa è successo all'inizio dell'anno?"),
    ("2026-11-24", "2026-11-24"): ("Chi ha chiamato l'altroieri?",),
    ("", "2026-03-31"): ("Cosa è successo fino a marzo?",),
    ("", "2025-12-26"): ("Cosa è successo fino a Natale?",),
}


@pytest.mark.parametrize(("question", "days"), [(each, days) for days, every in SAID.items() for each in every])
def test_a_phrase_names_its_days(question: str, days: tuple[str, str]) -> None:
    assert named(question) == days


@pytest.mark.parametrize(
    "question",
    [
        "Which of the three Fridays is free?",
        "Wie heißt die Septemberwoche?",
        "How long is a good three weeks?",
        "How is the weekend of a nurse?",
        "Is the lease exactly one year long?",
        "Who is on the second Tuesday team?",
        "What was the first month of the job like?",
        "Which day is the same time as ours?",
        "Who speaks right after lunch?",
        "What does the plan say about three weeks of leave?",
        "Wie heißt der erste Tag des Kurses?",
        "Was passiert gleich nach dem Essen?",
        "Quel est le premier jour du stage ?",
        "Hay unas dos semanas de espera",
        "dura più di due settimane",
    ],
)
def test_what_is_counted_need_not_be_a_time(question: str) -> None:
    assert named(question) is None


@given(
    month=st.integers(1, 11),
    weekday=st.integers(0, 6),
    place=st.integers(0, 3),
    year=st.integers(2000, 2025),
)
def test_the_nth_weekday_of_a_month_is_a_day_of_it(month: int, weekday: int, place: int, year: int) -> None:
    days = named(f"on the {PLACES[place]} {WEEKDAYS[weekday]} of {MONTHS[month - 1]} {year}")
    assert days is not None
    day = datetime.fromisoformat(days[0])
    assert days[0] == days[1]
    assert (day.year, day.month, day.weekday(), (day.day - 1) // 7) == (year, month, weekday, place)


@given(now=MOMENTS, weekday=st.integers(0, 6))
def test_each_further_weekday_ago_is_a_week_earlier_and_none_is_today(now: datetime, weekday: int) -> None:
    asked = [named(f"{count} {WEEKDAYS[weekday]}s ago", now) for count in COUNTS]
    days = [datetime.fromisoformat(each[0]).date() for each in asked if each is not None]
    assert [day.weekday() for day in days] == [weekday] * len(COUNTS)
    assert [(now.date() - day).days // 7 for day in days] in ([1, 2, 3, 4], [2, 3, 4, 5])


@given(MOMENTS)
def test_a_week_ago_today_is_seven_days_ago_and_about_a_week_ago_has_it_within(now: datetime) -> None:
    day = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=7)
    exact, about = asked_range("a week ago today", now), asked_range("about a week ago", now)
    assert exact is not None
    assert about is not None
    assert (exact.start, exact.end) == (day, day + timedelta(days=1))
    assert about.start < exact.start < exact.end < about.end


@given(MOMENTS)
@pytest.mark.parametrize(
    ("counted", "half"),
    [
        (("a week ago", "vor einer Woche", "il y a une semaine", "hace una semana", "una settimana fa"), 3),
        (("two months ago", "vor zwei Monaten", "il y a deux mois", "hace dos meses", "due mesi fa"), 15),
        (("three years ago", "vor drei Jahren", "il y a trois ans", "hace tres años", "tre anni fa"), 182),
    ],
)
def test_what_is_counted_back_has_its_day_in_the_middle(counted: tuple[str, ...], half: int, now: datetime) -> None:
    exact = asked_range(f"{counted[0]} today", now)
    assert exact is not None
    wider = timedelta(days=half)
    found = [asked_range(each, now) for each in counted]
    assert {(each.start, each.end) for each in found if each is not None} == {(exact.start - wider, exact.end + wider)}
    assert None not in found
