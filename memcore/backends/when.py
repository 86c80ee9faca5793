"""Time in questions: the range of days that a question names, and its weight among the candidates of a search.

Patterns over tables of words, not a date library: dateparser found dates in 13 of 18 questions that have none, took 2
to 200 ms a question, and returns a moment where a range is asked.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Literal

from memcore.embedding.bm25 import Tokenizer, fold
from memcore.models.memory import MemoryEntry

#: Nearness of what was written soon after the asked range.
_SOON_AFTER = 0.5

#: Characters of a question that are looked at, the last ones: what is asked comes last.
_MOST_CHARS = 1_000

_Unit = Literal["day", "week", "month", "year"]

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRange:
    """A range of time that a question names: from ``start`` up to before ``end``, and the words that name it."""

    start: datetime
    end: datetime
    words: frozenset[str] = frozenset()

    def has(self, entry: MemoryEntry) -> bool:
        """Return whether a memory, or what a summary covers, is of this time."""
        return self.nearness(entry) == 1.0

    def nearness(self, entry: MemoryEntry) -> float:
        """Return 1.0 for a memory of this time, 0.0 for one of another, less than 1.0 for what was written soon after.

        Soon is within the length of the range: people say on Tuesday what they did on Monday.
        """
        if (entry.covers_until or entry.created_at) < self.start:
            return 0.0
        # Not the end and the length, which may be beyond the last year.
        late = entry.created_at - self.end
        return 1.0 if late < timedelta() else _SOON_AFTER if late < self.end - self.start else 0.0


def in_time(scores: Mapping[str, float], nearness: Mapping[str, float], gain: float) -> dict[str, float]:
    """Return the scores, 0 to 1, with what memories gain by their time; the best stays as good as the best was.

    A memory gains ``gain`` of the best score, times its ``nearness`` to the range that is asked; none is dropped.
    """
    if scores.keys().isdisjoint(nearness):
        return dict(scores)
    # A question that names a time and nothing else may match nothing.
    highest = max(scores.values()) or 1.0
    found = {key: score + gain * highest * nearness.get(key, 0.0) for key, score in scores.items()}
    scale = highest / max(highest, *found.values())
    return {key: score * scale for key, score in found.items()}


def asked_range(question: str, now: datetime) -> AskedRange | None:
    """Return the range that a question names, in UTC; None where it names none. Never raises for a text.

    Days, weeks (from Monday) and months are whole; one without a year is the latest that has begun. Of several ranges
    the last counts, and the one that a word such as "to" joins to it. Known are English, German, Dutch, French,
    Spanish, Italian, Portuguese, Japanese, Chinese and Korean.
    """
    text = question[-_MOST_CHARS:]
    folded = fold(text)
    if not _may_name_time(folded):
        return None
    found = sorted(_ranges(text, folded, now.astimezone(UTC)), key=lambda each: each[0])
    if not found:
        return None
    (begin, end), asked = found[-1]
    for (before, upto), other in reversed(found[:-1]):
        if not _JOINS.fullmatch(folded[upto:begin].strip()):
            break
        asked = replace(asked, start=min(asked.start, other.start), end=max(asked.end, other.end))
        begin = before
    return replace(asked, words=frozenset(Tokenizer.words(folded[begin:end])))


_MONTHS = {
    r"in|during": "january february march april may june july august september october november december",
    r"im|seit": "januar februar märz april mai juni juli august september oktober november dezember",
    r"in|sinds": "januari februari maart april mei juni juli augustus september oktober november december",
    r"en|au mois de|au mois d'": (
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
    ),
    r"en": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    r"a|ad|in|nel mese di": (
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"
    ),
    r"em": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
}

#: These alone may be other words, so they count beside a day or a year only.
_SHORT_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"

#: Verbs, too: without a year they need a capital letter or "in".
_VERBS = frozenset({"may", "mar", "march"})

_WEEKDAYS = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "montag dienstag mittwoch donnerstag freitag sonnabend sonntag",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunes martes miércoles jueves viernes sábado domingo",
    "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
)

_UNIT_WORDS: dict[_Unit, str] = {
    "day": "day days tag tage tagen dag dagen jour jours día días giorno giorni dia dias",
    "week": "week weeks woche wochen weken semaine semaines semana semanas settimana settimane",
    "month": "month months monat monate monaten maand maanden mois mes meses mese mesi mês",
    "year": "year years jahr jahre jahren jaar jaren an ans année années año años anno anni ano anos",
}

_UNITS: dict[str, _Unit] = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}

_DAYS_BEFORE = {
    "today": 0, "heute": 0, "vandaag": 0, "aujourd'hui": 0, "aujourd\u2019hui": 0, "hoy": 0, "oggi": 0, "hoje": 0,
    "今日": 0, "きょう": 0, "今天": 0, "오늘": 0,
    "yesterday": 1, "gestern": 1, "gisteren": 1, "ayer": 1, "ieri": 1, "ontem": 1,
    "昨日": 1, "きのう": 1, "昨天": 1, "어제": 1,
    "the day before yesterday": 2, "vorgestern": 2, "eergisteren": 2, "avant-hier": 2, "anteayer": 2,
    "antes de ayer": 2, "l'altro ieri": 2, "anteontem": 2, "一昨日": 2, "おととい": 2, "前天": 2, "그제": 2,
}  # fmt: skip

#: "hier" is "here" in German and in Dutch, so it needs a French word beside it.
_FRENCH = re.compile(
    r"\b(?:ai|avons|avez|ont|fait|quoi|quel|quelle|nous|vous|soir|matin|est-ce)\b|\b(?:qu|j|c)['\u2019]"
)

_UNITS_BEFORE: dict[str, tuple[_Unit, int]] = {
    **dict.fromkeys(("先週", "上周", "上週", "上星期", "上个星期", "上個星期", "지난주", "지난 주"), ("week", 1)),
    **dict.fromkeys(("先々週", "上上周"), ("week", 2)),
    **dict.fromkeys(("今週", "这周", "本周", "这个星期", "이번 주", "이번주"), ("week", 0)),
    **dict.fromkeys(("先月", "上个月", "上個月", "上月", "지난달", "지난 달"), ("month", 1)),
    **dict.fromkeys(("今月", "这个月", "本月", "이번 달"), ("month", 0)),
    **dict.fromkeys(("去年", "昨年", "작년"), ("year", 1)),
    **dict.fromkeys(("今年", "올해"), ("year", 0)),
}

_CJK_UNITS: dict[str, _Unit] = {
    **dict.fromkeys(("日", "天", "일"), "day"),
    **dict.fromkeys(("週間", "周", "週", "个星期", "個星期", "주"), "week"),
    **dict.fromkeys(("か月", "ヶ月", "ケ月", "カ月", "个月", "個月", "달", "개월"), "month"),
    **dict.fromkeys(("年", "년"), "year"),
}

_NUMBERS = {
    word: number
    for words in (
        "one two three four five six seven eight nine ten eleven twelve",
        "einem zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "einer zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "een twee drie vier vijf zes zeven acht negen tien elf twaalf",
        "un deux trois quatre cinq six sept huit neuf dix onze douze",
        "une deux trois quatre cinq six sept huit neuf dix onze douze",
        "una dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "una due tre quattro cinque sei sette otto nove dieci undici dodici",
        "uma dois três quatro cinco seis sete oito nove dez onze doze",
        "um duas três quatro cinco seis sete oito nove dez onze doze",
        "a couple",
        "an couple",
        "一 二 三 四 五 六 七 八 九 十",
    )
    for number, word in enumerate(words.split(), start=1)
}

_LAST = (
    r"last|past|previous|letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?|vorig|afgelopen|verleden"
    r"|derni[eè]re?s?|últim[oa]s|ultim[ei]"
)
_THIS = r"this|diese[nrsm]?|deze|dit|cette|ce|esta|este|questa|questo|nesta|neste"
_LAST_AFTER = r"derni[eè]re?|passée?|pasad[oa]|scors[oa]|passad[oa]"
_ON = r"on|am|op|el|il|na|no"

_JOINS = re.compile(r"to|and|until|till|through|or|-|\u2013|bis|und|tot|et|à|au|y|a|hasta|al|e|から|到|至")

_YEAR = r"(?P<y>(?:19|20)\d\d)"
_BESIDE = r"(?:,?\s(?:(?:of|de|del|di)\s)?" + _YEAR + r"\b)?"

#: A letter that may be part of a date in Chinese, Japanese or Korean.
_CJK = re.compile("[日週周星月年天昨今前きお주달어오그작올전]")


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


def _named(lines: tuple[str, ...] | list[str]) -> dict[str, int]:
    return {name: number for line in lines for number, name in enumerate(line.split())}


_MONTH_OF = _named([*_MONTHS.values(), _SHORT_MONTHS]) | {"sept": 8}
_WEEKDAY_OF = _named(_WEEKDAYS)
_CJK_WEEKDAYS = {
    day: number for days in ("月火水木金土日", "一二三四五六日", "월화수목금토일") for number, day in enumerate(days)
}

#: Without one of these words, a text in a script with spaces names no time.
_TELLING = frozenset(
    word
    for phrase in (*_MONTH_OF, *_WEEKDAY_OF, *_UNITS, *_DAYS_BEFORE, "hier", "weekend", "wochenende")
    for word in re.findall(r"\w+", phrase)[-1:]
)
_WORDS, _DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"(?:19|20)\d\d")


def _may_name_time(folded: str) -> bool:
    if not _TELLING.isdisjoint(_WORDS.findall(folded)) or _DIGITS.search(folded):
        return True
    return not folded.isascii() and _CJK.search(folded) is not None


_Reading = Callable[[re.Match[str], datetime], tuple[datetime, datetime] | None]


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], _Reading], ...]:
    """Return each pattern with what reads its match; what an earlier one has read, no later one reads again."""
    months, weekdays, units, number = _any(_MONTH_OF), _any(_WEEKDAY_OF), _any(_UNITS), rf"\d{{1,3}}|{_any(_NUMBERS)}"
    in_month = "|".join(rf"(?:{before})\s(?:{_any(names.split())})" for before, names in _MONTHS.items())
    cjk_number = r"(?P<n>\d{1,3}|[一二三四五六七八九十])\s?"
    words = {word for word in _DAYS_BEFORE if word[0].isascii()}
    days_after = r"(?:(?P<d>\d{1,2})\s?[日号號일])?"
    forms: tuple[tuple[str, _Reading], ...] = (
        (r"\b(?P<y>(?:19|20)\d\d)[-/](?P<m>\d\d)[-/](?P<d>\d\d)\b", _dated),
        (r"\b(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>(?:19|20)\d\d)\b", _dated),
        (
            (
                r"(?:(?P<y>(?:19|20)\d\d)\s?[年년]\s?)(?:(?P<m>\d{1,2})\s?[月월]\s?"
                rf"{days_after})?"
            ),
            _dated,
        ),
        (rf"(?P<m>\d{{1,2}})\s?[月월]\s?{days_after}", _dated),
        (rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|º|°|\.)?\s(?:(?:of|de|di)\s)?(?P<month>{months})\b{_BESIDE}", _dated),
        (rf"\b(?P<month>{months})\s(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?![:.]\d){_BESIDE}", _dated),
        (rf"\b(?P<month>{months})\s(?:(?:of|de|del|di)\s)?{_YEAR}\b", _dated),
        (rf"\b(?P<named>{in_month})\b(?!-)", _dated),
        (rf"\b(?P<last>{_LAST})\s(?P<month>{months})\b", _dated),
        (r"\b(?:in|im jahre?|en|em|nel) (?P<y>(?:19|20)\d\d)\b(?![.,]?\d)", _dated),
        (_any(_DAYS_BEFORE.keys() - words), _days_before),
        (rf"\b(?:{_any(words)})\b", _days_before),
        (_any(_UNITS_BEFORE), _units_before),
        (rf"{cjk_number}(?P<unit>{_any(_CJK_UNITS)})\s?[前전]", _ago),
        (rf"\b(?P<n>{number})\s(?P<unit>{units})\s(?:ago|geleden|fa|atrás)\b", _ago),
        (rf"\b(?:vor|il y a|hace|há)\s(?P<n>{number})\s(?P<unit>{units})\b", _ago),
        (rf"\b(?:{_LAST})\s(?P<n>{number})\s(?P<unit>{units})\b", _rolling),
        (rf"\b(?P<n>{number})\s(?:{_LAST})\s(?P<unit>{units})\b", _rolling),
        (rf"\b(?:(?P<last>{_LAST})|{_THIS})\s(?P<weekend>weekend|wochenende)\b", _weekend),
        (r"\b(?P<weekend>am wochenende|on the weekend|at the weekend|le week-end dernier)\b", _weekend),
        (rf"\b(?P<last>{_LAST})\s(?P<unit>{units})\b", _calendar),
        (rf"\b(?:{_THIS})\s(?P<unit>{units})\b", _calendar),
        (rf"\b(?P<unit>{units})\s(?P<last>{_LAST_AFTER})\b", _calendar),
        (rf"\b(?:{_THIS}|{_ON})\s(?P<weekday>{weekdays})\b(?!\s(?:{_LAST_AFTER})\b)", _weekday),
        (rf"\b(?P<last>{_LAST})\s(?P<weekday>{weekdays})\b", _weekday),
        (rf"\b(?P<weekday>{weekdays})\s(?P<last>{_LAST_AFTER})\b", _weekday),
        (r"(?P<weekday>[月火水木金土日])曜日?", _weekday),
        (r"(?:(?:星期|礼拜)(?P<weekday>[一二三四五六日]))|(?P<other>[월화수목금토일])요일", _weekday),
        (r"\bhier\b", _hier),
    )
    return tuple((re.compile(form), reading) for form, reading in forms)


def _ranges(text: str, folded: str, now: datetime) -> Iterator[tuple[tuple[int, int], AskedRange]]:
    taken: list[tuple[int, int]] = []
    for pattern, reading in _patterns():
        for match in pattern.finditer(folded):
            begin, end = match.span()
            if any(begin < other_end and end > other for other, other_end in taken):
                continue
            if _is_verb(match, text):
                continue
            try:
                read = reading(match, now)
            except (ValueError, OverflowError):
                # 31 June, or a year before the first.
                continue
            if read is not None:
                taken.append((begin, end))
                yield (begin, end), AskedRange(start=read[0], end=read[1])


def _is_verb(match: re.Match[str], text: str) -> bool:
    """Return whether "may 5" or "12 march" is written small, without a year: it may be no month."""
    groups = match.groupdict()
    month = groups.get("month")
    if month not in _VERBS or groups.get("y") or groups.get("last"):
        return False
    return month.title() not in text and month.upper() not in text


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _unit_before(unit: _Unit, number: int, now: datetime) -> tuple[datetime, datetime]:
    """Return the whole day, week, month or year so many before the present one."""
    day = _midnight(now)
    if unit == "day":
        start = day - number * _DAY
        return start, start + _DAY
    if unit == "week":
        start = day - (day.weekday() + 7 * number) * _DAY
        return start, start + 7 * _DAY
    if unit == "month":
        return _month(day, day.year * 12 + day.month - 1 - number)
    return _year(day, day.year - number)


def _month(day: datetime, number: int) -> tuple[datetime, datetime]:
    start = day.replace(year=number // 12, month=number % 12 + 1, day=1)
    return start, (start + 31 * _DAY).replace(day=1)


def _year(day: datetime, year: int) -> tuple[datetime, datetime]:
    return day.replace(year=year, month=1, day=1), day.replace(year=year + 1, month=1, day=1)


def _dated(match: re.Match[str], now: datetime) -> tuple[datetime, datetime] | None:
    groups, today = match.groupdict(), _midnight(now)
    name = groups.get("month") or (groups.get("named") or "").rpartition(" ")[2].rpartition("'")[2]
    month = _MONTH_OF[name] + 1 if name else int(groups["m"]) if groups.get("m") else None
    day, year = groups.get("d"), groups.get("y")
    if month is None:
        return _year(today, int(year)) if year else None
    if not 1 <= month <= 12:  # noqa: PLR2004  # months of a year
        return None
    is_past = groups.get("last") is not None
    # 29 February is in every fourth year, or eighth.
    for each in [int(year)] if year else range(today.year, today.year - 9, -1):
        try:
            start = today.replace(year=each, month=month, day=int(day or 1))
        except ValueError:
            continue
        end = start + _DAY if day else _month(start, each * 12 + month - 1)[1]
        if year or (end <= now if is_past else start <= now):
            return start, end
    return None


def _days_before(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    return _unit_before("day", _DAYS_BEFORE[match[0]], now)


def _hier(match: re.Match[str], now: datetime) -> tuple[datetime, datetime] | None:
    return _unit_before("day", 1, now) if _FRENCH.search(match.string) else None


def _units_before(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    return _unit_before(*_UNITS_BEFORE[match[0]], now)


def _number(match: re.Match[str]) -> int:
    return _NUMBERS.get(match["n"]) or int(match["n"])


def _unit(match: re.Match[str]) -> _Unit:
    return _UNITS.get(match["unit"]) or _CJK_UNITS[match["unit"]]


def _ago(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    return _unit_before(_unit(match), _number(match), now)


def _rolling(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    """Read "the last three weeks", which end now."""
    unit, number, tomorrow = _unit(match), _number(match), _midnight(now) + _DAY
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit] * number
    return _midnight(now) - days * _DAY, tomorrow


def _calendar(match: re.Match[str], now: datetime) -> tuple[datetime, datetime] | None:
    unit = _unit(match)
    # "The last day" is seldom yesterday.
    return None if unit == "day" else _unit_before(unit, int("last" in match.groupdict()), now)


def _weekend(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    """Read a weekend: the last that has begun, or that was over before this week."""
    week, _ = _unit_before("week", 0, now)
    saturday = week + 5 * _DAY
    if match.groupdict().get("last") or saturday > now:
        saturday -= 7 * _DAY
    return saturday, saturday + 2 * _DAY


def _weekday(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    groups = match.groupdict()
    name = groups.get("weekday") or groups["other"]
    wanted = _WEEKDAY_OF[name] if name in _WEEKDAY_OF else _CJK_WEEKDAYS[name]
    since = (now.weekday() - wanted) % 7
    return _unit_before("day", since or 7 * ("last" in groups), now)
