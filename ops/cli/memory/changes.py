"""``memtend get``, ``list``, ``update``, ``forget``, ``history``: single memories, and those that meet filters."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.models.memory import MemoryCategory, MemoryEntry
from memcore.models.memory_changes import ListFields, UpdateFields
from ops.cli.memory.memories import By, Source, Tags, entry_facts, short, standard_input, zoned
from ops.cli.session import Commands, JsonCommand

app = Commands()

AgentArgument = Annotated[str, typer.Argument(help="Whose memory.")]
MemoryArgument = Annotated[str, typer.Argument(help="The memory's id, or that of one of its versions.")]
AttributesOption = Annotated[
    str | None, typer.Option("--attributes", help="Own fields as a JSON object; they take the place of all before.")
]
Expected = Annotated[
    str | None, typer.Option(help="The version that is meant, refused where another is there; * is any.")
]


@dataclass(frozen=True)
class ListFilters:
    """The options that say which memories are meant; all of them must hold."""

    category: Annotated[list[str] | None, typer.Option(help="Only these categories.")] = None
    namespace: Annotated[list[str] | None, typer.Option(help="Only these namespaces.")] = None
    tag: Annotated[list[str] | None, typer.Option(help="Only with all these tags.")] = None
    key: Annotated[list[str] | None, typer.Option(help="Only with these keys.")] = None
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="Only with this own field, as PATH=VALUE, e.g. origin.channel=mail; several times for more."),
    ] = None
    session: Annotated[str | None, typer.Option(help="Only from this session.")] = None
    since: Annotated[str | None, typer.Option(help="Created at or after this ISO time.")] = None
    until: Annotated[str | None, typer.Option(help="Created before this ISO time.")] = None

    def fields(self) -> ListFields:
        """Return the filters that were given. Raises MemoryInputError, naming the field."""
        given = {
            "categories": self.category or None,
            "namespaces": self.namespace or None,
            "tags": self.tag or None,
            "keys": self.key or None,
            "attributes": dict(map(_attribute, self.attribute or ())) or None,
            "session_id": self.session,
            "since": zoned("since", self.since),
            "until": zoned("until", self.until),
        }
        return cast("ListFields", {name: value for name, value in given.items() if value is not None})


@app.command("get")
def get(
    command: JsonCommand,
    agent_id: AgentArgument,
    memory_id: Annotated[str | None, typer.Argument(help="Its id, or that of one of its versions.")] = None,
    key: Annotated[str | None, typer.Option(help="Instead of an id: its key.")] = None,
    namespace: Annotated[str, typer.Option(help="The namespace of the key.")] = "default",
) -> None:
    """Show one memory whole: the version that is there now."""
    if (memory_id is None) == (key is None):
        raise MemoryInputError("memory_id", "name the memory, or give --key")
    with command.service() as (service, runner):
        memories = service.memories
        if key is not None:
            entry = runner.run(memories.get_by_key(agent_id, key, namespace=namespace))
        else:
            entry = runner.run(memories.get(agent_id, memory_id or ""))
    if entry is None:
        raise MemoryNotFoundError("memory_id: names no memory of this agent")
    command.show_facts(_facts(entry))


@app.command("list")
def list_memories(
    command: JsonCommand,
    agent_id: AgentArgument,
    filters: ListFilters,
    limit: Annotated[int, typer.Option(help="Most memories, 1 to 256.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
) -> None:
    """List an agent's memories, oldest first, page by page."""
    page = command.run(lambda service: service.memories.list(agent_id, limit=limit, cursor=cursor, **filters.fields()))
    rows = (short(command, _facts(entry)) for entry in page.entries)
    if command.as_json:
        command.show_facts({"memories": list(rows), "cursor": page.cursor})
        return
    command.show_rows(rows, "created_at", "category", "namespace", "key", "text", "id")
    if page.cursor is not None:
        command.show_facts({"next page": f"--cursor {page.cursor}"})


@app.command("update")
def update(
    command: JsonCommand,
    agent_id: AgentArgument,
    memory_id: MemoryArgument,
    content: Annotated[str | None, typer.Option(help="The new text; - reads it from standard input.")] = None,
    category: Annotated[str | None, typer.Option(help=f"One of {', '.join(MemoryCategory)}.")] = None,
    tag: Tags = None,
    source: Source = None,
    confidence: Annotated[float | None, typer.Option(help="0 to 1.")] = None,
    attributes: AttributesOption = None,
    expires_at: Annotated[str | None, typer.Option(help="ISO time with a zone.")] = None,
    expected: Expected = None,
    by: By = None,
) -> None:
    """Change a memory: a new version with an id of its own; `memtend history` shows those before."""
    changes = {
        "content": standard_input() if content == "-" else content,
        "category": category,
        "tags": tag,
        "source": source,
        "confidence": confidence,
        "attributes": None if attributes is None else _object(attributes),
        "expires_at": zoned("expires_at", expires_at),
    }
    given = cast("UpdateFields", {name: value for name, value in changes.items() if value is not None})
    if not given:
        raise MemoryInputError("content", "say what is to change")
    entry = command.run(lambda service: service.memories.update(agent_id, memory_id, by=by, expected=expected, **given))
    command.show_facts(_facts(entry))


@app.command("forget")
def forget(
    command: JsonCommand,
    agent_id: AgentArgument,
    filters: ListFilters,
    memory_ids: Annotated[
        list[str] | None, typer.Argument(help="The memories' ids; or give filters.", metavar="[MEMORY_IDS]...")
    ] = None,
    expected: Expected = None,
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", help="With filters: forget them; without, they are counted.")] = False,
) -> None:
    """Forget memories in one run; `memtend runs undo` brings them back."""
    given = filters.fields()
    if bool(memory_ids) == bool(given):
        raise MemoryInputError("memory_ids", "name the memories, or give filters")
    with command.service() as (service, runner):
        memories = service.memories
        if given and not yes:
            count = runner.run(memories.count_matching(agent_id, **given))
            raise MemoryInputError("yes", f"would forget {count} memories; say --yes")
        receipt = runner.run(memories.forget(agent_id, memory_ids or None, by=by, expected=expected, **given))
    if memory_ids and not receipt.forgotten:
        raise MemoryNotFoundError("memory_ids: name no memory of this agent")
    command.show_facts({"run_id": receipt.run_id, "forgotten": receipt.forgotten})


@app.command("history")
def history(command: JsonCommand, agent_id: AgentArgument, memory_id: MemoryArgument) -> None:
    """Show what became of a memory: when it came, was changed and went, oldest first, with the texts."""
    versions = command.run(lambda service: service.memories.history(agent_id, memory_id))
    rows = ({**dict(each), "text": each.content} for each in versions)
    shown = ({name: value for name, value in short(command, row).items() if name != "content"} for row in rows)
    command.show_rows(shown, "at", "event", "text", "memory_id", "run_id")


def _facts(entry: MemoryEntry) -> Mapping[str, Any]:
    facts = {
        name: value for name, value in entry_facts(entry).items() if name not in {"score", "scores", "standing", "why"}
    }
    own = {"key": entry.key, "attributes": dict(entry.attributes), "session_id": entry.session_id}
    return {**facts, **own, "updated_at": entry.updated_at}


def _attribute(given: str) -> tuple[str, Any]:
    path, separator, value = given.partition("=")
    if not path or not separator:
        raise MemoryInputError("attribute", "must be PATH=VALUE")
    try:
        # A number or true as JSON has it; anything else is a text.
        parsed = json.loads(value)
    except ValueError:
        return path, value
    return path, parsed if isinstance(parsed, (bool, int, float)) else value


def _object(given: str) -> dict[str, Any]:
    try:
        parsed = json.loads(given)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise MemoryInputError("attributes", "must be a JSON object")
    return parsed
