"""Everyday phrases of time, in the words of several languages."""

from datetime import UTC, datetime

import pytest

from memcore.backends.when import asked_range

#: A Thursday.
NOW = datetime(2026, 11, 26, 9, 30, tzinfo=UTC)


def shown(at: datetime) -> str:
    """Return a time as the cases write it: a day, with its hour where it has one, and nothing for an open start."""
    return "" if at.year == 1 else f"{at:%Y-%m-%d %H:00}".removesuffix(" 00:00")


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        # English.
        ("What did Lena write recently?", "2026-10-27", "2026-11-27"),
        ("Have I mentioned the other day where the spare key is?", "2026-11-12", "2026-11-26"),
        ("What broke a couple of weeks ago?", "2026-11-02", "2026-11-16"),
        ("What happened a few days ago?", "2026-11-21", "2026-11-25"),
        ("Which trips did we make earlier this year?", "2026-01-01", "2027-01-01"),
        ("What was decided in the second quarter of 2025?", "2025-04-01", "2025-07-01"),
        ("What did we spend in Q2?", "2026-04-01", "2026-07-01"),
        ("Which bugs came up last quarter?", "2026-07-01", "2026-10-01"),
        ("What did we ship in Q3 of last year?", "2025-07-01", "2025-10-01"),
        ("What happened in the first half of July?", "2026-07-01", "2026-07-17"),
        ("What was said in the second half of 2025?", "2025-07-02", "2026-01-01"),
        ("notes from late March", "2026-03-21", "2026-04-01"),
        ("What did I plant in early May?", "2026-05-01", "2026-05-11"),
        ("How was mid-June?", "2026-06-11", "2026-06-21"),
        ("What came up at the end of last month?", "2026-10-21", "2026-11-01"),
        ("What was agreed in the last week of August?", "2026-08-25", "2026-09-01"),
        ("Anything since November?", "2026-11-01", "2026-11-27"),
        ("What changed since last Tuesday?", "2026-11-24", "2026-11-27"),
        ("What has Ben said since the beginning of the month?", "2026-11-01", "2026-11-27"),
        ("What did I know before March?", "", "2026-03-01"),
        ("Which invoices came in until the end of August?", "", "2026-09-01"),
        ("What happened after the 3rd?", "2026-11-04", "2026-11-27"),
        ("What happened after Easter?", "2026-04-07", "2026-11-27"),
        ("What was paid between 3 and 20 September?", "2026-09-03", "2026-09-21"),
        ("What was paid between March and May?", "2026-03-01", "2026-06-01"),
        ("What happened from Friday to Tuesday?", "2026-11-20", "2026-11-25"),
        ("What happened September 3 to 20?", "2026-09-03", "2026-09-21"),
        ("What did we do over the weekend?", "2026-11-21", "2026-11-23"),
        ("What did I do the weekend before last?", "2026-11-14", "2026-11-16"),
        ("What did I say yesterday evening?", "2026-11-25 17:00", "2026-11-26"),
        ("What did I eat on Tuesday morning?", "2026-11-24 04:00", "2026-11-24 12:00"),
        ("Who rang last night?", "2026-11-25 18:00", "2026-11-26 06:00"),
        ("Who called this morning?", "2026-11-26 04:00", "2026-11-26 12:00"),
        ("What did we do last summer?", "2026-06-01", "2026-09-01"),
        ("How was the garden this spring?", "2026-03-01", "2026-06-01"),
        ("What did I ski in winter?", "2025-12-01", "2026-03-01"),
        ("Where was I last Christmas?", "2025-12-24", "2025-12-27"),
        ("Where were we at New Year's?", "2025-12-31", "2026-01-02"),
        ("What happened on Friday last week?", "2026-11-20", "2026-11-21"),
        ("What did Tom say last May?", "2026-05-01", "2026-06-01"),
        ("What did we do in October last year?", "2025-10-01", "2025-11-01"),
        ("Who visited around 10 August?", "2026-08-09", "2026-08-12"),
        ("What came in during the past week?", "2026-11-19", "2026-11-27"),
        ("What came in over the last few weeks?", "2026-10-22", "2026-11-27"),
        ("What did Lena do the week before 3 August?", "2026-07-27", "2026-08-04"),
        ("Whom did Ada meet on the Sunday before 25 October?", "2026-10-18", "2026-10-26"),
        ("What did Ben say two weeks after Easter?", "2026-04-03", "2026-04-21"),
        ("Where was I the first weekend of August?", "2026-08-01", "2026-08-08"),
        # German.
        ("Was habe ich neulich über den Keller gesagt?", "2026-11-12", "2026-11-26"),
        ("Was war in letzter Zeit mit der Pumpe?", "2026-10-27", "2026-11-27"),
        ("Was war vor ein paar Wochen?", "2026-11-02", "2026-11-16"),
        ("Was lief im zweiten Quartal 2025?", "2025-04-01", "2025-07-01"),
        ("Was war im letzten Quartal?", "2026-07-01", "2026-10-01"),
        ("Was geschah in der ersten Hälfte des Juli?", "2026-07-01", "2026-07-17"),
        ("Was war Mitte August?", "2026-08-11", "2026-08-22"),
        ("Was war Ende letzten Monats?", "2026-10-21", "2026-11-01"),
        ("Was ist seit Anfang November passiert?", "2026-11-01", "2026-11-27"),
        ("Was war vor März mit der Heizung?", "", "2026-03-01"),
        ("Was kam bis Ende August?", "", "2026-09-01"),
        ("Was geschah nach dem 3.?", "2026-11-04", "2026-11-27"),
        ("Was war zwischen dem 3. und 20. September?", "2026-09-03", "2026-09-21"),
        ("Was war zwischen März und Mai?", "2026-03-01", "2026-06-01"),
        ("Was war letzten Sommer?", "2026-06-01", "2026-09-01"),
        ("Was war im Frühjahr?", "2026-03-01", "2026-06-01"),
        ("Wo war ich letztes Weihnachten?", "2025-12-24", "2025-12-27"),
        ("Was sagte er Dienstagabend?", "2026-11-24 17:00", "2026-11-25"),
        ("Was war gestern früh?", "2026-11-25 04:00", "2026-11-25 12:00"),
        ("Was war letzte Nacht?", "2026-11-25 18:00", "2026-11-26 06:00"),
        ("Was war vorletztes Wochenende?", "2026-11-14", "2026-11-16"),
        ("Was war im Juni letzten Jahres?", "2025-06-01", "2025-07-01"),
        ("Was habe ich letzten Dienstag gemacht?", "2026-11-24", "2026-11-25"),
        ("Was war seit drei Wochen?", "2026-11-05", "2026-11-27"),
        # French.
        ("Qu'a dit Léa récemment ?", "2026-10-27", "2026-11-27"),
        ("Qu'ai-je dit l'autre jour ?", "2026-11-12", "2026-11-26"),
        ("Que s'est-il passé il y a quelques semaines ?", "2026-10-19", "2026-11-16"),
        ("Que s'est-il passé au deuxième trimestre 2025 ?", "2025-04-01", "2025-07-01"),
        ("Qu'a-t-on vendu le trimestre dernier ?", "2026-07-01", "2026-10-01"),
        ("Qu'avons-nous fait dans la première moitié de juillet ?", "2026-07-01", "2026-07-17"),
        ("Qu'ai-je planté début mai ?", "2026-05-01", "2026-05-11"),
        ("Et à la mi-juin ?", "2026-06-11", "2026-06-21"),
        ("Que s'est-il passé fin août ?", "2026-08-21", "2026-09-01"),
        ("Quoi de neuf depuis novembre ?", "2026-11-01", "2026-11-27"),
        ("Quoi de neuf depuis le début du mois ?", "2026-11-01", "2026-11-27"),
        ("Que savait-on avant mars ?", "", "2026-03-01"),
        ("Qu'est-il arrivé après le 3 ?", "2026-11-04", "2026-11-27"),
        ("Qu'a-t-on payé entre le 3 et le 20 septembre ?", "2026-09-03", "2026-09-21"),
        ("Qu'a-t-on payé entre mars et mai ?", "2026-03-01", "2026-06-01"),
        ("Où étions-nous l'été dernier ?", "2026-06-01", "2026-09-01"),
        ("Et l'hiver dernier ?", "2025-12-01", "2026-03-01"),
        ("Que s'est-il passé cet automne ?", "2026-09-01", "2026-12-01"),
        ("Où étais-je à Noël ?", "2025-12-24", "2025-12-27"),
        ("Qu'a-t-il dit mardi soir ?", "2026-11-24 17:00", "2026-11-25"),
        ("Qui a appelé cette nuit ?", "2026-11-25 18:00", "2026-11-26 06:00"),
        ("Qui a appelé ce matin ?", "2026-11-26 04:00", "2026-11-26 12:00"),
        ("Qu'ai-je fait en juin de l'année dernière ?", "2025-06-01", "2025-07-01"),
        ("Qu'avons-nous fait le week-end dernier ?", "2026-11-21", "2026-11-23"),
        ("Qu'avons-nous fait l'avant-dernière semaine ?", "2026-11-09", "2026-11-16"),
        # Spanish.
        ("¿Qué dijo Lucía recientemente?", "2026-10-27", "2026-11-27"),
        ("¿Qué dije el otro día?", "2026-11-12", "2026-11-26"),
        ("¿Qué pasó hace un par de semanas?", "2026-11-02", "2026-11-16"),
        ("¿Qué pasó hace unos días?", "2026-11-21", "2026-11-25"),
        ("¿Qué se decidió en el segundo trimestre de 2025?", "2025-04-01", "2025-07-01"),
        ("¿Qué vendimos el trimestre pasado?", "2026-07-01", "2026-10-01"),
        ("¿Qué pasó en la primera mitad de julio?", "2026-07-01", "2026-07-17"),
        ("¿Qué planté a principios de mayo?", "2026-05-01", "2026-05-11"),
        ("¿Qué pasó a finales de agosto?", "2026-08-21", "2026-09-01"),
        ("¿Qué hay de nuevo desde noviembre?", "2026-11-01", "2026-11-27"),
        ("¿Qué ha pasado desde el lunes?", "2026-11-23", "2026-11-27"),
        ("¿Qué sabíamos antes de marzo?", "", "2026-03-01"),
        ("¿Qué pasó después del 3?", "2026-11-04", "2026-11-27"),
        ("¿Qué pagamos entre el 3 y el 20 de septiembre?", "2026-09-03", "2026-09-21"),
        ("¿Qué pagamos entre marzo y mayo?", "2026-03-01", "2026-06-01"),
        ("¿Dónde estuvimos el verano pasado?", "2026-06-01", "2026-09-01"),
        ("¿Qué pasó este otoño?", "2026-09-01", "2026-12-01"),
        ("¿Dónde estuve en Navidad?", "2025-12-24", "2025-12-27"),
        ("¿Qué dijo ayer por la noche?", "2026-11-25 18:00", "2026-11-26 06:00"),
        ("¿Quién llamó anoche?", "2026-11-25 18:00", "2026-11-26 06:00"),
        ("¿Quién llamó esta mañana?", "2026-11-26 04:00", "2026-11-26 12:00"),
        ("¿Qué hice el fin de semana?", "2026-11-27", "2026-11-30"),
        ("¿Qué hice en junio del año pasado?", "2025-06-01", "2025-07-01"),
        ("¿Qué pasó la semana antepasada?", "2026-11-09", "2026-11-16"),
        # Japanese.
        ("最近Lenaは何と言いましたか", "2026-10-27", "2026-11-27"),
        ("先日何を話しましたか", "2026-11-12", "2026-11-26"),
        ("数週間前に何がありましたか", "2026-10-19", "2026-11-16"),
        ("2025年の第2四半期に何がありましたか", "2025-04-01", "2025-07-01"),
        ("第2四半期に何がありましたか", "2026-04-01", "2026-07-01"),
        ("7月前半に何がありましたか", "2026-07-01", "2026-07-17"),
        ("8月下旬に何がありましたか", "2026-08-21", "2026-09-01"),
        ("11月から何がありましたか", "2026-11-01", "2026-11-27"),
        ("3月以前に何がありましたか", "", "2026-03-01"),
        ("9月3日から20日まで何を払いましたか", "2026-09-03", "2026-09-21"),
        ("去年の夏はどこにいましたか", "2025-06-01", "2025-09-01"),
        ("この夏はどこにいましたか", "2026-06-01", "2026-09-01"),
        ("去年の6月に何をしましたか", "2025-06-01", "2025-07-01"),
        ("先週の金曜日に何がありましたか", "2026-11-20", "2026-11-21"),
        ("昨日の夜に何を言いましたか", "2026-11-25 17:00", "2026-11-26"),
        ("昨夜誰が電話しましたか", "2026-11-25 18:00", "2026-11-26 06:00"),
        ("今朝誰が電話しましたか", "2026-11-26 04:00", "2026-11-26 12:00"),
        ("週末に何をしましたか", "2026-11-21", "2026-11-23"),
        ("先々週に何をしましたか", "2026-11-09", "2026-11-16"),
        ("月曜日から何がありましたか", "2026-11-23", "2026-11-27"),
        # Others.
        ("Wat zei Lena onlangs?", "2026-10-27", "2026-11-27"),
        ("Wat deden we afgelopen zomer?", "2026-06-01", "2026-09-01"),
        ("Wat was er in het tweede kwartaal van 2025?", "2025-04-01", "2025-07-01"),
        ("Wat gebeurde er sinds november?", "2026-11-01", "2026-11-27"),
        ("Wat gebeurde er begin mei?", "2026-05-01", "2026-05-11"),
        ("Wat betaalden we tussen 3 en 20 september?", "2026-09-03", "2026-09-21"),
        ("Cosa abbiamo fatto l'estate scorsa?", "2026-06-01", "2026-09-01"),
        ("Cosa è successo da novembre?", "2026-11-01", "2026-11-27"),
        ("O que fizemos no verão passado?", "2026-06-01", "2026-09-01"),
        ("O que aconteceu desde novembro?", "2026-11-01", "2026-11-27"),
    ],
)
def test_a_phrase_names_its_range(question: str, start: str, end: str) -> None:
    asked = asked_range(question, NOW)
    assert asked is not None
    assert (shown(asked.start), shown(asked.end)) == (start, end)


@pytest.mark.parametrize(
    "question",
    [
        "The spring of the clock is broken",
        "What does he want for Christmas?",
        "How many quarters are in a year?",
        "Where does the Winter family live?",
        "What is the name of the fall detector?",
        "Who is Mr. Friday?",
        "What is Ada's morning routine?",
        "What do we do in the evening?",
        "What stands in the end of the day report?",
        "What comes after the 3 tests?",
        "How long is the second half of the film?",
        "Is the quarter final on TV?",
        "What was the third of the three wishes?",
        "ce qui a été réservé",
        "le 3 est occupé",
        "the 3rd is better",
        "between 3 and 20 people",
        "What about the weekend shift?",
        "what time does the shop open",
        "Wann ist morgen Abend Probe?",
        "Der Sommer ist kurz",
        "Wie lange dauert eine Woche?",
        "Was kostet ein Tag?",
        "¿Cómo se llama la primavera de Botticelli?",
        "¿Qué hacemos por la mañana?",
        "Quelle est la couleur de l'automne ?",
        "春さんはどこに住んでいますか",
        "夜行バスはいくらですか",
        "Which seasons does the shop close in?",
        "How do I reach Noel?",
        "He may go after lunch",
        "What is the last name of Ada?",
        "until when is the shop open",
        "Who leads the march?",
        "from A to B",
        "Which port has 2001:db8?",
        "What is Q7?",
        "What is between the sofa and the wall?",
        "since when does Ada work here",
        "the second one, not the first",
        "Is the may fly an insect",
    ],
)
def test_the_same_words_may_name_no_time(question: str) -> None:
    assert asked_range(question, NOW) is None


@pytest.mark.parametrize(
    ("question", "year"),
    [("at Easter 2025", 2025), ("around Easter", 2026), ("last Easter", 2026), ("Easter 2019", 2019)],
)
def test_easter_is_a_sunday_of_spring(question: str, year: int) -> None:
    sundays = {2019: (4, 21), 2025: (4, 20), 2026: (4, 5)}
    asked = asked_range(question, NOW)
    assert asked is not None
    assert asked.start < datetime(year, *sundays[year], tzinfo=UTC) < asked.end


def test_words_of_a_phrase_are_those_that_name_it() -> None:
    asked = asked_range("What did Imke and I arrange in the first half of July last year?", NOW)
    assert asked is not None
    assert asked.words == frozenset(["the", "first", "half", "of", "july", "last", "year"])
