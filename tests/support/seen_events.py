"""Which events a test logs, whatever the levels of its loggers; and for each event the test that must log it."""

import functools
import json
import logging
import os
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from memcore.telemetry.events import Event
from support.repository import ROOT

#: For each event the test that sees it: its node id. Null where none does yet.
SEEN_FILE = ROOT / "tests" / "fixtures" / "events_seen.json"

#: Names a file to which every test process appends the events that each test logs: to fill SEEN_FILE.
RECORD = "MEMTEND_TEST_EVENTS"

#: Fields in the message of a logger whose process writes no extra fields: ``queue=%s``.
_IN_MESSAGE = re.compile(r"(\w+)=%")


def seen() -> dict[str, str | None]:
    """Return the test that sees each event, by the event's name."""
    found: dict[str, str | None] = json.loads(SEEN_FILE.read_text(encoding="utf-8"))
    return found


class LoggedEvents:
    """The events that were logged in this process since ``start``."""

    def __init__(self, wanted: Mapping[str, str | None]) -> None:
        self.events: set[Event] = set()
        self.wrong: set[str] = set()
        self._wanted: dict[str, list[str]] = {}
        for event, test in wanted.items():
            if test is not None:
                self._wanted.setdefault(test, []).append(event)

    def install(self) -> None:
        """Listen to every logger's calls: a handler would hear only what the levels of the moment let through."""
        for name in ("debug", "info", "warning", "error"):
            setattr(logging.Logger, name, self._heard(getattr(logging.Logger, name)))

    def start(self) -> None:
        """Forget what was logged before."""
        self.events.clear()
        self.wrong.clear()

    def check(self, test: str) -> None:
        """Fail if a test did not log an event that it is there to see, or logged a field that no event of it has."""
        if record := os.environ.get(RECORD):
            with pathlib.Path(record).open("a", encoding="utf-8") as file:
                file.writelines(f"{event}\t{test}\n" for event in sorted(self.events))
        missing = [event for event in self._wanted.get(test, ()) if event not in self.events]
        assert not missing, f"{SEEN_FILE.name} says that this test sees {missing}, and it logged {sorted(self.events)}"
        assert not self.wrong, f"memcore/telemetry/events.py does not name these fields: {sorted(self.wrong)}"

    def _heard(self, method: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(method)
        def call(logger: logging.Logger, message: object, *values: Any, **options: Any) -> None:
            event = message if isinstance(message, Event) else values[0] if values else None
            if isinstance(event, Event):
                self.events.add(event)
                fields = {*(options.get("extra") or ()), *_IN_MESSAGE.findall(str(message))}
                if "*" not in event.fields:
                    self.wrong |= {f"{event}: {field}" for field in fields.difference(event.fields)}
            options["stacklevel"] = options.get("stacklevel", 1) + 1
            method(logger, message, *values, **options)

        return call
