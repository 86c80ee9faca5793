"""``memtend org``: the organisation's facts, written by people, and their log."""

from typing import Annotated

import typer

from memcore.ledger.organization.facts import MAX_PAGE
from memcore.models.base import naming_fields
from memcore.models.organization import (
    OperationLogEntry,
    OrgFactAuthor,
    OrgFactCategory,
    OrgFactWriteRequest,
    OrgMemoryQuery,
)
from memcore.service.org import fact_facts, line_facts, state_facts
from ops.cli.console import warn
from ops.cli.memory.memories import MinEvidence, Tags, WhichStanding, short, zoned
from ops.cli.session import Commands, JsonCommand

app = Commands("org", "The organisation's facts: list, search, show, write, retract, log.")

CategoryOption = Annotated[
    list[str] | None, typer.Option("--category", help=f"Only these of {', '.join(OrgFactCategory)}.")
]
FactArgument = Annotated[str, typer.Argument(help="The fact's id.")]
ByOption = Annotated[str, typer.Option("--by", help="Your name, as the log is to show it.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=MAX_PAGE, help="Most rows.")]

_COLUMNS = ("created_at", "category", "text", "id", "distrusted")


@app.command("list")
def list_facts(
    command: JsonCommand,
    category: CategoryOption = None,
    at: Annotated[str | None, typer.Option(help="As the facts stood at this ISO time.")] = None,
    limit: LimitOption = 20,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many of the newest.")] = 0,
) -> None:
    """Show the facts that are valid now, or were at a time, newest first; those of the policy file come last."""
    categories, then = _categories(category), zoned("at", at)
    with command.service() as (service, runner):
        org = service.org
        if then is None:
            facts = runner.run(org.list(categories=categories, limit=limit, offset=offset))
            rows = [fact_facts(fact) for fact in facts]
        else:
            stood = runner.run(org.list_at(then, categories=categories, limit=limit, offset=offset))
            rows = [state_facts(each) for each in stood]
    command.show_rows((short(command, row) for row in rows), *_COLUMNS)


@app.command("search")
def search(
    command: JsonCommand,
    text: Annotated[str, typer.Argument(help="What to look for.")],
    category: CategoryOption = None,
    limit: Annotated[int, typer.Option(help="Most facts, 1 to 100; the policy may allow less.")] = 5,
    min_evidence: MinEvidence = None,
    standing: WhichStanding = None,
) -> None:
    """Search facts by meaning and words, best first, with those of the policy file, as an agent would."""
    with naming_fields():
        query = OrgMemoryQuery(
            context=text, categories=_categories(category), limit=limit, min_evidence=min_evidence, standing=standing
        )
    found = command.run(lambda service: service.org.search(query))
    if found.words_alone is not None:
        warn(f"memtend: found by words alone: {found.words_alone}")
    rows = [fact_facts(fact) for fact in found.facts]
    command.show_rows((short(command, row) for row in rows), *_COLUMNS)


@app.command("show")
def show(command: JsonCommand, fact_id: FactArgument) -> None:
    """Show one fact whole, also one that was retracted, with each line of its log."""
    detail = command.run(lambda service: service.org.get(fact_id))
    log = [line_facts(line) if command.as_json else _sentence(line) for line in detail.log]
    command.show_facts({**state_facts(detail.state), "log": log})


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
    command.show_facts({"id": command.run(lambda service: service.org.write(request, author=author, fact_id=fact_id))})


@app.command("retract")
def retract(command: JsonCommand, fact_id: FactArgument, by: ByOption) -> None:
    """Retract a fact; the log keeps it."""
    with naming_fields():
        author = OrgFactAuthor(is_human=True, name=by)
    command.run(lambda service: service.org.retract(fact_id, author=author))
    command.show_facts({"retracted": fact_id})


@app.command("log")
def log(
    command: JsonCommand,
    fact_id: Annotated[str | None, typer.Argument(help="Only this fact's lines.")] = None,
    at: Annotated[str | None, typer.Option(help="Only lines up to this ISO time.")] = None,
    limit: LimitOption = 20,
) -> None:
    """Show who published and retracted what, the newest lines first."""
    until = zoned("at", at)
    lines = command.run(lambda service: service.org.log(fact_id=fact_id, until=until, limit=limit))
    rows = (short(command, line_facts(line)) for line in lines)
    command.show_rows(rows, "timestamp", "operation", "version", "author", "category", "text", "id", "distrusted")


def _categories(names: list[str] | None) -> frozenset[OrgFactCategory] | None:
    if not names:
        return None
    with naming_fields():
        return OrgMemoryQuery.model_validate({"categories": names}).categories


def _sentence(line: OperationLogEntry) -> str:
    who = line.author_name or line.author_agent_id or "somebody"
    return f"{line.version} {line.operation_type.lower()} by {who} at {line.timestamp:%Y-%m-%d %H:%M:%S}"
