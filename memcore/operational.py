"""Which errors mean that something outside of memtend is wrong, and the one sentence that an operator reads of each.

All other errors are defects of ours: they keep their traceback, which the person who mends them needs.
"""

import sys

from memcore.errors import (
    MemoryConfigError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.extras import extra_of
from memcore.models.base import escaped

#: Exit code for input or configuration that breaks a limit; nothing was written.
EXIT_INPUT = 2

#: Exit code for everything else that went wrong.
EXIT_FAILED = 1

#: Errors of libraries, by module and class: nothing is imported for them, for who has not imported one cannot raise it.
_ROOTS = (
    ("kombu.exceptions", "OperationalError", "the broker does not answer"),
    ("amqp.exceptions", "AMQPError", "the broker does not answer"),
    ("redis.exceptions", "RedisError", "the broker does not answer"),
    ("sqlalchemy.exc", "DBAPIError", "the database refused"),
    ("sqlite3", "Error", "the database refused"),
)


def sentence_of(error: BaseException) -> str | None:
    """Return one sentence for an error that an operator can mend, None for one that is a defect."""
    if isinstance(error, MemoryError):
        return _first_line(error)
    if isinstance(error, ModuleNotFoundError):
        missing = extra_of(error)
        return None if missing is None else str(missing)
    for module, name, what in _ROOTS:
        root = getattr(sys.modules.get(module), name, None)
        if root is not None and isinstance(error, root):
            # SQLAlchemy's own text quotes the statement.
            return f"{what}: {_first_line(getattr(error, 'orig', None) or error)}"
    if isinstance(error, OSError):
        reason = error.strerror or _first_line(error) or type(error).__name__
        return f"{error.filename}: {reason}" if error.filename is not None else reason
    return None


def report_error(error: Exception, *, prefix: str = "") -> int:
    """Write the sentence of an error to standard error and return the exit code; raise a defect again."""
    sentence = sentence_of(error)
    if sentence is None:
        raise error
    # It may quote a name that somebody else chose.
    sys.stderr.write(f"{prefix}{escaped(sentence)}\n")
    return EXIT_INPUT if isinstance(error, (MemoryInputError, MemoryConfigError, ImportError)) else EXIT_FAILED


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
