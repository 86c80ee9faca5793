"""``memtend archive``: list, search, show and restore archived memories."""

from typing import Annotated, Any

import typer

from memcore.errors import MemoryNotFoundError
from memcore.ledger.archive import Archived
from ops.cli.maintenance.runs import show_ended
from ops.cli.memory.memories import Filters, Limit, short
from ops.cli.session import Commands, JsonCommand

app = Commands("archive", "The archive: list, search, show, restore.")

AgentArgument = Annotated[str, typer.Argument(help="Whose memories.")]
EntryArgument = Annotated[str, typer.Argument(help="The archival id, or the memory's own id.")]


@app.command("list")
def list_archived(command: JsonCommand, agent_id: AgentArgument, filters: Filters, limit: Limit = 20) -> None:
    """Show what is in an agent's archive, the newest memories first."""
    _search(command, agent_id, filters, None, limit)


@app.command("search")
def search(
    command: JsonCommand,
    agent_id: AgentArgument,
    text: Annotated[str, typer.Argument(help="Words to look for.")],
    filters: Filters,
    limit: Limit = 10,
) -> None:
    """Find archived memories by words, the best matches first."""
    _search(command, agent_id, filters, text, limit)


@app.command("show")
def show(command: JsonCommand, agent_id: AgentArgument, entry_id: EntryArgument) -> None:
    """Show one archived memory whole, even if it was restored since."""
    command.show_facts(_facts(_found(command, agent_id, entry_id)))


@app.command("restore")
def restore(
    command: JsonCommand,
    agent_id: AgentArgument,
    entry_id: EntryArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is back.")] = True,
) -> None:
    """Restore a memory to the store as it was. `memtend runs undo` reverts that."""
    _found(command, agent_id, entry_id)
    with command.client() as client:
        show_ended(command, client, client.restore(agent_id, entry_id).job_id, wait=wait)


def _search(command: JsonCommand, agent_id: str, filters: Filters, text: str | None, limit: int) -> None:
    query = filters.query(text, limit)
    with command.ledger() as ledger:
        found = ledger.archive.search(command.company, agent_id, query)
    rows = (short(command, _facts(archived)) for archived in found)
    command.show_rows(rows, "created_at", "archived_at", "mode", "category", "text", "original_id")


def _found(command: JsonCommand, agent_id: str, entry_id: str) -> Archived:
    with command.ledger() as ledger:
        archived = ledger.archive.find(command.company, agent_id, entry_id)
    if archived is None:
        raise MemoryNotFoundError("entry_id: names nothing in this agent's archive; see `memtend archive list`")
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
