"""``memtend store`` and ``memtend search``: store one memory, find the best matches."""

import sys
from datetime import datetime
from typing import Annotated

import typer

from memcore.client.envelopes import Scope
from memcore.errors import MemoryInputError
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from ops.cli.console import AsJson, show_facts, show_rows
from ops.cli.session import HomeOption, await_stored, backend_of, client_of, one_sentence, settings_of

#: Characters of a memory's text in the table of `search`; `--json` has it whole.
SHOWN_CHARS = 100


def store(
    agent_id: Annotated[str, typer.Argument(help="Whose memory.")],
    content: Annotated[str, typer.Argument(help="The text; - reads it from standard input.")],
    category: Annotated[str, typer.Option(help=f"One of {', '.join(MemoryCategory)}.")] = "semantic",
    namespace: Annotated[str, typer.Option(help="Routing key inside the agent.")] = "default",
    source: Annotated[str | None, typer.Option(help="Where it comes from.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A label; may be given several times.")] = None,
    confidence: Annotated[float, typer.Option(help="0 to 1.")] = 1.0,
    expires_at: Annotated[str | None, typer.Option(help="ISO time with a zone, e.g. 2027-01-01T00:00:00Z.")] = None,
    session: Annotated[str | None, typer.Option(help="The session it is made in.")] = None,
    project: Annotated[str | None, typer.Option(help="The project it is made in.")] = None,
    task: Annotated[str | None, typer.Option(help="The task it is made in.")] = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Store one memory through the queue and wait until searches find it."""
    text = standard_input() if content == "-" else content
    with one_sentence():
        request = MemoryStoreRequest.model_validate(
            {
                "category": category,
                "namespace": namespace,
                "content": text,
                "metadata": MemoryMetadata(source=source, confidence=confidence, tags=tuple(tag or ())),
                "expires_at": moment("expires_at", expires_at),
            }
        )
        scope = Scope(session_id=session, project_id=project, task_id=task)
    with client_of(home) as client:
        receipt = client.store(agent_id, request, scope=scope)
        await_stored(client, receipt)
    show_facts({"id": receipt.memory_ids[0], "job_id": receipt.job_ids[0]}, as_json=as_json)


def search(
    agent_id: Annotated[str, typer.Argument(help="Whose memories.")],
    text: Annotated[str | None, typer.Argument(help="What to look for; without it, the newest.")] = None,
    category: Annotated[list[str] | None, typer.Option(help="Only these categories.")] = None,
    namespace: Annotated[list[str] | None, typer.Option(help="Only these namespaces.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only with all these tags.")] = None,
    since: Annotated[str | None, typer.Option(help="Created at or after this ISO time.")] = None,
    until: Annotated[str | None, typer.Option(help="Created before this ISO time.")] = None,
    limit: Annotated[int, typer.Option(help="Most results, 1 to 1000.")] = 10,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Search an agent's memories by meaning and by words, in this process, without the queue."""
    with one_sentence():
        query = MemoryQuery.model_validate(
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
    with backend_of(settings_of(home)) as (backend, runner):
        found = runner.run(backend.retrieve(agent_id, query))
    show_rows(
        (
            {
                "score": entry.relevance_score,
                "created_at": entry.created_at,
                "category": str(entry.category),
                "text": entry.content if as_json else shown(entry.content),
                "id": entry.id,
                "namespace": entry.namespace,
                "metadata": entry.metadata.model_dump(mode="json"),
                "expires_at": entry.expires_at,
            }
            for entry in found
        ),
        columns=("score", "created_at", "category", "text", "id"),
        as_json=as_json,
    )


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    app.command("store")(store)
    app.command("search")(search)


def shown(text: str) -> str:
    """Return a memory's text as a table has it: one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 3] + "..."


def moment(field: str, text: str | None) -> datetime | None:
    """Return the time that an option names. Raises MemoryInputError when it is none."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise MemoryInputError(field, "must be an ISO time such as 2027-01-01T00:00:00Z") from None


def standard_input() -> str:
    """Return what is piped in; MemoryInputError when it is no text."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise MemoryInputError("content", "must be valid UTF-8") from None
