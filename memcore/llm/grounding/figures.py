"""Numbers, dates and times in texts of many languages, in a form that all ways to write one share."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from itertools import pairwise
from typing import TypeAlias

from memcore.embedding.bm25 import Tokenizer, fold
from memcore.embedding.languages import without_accents
from memcore.llm.grounding.words import (
    MONTHS,
    MULTIPLIERS,
    NO_MONTHS,
    NUMBER_WORDS,
    ORDINALS,
    RELATIVE,
    UNITS,
    WEEKDAYS,
    YEARLY,
)


class Fault(StrEnum):
    """Why a text is not kept, as runs and logs say it."""

    EMPTY = "no word at all"
    MARKUP = "markup or a call that no source has"
    REFUSAL = "a refusal"
    CHATTER = "a remark about the task"
    ECHO = "words of the instructions"
    DATE = "a date that no source has"
    NUMBER = "a number that no source has"
    UNIT = "a number with another unit than in the sources"
    IDENTIFIER = "an identifier that no source has"
    NAME = "a name that no source has"
    NEGATION = "a statement that the sources deny, or the other way round"
    WORDS = "too many words that no source has"


#: A date in figures: year first, or day and month in either order.
_ISO = re.compile(r"(?<![\d.])(\d{4})[-/.\u5e74](\d{1,2})(?:[-/.\u6708](\d{1,2})\u65e5?|\u6708)?(?![\d.]*\d)")
_NUMERIC = re.compile(r"(?<![\d./])(\d{1,2})[./](\d{1,2})[./](\d{4}|\d{2})(?![\d.]*\d)")
_MONTH_YEAR = re.compile(r"(?<![\d./])(\d{1,2})/(\d{4})(?!\d)")
_CJK_DAY = re.compile(r"(?<!\d)(\d{1,2})\u6708(?:(\d{1,2})[\u65e5\u53f7\u865f])?")
_CJK_FIGURE = re.compile("[一二三四五六七八九十]{1,3}(?=[月日号號])")
_NAMES = "|".join(sorted(map(re.escape, MONTHS), key=len, reverse=True))
_ORDINAL = r"(?:st|nd|rd|th|\.|er|o|e)?"
_DAY_MONTH = re.compile(
    rf"(?<![\d.,:])(\d{{1,2}}){_ORDINAL} (?:of |de |di |d')?({_NAMES})\b\.?(?:,? (?:de |del |di |of )?(\d{{4}}))?"
)
_MONTH_DAY = re.compile(rf"\b({_NAMES})\b\.? (\d{{1,2}})(?:st|nd|rd|th)?(?![\d:.]*\d)(?:,? (\d{{4}}))?")
_MONTH = re.compile(rf"\b({_NAMES})\b(?:,? (?:de |del |di |of )?(\d{{4}}))?")

#: Names of months that are other words too: alone they are no month.
_AMBIGUOUS = frozenset("may mar march mars mai sep jan dec set mag nov".split())  # noqa: SIM905

_CLOCK = re.compile(r"(?<![\d:.])(\d{1,2})(?::|h(?=\d\d))(\d{2})(?::\d{2})?(?![:\d])(?: ?(am|pm|a\.m\.|p\.m\.)(?!\w))?")
_HOUR = re.compile(r"(?<![\d:.,])(\d{1,2}) ?(am|pm|a\.m\.|p\.m\.|uhr|o'clock)(?!\w)")
_CJK_HOUR = re.compile("(\u5348\u5f8c|\u4e0b\u5348|\uc624\ud6c4)?(?<!\\d)(\\d{1,2})(?:\u65f6|\u6642|\u70b9|\u9ede)")

_NUMBER = re.compile(
    r"\d{1,3}(?:(?:,\d{3})+|(?:\.\d{3})+|(?:['\u00a0\u202f ]\d{3})+)(?![\d])(?:[.,]\d+)?|\d+(?:[.,]\d+)?(?:e[-+]?\d+)?"
)
_BEHIND = re.compile(r"\s?-?([%\u20ac$\u00a3\u4e07\u842c]|[^\W\d_]+(?: (?:cento|ciento|cent))?)")
_BEFORE = re.compile(r"([\u20ac$\u00a3])\s?$")

#: All that a number may mean, its unit, and, of a number word, the word behind it.
_Number: TypeAlias = tuple[frozenset[Decimal], str, str | None]

#: Year, month and day, 0 where it says none; hour and minute.
_Date: TypeAlias = tuple[int, int, int]
_Time: TypeAlias = tuple[int, int]

_YEAR_DIGITS, _MONTHS_IN_YEAR, _DAYS_IN_MONTH, _NOON, _HOURS, _DAYS_IN_WEEK = 4, 12, 31, 12, 24, 7


@dataclass(slots=True)
class Figures:
    """Numbers, dates and times of texts, each in a form that all ways to write it share."""

    numbers: dict[Decimal, set[str]] = field(default_factory=dict[Decimal, set[str]])
    days: set[_Time] = field(default_factory=set[_Time])
    months: set[int] = field(default_factory=set[int])
    years: set[int] = field(default_factory=set[int])
    weekdays: set[int] = field(default_factory=set[int])
    times: set[_Time] = field(default_factory=set[_Time])
    words: set[str] = field(default_factory=set[str])
    said_on: set[date] = field(default_factory=set[date])
    dated: set[date] = field(default_factory=set[date])
    is_relative: bool = False
    is_yearly: bool = False

    def read(self, folded: str, *, languages: Sequence[str]) -> None:
        """Take in a source."""
        said = _Said.of(folded, languages)
        bare = without_accents(folded)
        self.is_relative |= RELATIVE.search(bare) is not None
        self.is_yearly |= YEARLY.search(bare) is not None
        for forms, unit, _ in said.numbers:
            for value in forms:
                self.numbers.setdefault(value, set()).add(unit)
        for day in {each for dates in said.dates for each in dates}:
            self._read_date(day)
        for times in said.times:
            self.times |= times
            for hour, _ in (each for each in times if not each[1]):
                self.numbers.setdefault(Decimal(hour), set()).add("")
        for place, names in enumerate(ORDINALS, start=1):
            if names.search(folded):
                self.numbers.setdefault(Decimal(place), set()).add("")
        self.weekdays |= said.weekdays
        self.words |= {without_accents(word) for word in Tokenizer.words(folded)}

    def _read_date(self, said: _Date) -> None:
        year, month, day = said
        self.months.add(month)
        for number in filter(None, (year, day)):
            self.numbers.setdefault(Decimal(number), set()).add("")
        if day:
            self.days.add((month, day))
        if year:
            self.years.add(year)

    def lacks(self, plain: str, count: int, language: str | None, *, is_question: bool) -> Fault | None:
        """Return the fault of the first figure of a text that no source has."""
        said = _Said.of(fold(plain), (language or "english",))
        if not all(any(map(self._has_date, dates)) for dates in said.dates) or not said.weekdays <= self.weekdays:
            return Fault.DATE
        for times in said.times:
            if self.times.isdisjoint(times) and not any(
                not minute and Decimal(hour) in self.numbers for hour, minute in times
            ):
                return Fault.NUMBER
        for forms, unit, behind in said.numbers:
            known = [value for value in forms if value in self.numbers]
            if is_question and not known:
                known = [value for value in self.numbers if int(value) in forms]
            if not known:
                # "Two opinions": models count what the sources list.
                if behind is not None and max(forms) <= count and behind not in self.words:
                    continue
                return Fault.NUMBER
            units = set[str]().union(*(self.numbers[value] for value in known))
            if unit and units and "" not in units and unit not in units:
                return Fault.UNIT
        return None

    def _has_date(self, said: _Date) -> bool:
        year, month, day = said
        is_known = (month, day) in self.days if day else month in self.months
        if is_known and (not year or year in self.years or Decimal(year) in self.numbers):
            return True
        if any(year in {0, on.year} and month == on.month and day in {0, on.day} for on in self.dated):
            return True
        months = _NEAR_IN_YEARS if self.is_yearly else _NEAR_MONTHS
        return any(
            (self.is_relative and _is_near(said, on, months=months)) or self._is_on_weekday(said, on)
            for on in self.said_on
        )

    def _is_on_weekday(self, said: _Date, on: date) -> bool:
        """Whether "on Friday", said on a day, may mean a date."""
        if not (said[2] and self.weekdays):
            return False
        days = (on + timedelta(days) for days in range(-_DAYS_IN_WEEK, _DAYS_IN_WEEK + 1))
        return any(
            (day.month, day.day) == said[1:] and said[0] in {0, day.year} and day.weekday() in self.weekdays
            for day in days
        )


#: Days between the day on which something was said and a date that it may mean; months where it names no day, and
#: where a year or a season is spoken of.
_NEAR_DAYS, _NEAR_MONTHS, _NEAR_IN_YEARS = 62, 2, 13


def _is_near(said: _Date, on: date, *, months: int) -> bool:
    """Whether "last month" or "two weeks ago", said on a day, may mean a date."""
    year, month, day = said
    for each in (year,) if year else (on.year - 1, on.year, on.year + 1):
        if not day:
            if abs((each - on.year) * _MONTHS_IN_YEAR + month - on.month) <= months:
                return True
            continue
        with suppress(ValueError):
            if abs((date(each, month, day) - on).days) <= _NEAR_DAYS:
                return True
    return False


@dataclass(slots=True)
class _Said:
    """The figures of one text, each with all that it may mean.

    Attributes:
        numbers: the values, the unit, and, of a number word, the word behind it.
        dates: year, month and day, 0 where it says none.
        times: hour and minute.
    """

    numbers: list[_Number] = field(default_factory=list[_Number])
    dates: list[tuple[_Date, ...]] = field(default_factory=list[tuple[_Date, ...]])
    times: list[set[_Time]] = field(default_factory=list[set[_Time]])
    weekdays: set[int] = field(default_factory=set[int])

    @classmethod
    def of(cls, folded: str, languages: Sequence[str]) -> "_Said":
        """Read a text; its number words are those of the languages."""
        said = cls()
        text = _CJK_FIGURE.sub(lambda found: str(_cjk_value(found[0])), without_accents(folded))
        text = said._take_dates(text)
        text = said._take_times(text)
        said._take_numbers(text)
        said._take_words(text, languages)
        return said

    def _take_dates(self, text: str) -> str:
        def take(*dates: _Date) -> str:
            possible = tuple(
                date for date in dates if 1 <= date[1] <= _MONTHS_IN_YEAR and 0 <= date[2] <= _DAYS_IN_MONTH
            )
            if possible:
                self.dates.append(possible)
            return " " if possible else ""

        def iso(found: re.Match[str]) -> str:
            return take((int(found[1]), int(found[2]), int(found[3] or 0))) or found[0]

        def numeric(found: re.Match[str]) -> str:
            year = int(found[3]) if len(found[3]) == _YEAR_DIGITS else 2000 + int(found[3])
            one, other = int(found[1]), int(found[2])
            return take((year, other, one), (year, one, other)) or found[0]

        def month_alone(found: re.Match[str]) -> str:
            if (found[1] in _AMBIGUOUS or found[1] in NO_MONTHS) and not found[2]:
                return found[0]
            return take((int(found[2] or 0), MONTHS[found[1]], 0))

        text = _ISO.sub(iso, text)
        text = _NUMERIC.sub(numeric, text)
        text = _MONTH_YEAR.sub(lambda found: take((int(found[2]), int(found[1]), 0)) or found[0], text)
        text = _CJK_DAY.sub(lambda found: take((0, int(found[1]), int(found[2] or 0))) or found[0], text)
        text = _DAY_MONTH.sub(
            lambda found: take((int(found[3] or 0), MONTHS[found[2]], int(found[1]))) or found[0], text
        )
        text = _MONTH_DAY.sub(
            lambda found: take((int(found[3] or 0), MONTHS[found[1]], int(found[2]))) or found[0], text
        )
        return _MONTH.sub(month_alone, text)

    def _take_times(self, text: str) -> str:
        def take(hour: int, minute: int, half: str | None) -> str:
            if half and half[0] == "p" and hour < _NOON:
                self.times.append({(hour + _NOON, minute)})
            elif half and half[0] in "au":
                self.times.append({(hour % _NOON if half[0] == "a" else hour, minute)})
            else:
                self.times.append(
                    {(hour, minute), ((hour + _NOON) % _HOURS, minute)} if hour < _NOON else {(hour, minute)}
                )
            return " "

        text = _CLOCK.sub(lambda found: take(int(found[1]), int(found[2]), found[3]), text)
        text = _HOUR.sub(lambda found: take(int(found[1]), 0, found[2]), text)
        return _CJK_HOUR.sub(lambda found: take(int(found[2]), 0, "p" if found[1] else None), text)

    def _take_numbers(self, text: str) -> None:
        for found in _NUMBER.finditer(text):
            behind, before = (
                _BEHIND.match(text, found.end()),
                _BEFORE.search(text[max(0, found.start() - 2) : found.start()]),
            )
            word = behind[1] if behind else ""
            forms = _values(found[0])
            multiplier = MULTIPLIERS.get(word, 0)
            forms |= {value * multiplier for value in forms if multiplier}
            unit = UNITS.get(word, "") or (UNITS[before[1]] if before else "")
            if " " in found[0] and (parts := found[0].split()):
                # Two numbers side by side, or one in groups.
                forms |= {Decimal(parts[-1])} if all(map(str.isdigit, parts)) else frozenset()
            self.numbers.append((forms, unit, None))

    def _take_words(self, text: str, languages: Sequence[str]) -> None:
        words = re.findall(r"[^\W_]+", text)
        for word, behind in pairwise([*words, ""]):
            if word in WEEKDAYS or word.removesuffix("s") in WEEKDAYS:
                self.weekdays.add(WEEKDAYS.get(word, WEEKDAYS.get(word.removesuffix("s"), 0)))
            value = next((NUMBER_WORDS[each][word] for each in languages if word in NUMBER_WORDS.get(each, {})), 0)
            if value > 1 or (value and len(languages) > 1):
                self.numbers.append((frozenset({Decimal(value)}), UNITS.get(behind, ""), behind))


def _values(written: str) -> frozenset[Decimal]:
    """Return what a number may mean: "1.200" is one thousand two hundred, or one and a fifth."""
    bare = re.sub("['\u00a0\u202f ]", "", written)
    commas, dots = bare.count(","), bare.count(".")
    found = set[str]()
    if commas and dots:
        decimal = max(bare.rfind(","), bare.rfind("."))
        found.add(re.sub("[.,]", "", bare[:decimal]) + "." + bare[decimal + 1 :])
    else:
        is_grouped = re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+", bare) is not None
        if is_grouped:
            found.add(re.sub("[.,]", "", bare))
        if commas + dots <= 1:
            found.add(bare.replace(",", "."))
    values = set[Decimal]()
    for each in found:
        try:
            values.add(Decimal(each).normalize())
        except InvalidOperation:
            continue
    return frozenset(values) or frozenset({Decimal(-1)})


def _cjk_value(figure: str) -> int:
    digits = "\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d"
    tens, ten, ones = figure.rpartition("\u5341")
    value = 0 if not ten else 10 * (digits.find(tens[-1:]) + 1 if tens else 1)
    return value + (digits.find(ones[-1:]) + 1 if ones else 0)
