"""``memtend import`` and ``memtend export``: memories as JSON lines, in through the queue, out from the store."""

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.progress import Progress

from memcore.client.envelopes import ImportRecord
from memcore.clock import utc_now
from memcore.errors import MemoryInputError
from memcore.models.base import escaped_json
from memcore.records import MemoryRecord, Where
from ops.cli.session import Command, Commands, JsonCommand, await_stored

if TYPE_CHECKING:
    from memcore.backends.factory import WorkerBackend

app = Commands()

#: When what it says holds, where that is known.
_VALIDITY = ("valid_from", "valid_until")

#: What a line says of where a memory was made, if anything.
_SCOPE = ("session_id", "project_id", "task_id")

#: Lines sent before their jobs are awaited; bounds what an import keeps in memory.
LINES_PER_ROUND = 2_048


@app.command("import")
def import_memories(
    command: JsonCommand, file: Annotated[Path, typer.Argument(help="JSON lines; - reads standard input.")]
) -> None:
    """Store every line of a JSONL file through the queue; all lines are checked before the first is sent."""
    records = list(parse(_lines(file), now=utc_now()))
    sent, ids = 0, set[str]()
    is_silent = command.as_json or not sys.stderr.isatty()
    with command.client() as client, Progress(disable=is_silent) as progress:
        bar = progress.add_task("importing", total=len(records))
        for start in range(0, len(records), LINES_PER_ROUND):
            part = records[start : start + LINES_PER_ROUND]
            receipt = client.import_many(part)
            await_stored(client, receipt)
            ids.update(receipt.memory_ids)
            sent += len(part)
            progress.update(bar, completed=sent)
    command.show_facts({"lines": sent, "memories": len(ids)})


@app.command("export")
def export_memories(
    command: Command,
    file: Annotated[Path, typer.Argument(help="Where to write; - writes to standard output.")] = Path("-"),
    agent: Annotated[list[str] | None, typer.Option(help="Only these agents; may be given several times.")] = None,
) -> None:
    """Write memories as JSON lines that `memtend import` reads, oldest first, agent by agent."""
    agents = agent
    if not agents:
        with command.ledger() as ledger:
            agents = [each.agent_id for each in ledger.agents.list(command.company, limit=1_000_000)]
    from memcore.backends.protocol import pages  # noqa: PLC0415  # an import needs no backend

    async def write(backend: "WorkerBackend", target: IO[str]) -> None:
        for agent_id in agents:
            async for records in pages(backend, Where(agent_id=agent_id)):
                target.writelines(map(line, records))

    with command.backend() as (backend, runner):
        if str(file) == "-":
            runner.run(write(backend, sys.stdout))
            return
        draft = file.with_name(f".{file.name}.part")
        with draft.open("w", encoding="utf-8") as target:
            runner.run(write(backend, target))
        draft.replace(file)


def parse(lines: Iterable[bytes], *, now: datetime) -> Iterator[ImportRecord]:
    """Yield each line's record, dated now where it has no date. Raises MemoryInputError, naming line and field."""
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            yield ImportRecord.model_validate_json(text).dated(now)
        except ValidationError as error:
            raise MemoryInputError.of(error, prefix=f"line {number}") from None
        except MemoryInputError as error:
            raise MemoryInputError(f"line {number}.{error.field}", error.problem) from None


def line(record: MemoryRecord) -> str:
    """Return a memory as one line of an import file."""
    entry = record.entry
    fields = {
        "agent_id": entry.agent_id,
        "category": str(entry.category),
        "namespace": entry.namespace,
        "content": entry.content,
        "metadata": entry.metadata.model_dump(mode="json"),
        "expires_at": entry.expires_at.isoformat() if entry.expires_at else None,
        "created_at": entry.created_at.isoformat(),
        **{name: at.isoformat() for name in _VALIDITY if (at := getattr(entry, name)) is not None},
        **({"supersedes": list(record.supersedes)} if record.supersedes else {}),
        **{name: found for name in _SCOPE if (found := getattr(record.lineage, name)) is not None},
    }
    return escaped_json(json.dumps(fields, ensure_ascii=False)) + "\n"


def _lines(file: Path) -> list[bytes]:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise MemoryInputError("file", f"cannot be read ({error.strerror or type(error).__name__})") from None
    # Not splitlines: a text may hold other characters that end a line, such as U+2028, and JSON leaves them alone.
    return content.split(b"\n")
