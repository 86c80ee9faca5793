"""docs/reference/events.md: every event that is logged, with its level, its fields and its meaning."""

import logging

from memcore.telemetry.events import Event
from reference.docstrings import member_sentences
from reference.page import Page, table


def reference() -> str:
    """Return the table of all events."""
    sentences = member_sentences(Event)
    rows = [
        (
            f"`{event.value}`",
            logging.getLevelName(event.level).lower(),
            ", ".join("counts" if field == "*" else f"`{field}`" for field in event.fields),
            sentences[event.name],
        )
        for event in sorted(Event)
    ]
    return table(("event", "level", "fields", "what has happened"), rows)


PAGE = Page(name="events.md", generate=reference)
