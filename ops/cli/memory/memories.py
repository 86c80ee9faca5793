"""``memtend store``, ``search``, ``ask``, ``conflicts``, ``supersede``: store, find, say what replaced what."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from memcore.client.envelopes import Scope
from memcore.errors import MemoryInputError
from memcore.models.answers import Shown, Standing
from memcore.models.asking import ASK_SECONDS, ASK_TOKENS, NoSentences
from memcore.models.base import naming_fields
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryQuery, MemoryStoreRequest, day_of
from memcore.models.origin import OPERATOR, writing_as
from memcore.retrieval.conflicts import Conflict
from ops.cli.console import say, warn
from ops.cli.session import Commands, JsonCommand, await_stored

app = Commands()

#: Results among which a memory is looked for that was not shown: the most that a search returns.
_MOST_FOUND = 1_000

#: Characters of a memory's text in the table of `search`; `--json` has it whole.
SHOWN_CHARS = 100

CategoryOption = Annotated[str, typer.Option(help=f"One of {', '.join(MemoryCategory)}.")]
Source = Annotated[str | None, typer.Option(help="Where it comes from.")]
Tags = Annotated[list[str] | None, typer.Option(help="A label; may be given several times.")]
By = Annotated[str | None, typer.Option("--by", help="Your name; it is kept in the audit.")]
Limit = Annotated[int, typer.Option(help="Most results, 1 to 1000.")]
MinEvidence = Annotated[
    float | None,
    typer.Option(help="Evidence of the best from which on results are strong, 0 to 1. The policy's if left out."),
]
WhichStanding = Annotated[
    Shown | None,
    typer.Option(help="strong: only these; weak: at most three of these, where none is strong; any: all, however far."),
]

TimeZoneOption = Annotated[
    str | None, typer.Option(help="In which 'yesterday' is a day, e.g. Europe/Berlin. The policy's if left out.")
]


@dataclass(frozen=True)
class Filters:
    """The options that narrow a search."""

    category: Annotated[list[str] | None, typer.Option(help="Only these categories.")] = None
    namespace: Annotated[list[str] | None, typer.Option(help="Only these namespaces.")] = None
    tag: Annotated[list[str] | None, typer.Option(help="Only with all these tags.")] = None
    since: Annotated[str | None, typer.Option(help="Created at or after this ISO time.")] = None
    until: Annotated[str | None, typer.Option(help="Created before this ISO time.")] = None

    def query(self, text: str | None, limit: int, **how: object) -> MemoryQuery:
        """Return the query. Raises MemoryInputError, naming the field."""
        with naming_fields():
            return MemoryQuery.model_validate(
                {
                    "text": text,
                    "categories": frozenset(self.category) if self.category else None,
                    "namespaces": frozenset(self.namespace) if self.namespace else None,
                    "tags": tuple(self.tag or ()),
                    "since": moment("since", self.since),
                    "until": moment("until", self.until),
                    "limit": limit,
                    **how,
                }
            )


@app.command("store")
def store(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Whose memory.")],
    content: Annotated[str, typer.Argument(help="The text; - reads it from standard input.")],
    category: CategoryOption = "semantic",
    namespace: Annotated[str, typer.Option(help="Routing key inside the agent.")] = "default",
    source: Source = None,
    tag: Tags = None,
    confidence: Annotated[float, typer.Option(help="0 to 1.")] = 1.0,
    expires_at: Annotated[str | None, typer.Option(help="ISO time with a zone, e.g. 2027-01-01T00:00:00Z.")] = None,
    valid_from: Annotated[str | None, typer.Option(help="ISO time from which on it holds.")] = None,
    valid_until: Annotated[str | None, typer.Option(help="ISO time from which on it holds no more.")] = None,
    supersedes: Annotated[
        list[str] | None, typer.Option(help="Id of a memory that it replaces; may be given several times.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="The session it is made in.")] = None,
    project: Annotated[str | None, typer.Option(help="The project it is made in.")] = None,
    task: Annotated[str | None, typer.Option(help="The task it is made in.")] = None,
) -> None:
    """Store one memory through the queue and wait until searches find it."""
    request = store_request(
        standard_input() if content == "-" else content,
        category=category,
        namespace=namespace,
        source=source,
        tags=tag,
        confidence=confidence,
        expires_at=expires_at,
        valid_from=valid_from,
        valid_until=valid_until,
        supersedes=supersedes,
    )
    with naming_fields():
        scope = Scope(session_id=session, project_id=project, task_id=task)
    with command.client() as client, writing_as(OPERATOR):
        receipt = client.store(agent_id, request, scope=scope)
        unknown = await_stored(client, receipt)["unknown_supersedes"]
    command.show_facts({"id": receipt.memory_ids[0], "job_id": receipt.job_ids[0], "unknown_supersedes": unknown})


@app.command("search")
def search(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Whose memories.")],
    filters: Filters,
    text: Annotated[str | None, typer.Argument(help="What to look for; without it, the newest.")] = None,
    limit: Limit = 10,
    min_evidence: MinEvidence = None,
    standing: WhichStanding = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say of each memory why it is shown.")] = False,
    why_not: Annotated[str | None, typer.Option(help="Say of this memory why it is not shown.")] = None,
    as_of: Annotated[str | None, typer.Option(help="As of this ISO time: what was there, and held then.")] = None,
    time_zone: TimeZoneOption = None,
) -> None:
    """Search an agent's memories by meaning and by words, in this process, without the queue."""
    if why_not is not None:
        limit, standing = _MOST_FOUND, Shown.ANY
    explain = explain or why_not is not None
    query = filters.query(text, limit, min_evidence=min_evidence, standing=standing, explain=explain)
    more = {"as_of": moment("as_of", as_of), "time_zone": time_zone}
    with naming_fields():
        query = MemoryQuery.model_validate({**dict(query), **more})
    found = command.run(lambda service: service.memories.search(agent_id, query))
    if why_not is not None:
        found = tuple(entry for entry in found if entry.id == why_not)
        if not found:
            warn("memtend: neither words nor meaning put it among the candidates, or the filters leave it out")
    if explain:
        for read_as in {entry.why.read_as for entry in found if entry.why is not None and entry.why.read_as}:
            warn(f"memtend: the question was read as: {read_as}")
        command.show_rows((_why_row(command, entry) for entry in found), *_WHY_COLUMNS)
        return
    command.show_rows((_row(command, entry) for entry in found), "score", "created_at", "category", "text", "id")


_WHY_COLUMNS = ("standing", "share", "needed", "evidence", "words", "meaning", "text", "id")


def _why_row(command: JsonCommand, entry: MemoryEntry) -> Mapping[str, Any]:
    row = _row(command, entry)
    if command.as_json or entry.why is None:
        return row
    why = entry.why
    evidence = f"{why.evidence:.2f} of {why.needed_evidence:.2f}"
    numbers = {"share": f"{why.share:.2f}", "needed": f"{why.needed:.2f}", "meaning": f"{why.meaning:.2f}"}
    return {**row, **numbers, "evidence": evidence, "words": " ".join(why.words)}


@app.command("ask")
def ask(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Whose memories.")],
    question: Annotated[str, typer.Argument(help="The question.")],
    category: Annotated[list[str] | None, typer.Option(help="Only from these categories.")] = None,
    time_zone: TimeZoneOption = None,
    token_budget: Annotated[int, typer.Option(help="Most tokens of memories that the model reads.")] = ASK_TOKENS,
    timeout_seconds: Annotated[float, typer.Option("--timeout", help="Seconds for the model.")] = ASK_SECONDS,
) -> None:
    """Answer a question from an agent's memories, each sentence with those it rests on; without a model show them."""
    # With the command: it loads what reads, and few commands do.
    from memcore.memory.memory import Memory  # noqa: PLC0415  # see above

    with Memory.from_settings(command.settings, command.policy) as memory:
        answer = memory.ask(
            agent_id,
            question,
            categories=category or None,
            time_zone=time_zone,
            token_budget=token_budget,
            timeout_seconds=timeout_seconds,
        )
    if command.as_json:
        command.show_facts(answer)
        return
    numbers = {each.memory_id: number for number, each in enumerate(answer.passages, start=1)}
    for each in answer.sentences:
        places = ", ".join(str(numbers[memory_id]) for memory_id in each.memory_ids)
        say(f"{each.text} [{places}]{' (no longer true)' if each.is_superseded else ''}")
    if answer.reason is not None:
        warn(f"memtend: {_WITHOUT_SENTENCES[answer.reason]}")
    if answer.degraded:
        warn(f"memtend: memories may be missing, for these did not answer: {', '.join(answer.degraded)}")
    if not answer.passages:
        return
    if answer.reason is NoSentences.NOT_FOUND:
        warn("memtend: these come nearest, and may have nothing to do with it:")
    rows = (
        {"number": number, **short(command, each.model_dump(exclude_none=True))}
        for number, each in enumerate(answer.passages, start=1)
    )
    command.show_rows(rows, "number", "date", "whose", "text", "memory_id")


_WITHOUT_SENTENCES = {
    NoSentences.NOT_FOUND: "not known: no memory answers this",
    NoSentences.NOT_SAID: "not known: the model finds no answer in these memories",
    NoSentences.NOT_GROUNDED: "not known: nothing that the model wrote rests on these memories",
    NoSentences.NO_MODEL: "no language model is configured (MEMTEND_LLM_URL): these are the best memories",
    NoSentences.BUDGET: "the agent's budget of today is used up (memory.budgets): these are the best memories",
    NoSentences.TIME: "the language model took too long (--timeout): these are the best memories",
    NoSentences.MODEL_FAILED: "the language model failed (`memtend models check`): these are the best memories",
}


@app.command("conflicts")
def show_conflicts(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Whose memories.")],
    limit: Limit = 20,
) -> None:
    """List pairs of memories that may contradict one another; `supersede` and `both-hold` decide."""
    found = command.run(lambda service: service.memories.conflicts(agent_id, limit=limit))
    columns = ("older", "newer", "verdict", "older_text", "newer_text")
    command.show_rows((_pair(command, each) for each in found), *columns)


def _pair(command: JsonCommand, pair: Conflict) -> Mapping[str, Any]:
    if command.as_json:
        more = {"verdict": pair.verdict, "run_id": pair.run_id}
        return {"older": entry_facts(pair.older), "newer": entry_facts(pair.newer), **more}
    texts = {
        f"{name}_text": f"{day_of(entry.created_at)} {short(command, {'text': entry.content})['text']}"
        for name, entry in (("older", pair.older), ("newer", pair.newer))
    }
    return {"older": pair.older.id, "newer": pair.newer.id, "verdict": pair.verdict, **texts}


@app.command("supersede")
def supersede_memory(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Whose memories.")],
    old_id: Annotated[str, typer.Argument(help="The memory that holds no more.")],
    new_id: Annotated[str, typer.Argument(help="The memory that replaced it.")],
    by: By = None,
) -> None:
    """Let one memory replace another: that stays, ranks behind it, and says so."""
    command.run(lambda service: service.memories.supersede(agent_id, old_id, new_id, by=by))
    command.show_facts({"superseded": old_id, "by": new_id})


@app.command("both-hold")
def both_hold(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Whose memories.")],
    old_id: Annotated[str, typer.Argument(help="The older memory.")],
    new_id: Annotated[str, typer.Argument(help="The newer memory, which does not replace it.")],
    by: By = None,
) -> None:
    """Say that two memories both hold: they are no conflict, and no model decides otherwise."""
    command.run(lambda service: service.memories.both_hold(agent_id, old_id, new_id, by=by))
    command.show_facts({"holds": old_id, "beside": new_id})


@app.command("reinstate")
def reinstate_memory(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Whose memory.")],
    memory_id: Annotated[str, typer.Argument(help="The memory that holds after all.")],
    by: By = None,
) -> None:
    """Take back that a memory was superseded."""
    successor = command.run(lambda service: service.memories.reinstate(agent_id, memory_id, by=by))
    command.show_facts({"reinstated": memory_id, "from": successor})


def store_request(
    content: str,
    *,
    category: str,
    namespace: str,
    tags: list[str] | None,
    source: str | None = None,
    confidence: float = 1.0,
    expires_at: str | None = None,
    valid_from: str | None = None,
    valid_until: str | None = None,
    supersedes: list[str] | None = None,
) -> MemoryStoreRequest:
    """Return what is to be stored. Raises MemoryInputError, naming the field."""
    with naming_fields():
        return MemoryStoreRequest.model_validate(
            {
                "category": category,
                "namespace": namespace,
                "content": content,
                "metadata": MemoryMetadata(source=source, confidence=confidence, tags=tuple(tags or ())),
                "expires_at": moment("expires_at", expires_at),
                "valid_from": moment("valid_from", valid_from),
                "valid_until": moment("valid_until", valid_until),
                "supersedes": tuple(supersedes or ()),
            }
        )


def entry_facts(entry: MemoryEntry) -> dict[str, Any]:
    """Return what people are shown of a memory that was found."""
    return {
        "score": entry.relevance_score,
        "scores": None if entry.scores is None else entry.scores.model_dump(),
        "standing": entry.standing,
        "why": None if entry.why is None else entry.why.model_dump(),
        "created_at": entry.created_at,
        "covers_until": entry.covers_until,
        "valid_from": entry.valid_from,
        "valid_until": entry.valid_until,
        "superseded_by": entry.superseded_by,
        "superseded_at": entry.superseded_at,
        "category": str(entry.category),
        "text": entry.content,
        "id": entry.id,
        "namespace": entry.namespace,
        "metadata": entry.metadata.model_dump(mode="json"),
        "expires_at": entry.expires_at,
    }


def _row(command: JsonCommand, entry: MemoryEntry) -> Mapping[str, Any]:
    row = short(command, entry_facts(entry))
    if command.as_json:
        return row
    replaced = "" if entry.superseded_at is None else f"[superseded {day_of(entry.superseded_at)}] "
    weak = "[weak] " if entry.standing is Standing.WEAK else ""
    return {
        **row,
        "created_at": row["created_at"] if entry.covers_until is None else entry.days,
        "text": f"{weak}{replaced}{row['text']}",
    }


def short(command: JsonCommand, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with its text as a table has it, one line, cut where it is long; JSON has it whole."""
    if command.as_json or row["text"] is None:
        return row
    line = " ".join(row["text"].split())
    return {**row, "text": line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 3] + "..."}


def moment(field: str, text: str | None) -> datetime | None:
    """Return the time that an option names. Raises MemoryInputError when it is none."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise MemoryInputError(field, "must be an ISO time such as 2027-01-01T00:00:00Z") from None


def zoned(field: str, text: str | None) -> datetime | None:
    """Return the time that an option names. Raises MemoryInputError when it is none, or has no time zone."""
    at = moment(field, text)
    if at is not None and at.tzinfo is None:
        raise MemoryInputError(field, "needs a time zone, such as Z or +02:00")
    return at


def standard_input() -> str:
    """Return what is piped in; MemoryInputError when it is no text."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise MemoryInputError("content", "must be valid UTF-8") from None
