"""``memtend shared``: knowledge that agents publish for all agents, and its log."""

from typing import TYPE_CHECKING, Annotated

import typer

from memcore.errors import MemoryCapabilityError, MemoryNotFoundError
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from ops.cli.console import AsJson, show_facts, show_rows
from ops.cli.memory.memories import shown
from ops.cli.session import HomeOption, backend_of, ledger_of, one_sentence, settings_of

if TYPE_CHECKING:
    from memcore.backends.protocol import MemoryBackend, SharedKnowledgeStore

app = typer.Typer(help="Shared knowledge: publish, search, retract, list.", no_args_is_help=True)


@app.command("publish")
def publish(
    agent_id: Annotated[str, typer.Argument(help="Who says it.")],
    content: Annotated[str, typer.Argument(help="The text.")],
    category: Annotated[str, typer.Option(help=f"One of {', '.join(MemoryCategory)}.")] = "semantic",
    namespace: Annotated[str, typer.Option(help="Routing key.")] = "default",
    source: Annotated[str | None, typer.Option(help="Where it comes from.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A label; may be given several times.")] = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Publish a text for all agents; when the command ends, searches find it."""
    with one_sentence():
        request = MemoryStoreRequest.model_validate(
            {
                "category": category,
                "namespace": namespace,
                "content": content,
                "metadata": MemoryMetadata(source=source, tags=tuple(tag or ())),
            }
        )
    with backend_of(settings_of(home)) as (backend, runner):
        memory_id = runner.run(_shared(backend).publish(agent_id, request))
    show_facts({"id": memory_id}, as_json=as_json)


@app.command("search")
def search(
    text: Annotated[str | None, typer.Argument(help="What to look for; without it, the newest.")] = None,
    exclude_agent: Annotated[str | None, typer.Option(help="Leave out what this agent published.")] = None,
    version: Annotated[int | None, typer.Option(help="As it was at this version of `shared list`.")] = None,
    limit: Annotated[int, typer.Option(help="Most results, 1 to 1000.")] = 10,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Search what agents published, by meaning and by words, and show who published it."""
    with one_sentence():
        query = MemoryQuery(text=text, limit=limit)
    with backend_of(settings_of(home)) as (backend, runner):
        found = runner.run(_shared(backend).search_shared(query, exclude_agent=exclude_agent, version=version))
    show_rows(
        (
            {
                "score": entry.relevance_score,
                "created_at": entry.created_at,
                "agent_id": entry.agent_id,
                "text": entry.content if as_json else shown(entry.content),
                "id": entry.id,
                "category": str(entry.category),
                "namespace": entry.namespace,
                "metadata": entry.metadata.model_dump(mode="json"),
                "expires_at": entry.expires_at,
            }
            for entry in found
        ),
        columns=("score", "created_at", "agent_id", "text", "id"),
        as_json=as_json,
    )


@app.command("retract")
def retract(
    agent_id: Annotated[str, typer.Argument(help="Who published it.")],
    memory_id: Annotated[str, typer.Argument(help="The id that `shared search` shows.")],
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Retract what this agent published; the log and searches of older versions keep it."""
    with backend_of(settings_of(home)) as (backend, runner):
        is_retracted = runner.run(_shared(backend).retract(agent_id, memory_id))
    if not is_retracted:
        raise MemoryNotFoundError(f"{agent_id} has published nothing under {memory_id}, or retracted it before")
    show_facts({"retracted": memory_id}, as_json=as_json)


@app.command("list")
def list_log(
    after: Annotated[int, typer.Option(help="Only what follows this version.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=256, help="Most lines.")] = 100,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the log: every publication and every retraction, in order, each with its version."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        lines = ledger.shared_log.lines(settings.company, after=after, limit=limit)
    show_rows(
        (
            {
                "version": line.version,
                "kind": line.kind,
                "at": line.at,
                "agent_id": line.agent_id,
                "id": line.memory_id,
                "text": None
                if line.record is None
                else line.record.entry.content
                if as_json
                else shown(line.record.entry.content),
            }
            for line in lines
        ),
        columns=("version", "kind", "at", "agent_id", "id", "text"),
        as_json=as_json,
    )


def add_to(root: typer.Typer) -> None:
    """Put the group on the command line."""
    root.add_typer(app, name="shared")


def _shared(backend: "MemoryBackend") -> "SharedKnowledgeStore":
    from memcore.backends.protocol import SharedKnowledgeStore  # noqa: PLC0415  # the listing needs no backend

    if not isinstance(backend, SharedKnowledgeStore):
        raise MemoryCapabilityError(f"the backend {backend.backend_name} shares nothing")
    return backend
