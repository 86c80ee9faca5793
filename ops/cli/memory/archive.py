"""``memtend archive``: list, search, show and restore archived memories."""

from typing import Annotated, Any

import typer

from memcore.errors import MemoryNotFoundError
from memcore.ledger.archive import Archived
from memcore.models.memory import MemoryQuery
from ops.cli.console import AsJson, show_facts, show_rows
from ops.cli.maintenance.runs import facts_of
from ops.cli.memory.memories import moment, shown
from ops.cli.session import HomeOption, await_run, client_of, ledger_of, one_sentence, settings_of

app = typer.Typer(help="The archive: list, search, show, restore.", no_args_is_help=True)

AgentArgument = Annotated[str, typer.Argument(help="Whose memories.")]
EntryArgument = Annotated[str, typer.Argument(help="The archival id, or the memory's own id.")]
CategoryOption = Annotated[list[str] | None, typer.Option("--category", help="Only these categories.")]
NamespaceOption = Annotated[list[str] | None, typer.Option("--namespace", help="Only these namespaces.")]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="Only with all these tags.")]
SinceOption = Annotated[str | None, typer.Option("--since", help="Created at or after this ISO time.")]
UntilOption = Annotated[str | None, typer.Option("--until", help="Created before this ISO time.")]
LimitOption = Annotated[int, typer.Option("--limit", help="Most results, 1 to 1000.")]


@app.command("list")
def list_archived(
    agent_id: AgentArgument,
    category: CategoryOption = None,
    namespace: NamespaceOption = None,
    tag: TagOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what is in an agent's archive, the newest memories first."""
    with one_sentence():
        query = _query(None, category, namespace, tag, since, until, limit)
    _show(agent_id, query, home=home, as_json=as_json)


@app.command("search")
def search(
    agent_id: AgentArgument,
    text: Annotated[str, typer.Argument(help="Words to look for.")],
    category: CategoryOption = None,
    namespace: NamespaceOption = None,
    tag: TagOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 10,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Find archived memories by words, the best matches first."""
    with one_sentence():
        query = _query(text, category, namespace, tag, since, until, limit)
    _show(agent_id, query, home=home, as_json=as_json)


@app.command("show")
def show(agent_id: AgentArgument, entry_id: EntryArgument, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Show one archived memory whole, even if it was restored since."""
    show_facts(_facts(_found(agent_id, entry_id, home)), as_json=as_json)


@app.command("restore")
def restore(
    agent_id: AgentArgument,
    entry_id: EntryArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is back.")] = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Restore a memory to the store as it was. `memtend runs undo` reverts that."""
    _found(agent_id, entry_id, home)
    with client_of(home) as client:
        receipt = client.restore(agent_id, entry_id)
        if wait:
            await_run(client, receipt.job_id)
    with ledger_of(settings_of(home)) as ledger:
        run = ledger.runs.get(receipt.job_id)
    show_facts(facts_of(run) if wait else {"run_id": receipt.job_id}, as_json=as_json)


def _query(
    text: str | None,
    category: list[str] | None,
    namespace: list[str] | None,
    tag: list[str] | None,
    since: str | None,
    until: str | None,
    limit: int,
) -> MemoryQuery:
    return MemoryQuery.model_validate(
        {
            "text": text,
            "categories": frozenset(category) if category else None,
            "namespaces": frozenset(namespace) if namespace else None,
            "tags": tuple(tag or ()),
            "since": moment("since", since),
            "until": moment("until", until),
            "limit": limit,
        }
    )


def _show(agent_id: str, query: MemoryQuery, *, home: HomeOption, as_json: bool) -> None:
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        found = ledger.archive.search(settings.company, agent_id, query)
    rows = (_facts(archived) for archived in found)
    show_rows(
        (row if as_json else {**row, "text": shown(row["text"])} for row in rows),
        columns=("created_at", "archived_at", "mode", "category", "text", "original_id"),
        as_json=as_json,
    )


def _found(agent_id: str, entry_id: str, home: HomeOption) -> Archived:
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        archived = ledger.archive.find(settings.company, agent_id, entry_id)
    if archived is None:
        msg = "entry_id: names nothing in this agent's archive; see `memtend archive list`"
        raise MemoryNotFoundError(msg)
    return archived


def _facts(archived: Archived) -> dict[str, Any]:
    entry = archived.record.entry
    return {
        "archival_id": archived.archival_id,
        "original_id": entry.id,
        "agent_id": entry.agent_id,
        "mode": str(archived.mode),
        "category": str(entry.category),
        "namespace": entry.namespace,
        "created_at": entry.created_at,
        "archived_at": archived.archived_at,
        "expires_at": entry.expires_at,
        "returned_at": archived.returned_at,
        "run_id": archived.run_id,
        "metadata": entry.metadata.model_dump(mode="json"),
        "text": entry.content,
    }


def add_to(parent: typer.Typer) -> None:
    """Put the commands on the command line."""
    parent.add_typer(app, name="archive")
