"""Logs: an event's name and its fields, as text for people or as JSON lines for machines; never a memory's text."""

import json
import logging
import sys
from datetime import UTC, datetime

from memcore.config.settings import Settings
from memcore.models.base import escaped

#: Attributes of every log record; any other is a field passed as ``extra``.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "data"}


class FieldsFormatter(logging.Formatter):
    """Write ``time level event key=value ...``, or the same as one JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line; a traceback follows as text, or as a field of the JSON object."""
        fields = {key: value for key, value in vars(record).items() if key not in _OWN}
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        trace = self.formatException(record.exc_info) if record.exc_info else None
        if self._as_json:
            line = {"at": at, "level": record.levelname.lower(), "event": record.getMessage(), **fields}
            return json.dumps(line | ({"trace": trace} if trace else {}), default=str)
        reported = "".join(f" {key}={escaped(str(value))}" for key, value in fields.items())
        return f"{at} {record.levelname.lower()} {record.getMessage()}{reported}" + (f"\n{trace}" if trace else "")


def set_up_logs(settings: Settings | None = None) -> None:
    """Send all logs of this process to standard error in the form that its settings name, without settings as text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FieldsFormatter(as_json=settings is not None and settings.log_format == "json"))
    logging.basicConfig(level="INFO" if settings is None else settings.log_level, handlers=[handler], force=True)
    # They log every request to the store and to models: a thousand lines for a thousand memories.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # It logs each job twice: received and succeeded.
    logging.getLogger("celery").setLevel(logging.WARNING)
    # At DEBUG it logs whole messages, and memories are in them.
    logging.getLogger("mcp").setLevel(logging.INFO)
    # It names each of its plug-ins when it is imported, which is at its first use.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
