"""``memtend org``: the organisation's facts, written by people, and their log."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.organization.facts import MAX_PAGE
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
from ops.cli.console import AsJson, show_facts, show_rows, warn
from ops.cli.memory.memories import moment, shown
from ops.cli.session import HomeOption, backend_of, ledger_of, one_sentence, policy_of, settings_of

if TYPE_CHECKING:
    from memcore.backends.protocol import MemoryBackend

app = typer.Typer(help="The organisation's facts: list, search, show, write, retract, log.", no_args_is_help=True)

CategoryOption = Annotated[
    list[str] | None, typer.Option("--category", help=f"Only these of {', '.join(OrgFactCategory)}.")
]
FactArgument = Annotated[str, typer.Argument(help="The fact's id.")]
ByOption = Annotated[str, typer.Option("--by", help="Your name, as the log is to show it.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=MAX_PAGE, help="Most rows.")]

_COLUMNS = ("created_at", "category", "text", "id")


@app.command("list")
def list_facts(
    category: CategoryOption = None,
    at: Annotated[str | None, typer.Option(help="As the facts stood at this ISO time.")] = None,
    limit: LimitOption = 20,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many of the newest.")] = 0,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the facts that are valid now, or were at a time, newest first; those of the policy file come last."""
    categories, then = _categories(category), _moment("at", at)
    with _memory(settings_of(home)) as (memory, runner):
        if then is None:
            found = runner.run(memory.newest(categories=categories, limit=limit, offset=offset))
            rows = [_facts(fact) for fact in found]
        else:
            stood = [each for each in runner.run(memory.snapshot_at(then)) if each.retracted_at is None]
            stood.sort(key=lambda each: each.created_at, reverse=True)
            wanted = [each for each in stood if categories is None or each.category in categories]
            rows = [_state(each) for each in wanted[offset : offset + limit]]
    show_rows(rows if as_json else map(_short, rows), columns=_COLUMNS, as_json=as_json)


@app.command("search")
def search(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    category: CategoryOption = None,
    limit: Annotated[int, typer.Option(help="Most facts, 1 to 100; the policy may allow less.")] = 5,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Search facts by meaning and words, best first, with those of the policy file, as an agent would."""
    with one_sentence():
        query = OrgMemoryQuery(context=text, categories=_categories(category), limit=limit)
    with _memory(settings_of(home), by_meaning=True) as (memory, runner):
        rows = [_facts(fact) for fact in runner.run(memory.query(query))]
    show_rows(rows if as_json else map(_short, rows), columns=_COLUMNS, as_json=as_json)


@app.command("show")
def show(fact_id: FactArgument, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Show one fact whole, also one that was retracted, with each line of its log."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        state = ledger.org.head(settings.company, fact_id)
        if state is None:
            raise _unknown(fact_id)
        lines = ledger.org.operations(settings.company, fact_id)
    log = [_line(line) if as_json else _sentence(line) for line in lines]
    show_facts({**_state(state), "log": log}, as_json=as_json)


@app.command("write")
def write(
    content: Annotated[str, typer.Argument(help="The text.")],
    by: ByOption,
    category: Annotated[str, typer.Option(help=f"One of {', '.join(OrgFactCategory)}.")] = "convention",
    tag: Annotated[list[str] | None, typer.Option(help="A label; may be given several times.")] = None,
    fact_id: Annotated[str | None, typer.Option(help="The fact whose next version this is.")] = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Write a fact or its next version; word search finds it at once, search by meaning after the next sweep."""
    with one_sentence():
        request = OrgFactWriteRequest.model_validate({"content": content, "category": category, "tags": tag or ()})
    author = _author(by)
    with _memory(settings_of(home)) as (memory, runner):
        written = runner.run(memory.write(request, author=author, fact_id=fact_id))
    show_facts({"id": written}, as_json=as_json)


@app.command("retract")
def retract(fact_id: FactArgument, by: ByOption, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Retract a fact; the log keeps it."""
    author = _author(by)
    with _memory(settings_of(home)) as (memory, runner):
        if not runner.run(memory.retract(fact_id, author=author)):
            raise _unknown(fact_id)
    show_facts({"retracted": fact_id}, as_json=as_json)


@app.command("log")
def log(
    fact_id: Annotated[str | None, typer.Argument(help="Only this fact's lines.")] = None,
    at: Annotated[str | None, typer.Option(help="Only lines up to this ISO time.")] = None,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show who published and retracted what, the newest lines first."""
    until, settings = _moment("at", at), settings_of(home)
    with ledger_of(settings) as ledger:
        lines = ledger.org.newest(settings.company, fact_id=fact_id, until=until, limit=limit)
    rows = [_line(line) for line in lines]
    columns = ("timestamp", "operation", "version", "author", "category", "text", "id")
    show_rows(rows if as_json else map(_short, rows), columns=columns, as_json=as_json)


def add_to(root: typer.Typer) -> None:
    """Put the group on the command line."""
    root.add_typer(app, name="org")


@contextmanager
def _memory(settings: Settings, *, by_meaning: bool = False) -> Iterator[tuple[LedgerOrgMemory, asyncio.Runner]]:
    config = policy_of(settings).org_memory
    with ledger_of(settings) as ledger, ExitStack() as opened:
        runner, backend = _with_store(settings, opened) if by_meaning else (None, None)
        runner = runner or opened.enter_context(asyncio.Runner())
        memory = LedgerOrgMemory(ledger.org, config, company=settings.company, backend=backend)
        runner.run(memory.connect())
        yield memory, runner


def _with_store(settings: Settings, opened: ExitStack) -> "tuple[asyncio.Runner, MemoryBackend] | tuple[None, None]":
    try:
        backend, runner = opened.enter_context(backend_of(settings))
    except MemoryConnectionError as error:
        warn(f"memtend: found by words alone: {error}")
        return None, None
    return runner, backend


def _author(name: str) -> OrgFactAuthor:
    with one_sentence():
        return OrgFactAuthor(is_human=True, name=name)


def _categories(names: list[str] | None) -> frozenset[OrgFactCategory] | None:
    if not names:
        return None
    with one_sentence():
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


def _short(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "text": None if row["text"] is None else shown(row["text"])}


def _unknown(fact_id: str) -> MemoryNotFoundError:
    return MemoryNotFoundError(f"fact_id: {fact_id!r} names no fact that stands; see `memtend org list`")
