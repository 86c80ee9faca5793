"""``memtend archive``: list, search, show and restore archived memories."""

from typing import Annotated

import typer

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
    command.show_facts(command.run(lambda service: service.archive.get(agent_id, entry_id)).facts())


@app.command("restore")
def restore(
    command: JsonCommand,
    agent_id: AgentArgument,
    entry_id: EntryArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is back.")] = True,
) -> None:
    """Restore a memory to the store as it was. `memtend runs undo` reverts that."""
    with command.service() as (service, runner):
        run_id = runner.run(service.archive.restore(agent_id, entry_id)).job_id
        show_ended(command, service.client.blocking, run_id, wait=wait)


def _search(command: JsonCommand, agent_id: str, filters: Filters, text: str | None, limit: int) -> None:
    query = filters.query(text, limit)
    found = command.run(lambda service: service.archive.search(agent_id, query))
    rows = (short(command, archived.facts()) for archived in found)
    command.show_rows(rows, "created_at", "archived_at", "mode", "category", "text", "original_id")
