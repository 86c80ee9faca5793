"""Ranges of days: whole units of the calendar, what is so many of them ago, and parts of a longer time."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

Hemisphere = Literal["north", "south"]

Range = tuple[datetime, datetime]

DAY, INSTANT = timedelta(days=1), timedelta(microseconds=1)

#: The beginning of a longer time than this, as of a year, is two months; of a shorter one a third.
_LONG, _TWO_MONTHS = 200 * DAY, 1 / 6

#: Days of a unit, more or less.
UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}


@dataclass(frozen=True, slots=True)
class Moment:
    """When a question is asked, in the zone of the asker, and on which half of the globe."""

    now: datetime
    hemisphere: Hemisphere = "north"

    @property
    def day(self) -> datetime:
        """The midnight that began its day."""
        return self.now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def unit_before(unit: str, number: int, at: Moment) -> Range:
    """Return the whole day, week, month, quarter or year so many before the present one."""
    day = at.day
    if unit == "day":
        start = day - number * DAY
        return start, start + DAY
    if unit == "week":
        start = day - (day.weekday() + 7 * number) * DAY
        return start, start + 7 * DAY
    if unit == "month":
        return months_from(day, day.year * 12 + day.month - 1 - number)
    if unit == "quarter":
        return months_from(day, (day.year * 12 + day.month - 1) // 3 * 3 - 3 * number, 3)
    return months_from(day, (day.year - number) * 12, 12)


def months_from(day: datetime, first: int, count: int = 1) -> Range:
    """Return so many months from the one with this number, counted from year 0."""
    start, end = (day.replace(year=number // 12, month=number % 12 + 1, day=1) for number in (first, first + count))
    return start, end


def latest(ranges: Iterable[Range], at: Moment, *, is_over: bool = False) -> Range | None:
    """Return the first of ranges, the latest first, that has begun, or that is over."""
    return next((each for each in ranges if (each[1] if is_over else each[0]) <= at.now), None)


def so_long_ago(unit: str, least: int, most: int, at: Moment) -> Range:
    """Return the days that are so many units ago, with half a unit before and behind, for so people count."""
    half = UNIT_DAYS[unit] // 2 * DAY
    return _day_before(unit, most, at) - half, _day_before(unit, least, at) + half + DAY


def _day_before(unit: str, number: int, at: Moment) -> datetime:
    """Return the day that is so many units ago; of 31 March, a month ago was the end of February."""
    start, end = unit_before(unit, number, at)
    if unit in {"day", "week"}:
        return at.day - number * (end - start)
    first, after = months_from(at.day, at.day.year * 12 + at.day.month - 1 - number * round((end - start) / DAY / 30))
    return min(first + (at.day.day - 1) * DAY, after - DAY)


def middle_day(start: datetime, end: datetime) -> Range:
    """Return the day in the middle of a time."""
    day = start + (end - start - DAY) // (2 * DAY) * DAY
    return day, day + DAY


def day_like(day: datetime, start: datetime, end: datetime) -> Range:
    """Return the day of a week, a month or a year that has the place of ``day`` in its own; other times are whole."""
    days = (end - start) // DAY
    if days == 7:  # noqa: PLR2004  # of a week
        return start + day.weekday() * DAY, start + (day.weekday() + 1) * DAY
    is_month, is_year = 28 <= days <= 31, 365 <= days <= 366  # noqa: PLR2004
    if not is_month and not is_year:
        return start, end
    first, after = months_from(start, start.year * 12 + (start if is_month else day).month - 1)
    # Of 31 March it is 30 June.
    found = min(first + (day.day - 1) * DAY, after - DAY)
    return found, found + DAY


def around(start: datetime, end: datetime) -> Range:
    """Return a time with half as much before it and behind it, a day at least and half a month at most."""
    wider = min(max(1, (end - start) // (2 * DAY)), 15) * DAY
    return start - wider, end + wider


def half_of(place: int, start: datetime, end: datetime) -> Range:
    """Return the first half of a time, or the other."""
    return split(start, end, 0, 1 / 2) if place == 0 else split(start, end, 1 / 2, 1)


def week_of(place: int, start: datetime, end: datetime) -> Range:
    """Return the week from the first, eighth, ... day of a time on, or the last seven days."""
    first = end - 7 * DAY if place < 0 else start + 7 * place * DAY
    return first, first + 7 * DAY


def third_of(place: int, start: datetime, end: datetime) -> Range:
    """Return the first, middle or last third of a time; of a year two months."""
    share = 1 / 3 if end - start <= _LONG else _TWO_MONTHS
    first = place * (1 - share) / 2
    return split(start, end, first, first + share)


def split(start: datetime, end: datetime, first: float, last: float) -> Range:
    """Return the days of a time from one share of it to another."""
    days = (end - start) / DAY
    return start + int(first * days) * DAY, start + round(last * days) * DAY
