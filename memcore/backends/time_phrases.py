"""Single phrases of time, such as "last week", "on Tuesday", "Q2" and "this summer", each with what reads it.

A reading takes the time of the question. Given an earlier one, it reads the phrase as of then: "June" as of the end of
last year is June of last year. So memcore.backends.when puts phrases together.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache, partial

from memcore.backends.feasts import BARE_FEASTS, FEASTS, NOT_BARE, feast
from memcore.backends.time_ranges import (
    DAY,
    INSTANT,
    UNIT_DAYS,
    Moment,
    Range,
    around,
    half_of,
    latest,
    middle_day,
    months_from,
    so_long_ago,
    third_of,
    unit_before,
    week_of,
)
from memcore.embedding import time_words as words
from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.languages import language_of
from memcore.embedding.time_words import LANGUAGES

#: Days of "recently" and of "the other day".
_RECENT_DAYS, _OTHER_DAYS = 30, 14

#: So many are "a couple", and "a few".
_COUPLE, _FEW = (2, 3), (2, 5)

#: What memories of a time gain of their own score, where words say that it is past and where they only name it.
PAST_GAIN, _NAMED_GAIN = 2.0, 1.0

#: Hours at which each of the parts_of_day begins and ends.
_HOURS = ((4, 12), (12, 18), (17, 24), (18, 30))

#: Month in which each season begins in the north, from spring on; each has three.
_SEASON_STARTS, _MONTHS_OF_SEASON = (3, 6, 9, 12), 3

_UNITS = ("day", "week", "month", "quarter", "year")

#: ``within`` of parts of a day, which may have 25 hours, and of days of a month, a week, a year.
PART_OF_DAY, PART_OF_MONTH = timedelta(hours=26), 32 * DAY
_IN_WEEK, _IN_YEAR = 8 * DAY, 367 * DAY

#: Parts of the day that German joins to a weekday.
_GERMAN_PARTS = "abend|morgen|nachmittag|vormittag|nacht"


Reading = Callable[[re.Match[str], Moment], Range | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A pattern of phrases, and what reads a match.

    Attributes:
        is_weak: the words may say something else; they are a time beside another word of time only.
        within: longest time of which such a phrase may name a part, as "evening" does of a day; 0 for none.
        is_day: it names a date, of which the first day of a range may be left out: "3 to 20 September".
        is_past: it says itself that the time is over, or has begun: "yesterday", "last week".
    """

    pattern: re.Pattern[str]
    reading: Reading
    is_weak: bool = False
    within: timedelta = timedelta()
    is_day: bool = False
    is_past: bool = False

    @property
    def is_counted_back(self) -> bool:
        """Whether it has the day in its middle that is so long ago: "two weeks ago"."""
        return self.reading in {_ago, _half_years_ago, _fortnight_ago}

    @property
    def is_vague(self) -> bool:
        """Whether it is a hint and no time: what happened "recently" may be any time ago where little happens."""
        return self.reading is _recently

    @property
    def is_calendar(self) -> bool:
        """Whether it names a date."""
        return self.reading in {_dated, _day_of_month}

    @property
    def is_name(self) -> bool:
        """Whether it names what comes again: a weekday, a season, a feast."""
        return self.reading in {_weekday, _season, _feast}

    def span(self, match: re.Match[str]) -> tuple[int, int]:
        """Return where a match begins and ends; a date begins with its first number or name, not with "del" or "am"."""
        if not self.is_calendar:
            return match.span()
        begins = [match.start(name) for name in ("d", "m", "month", "y") if match.groupdict().get(name)]
        return min(begins, default=match.start()), match.end()

    def gain(self, match: re.Match[str]) -> float:
        """Return what a memory of the time gains, as a multiple of its own score.

        "On Friday" may ask for a habit or for what is to come; of a date with its year is often told later.
        """
        said = match.groupdict()
        if self.is_vague:
            return 0.0
        if (self.is_past and match[0] not in _TODAY) or said.get("last") or said.get("before"):
            return PAST_GAIN
        return 0.0 if said.get("y") else _NAMED_GAIN


def any_of(alternatives: Iterable[str]) -> str:
    """Return an expression for any of these plain words, the longest first."""
    return "|".join(sorted(map(re.escape, alternatives), key=len, reverse=True))


def of_all(name: str) -> str:
    """Return an expression for what any language has under a name of its table."""
    return "|".join(filter(None, dict.fromkeys(getattr(language, name) for language in LANGUAGES)))


def weekday_of(word: str) -> int:
    """Return the place of a weekday, Monday being 0."""
    return _WEEKDAY_OF[word]


def _placed(name: str) -> list[str]:
    """Return an expression for each place of a tuple that every language has, as the seasons."""
    return ["|".join(filter(None, places)) for places in zip(*(getattr(each, name) for each in LANGUAGES), strict=True)]


def _named(lines: Iterable[str]) -> dict[str, int]:
    return {name: number for line in lines for number, name in enumerate(line.split())}


_MONTH_OF = _named([*(each.months for each in LANGUAGES), words.SHORT_MONTHS]) | {"sept": 8, "setiembre": 8}
# "Des Oktobers"; "mais" is a French word.
_MONTH_OF |= {f"{name}s": n for name, n in _MONTH_OF.items() if name.endswith("r")}
_WEEKDAY_OF = _named(row for each in LANGUAGES for row in each.weekdays)
_WEEKDAY_OF |= {day: number for days in words.CJK_WEEKDAYS for number, day in enumerate(days)}
_UNIT_OF = {
    word: unit for each in LANGUAGES for unit, row in zip(_UNITS, each.units, strict=True)
    for word in row.replace(";", " ").split()
}  # fmt: skip
_SINGULARS = {word for each in LANGUAGES for row in each.units for word in row.partition(";")[0].split()}

#: "Week" in every language, of which one is the first of a month.
WEEK_WORDS = tuple(word for word, unit in _UNIT_OF.items() if unit == "week" and word in _SINGULARS)

_NUMBERS = {word: n + 1 for word, n in _named(row for each in LANGUAGES for row in each.numbers).items()}
_NUMBERS |= {word: n + 1 for word, n in _named([words.CJK_NUMBERS]).items()}
_SCORES = {word: n for each in LANGUAGES for word, n in each.scores.items()}
DAYS_BEFORE = {word: n for each in LANGUAGES for word, n in each.days_before.items()}
_TODAY = {word for word, number in (DAYS_BEFORE | words.CJK_DAYS).items() if not number}
_THIS_PART = {word: n for each in LANGUAGES for word, n in each.this_part.items()}

#: A number below 100 in Chinese signs.
_CJK_NUMBER = "[二三]?十?[一二三四五六七八九]|[二三]?十"

#: Expressions for the units of which the first and the last of a longer time are spoken, and for weekdays.
SHORT_UNITS = any_of(word for word, unit in _UNIT_OF.items() if unit in {"day", "week", "month"})
WEEKDAYS = any_of(each for each in _WEEKDAY_OF if len(each) > 1)

_SEASONS = _placed("seasons")
_FEASTS = [*FEASTS.values()]
_PARTS = _placed("parts_of_day")
_ORDINALS = _placed("ordinals")


def span_words() -> str:
    """Return an expression for "two weeks", "Sunday" or "weekend", as in "the week before 3 May"; see days_of."""
    number = (
        rf"(?:(?P<n>\d{{1,3}}|{any_of(each for each in _NUMBERS if each.isalpha())})\s)?(?P<unit>{any_of(_UNIT_OF)})"
    )
    return rf"(?:{number}|{WEEKDAYS}|{of_all('weekend')})"


def number_words() -> str:
    """Return an expression for a number that is said of units: "3", "three", "a few", "une dizaine de"."""
    return "|".join([r"\d{1,3}", of_all("couple"), of_all("few"), any_of([*_SCORES, *_NUMBERS])])


def counted(units: str) -> str:
    """Return an expression for so many of some units: "three weeks", "about two months", "two or three days"."""
    # "Vor einer guten Woche" says it behind the number.
    about = rf"(?P<about>{of_all('about')})(?:\s|(?<=['\u2019]))"
    exactly, joins = rf"(?P<exactly>{of_all('exactly')})\s", rf"\s?(?:{of_all('joins')}|[-\u2013,])\s?"
    number = rf"(?P<n>{number_words()})(?:{joins}(?P<most>{number_words()}))?"
    return rf"(?:{about}|{exactly})?{number}\s(?:{about.replace('about', 'nearly', 1)})?(?P<unit>{units})"


def days_of(match: re.Match[str]) -> timedelta:
    """Return the days that ``span_words`` says; a weekday or weekend is within a week."""
    said = match["n"]
    number = 1 if said is None else _NUMBERS.get(said) or int(said)
    return (number * UNIT_DAYS[_UNIT_OF[match["unit"]]] if match["unit"] else 7) * DAY


def ordinals() -> str:
    """Return an expression for "first" to "fourth" and "last"; ``nth_of`` reads a match."""
    return rf"{_any_place('nth', _ORDINALS)}|(?P<nth_last>{of_all('last_of')})"


def nth_of(match: re.Match[str]) -> int:
    """Return the place that an ordinal names, from 0 on, -1 for the last."""
    return -1 if match["nth_last"] else _placed_in(match, "nth")


def _form(pattern: str, reading: Reading, *, weak: bool = False, within: timedelta = timedelta()) -> Form:
    return Form(
        pattern=re.compile(pattern),
        reading=reading,
        is_weak=weak,
        within=within,
        is_day=reading is _dated and "?P<d>" in pattern,
        is_past=reading in _PAST,
    )


def _dates() -> Iterator[Form]:
    """Yield the forms of days, months and years that stand in a calendar: "3 May", "in May", "2026-05-03"."""
    months, year = any_of(_MONTH_OF), r"(?P<y>(?:19|20)\d\d)"
    in_month = "|".join(rf"(?:{each.in_month})\s?(?:{any_of(each.months.split())})(?:(?<=r)s)?" for each in LANGUAGES)
    of, beside = r"(?:(?:of|de|del|di)\s)?", rf"(?:,?\s(?:(?:of|de|del|di)\s)?{year}\b)?"
    days_after = rf"(?:(?P<d>\d{{1,2}}|{_CJK_NUMBER})\s?[日号號일])?"
    yield _form(rf"\b{year}[-/](?P<m>\d\d)[-/](?P<d>\d\d)\b", _dated)
    yield _form(rf"\b(?P<d>\d{{1,2}})\.\s?(?P<m>\d{{1,2}})\.\s?{year}\b", _dated)
    german = r"(?:am|vom|bis|seit|zum|den)\s(?P<d>\d{1,2})\."
    yield _form(rf"\b{german}\s?(?P<m>\d{{1,2}})\.(?!\d)", _dated, within=_IN_YEAR)
    yield _form(rf"(?:{year}\s?[年년]\s?)(?:(?P<m>\d{{1,2}})\s?[月월]\s?{days_after})?", _dated)
    yield _form(rf"(?P<m>\d{{1,2}}|{_CJK_NUMBER})\s?[月월]\s?{days_after}", _dated, within=_IN_YEAR)
    ordinal = r"(?:st|nd|rd|th|er|º|°|\.)?"
    yield _form(rf"\b(?P<d>\d{{1,2}}){ordinal}\s{of}(?P<month>{months})\b{beside}", _dated, within=_IN_YEAR)
    yield _form(
        rf"\b(?P<month>{months})\s(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?![:.]\d){beside}", _dated, within=_IN_YEAR
    )
    yield _form(rf"\b(?P<month>{months})\s{of}{year}\b", _dated)
    yield _form(rf"\b(?P<named>{in_month})\b(?!-)", _dated, within=_IN_YEAR)
    yield _form(rf"\b(?:(?P<last>{of_all('last')})|{of_all('this')})\s(?P<month>{months})\b", _dated)
    yield _form(rf"\b(?P<month>{months})\b", _dated, weak=True, within=_IN_YEAR)
    yield _form(rf"\b(?:in|im jahre?|en|em|nel) {year}\b(?![.,]?\d)", _dated)
    yield _form(rf"\b{year}\b(?![.,/-]?\d)", _dated, weak=True)
    whole = rf"(?:(?P<month>{months})|(?P<unit>{words.GERMAN_WHOLES}))"
    yield _form(rf"\b(?:{ordinals()})\s{whole}(?:{words.GERMAN_NTHS})\b", _joined_nth, within=_IN_YEAR)
    yield _form(rf"\b{whole}(?:{_any_place('third', words.GERMAN_THIRDS)})\b", _joined_third, within=_IN_YEAR)
    ends = r"(?=\s?(?:[?.,;!)]|$))"
    for each in (r"on the (?P<d>\d{1,2})(?:st|nd|rd|th)", r"el día (?P<d>\d{1,2})", german):
        yield _form(rf"\b{each}{ends}", _day_of_month, within=PART_OF_MONTH)
    the_day = rf"\b(?:{of_all('the_day')})\s(?P<d>\d{{1,2}}){ordinal}(?![\w:]|[.,]\d)"
    yield _form(the_day, _day_of_month, weak=True, within=PART_OF_MONTH)
    yield _form(r"(?<!\d)(?P<d>\d{1,2})[日号號일]", _day_of_month, weak=True, within=PART_OF_MONTH)


def _counted() -> Iterator[Form]:
    """Yield the forms that count from the day of the question: "yesterday", "last week", "a few days ago"."""
    units, last, last_after, this = any_of(_UNIT_OF), of_all("last"), of_all("last_after"), of_all("this")
    before_last, before_last_after = of_all("before_last"), of_all("before_last_after")
    number, some = number_words(), counted(units)
    # Before "a year ago", which is in one of them.
    half_years = [rf"\b(?:{said})\b|{words.CJK_HALF_YEARS_AGO[n]}" for n, said in words.HALF_YEARS_AGO.items()]
    yield _form(_any_place("halves", half_years), _half_years_ago)
    yield _form(rf"{any_of(words.CJK_DAYS)}|\b(?:{any_of(DAYS_BEFORE)})\b", _days_before)
    yield _form(r"\bhier\b", _hier)
    yield _form(any_of(words.CJK_UNITS_BEFORE), _units_before)
    cjk_number = rf"(?P<n>\d{{1,3}}|{'|'.join(words.CJK_NUMBERS.split())}|{words.CJK_FEW})"
    yield _form(rf"{cjk_number}\s?(?P<unit>{any_of(words.CJK_UNITS)})\s?[前전]", _ago)
    yield _form(rf"\b{some}\s(?:{of_all('ago_after')})\b", _ago)
    yield _form(rf"\b(?:{of_all('ago_before')})\s{some}\b", _ago)
    yield _form(rf"\b(?:{last}|{of_all('since_number')}|past)\s{some}\b", _rolling)
    yield _form(rf"\b(?P<n>{number})\s(?:{last})\s(?P<unit>{units})\b", _rolling)
    yield _form(rf"\b(?:past|recent)\s(?P<unit>{units})\b", _rolling)
    yield _form(rf"\b(?:{last}|past)\s(?:{words.HALF_YEAR})\b", _half_year)
    yield _form(rf"(?:ここ|最近|この|这){cjk_number}(?P<unit>{any_of(words.CJK_UNITS)})", _rolling)
    some = rf"(?P<n>{number})\s(?:{of_all('hours')})"
    ago = rf"\b{some}\s(?:{of_all('ago_after')})\b", rf"\b(?:{of_all('ago_before')})\s{some}\b"
    for each in (*ago, rf"{cjk_number}\s?(?:{words.CJK_HOURS})\s?[前전]"):
        yield _form(each, _hours_ago)
    some = rf"(?:(?P<n>{number})\s)?(?:{of_all('hours')})"
    yield _form(rf"\b(?:{last}|{of_all('since_number')}|past)\s{some}\b", _last_hours)
    yield _form(rf"\b(?:a|one) {words.FORTNIGHT} (?:{of_all('ago_after')})\b", _fortnight_ago)
    yield _form(rf"\b(?:an?|one|the last|the past) {words.FORTNIGHT}\b", _fortnight)
    # Of some programmes the weeks are counted as well, of which "of" is said.
    week = rf"(?:{words.CALENDAR_WEEK}|{any_of(word for word, unit in _UNIT_OF.items() if unit == 'week')})"
    yield _form(rf"\b{week}\s?(?P<n>\d{{1,2}})\b(?! (?:of|des|der|de|du)\b)", _week_of_year)
    yield _form(r"第(?P<n>\d{1,2})[週周]", _week_of_year)
    for named, reading in ((rf"(?P<unit>{units})", _calendar), (rf"(?:{of_all('weekend')})", _weekend)):
        yield _form(rf"\b(?P<before>{before_last})\s{named}\b", reading)
        yield _form(rf"\b{named}\s(?:(?P<before>{before_last_after})|(?P<last>{last_after}))\b", reading)
        yield _form(rf"\b(?:(?P<last>{last})|{this})(?:\s|(?<=['\u2019])){named}\b", reading)
    yield _form(rf"\b(?:{of_all('the_unit')})\s?(?P<unit>{units})\b", _the_unit, weak=True)
    yield _form(rf"\b(?:{of_all('on_weekend')})\s(?:{of_all('weekend')})\b", _weekend)
    yield _form(rf"\b(?:{of_all('weekend')})\b", _weekend, weak=True, within=_IN_WEEK)
    yield _form(rf"(?P<last>{words.CJK_LAST}|先|上)?(?:{words.CJK_WEEKEND})", _weekend)
    yield _form(rf"\b(?:{of_all('recently')})\b|{words.CJK_RECENTLY}", _recently)
    yield _form(rf"\b(?:{of_all('other_day')})\b|{words.CJK_OTHER_DAY}", _other_day)


def _names() -> Iterator[Form]:
    """Yield the forms of what comes again: weekdays, parts of the day, quarters, seasons, feasts."""
    last, last_after, this = of_all("last"), of_all("last_after"), of_all("this")
    # "Dienstagabend" is one word.
    weekday = rf"(?P<weekday>{WEEKDAYS})(?:\b|(?={_GERMAN_PARTS}))"
    yield _form(rf"\b(?:{this}|{of_all('on_day')})\s{weekday}(?!\s(?:{last_after})\b)", _weekday, within=_IN_WEEK)
    yield _form(rf"\b(?:(?P<last>{last})|(?P<before>{of_all('before_last')}))\s{weekday}", _weekday)
    behind = rf"(?:(?P<last>{last_after})|(?P<before>{of_all('before_last_after')}))"
    yield _form(rf"\b{weekday}\s{behind}\b", _weekday)
    season = _any_place("season", _SEASONS)
    again = rf"(?:(?P<weekday>{WEEKDAYS})|{season}|{of_all('weekend')})(?:e?s|e?n)?"
    some = rf"(?P<n>{number_words()})\s{again}"
    yield _form(rf"\b{some}\s(?:{of_all('ago_after')})\b", _times_ago)
    yield _form(rf"\b(?:{of_all('ago_before')})\s{some}\b", _times_ago)
    yield _form(rf"\b(?P<before>{of_all('before_last')})\s(?:{season})\b", _times_ago)
    yield _form(rf"\b(?:{season})\s(?P<before>{of_all('before_last_after')})\b", _times_ago)
    yield _form(rf"\b{weekday}", _weekday, weak=True, within=_IN_WEEK)
    yield _form(r"(?P<weekday>[月火水木金土日])曜日?", _weekday, within=_IN_WEEK)
    yield _form(
        r"(?:星期|礼拜)(?P<weekday>[一二三四五六日])|(?P<other>[월화수목금토일])요일", _weekday, within=_IN_WEEK
    )
    quarters = any_of(word for word, unit in _UNIT_OF.items() if unit == "quarter")
    yield _form(r"\bq(?P<n>[1-4])\b|第(?P<other>[1-4一二三四])(?:四半期|季度)", _quarter, within=_IN_YEAR)
    yield _form(rf"(?<!\w)(?:{ordinals()})\s(?:{quarters})\b", _quarter, within=_IN_YEAR)
    feasts, part = _any_place("feast", _FEASTS), _any_place("part", _PARTS)
    named = rf"{this}|(?P<last>{last})"
    yield _form(rf"\b(?:{of_all('in_season')}|{named})\s?(?:{season})\b", _season, within=_IN_YEAR)
    yield _form(rf"\b(?:{season})\s(?P<last>{last_after})\b", _season, within=_IN_YEAR)
    yield _form(rf"\b(?:{season})\b", _season, weak=True, within=_IN_YEAR)
    season = _any_place("season", words.CJK_SEASONS)
    yield _form(rf"(?:{words.CJK_THIS}|(?P<last>{words.CJK_LAST}))\s?(?:{season})", _season, within=_IN_YEAR)
    yield _form(rf"(?:{season})(?=に|は|の|以|から|まで|$)", _season, weak=True, within=_IN_YEAR)
    article = r"(?:(?:the|la|der|den|dem)\s|l['\u2019])?"
    yield _form(rf"\b(?:{of_all('at_feast')}|{named})\s{article}(?:{feasts})\b", _feast, within=_IN_YEAR)
    bare = "|".join(rf"(?P<feast{[*FEASTS].index(name)}>{word})" for name, word in BARE_FEASTS.items())
    yield _form(rf"{''.join(rf'(?<!{word} )' for word in NOT_BARE)}\b(?:{bare})\b", _feast, within=_IN_YEAR)
    yield _form(rf"\b(?:{feasts})\b", _feast, weak=True, within=_IN_YEAR)
    yield _form(rf"\b(?:{of_all('night_before')})\b", _overnight_before)
    yield _form(rf"\b(?:{of_all('last_night')})\b|{words.CJK_LAST_NIGHT}", _overnight)
    yield _form(rf"\b(?:{this})\s?(?:{part})\b", _part_of_day)
    yield _form(rf"(?:\b|(?<=tag|och))(?:{part})\b", _part_of_day, weak=True, within=PART_OF_DAY)
    yield _form(_any_place("part", words.CJK_PARTS_OF_DAY), _part_of_day, weak=True, within=PART_OF_DAY)
    yield _form(rf"(?P<phrase>\b(?:{any_of(_THIS_PART)})\b|{any_of(words.CJK_THIS_PART)})", _part_of_day)


def _any_place(name: str, places: Sequence[str]) -> str:
    """Return an expression for any of these; ``_placed_in`` reads which it was."""
    return "|".join(rf"(?P<{name}{place}>{each})" for place, each in enumerate(places))


@cache
def forms() -> tuple[Form, ...]:
    """Return every form; of two that match the same words the first counts."""
    return (*_dates(), *_counted(), *_names())


#: Letters of a word by which may_name_time knows it.
_LETTERS = 4

_WORD, _OTHER_SIGN = re.compile(r"[^\W\d_]+"), re.compile("[0-9\u2e80-\uffff]")


def may_name_time(folded: str) -> bool:
    """Return whether a text may have a phrase of time: a quick look, for most have none."""
    if _OTHER_SIGN.search(folded):
        return True
    return not _beginnings().isdisjoint(word[:_LETTERS] for word in _WORD.findall(folded))


@cache
def _beginnings() -> frozenset[str]:
    """Return how the words begin one of which is in every phrase without a number: the longest of each."""
    phrases = [*_MONTH_OF, *_WEEKDAY_OF, *_UNIT_OF, *DAYS_BEFORE, *_THIS_PART, "hier", *_SEASONS, *_FEASTS, *_PARTS]
    phrases += map(of_all, ("weekend", "hours", "recently", "other_day", "last_night"))
    phrases += [words.FORTNIGHT, words.CALENDAR_WEEK]
    parts = (part for phrase in phrases for part in phrase.split("|"))
    return frozenset(max(_WORD.findall(part), key=len)[:_LETTERS] for part in parts if _WORD.search(part))


def idle_words(question: str) -> frozenset[str]:
    """Return the words of a question that speak of time only, whether or not it could be read: they are no subject."""
    return _said_of(question, "no_subject", "units")


def event_words(question: str) -> frozenset[str]:
    """Return the words of a question that ask for whatever was at a time: "what happened", "what came up"."""
    return _said_of(question, "no_event")


def _said_of(question: str, *names: str) -> frozenset[str]:
    said = Tokenizer.words(question)
    return _words_of(language_of(said) or "english", names).intersection(said)


@cache
def _words_of(language: str, names: tuple[str, ...]) -> frozenset[str]:
    rows = (getattr(words.BY_LANGUAGE[language], name) for name in names)
    return frozenset(Tokenizer.words(" ".join(row if isinstance(row, str) else " ".join(row) for row in rows)))


def is_verb(match: re.Match[str], text: str) -> bool:
    """Return whether "may 5" or "12 march" is written small, without a year: it may be no month."""
    groups = match.groupdict()
    month = groups.get("month")
    if month not in words.VERBS or groups.get("y") or groups.get("last"):
        return False
    return month.title() not in text and month.upper() not in text


def _value(said: str) -> int:
    """Return a number below 100 in digits or in Chinese signs, as "三十一"."""
    if said.isdecimal():
        return int(said)
    tens, ten, ones = said.rpartition("十")
    return (_NUMBERS.get(tens, 1) if ten else 0) * 10 + _NUMBERS.get(ones, 0)


def _dated(match: re.Match[str], at: Moment) -> Range | None:
    groups, today = match.groupdict(), at.day
    name = (
        groups.get("month") or (groups.get("named") or "").rpartition(" ")[2].rpartition("'")[2].rpartition("\u2019")[2]
    )
    month = _MONTH_OF[name] + 1 if name else _value(groups["m"]) if groups.get("m") else None
    day, year = groups.get("d"), groups.get("y")
    if month is None:
        return months_from(today, int(year) * 12, 12) if year else None
    if not 1 <= month <= 12:  # noqa: PLR2004  # months of a year
        return None

    def each_year() -> Iterator[Range]:
        # 29 February is in every fourth year, or eighth.
        for each in [int(year)] if year else range(today.year, today.year - 9, -1):
            try:
                start = today.replace(year=each, month=month, day=_value(day or "1"))
            except ValueError:
                continue
            yield (start, start + DAY) if day else months_from(start, each * 12 + month - 1)

    return next(each_year(), None) if year else latest(each_year(), at, is_over=groups.get("last") is not None)


def _joined(match: re.Match[str], at: Moment, part: Callable[[datetime, datetime], Range]) -> Range | None:
    """Read what is one word with its whole: "Oktoberhälfte", "Monatsende"; the latest that has begun."""
    if match["month"]:
        whole = _dated(match, at)
        return None if whole is None else part(*whole)
    return latest((part(*unit_before(_UNIT_OF[match["unit"]], number, at)) for number in (0, 1)), at)


def _joined_nth(match: re.Match[str], at: Moment) -> Range | None:
    return _joined(match, at, partial(week_of if match["week"] else half_of, nth_of(match)))


def _joined_third(match: re.Match[str], at: Moment) -> Range | None:
    return _joined(match, at, partial(third_of, _placed_in(match, "third")))


def _day_of_month(match: re.Match[str], at: Moment) -> Range | None:
    """Read "the 3rd", the latest that has begun."""

    def each_month() -> Iterator[Range]:
        for number in range(at.day.year * 12 + at.day.month - 1, at.day.year * 12 + at.day.month - 14, -1):
            start, end = months_from(at.day, number)
            day = start + (int(match["d"]) - 1) * DAY
            if start <= day < end:
                yield day, day + DAY

    return latest(each_month(), at)


def _days_before(match: re.Match[str], at: Moment) -> Range:
    return unit_before("day", (DAYS_BEFORE | words.CJK_DAYS)[match[0]], at)


def _hier(match: re.Match[str], at: Moment) -> Range | None:
    return unit_before("day", 1, at) if re.search(words.FRENCH_BESIDE, match.string) else None


def _units_before(match: re.Match[str], at: Moment) -> Range:
    unit, number = words.CJK_UNITS_BEFORE[match[0]]
    return unit_before(unit, number, at)


@cache
def _is_couple(word: str) -> bool:
    return re.fullmatch(of_all("couple"), word) is not None


def _numeral(said: str | None) -> int | None:
    """Return the number that a word is, if it is one."""
    if said is None:
        return None
    return int(said) if said.isdecimal() else (_NUMBERS | _SCORES).get(said)


def _number(match: re.Match[str]) -> tuple[int, int]:
    """Return how many a phrase says, at least and at most."""
    groups = match.groupdict()
    said = groups.get("n")
    if (number := _numeral(said)) is not None:
        return number, max(number, _numeral(groups.get("most")) or 0)
    return _COUPLE if said is not None and _is_couple(said) else _FEW


def _unit(match: re.Match[str]) -> str:
    return _UNIT_OF.get(match["unit"]) or words.CJK_UNITS[match["unit"]]


def _ago(match: re.Match[str], at: Moment) -> Range:
    (least, most), groups = _number(match), match.groupdict()
    start, end = so_long_ago(_unit(match), least, most, at)
    if groups.get("exactly"):
        return middle_day(start, end)
    is_about = groups.get("about") or groups.get("nearly") or groups.get("n") in _SCORES
    return around(start, end) if is_about else (start, end)


def _rolling(match: re.Match[str], at: Moment) -> Range:
    """Read "the last three weeks", which end now; "the past week" is one, "recent weeks" are a few."""
    return at.day - days_in(match), at.day + DAY


def _half_year(_: re.Match[str], at: Moment) -> Range:
    return at.day - UNIT_DAYS["year"] // 2 * DAY, at.day + DAY


def days_in(match: re.Match[str]) -> timedelta:
    """Return the days of "three weeks", of "week" and, as a few, of "weeks"."""
    number = 1 if match.groupdict().get("n") is None and match["unit"] in _SINGULARS else _number(match)[1]
    return UNIT_DAYS[_unit(match)] * number * DAY


def _calendar(match: re.Match[str], at: Moment) -> Range | None:
    unit, groups = _unit(match), match.groupdict()
    is_last = groups.get("last") is not None
    if is_last and match["unit"] not in _SINGULARS:
        return _rolling(match, at)
    # "The last day" is seldom yesterday.
    return None if unit == "day" else unit_before(unit, 2 if groups.get("before") else int(is_last), at)


def _the_unit(match: re.Match[str], at: Moment) -> Range | None:
    # "Fin de semana" is a weekend.
    weekends = re.finditer(of_all("weekend"), match.string)
    return None if match.end() in {each.end() for each in weekends} else _calendar(match, at)


def _hours_ago(match: re.Match[str], at: Moment) -> Range:
    least, most = _number(match)
    return at.now - timedelta(hours=most + 1), at.now - timedelta(hours=least - 1)


def _last_hours(match: re.Match[str], at: Moment) -> Range:
    return at.now - timedelta(hours=_number(match)[1] if match["n"] else 1), at.day + DAY


def _half_years_ago(match: re.Match[str], at: Moment) -> Range:
    quarters = (2, 6)[_placed_in(match, "halves")]
    return so_long_ago("quarter", quarters, quarters, at)


def _fortnight(_: re.Match[str], at: Moment) -> Range:
    return at.day - 14 * DAY, at.day + DAY


def _fortnight_ago(_: re.Match[str], at: Moment) -> Range:
    return so_long_ago("week", 2, 2, at)


def _week_of_year(match: re.Match[str], at: Moment) -> Range | None:
    """Read a week by its number (ISO 8601), the latest that has begun."""
    days = (date.fromisocalendar(year, int(match["n"]), 1) for year in range(at.now.year, at.now.year - 2, -1))
    starts = (at.day.replace(year=day.year, month=day.month, day=day.day) for day in days)
    return latest(((start, start + 7 * DAY) for start in starts), at)


def _times_ago(match: re.Match[str], at: Moment) -> Range | None:
    """Read "three Fridays ago" and "the summer before last", of which the present one, if any, is none."""
    groups = match.groupdict()
    reading: Reading = _weekday if groups.get("weekday") else _weekend
    if any(said and key.startswith("season") for key, said in groups.items()):
        reading = _season
    found = None
    for _ in range(2 if groups.get("before") else _number(match)[0]):
        found = reading(match, at)
        if found is not None and found[1] > at.now:
            found = reading(match, Moment(found[0] - INSTANT, at.hemisphere))
        if found is None:
            return None
        at = Moment(found[0] - INSTANT, at.hemisphere)
    return found


def _weekend(match: re.Match[str], at: Moment) -> Range:
    """Read a weekend: the last that has begun, or that was over before this week, or the one before that."""
    week, _ = unit_before("week", 0, at)
    saturday, groups = week + 5 * DAY, match.groupdict()
    if groups.get("last") or groups.get("before") or saturday > at.now:
        saturday -= 7 * DAY
    if groups.get("before"):
        saturday -= 7 * DAY
    return saturday, saturday + 2 * DAY


def _weekday(match: re.Match[str], at: Moment) -> Range:
    groups = match.groupdict()
    since = (at.now.weekday() - _WEEKDAY_OF[groups.get("weekday") or groups["other"]]) % 7
    # Of yesterday's weekday nobody says "last".
    if groups.get("last") and since <= 1:
        since += 7
    return unit_before("day", since + 7 if groups.get("before") else since, at)


def _placed_in(match: re.Match[str], name: str) -> int:
    """Return the place of the alternative that matched."""
    return next(int(key[len(name) :]) for key, said in match.groupdict().items() if said and key.startswith(name))


def _quarter(match: re.Match[str], at: Moment) -> Range | None:
    groups = match.groupdict()
    said = groups.get("n") or groups.get("other")
    place = nth_of(match) % 4 if said is None else (_NUMBERS.get(said) or int(said)) - 1
    years = range(at.now.year, at.now.year - 2, -1)
    return latest((months_from(at.day, year * 12 + 3 * place, 3) for year in years), at)


def _season(match: re.Match[str], at: Moment) -> Range | None:
    first = _SEASON_STARTS[_placed_in(match, "season")] - 1 + (6 if at.hemisphere == "south" else 0)
    years = range(at.now.year, at.now.year - 3, -1)
    ranges = (months_from(at.day, year * 12 + first, _MONTHS_OF_SEASON) for year in years)
    return latest(ranges, at, is_over=match.groupdict().get("last") is not None)


def _feast(match: re.Match[str], at: Moment) -> Range | None:
    name = [*FEASTS][_placed_in(match, "feast")]
    ranges = (feast(name, at.day, year) for year in range(at.now.year + 1, at.now.year - 3, -1))
    return latest(ranges, at, is_over=match.groupdict().get("last") is not None)


def _part_of_day(match: re.Match[str], at: Moment) -> Range:
    said = match.groupdict().get("phrase")
    begin, end = _HOURS[_placed_in(match, "part") if said is None else (_THIS_PART | words.CJK_THIS_PART)[said]]
    return at.day + timedelta(hours=begin), at.day + timedelta(hours=end)


def _overnight(_: re.Match[str], at: Moment) -> Range:
    begin, end = _HOURS[-1]
    return at.day - DAY + timedelta(hours=begin), at.day - DAY + timedelta(hours=end)


def _overnight_before(match: re.Match[str], at: Moment) -> Range:
    return _overnight(match, Moment(at.now - DAY, at.hemisphere))


def _recently(_: re.Match[str], at: Moment) -> Range:
    return at.day - _RECENT_DAYS * DAY, at.day + DAY


def _other_day(_: re.Match[str], at: Moment) -> Range:
    return at.day - _OTHER_DAYS * DAY, at.day


#: Readings of what is over, or has begun.
_PAST = {
    _days_before, _units_before, _hier, _ago, _rolling, _overnight, _overnight_before, _recently, _other_day,
    _half_year, _hours_ago, _last_hours, _fortnight, _fortnight_ago, _half_years_ago, _times_ago,
}  # fmt: skip
