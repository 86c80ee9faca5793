"""Feasts: the days on which each falls, counted from Easter Sunday or on one date every year."""

from datetime import datetime, timedelta

#: First day and number of days, counted from Easter Sunday.
_FROM_EASTER = {
    "easter monday": (1, 1),
    "easter": (-2, 4),
    "good friday": (-2, 1),
    "maundy thursday": (-3, 1),
    "palm sunday": (-7, 1),
    "holy week": (-7, 8),
    "ash wednesday": (-46, 1),
    "shrove tuesday": (-47, 1),
    "shrove monday": (-48, 1),
    "carnival": (-52, 6),
    "ascension": (39, 1),
    "whitsun": (49, 2),
    "corpus christi": (60, 1),
}

#: Month, first day and number of days.
_ON_DATE = {
    "epiphany": (1, 6, 1),
    "valentine": (2, 14, 1),
    "assumption": (8, 15, 1),
    "halloween": (10, 31, 1),
    "all saints": (11, 1, 1),
    "st nicholas": (12, 6, 1),
    "advent": (12, 1, 23),
    "christmas eve": (12, 24, 1),
    "christmas": (12, 24, 3),
    "between the years": (12, 27, 4),
    "new year": (12, 31, 2),
}

#: By the names that the tables of words use; one whose name begins with another's is before it.
FEASTS = (*_FROM_EASTER, *_ON_DATE)


def feast(name: str, day: datetime, year: int) -> tuple[datetime, datetime]:
    """Return when a feast begins and ends in a year, in the zone of ``day``, a midnight."""
    if name in _FROM_EASTER:
        first, days = _FROM_EASTER[name]
        start = _easter_sunday(day, year) + timedelta(days=first)
    else:
        month, first, days = _ON_DATE[name]
        start = day.replace(year=year, month=month, day=first)
    return start, start + timedelta(days=days)


def _easter_sunday(day: datetime, year: int) -> datetime:
    """Compute it by the anonymous Gregorian algorithm (Meeus, Astronomical Algorithms)."""
    golden, century, rest = year % 19, year // 100, year % 100
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    number = epact + weekday - 7 * ((golden + 11 * epact + 22 * weekday) // 451) + 114
    return day.replace(year=year, month=number // 31, day=number % 31 + 1)
