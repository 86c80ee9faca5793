"""``memtend org``: the organisation's facts, written by people, and their log."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Annotated, Any

import typer

from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.organization.facts import MAX_PAGE
from memcore.models.base import naming_fields
from memcore.models.organization import (
    OperationLogEntry,
    OperationLogSnapshot,
    OrgFact,
    OrgFactAuthor,
    OrgFactCategory,
    OrgFactWriteRequest,
    OrgMemoryQuery,
)
from memcore.org.service import LedgerOrgMemory
from ops.cli.console import warn
from ops.cli.memory.memories import MinEvidence, Tags, moment, short
from ops.cli.session import Commands, JsonCommand

app = Commands("org", "The organisation's facts: list, search, show, write, retract, log.")

CategoryOption = Annotated[
    list[str] | None, typer.Option("--category", help=f"Only these of {', '.join(OrgFactCategory)}.")
]
FactArgument = Annotated[str, typer.Argument(help="The fact's id.")]
ByOption = Annotated[str, typer.Option("--by", help="Your name, as the log is to show it.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=MAX_PAGE, help="Most rows.")]

_COLUMNS = ("created_at", "category", "text", "id")


@app.command("list")
def list_facts(
    command: JsonCommand,
    category: CategoryOption = None,
    at: Annotated[str | None, typer.Option(help="As the facts stood at this ISO time.")] = None,
    limit: LimitOption = 20,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many of the newest.")] = 0,
) -> None:
    """Show the facts that are valid now, or were at a time, newest first; those of the policy file come last."""
    categories, then = _categories(category), _moment("at", at)
    with _memory(command) as (memory, runner):
        if then is None:
            found = runner.run(memory.newest(categories=categories, limit=limit, offset=offset))
            rows = [_facts(fact) for fact in found]
        else:
            stood = [each for each in runner.run(memory.snapshot_at(then)) if each.retracted_at is None]
            stood.sort(key=lambda each: each.created_at, reverse=True)
            wanted = [each for each in stood if categories is None or each.category in categories]
            rows = [_state(each) for each in wanted[offset : offset + limit]]
    command.show_rows((short(command, row) for row in rows), *_COLUMNS)


@app.command("search")
def search(
    command: JsonCommand,
    text: Annotated[str, typer.Argument(help="What to look for.")],
    category: CategoryOption = None,
    limit: Annotated[int, typer.Option(help="Most facts, 1 to 100; the policy may allow less.")] = 5,
    min_evidence: MinEvidence = None,
) -> None:
    """Search facts by meaning and words, best first, with those of the policy file, as an agent would."""
    with naming_fields():
        query = OrgMemoryQuery(context=text, categories=_categories(category), limit=limit, min_evidence=min_evidence)
    with _memory(command, by_meaning=True) as (memory, runner):
        rows = [_facts(fact) for fact in runner.run(memory.query(query))]
    command.show_rows((short(command, row) for row in rows), *_COLUMNS)


@app.command("show")
def show(command: JsonCommand, fact_id: FactArgument) -> None:
    """Show one fact whole, also one that was retracted, with each line of its log."""
    with command.ledger() as ledger:
        state = ledger.org.head(command.company, fact_id)
        if state is None:
            raise _unknown(fact_id)
        lines = ledger.org.operations(command.company, fact_id)
    log = [_line(line) if command.as_json else _sentence(line) for line in lines]
    command.show_facts({**_state(state), "log": log})


@app.command("write")
def write(
    command: JsonCommand,
    content: Annotated[str, typer.Argument(help="The text.")],
    by: ByOption,
    category: Annotated[str, typer.Option(help=f"One of {', '.join(OrgFactCategory)}.")] = "convention",
    tag: Tags = None,
    fact_id: Annotated[str | None, typer.Option(help="The fact whose next version this is.")] = None,
) -> None:
    """Write a fact or its next version; word search finds it at once, search by meaning after the next sweep."""
    with naming_fields():
        request = OrgFactWriteRequest.model_validate({"content": content, "category": category, "tags": tag or ()})
        author = OrgFactAuthor(is_human=True, name=by)
    with _memory(command) as (memory, runner):
        written = runner.run(memory.write(request, author=author, fact_id=fact_id))
    command.show_facts({"id": written})


@app.command("retract")
def retract(command: JsonCommand, fact_id: FactArgument, by: ByOption) -> None:
    """Retract a fact; the log keeps it."""
    with naming_fields():
        author = OrgFactAuthor(is_human=True, name=by)
    with _memory(command) as (memory, runner):
        if not runner.run(memory.retract(fact_id, author=author)):
            raise _unknown(fact_id)
    command.show_facts({"retracted": fact_id})


@app.command("log")
def log(
    command: JsonCommand,
    fact_id: Annotated[str | None, typer.Argument(help="Only this fact's lines.")] = None,
    at: Annotated[str | None, typer.Option(help="Only lines up to this ISO time.")] = None,
    limit: LimitOption = 20,
) -> None:
    """Show who published and retracted what, the newest lines first."""
    until = _moment("at", at)
    with command.ledger() as ledger:
        lines = ledger.org.newest(command.company, fact_id=fact_id, until=until, limit=limit)
    rows = (short(command, _line(line)) for line in lines)
    command.show_rows(rows, "timestamp", "operation", "version", "author", "category", "text", "id")


@contextmanager
def _memory(command: JsonCommand, *, by_meaning: bool = False) -> Iterator[tuple[LedgerOrgMemory, asyncio.Runner]]:
    policy = command.policy
    with command.ledger() as ledger, ExitStack() as opened:
        backend, runner = None, None
        if by_meaning:
            try:
                backend, runner = opened.enter_context(command.backend())
            except MemoryConnectionError as error:
                warn(f"memtend: found by words alone: {error}")
        runner = runner or opened.enter_context(asyncio.Runner())
        memory = LedgerOrgMemory(
            ledger.org,
            policy.org_memory,
            company=command.company,
            backend=backend,
            min_evidence=policy.memory.retrieval.min_evidence,
        )
        runner.run(memory.connect())
        yield memory, runner


def _categories(names: list[str] | None) -> frozenset[OrgFactCategory] | None:
    if not names:
        return None
    with naming_fields():
        return OrgMemoryQuery.model_validate({"categories": names}).categories


def _moment(field: str, text: str | None) -> datetime | None:
    at = moment(field, text)
    if at is not None and at.tzinfo is None:
        raise MemoryInputError(field, "needs a time zone, such as Z or +02:00")
    return at


def _facts(fact: OrgFact) -> dict[str, Any]:
    return {
        "id": fact.id,
        "category": str(fact.category),
        "created_at": fact.created_at,
        "author": fact.author.model_dump(mode="json", exclude_defaults=True),
        "tags": fact.tags,
        "text": fact.content,
    }


def _state(state: OperationLogSnapshot) -> dict[str, Any]:
    return {
        "id": state.fact_id,
        "category": str(state.category),
        "version": state.version,
        "created_at": state.created_at,
        "retracted_at": state.retracted_at,
        "tags": state.tags,
        "text": state.content,
    }


def _line(line: OperationLogEntry) -> dict[str, Any]:
    return {
        "operation_id": line.operation_id,
        "id": line.fact_id,
        "version": line.version,
        "operation": line.operation_type.lower(),
        "timestamp": line.timestamp,
        "author": line.author_name or line.author_agent_id,
        "is_human": line.author_is_human,
        "seniority": line.author_seniority,
        "autonomy_level": line.author_autonomy_level,
        "category": line.category,
        "tags": line.tags,
        "text": line.content,
    }


def _sentence(line: OperationLogEntry) -> str:
    who = line.author_name or line.author_agent_id or "somebody"
    return f"{line.version} {line.operation_type.lower()} by {who} at {line.timestamp:%Y-%m-%d %H:%M:%S}"


def _unknown(fact_id: str) -> MemoryNotFoundError:
    return MemoryNotFoundError(f"fact_id: {fact_id!r} names no fact that stands; see `memtend org list`")
