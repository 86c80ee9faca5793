"""``memtend shared``: knowledge that agents publish for all agents, and its log."""

from typing import Annotated

import typer

from memcore.models.base import naming_fields
from memcore.models.memory import MemoryQuery
from ops.cli.memory.memories import (
    CategoryOption,
    Limit,
    MinEvidence,
    Source,
    Tags,
    WhichStanding,
    entry_facts,
    short,
    store_request,
)
from ops.cli.session import Commands, JsonCommand

app = Commands("shared", "Shared knowledge: publish, search, retract, list.")


@app.command("publish")
def publish(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Who says it.")],
    content: Annotated[str, typer.Argument(help="The text.")],
    category: CategoryOption = "semantic",
    namespace: Annotated[str, typer.Option(help="Routing key.")] = "default",
    source: Source = None,
    tag: Tags = None,
) -> None:
    """Publish a text for all agents; when the command ends, searches find it."""
    request = store_request(content, category=category, namespace=namespace, source=source, tags=tag)
    command.show_facts({"id": command.run(lambda service: service.memories.publish(agent_id, request))})


@app.command("search")
def search(
    command: JsonCommand,
    text: Annotated[str | None, typer.Argument(help="What to look for; without it, the newest.")] = None,
    exclude_agent: Annotated[str | None, typer.Option(help="Leave out what this agent published.")] = None,
    version: Annotated[int | None, typer.Option(help="As it was at this version of `shared list`.")] = None,
    limit: Limit = 10,
    min_evidence: MinEvidence = None,
    standing: WhichStanding = None,
) -> None:
    """Search what agents published, by meaning and by words, and show who published it."""
    with naming_fields():
        query = MemoryQuery(text=text, limit=limit, min_evidence=min_evidence, standing=standing)
    found = command.run(
        lambda service: service.memories.search_shared(query, exclude_agent=exclude_agent, version=version)
    )
    rows = (short(command, {"agent_id": entry.agent_id, **entry_facts(entry)}) for entry in found)
    command.show_rows(rows, "score", "created_at", "agent_id", "text", "id")


@app.command("retract")
def retract(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Who published it.")],
    memory_id: Annotated[str, typer.Argument(help="The id that `shared search` shows.")],
) -> None:
    """Retract what this agent published; the log and searches of older versions keep it."""
    command.run(lambda service: service.memories.retract(agent_id, memory_id))
    command.show_facts({"retracted": memory_id})


@app.command("list")
def list_log(
    command: JsonCommand,
    after: Annotated[int, typer.Option(help="Only what follows this version.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=256, help="Most lines.")] = 100,
) -> None:
    """Show the log: every publication and every retraction, in order, each with its version."""
    lines = command.run(lambda service: service.memories.shared_log(after=after, limit=limit))
    rows = (
        {
            "version": line.version,
            "kind": line.kind,
            "at": line.at,
            "agent_id": line.agent_id,
            "id": line.memory_id,
            "text": None if line.record is None else line.record.entry.content,
        }
        for line in lines
    )
    command.show_rows((short(command, row) for row in rows), "version", "kind", "at", "agent_id", "id", "text")
