"""``memtend why``: a memory's state, its originals and summaries, and who asked for each change.

It explains what is kept of conversations too: a fact, a rule, or the summary of a session.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from memcore.conversation.entries import entry_of, format_working_memory_entries
from memcore.ledger.journal import EntryReason
from memcore.ledger.lineage import ModelTrace
from memcore.maintenance.provenance import (
    HistoryEvent,
    MemoryHistory,
    MemoryState,
    MemoryTrace,
    TextLocation,
)
from memcore.models.conversation import EVICTION, Arc, Fact, FactState, Owner, ProfileRule
from memcore.models.memory_test import listed_names
from ops.cli.console import draw, plain, show_json
from ops.cli.session import Commands, JsonCommand

app = Commands()

_BECAUSE: dict[EntryReason, str] = {
    "retention": "its retention rule keeps it no longer",
    "expired": "its own expiry had come",
    "consolidated": "it was merged with others",
    "enforced": "the agent had more memories than its limit",
    "pruned": "its agent had older lessons, or more of them, than it keeps",
    "ended": "its session, project or task had ended",
    "restored": "it was brought back from the archive",
    "deleted": "somebody deleted it",
    "updated": "it was changed: another version is in its place",
    "undone": "a run was taken back, which is known no more",
}


@app.command("why")
def why(
    command: JsonCommand,
    memory_id: Annotated[
        str, typer.Argument(help="Any memory: live, merged, removed, or a summary. Or a fact, a rule, or a session.")
    ],
    agent: Annotated[str | None, typer.Option(help="Whose memory; needed for one that no run has moved.")] = None,
    text: Annotated[bool, typer.Option("--text", help="Print full texts too, as far as they are kept.")] = False,
) -> None:
    """Explain why a memory exists or is gone: what runs did to it, its originals and summaries, at any depth."""
    with command.service() as (service, runner):
        found = runner.run(service.conversation.explained(memory_id))
        kept = [(owner, each) for owner, each in found if agent is None or owner.agent_id == agent]
        if kept:
            _explain(command, kept, text=text)
            return
        memory_history = runner.run(service.memories.why(memory_id, agent_id=agent, with_text=text))
    if command.as_json:
        reported = {"originals": memory_history.originals(), "summaries": memory_history.summaries()}
        show_json({**memory_history.model_dump(mode="json"), **reported})
        return
    draw(drawn(memory_history))


def drawn(memory_history: MemoryHistory) -> Tree:
    """Return the history as a tree: what runs did, then downwards to the originals and upwards to the summaries."""
    tree = Tree(_label(memory_history.memory))
    tree.add(plain(f"of agent {memory_history.agent_id}"))
    if memory_history.memory.chapters:
        deeds = tree.add(plain("what runs did"))
        for each in memory_history.memory.chapters:
            deeds.add(plain(f"{each.at:%Y-%m-%d %H:%M:%S}  {each.kind} by {_run(each)}: {_reason(each)}"))
    for title, edge in (("made of", "made_of"), ("made into", "made_into")):
        if getattr(memory_history.memory, edge):
            _grow(tree.add(plain(title)), memory_history, edge)
    if memory_history.memory.kept_for:
        tree.add(
            plain(f"the gate left it as it is for the memory tests {listed_names(memory_history.memory.kept_for)}")
        )
    if memory_history.models:
        models = tree.add(plain("models asked in the run that made it"))
        for use in memory_history.models:
            models.add(plain(_model(use)))
    return tree


def _grow(root: Tree, memory_history: MemoryHistory, edge: str) -> None:
    # Without recursion, since lineage may be of any depth; a memory that is shown already is not repeated.
    reported = {memory_history.memory_id}
    waiting = [(root, memory_id) for memory_id in reversed(getattr(memory_history.memory, edge))]
    while waiting:
        branch, memory_id = waiting.pop()
        memory = memory_history.find(memory_id)
        if memory is None or memory_id in reported:
            branch.add(plain(f"{memory_id}  see above"))
            continue
        reported.add(memory_id)
        leaf = branch.add(_label(memory))
        waiting.extend((leaf, each) for each in reversed(getattr(memory, edge)))


def _label(memory: MemoryTrace) -> Text:
    lines = [f"{memory.memory_id}  {_now(memory)}", _place(memory)]
    if memory.covers_since is not None:
        lines.append(f"about {memory.covers_since:%Y-%m-%d} to {memory.covers_until:%Y-%m-%d}")
    lines += [] if memory.text is None else [memory.text]
    return plain("\n".join([*lines, *(f"found too by: {note}" for note in memory.search_notes)]))


def _now(memory: MemoryTrace) -> str:
    last = memory.chapters[-1] if memory.chapters else None
    if memory.state is MemoryState.MISSING:
        return "missing: no run removed it, and it is not in the store, or is being erased"
    if memory.state is MemoryState.HIDDEN:
        return "hidden: it is distrusted, or came of what is (see `memtend distrust list`)"
    if memory.state is MemoryState.LIVE:
        raised = memory.raised and f", raised to {memory.raised.to} by approval {memory.raised.approval_id}"
        return f"live: {_origin(last)}{raised or ''}"
    if last is None:
        return str(memory.state)
    if memory.state is MemoryState.REPLACED:
        other = "version" if last.reason == "updated" else "summary"
        return f"replaced by {other} {', '.join(memory.replaced_by)}, {_by(last)}"
    return f"removed {_by(last)}: {_reason(last)}"


def _origin(last: HistoryEvent | None) -> str:
    if last is None:
        return "an agent stored it, and no run has moved it"
    if last.kind == "removed":
        return f"{'about to be removed' if last.is_open else 'stored again after it was removed'} {_by(last)}"
    return f"{'made' if last.kind == 'created' else 'brought back'} {_by(last)}"


def _by(history_event: HistoryEvent) -> str:
    return f"by run {history_event.run_id} at {history_event.at:%Y-%m-%d %H:%M}"


def _run(history_event: HistoryEvent) -> str:
    about = [str(each) for each in (history_event.run_kind, history_event.origin) if each]
    if history_event.undoes:
        about.append("of run " + ", which undid run ".join(history_event.undoes))
    return f"run {history_event.run_id}" + (f" ({', '.join(about)})" if about else "")


def _reason(history_event: HistoryEvent) -> str:
    because = "it stands for others" if history_event.kind == "created" else _BECAUSE[history_event.reason]
    if history_event.reason == "undone" and history_event.undoes:
        # The undo of an undo brings the first run's work back, the next one takes it away again.
        effect = "was taken back" if len(history_event.undoes) % 2 else "counts again"
        because = f"run {history_event.undoes[-1]} {effect}"
    return because + (", and this is not carried out yet" if history_event.is_open else "")


def _place(memory: MemoryTrace) -> str:
    if memory.text_in is TextLocation.GONE:
        return "its full text is kept no longer"
    until = f" until {memory.text_until:%Y-%m-%d %H:%M}" if memory.text_until else ""
    return f"full text in the {memory.text_in}{until}"


def _model(use: ModelTrace) -> str:
    return f"{use.model}  {use.purpose}: {use.calls} calls, {use.tokens} tokens, cost {use.cost:.4f} (run {use.run_id})"


#: What is kept of a conversation, and of whom.
_Kept = tuple[Owner, Fact | ProfileRule | Arc]


def _explain(command: JsonCommand, kept: Sequence[_Kept], *, text: bool) -> None:
    if command.as_json:
        show_json({"kept": [{**owner.model_dump(), **_facts(each, with_text=text)} for owner, each in kept]})
        return
    draw(*(_kept_tree(owner, each, text=text) for owner, each in kept))


def _facts(kept: Fact | ProfileRule | Arc, *, with_text: bool) -> dict[str, Any]:
    entry = entry_of(kept)
    facts = {
        "id": entry["id"],
        "type": entry["type"],
        **kept.model_dump(mode="json", include=_ALIKE),
        "turn_id": None if isinstance(kept, Arc) else kept.turn_id,
        "confidence": None if isinstance(kept, Arc) else kept.confidence,
        "policy_version": None if isinstance(kept, Arc) else kept.policy_version,
    }
    return {**facts, "text": format_working_memory_entries([entry]) if with_text else None}


#: What is shown of a fact, a rule and a session alike.
_ALIKE = {"state", "superseded_by", "reason", "session_id", "created_at", "last_referenced_at", "changed_at"}


def _kept_tree(owner: Owner, kept: Fact | ProfileRule | Arc, *, text: bool) -> Tree:
    facts = _facts(kept, with_text=text)
    lines = [f"{facts['id']}  {_standing(kept)}"]
    tree = Tree(plain("\n".join(lines if facts["text"] is None else [*lines, facts["text"]])))
    tree.add(plain(f"of {owner.subject}, for agent {owner.agent_id}"))
    source = "several turns" if facts["turn_id"] is None else f"turn {facts['turn_id']}"
    tree.add(plain(f"said in session {kept.session_id}" + ("" if isinstance(kept, Arc) else f", {source}")))
    if kept.reason:
        tree.add(plain(f"written because: {kept.reason}"))
    if facts["confidence"]:
        tree.add(plain(f"confidence {facts['confidence']}, by policy {facts['policy_version'] or 'unknown'}"))
    times = f"first said {kept.created_at:%Y-%m-%d %H:%M}, last said {kept.last_referenced_at:%Y-%m-%d %H:%M}"
    tree.add(plain(times))
    return tree


def _standing(kept: Fact | ProfileRule | Arc) -> str:
    since = f"since {kept.changed_at:%Y-%m-%d %H:%M}"
    match kept.state:
        case FactState.ACTIVE:
            return f"active {since}"
        case FactState.SUPERSEDED:
            return f"replaced by {kept.superseded_by} {since}"
        case FactState.FORGOTTEN:
            return f"forgotten {since}: somebody asked for it"
        case FactState.ARCHIVED if kept.superseded_by == EVICTION:
            return f"archived {since}: newer rules took its place"
        case FactState.ARCHIVED if kept.superseded_by:
            return f"archived {since}: {kept.superseded_by} had replaced it"
        case FactState.ARCHIVED:
            return f"archived {since}: its session was long ago"
