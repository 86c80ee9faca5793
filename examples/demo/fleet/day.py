"""Time in the data set: everything is told in days before today, so that the story is eight months long on any date."""

from datetime import datetime, timedelta

#: Date words a text may use, with their strftime form; the C locale's English is meant.
FORMS = {"day": "%-d %B", "month": "%B", "weekday": "%A", "iso": "%Y-%m-%d", "clock": "%H:%M"}


def midnight(now: datetime) -> datetime:
    """Return the start of the day of ``now``: the fixed point, so that a memory keeps its hour at any time of day."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def moment(today: datetime, days_ago: float) -> datetime:
    """Return the instant that lies some days before today's start, to the second."""
    return (today - timedelta(days=days_ago)).replace(microsecond=0)


def spoken(form: str, at: datetime) -> str:
    """Return an instant as a date word says it."""
    return at.strftime(FORMS[form])
