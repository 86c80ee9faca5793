import json
import logging
import sys

import pytest

from workers.logs import FieldsFormatter


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"msg": message, "levelno": logging.INFO, "levelname": "INFO", "created": 0.25, **extra}
    )
    made.name = "memtend.test"
    return made


def test_a_line_for_people_has_the_event_and_its_fields() -> None:
    line = FieldsFormatter(as_json=False).format(record("job.done", job="store", stored=3))
    assert line == "1970-01-01T00:00:00.250+00:00 info job.done job=store stored=3"


def test_a_name_that_acts_on_a_terminal_is_logged_as_its_escape() -> None:
    line = FieldsFormatter(as_json=False).format(record("job.done", agent="a\x1b[2J\nb"))
    assert line.endswith(r" agent=a\x1b[2J\nb")


def test_a_line_for_machines_is_one_json_object() -> None:
    line = FieldsFormatter(as_json=True).format(record("job.done", job="store\n", stored=3, odd={1, 2} - {2}))
    assert "\n" not in line
    assert json.loads(line) == {
        "at": "1970-01-01T00:00:00.250+00:00",
        "level": "info",
        "event": "job.done",
        "job": "store\n",
        "stored": 3,
        "odd": "{1}",
    }


@pytest.mark.parametrize("as_json", [True, False])
def test_what_celery_adds_about_a_jobs_arguments_stays_out(as_json: bool) -> None:
    line = FieldsFormatter(as_json=as_json).format(record("Task raised", data={"args": ["a memory's text"]}))
    assert "memory" not in line


def test_a_traceback_is_a_field_of_the_json_object() -> None:
    try:
        raise ValueError("odd")  # noqa: TRY301  # the test needs a real traceback
    except ValueError:
        made = record("job.failed", exc_info=sys.exc_info())
    line = json.loads(FieldsFormatter(as_json=True).format(made))
    assert line["trace"].endswith("ValueError: odd")
    assert FieldsFormatter(as_json=False).format(made).endswith("ValueError: odd")
