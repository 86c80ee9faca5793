"""``memtend import`` and ``memtend export``: memories as JSON lines, in through the queue, out from the store."""

import codecs
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import TypeAdapter, ValidationError

from memcore.client.client import MemoryClient
from memcore.client.envelopes import ImportRecord, portions
from memcore.client.results import JobState, StoreReceipt
from memcore.clock import utc_now
from memcore.errors import MemoryChannelError, MemoryInputError, MemoryStoreError
from memcore.importers.importing import Import
from memcore.importers.references import References
from memcore.models.base import escaped_json, naming_fields
from memcore.models.origin import UNKNOWN, Channel, Writer, writing_as
from memcore.records import MemoryRecord, Where
from ops.cli.console import warn
from ops.cli.progress import Bar, progress_bar
from ops.cli.session import STORE_SECONDS, Command, Commands, JsonCommand, await_stored

if TYPE_CHECKING:
    from memcore.backends.factory import WorkerBackend

app = Commands()

#: When what it says holds, where that is known.
_VALIDITY = ("valid_from", "valid_until")

#: What a line says of where a memory was made, if anything.
_SCOPE = ("session_id", "project_id", "task_id")

_CHANNEL: TypeAdapter[Channel] = TypeAdapter(Channel)

#: What a job counts as ids of memories to be superseded that name none, and an import adds up.
_UNKNOWN = "unknown_supersedes"

#: Lines sent before their jobs are awaited; bounds what an import keeps in memory.
LINES_PER_ROUND = 2_048


#: Bytes of text sent before their jobs are awaited, whatever the number of lines.
BYTES_PER_ROUND = 8 * 2**20


@app.command("import")
def import_memories(
    command: JsonCommand,
    file: Annotated[Path, typer.Argument(help="The file or folder; - reads memtend's own lines from standard input.")],
    source: Annotated[
        Literal["mem0", "langgraph", "letta", "zep", "jsonl"] | None,
        typer.Option("--from", help="The system that it comes from; what cannot be stored is left out and listed."),
    ] = None,
    agent: Annotated[str | None, typer.Option(help="With --from: the agent that gets all memories.")] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            help="The highest that a line may claim, and that of a line without origin: else any, and import."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --from: only show what would be stored.")] = False,
    refused: Annotated[
        Path | None, typer.Option(help="With --from: where to list what is refused; else FILE.refused.")
    ] = None,
) -> None:
    """Store memories through the queue. Without --from, all lines are checked before the first is sent."""
    with naming_fields(name="channel"):
        claimed = None if channel is None else _CHANNEL.validate_python(channel)
    writer = Writer(limit=claimed or Channel.PERSON, usual=claimed or Channel.IMPORT)
    if source is not None:
        _import_from(command, source, file, agent=agent, writer=writer, dry_run=dry_run, refused=refused)
        return
    for name, is_given in (("agent", agent is not None), ("dry_run", dry_run), ("refused", refused is not None)):
        if is_given:
            raise MemoryInputError(name, "needs --from; memtend's own lines are --from jsonl")
    _import_lines(command, file, writer=writer)


def _import_lines(command: JsonCommand, file: Path, *, writer: Writer) -> None:
    now = utc_now()
    records = list(parse(_lines(file), now=now, writer=writer))
    sent, ids, facts = 0, set[str](), Counter[str]()
    with (
        closing(References()) as references,
        command.client() as client,
        writing_as(writer),
        progress_bar("importing", total=len(records), is_silent=command.as_json) as bar,
    ):
        for part in _rounds(records, references):
            receipt = client.import_many(part)
            facts += await_stored(client, receipt)
            references.note(part, receipt.memory_ids)
            ids.update(receipt.memory_ids)
            sent += len(part)
            bar.show(done=sent)
    command.show_facts(
        {
            "lines": sent,
            "memories": len(ids),
            # Why there are fewer memories than lines, and fewer that are found.
            "duplicate_lines": sent - len(ids),
            "deleted_before": facts["buried"],
            "level_none": facts["skipped"],
            "expired_lines": sum(each.expires_at is not None and each.expires_at <= now for each in records),
            _UNKNOWN: facts[_UNKNOWN],
        }
    )


def _rounds(records: Iterable[ImportRecord], references: References) -> Iterator[list[ImportRecord]]:
    """Yield what is sent and stored together: first what replaces nothing, then what replaces any of that, and so on.

    Each round has to be noted before the next is taken.
    """
    yield from _portions(references.sendable(records))
    while (first := next(released := references.released(), None)) is not None:
        yield from _portions(chain([first], released))


def _portions(records: Iterable[ImportRecord]) -> Iterator[list[ImportRecord]]:
    return portions(records, size=_bytes, most=LINES_PER_ROUND, most_size=BYTES_PER_ROUND)


def _import_from(
    command: JsonCommand,
    source: str,
    file: Path,
    *,
    agent: str | None,
    writer: Writer,
    dry_run: bool,
    refused: Path | None,
) -> None:
    """Store what a file of another system holds, and say what became of every record; exit code 1 if not all is in."""
    if str(file) == "-":
        raise MemoryInputError("file", "must be a file or a folder; standard input is read without --from")
    listed = refused or file.with_name(f"{file.absolute().name}.refused")
    sent, unknown, given_up = 0, 0, dict[str, int]()
    with (
        closing(_Listing(listed)) as listing,
        closing(References()) as references,
        closing(
            Import(
                source=source,
                path=file,
                now=utc_now(),
                agent=agent,
                writer=writer,
                on_refused=listing,
                on_repeated=references.repeat,
            )
        ) as work,
        progress_bar("reading" if dry_run else "importing", total=None, is_silent=command.as_json) as bar,
    ):
        if dry_run:
            for number, _ in enumerate(work.records(), start=1):
                bar.show(what=f"reading, {number} records")
        else:
            with command.client() as client, writing_as(writer):
                for part in _rounds(work.records(), references):
                    receipt = client.import_many(part)
                    references.note(part, receipt.memory_ids)
                    unknown += _stored(client, receipt, given_up)
                    sent += len(part)
                    bar.show(what=f"importing, {sent} memories")
        report = work.report
    refusals = sum(report.refused.values())
    facts = report.model_dump() | {
        "sent": sent,
        "given_up": given_up,
        _UNKNOWN: unknown,
        "refused_list": str(listed) if refusals else None,
    }
    command.show_facts(facts if command.as_json else {name: value for name, value in facts.items() if value})
    if not report.read:
        warn(f"memtend: no record was found in {file}: is it one of {source}'s files?")
    if given_up:
        warn("memtend: workers gave some jobs up; they are kept: see `memtend dead list`")
    if refusals:
        warn(f"memtend: {refusals} of {report.read} records were refused: see {listed}")
    if refusals or given_up:
        raise typer.Exit(1)


def _bytes(record: ImportRecord) -> int:
    return len(record.content.encode())


def _stored(client: MemoryClient, receipt: StoreReceipt, given_up: dict[str, int]) -> int:
    """Wait for memories that were sent; count jobs that were given up, by their reason.

    Return how many ids of memories to be superseded named none.
    """
    unknown = 0
    try:
        for status in client.wait(receipt.job_ids, timeout_seconds=STORE_SECONDS):
            unknown += status.facts.get(_UNKNOWN, 0)
            if status.state in {JobState.DEAD, JobState.SKIPPED}:
                reason = status.reason or str(status.state)
                given_up[reason] = given_up.get(reason, 0) + 1
    except TimeoutError as error:
        raise MemoryStoreError(f"{error}; import the file again when they are: nothing is stored twice") from None
    return unknown


class _Listing:
    """Writes the number of each refused record and why, a line each; makes no file for none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def __call__(self, number: int, sentence: str) -> None:
        try:
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8")
            self._file.write(f"{number}\t{sentence}\n")
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise MemoryInputError("refused", f"cannot be written ({why}): name another file") from None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


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

    async def write(backend: "WorkerBackend", target: IO[str], bar: Bar) -> None:
        written = 0
        for agent_id in agents:
            async for records in pages(backend, Where(agent_id=agent_id)):
                target.writelines(map(line, records))
                written += len(records)
                bar.show(what=f"exporting, {written} memories")
            bar.advance()

    is_printed = str(file) == "-"
    with (
        command.backend() as (backend, runner),
        # Not between the lines that it prints.
        progress_bar("exporting", total=len(agents), is_silent=is_printed and sys.stdout.isatty()) as bar,
    ):
        if is_printed:
            runner.run(write(backend, sys.stdout, bar))
            return
        draft = file.with_name(f".{file.name}.part")
        with draft.open("w", encoding="utf-8") as target:
            runner.run(write(backend, target, bar))
        draft.replace(file)


def parse(lines: Iterable[bytes], *, now: datetime, writer: Writer) -> Iterator[ImportRecord]:
    """Yield each line's record, dated now where it has no date.

    Raises MemoryInputError, naming line and field; MemoryChannelError for a line that claims more than the writer may.
    """
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            record = ImportRecord.model_validate_json(text).dated(now)
            record.stamped(writer)
            yield record
        except ValidationError as error:
            raise MemoryInputError.of(error, prefix=f"line {number}") from None
        except MemoryInputError as error:
            raise MemoryInputError(f"line {number}.{error.field}", error.problem) from None
        except MemoryChannelError as error:
            raise error.within(f"line {number}") from None


def line(record: MemoryRecord) -> str:
    """Return a memory as one line of an import file."""
    entry = record.entry
    fields = {
        "id": entry.id,
        "agent_id": entry.agent_id,
        "category": str(entry.category),
        "namespace": entry.namespace,
        "content": entry.content,
        "metadata": entry.metadata.model_dump(mode="json"),
        "expires_at": entry.expires_at.isoformat() if entry.expires_at else None,
        "created_at": entry.created_at.isoformat(),
        **{name: at.isoformat() for name in _VALIDITY if (at := getattr(entry, name)) is not None},
        **({"supersedes": list(record.supersedes)} if record.supersedes else {}),
        **({"key": entry.key} if entry.key is not None else {}),
        **({"attributes": dict(entry.attributes)} if entry.attributes else {}),
        # Also where none is known: a line without one is another system's.
        "origin": (entry.origin or UNKNOWN).model_dump(mode="json"),
        **{name: found for name in _SCOPE if (found := getattr(record.lineage, name)) is not None},
    }
    return escaped_json(json.dumps(fields, ensure_ascii=False)) + "\n"


def _lines(file: Path) -> list[bytes]:
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise MemoryInputError("file", f"cannot be read ({error.strerror or type(error).__name__})") from None
    # Not splitlines: a text may hold other characters that end a line, such as U+2028, and JSON leaves them alone.
    return content.removeprefix(codecs.BOM_UTF8).split(b"\n")
