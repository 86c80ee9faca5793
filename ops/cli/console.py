"""Output of all commands, tables or with ``--json`` JSON, and the runner of the doctor's health checks.

Commands print only through this file, and draw bars through ``progress.py``: texts, ids and names come from others, and
must not act on a terminal.
"""

import json
import os
import select
import signal
import socket
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
from pydantic import BaseModel

from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryConnectionError, MemoryInputError
from memcore.models.base import escaped, escaped_json
from memcore.operational import sentence_of

if TYPE_CHECKING:
    # `memtend up` runs for months, and draws nothing: what draws takes 3 MiB.
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

#: The option that every reading command takes.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

#: Invisible characters that a text may contain (they lay out lines), and a line's width where there is no terminal.
KEPT = "\n\t"
PLAIN_WIDTH = 200


#: Columns that a person copies into the next command, as are all whose names end with ``_id``; others are broken first.
_IDS = frozenset({"agent", "run", "company", "id", "name", "pattern", "stands"})

#: Columns between two cells of a table.
_GAP = 2

#: Bytes of what was typed that are read at once.
_TYPED_BYTES = 1_024


def read_text(file: Path) -> str:
    """Return the text of a file that an argument names. Raises MemoryInputError when it cannot be read."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MemoryInputError("file", f"cannot be read ({type(error).__name__})") from None


def say(sentence: str) -> None:
    """Print a sentence for people."""
    sys.stdout.write(f"{escaped(sentence, keep=KEPT)}\n")
    sys.stdout.flush()


def warn(sentence: str) -> None:
    """Print a sentence for people to standard error."""
    sys.stderr.write(f"{escaped(sentence, keep=KEPT)}\n")
    sys.stderr.flush()


def plain(text: str, style: str = "") -> "Text":
    """Return a text for rich, without control characters and markup."""
    from rich.text import Text  # noqa: PLC0415  # see above

    return Text(escaped(text, keep=KEPT), style=style)


def draw(*parts: "Text | Table | Tree", soft_wrap: bool = False, least_width: int = 0) -> None:
    """Print what is made of ``plain`` texts; lines of 200 characters where the output is no terminal."""
    from rich.console import Console  # noqa: PLC0415  # see above

    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    console = Console(width=width, markup=False, highlight=False, soft_wrap=soft_wrap)
    # A terminal breaks a longer line, and what a person copies stays whole.
    console.width = max(console.width, least_width)
    for part in parts:
        console.print(part)


@contextmanager
def screen() -> Iterator[Callable[..., None]]:
    """Yield what draws parts over the whole terminal, in place of those before; after the block it is as it was.

    SIGTERM ends the block as Ctrl-C does.
    """
    from rich.console import Console, Group  # noqa: PLC0415  # see above
    from rich.live import Live  # noqa: PLC0415  # see above

    console = Console(markup=False, highlight=False)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield lambda *parts: live.update(Group(*parts), refresh=True)
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def waiting_for_key(key: str) -> Iterator[Callable[[float], bool]]:
    """Yield what waits so many seconds and says whether a key was pressed meanwhile; where no one types, it waits."""
    if not sys.stdin.isatty():
        nothing = threading.Event()
        yield nothing.wait
        return
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)

    def is_pressed(seconds: float) -> bool:
        if not select.select([file], [], [], seconds)[0]:
            return False
        typed = os.read(file, _TYPED_BYTES)
        # Nothing at all: the terminal is gone.
        return not typed or key.encode() in typed.lower()

    try:
        tty.setcbreak(file)
        yield is_pressed
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def show_json(value: Any) -> None:
    """Print a value as JSON; models and times in their JSON form."""
    sys.stdout.write(escaped_json(json.dumps(value, default=_json, ensure_ascii=False, indent=2)) + "\n")


def show_rows(rows: Iterable[Mapping[str, Any] | BaseModel], *, columns: Sequence[str], as_json: bool) -> None:
    """Print rows: all their fields as JSON, or these columns as a table."""
    from rich.table import Table  # noqa: PLC0415  # see above

    rows = list(rows)
    if as_json:
        show_json(rows)
        return
    cells = [[cell(dict(row).get(column)) for column in columns] for row in rows]
    table, least = Table(box=None, pad_edge=False, header_style="bold"), 0
    for number, column in enumerate(columns):
        is_id = column in _IDS or column.endswith("_id")
        table.add_column(column, no_wrap=is_id)
        widest = max((len(row[number]) for row in cells), default=0)
        least += max(len(column), widest if is_id else 0) + _GAP
    for row in cells:
        table.add_row(*map(plain, row))
    draw(table, least_width=least)


#: The least number that three decimals show well enough.
_LEAST_SHOWN = 0.01


def cell(value: Any) -> str:
    """Return a value as one line: a line break in a name must not look like another fact."""
    return escaped(_shown(value))


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return " ".join(f"{key}={_shown(each)}" for key, each in value.items()) or "-"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(_shown, value)) or "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    # A learning rate of 5e-05 is not 0.000.
    return f"{value:.3f}" if not value or abs(value) >= _LEAST_SHOWN else f"{value:.2g}"


def _json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)


#: The groups of findings, in the order in which they are shown.
Group = Literal[
    "parts",
    "files",
    "broker",
    "queues",
    "workers",
    "store",
    "ledger",
    "maintenance",
    "models",
    "limits",
    "advice",
    "look",
]

#: How long a server may take to accept a connection or to answer, in seconds: on a quiet machine the whole command
#: takes less than three, also when everything is down.
ANSWER_SECONDS = 1.0

#: Timeout of a check, in seconds; only a server that accepts and then hangs reaches it.
LIMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """A finding of the doctor: whether it is well, what was seen, and what to do if not."""

    check: str
    ok: bool
    seen: str
    mend: str = ""
    group: Group = "look"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """One health check of the doctor: its name when it fails as a whole, and the group of findings that name none.

    It needs these findings to be well; otherwise it would only repeat their failure.
    """

    name: str
    group: Group
    take: Callable[[Settings], Iterable[CheckResult]]
    needs: tuple[str, ...] = ()


def take_all(
    health_checks: Sequence[HealthCheck], settings: Settings, *, limit_seconds: float = LIMIT_SECONDS
) -> list[CheckResult]:
    """Run all checks at once and return their findings in order; a check that fails becomes a finding."""
    found: dict[str, Future[list[CheckResult]]] = {health_check.name: Future() for health_check in health_checks}

    def take(health_check: HealthCheck) -> None:
        # A need is the name of a check.
        needed = ((need, each) for need in health_check.needs for each in found[need].result())
        wrong = next((need for need, each in needed if each.check == need and not each.ok), None)
        if wrong is None:
            results = safely(health_check, settings)
        else:
            results = [_failed(health_check, f"not looked at, for {wrong} is not well", "")]
        results = [replace(each, group=health_check.group) if each.group == "look" else each for each in results]
        found[health_check.name].set_result(results)

    for health_check in health_checks:
        # Daemons: a check that hangs must not keep the process alive.
        threading.Thread(target=take, args=(health_check,), name=health_check.name, daemon=True).start()
    deadline = monotonic() + limit_seconds
    findings: list[CheckResult] = []
    for health_check in health_checks:
        try:
            findings += found[health_check.name].result(max(0.0, deadline - monotonic()))
        except FutureTimeoutError:
            seen = f"no answer within {limit_seconds:g} s"
            findings.append(_failed(health_check, seen, "it hangs: see its log, then start it again"))
    return findings


def require_answer(url: str) -> None:
    """Raise MemoryConnectionError unless an http or https server accepts a connection within a second."""
    parts = urlsplit(url)
    require_listener(parts.hostname or "127.0.0.1", parts.port or (443 if parts.scheme == "https" else 80))


def require_listener(host: str, port: int) -> None:
    """Raise MemoryConnectionError unless something accepts a connection there within a second."""
    try:
        socket.create_connection((host, port), ANSWER_SECONDS).close()
    except OSError as error:
        raise MemoryConnectionError(f"{host}:{port} does not answer ({error})") from error


def safely(health_check: HealthCheck, settings: Settings) -> list[CheckResult]:
    """Run one check; an error becomes one finding in one sentence."""
    try:
        return list(health_check.take(settings))
    except Exception as error:  # noqa: BLE001  # a doctor that crashes says nothing about the rest
        sentence = sentence_of(error)
        if sentence is None:
            line = str(error).partition("\n")[0]
            return [_failed(health_check, f"{type(error).__name__}: {line}", "a defect of memtend: please report it")]
        is_written = isinstance(error, (MemoryConfigError, ImportError))
        repair = "change policy.yaml or the settings" if is_written else "is it running? see `memtend status`"
        return [_failed(health_check, sentence, repair)]


def _failed(health_check: HealthCheck, seen: str, repair: str) -> CheckResult:
    return CheckResult(check=health_check.name, ok=False, seen=seen, mend=repair, group=health_check.group)
