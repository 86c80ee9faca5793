"""``memtend conversation``: what agents keep of people; to show, export, forget and restore it."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from memcore.conversation.entries import entry_of, format_working_memory_entries
from memcore.errors import MemoryInputError
from memcore.ledger.conversation.memory import UnsureFacts
from memcore.memory.conversation import checked_owner
from memcore.models.conversation import Arc, Fact, FactState, Owner, ProfileRule, resolve_owner_id
from memcore.models.memory import day_of
from memcore.service.conversation import session_facts
from ops.cli.console import show_json
from ops.cli.session import Commands, JsonCommand

app = Commands("conversation", "What is kept of conversations: facts, rules, sessions, crises, feedback.")

AgentOption = Annotated[str, typer.Option("--agent", help="The agent that the person talks to.")]
UserOption = Annotated[str | None, typer.Option("--user", help="The user.")]
SessionOption = Annotated[str | None, typer.Option("--session", help="The session, where no user is named.")]
StateOption = Annotated[
    list[FactState] | None, typer.Option("--state", help="Only these states; may be given several times.")
]
IdsArgument = Annotated[list[str], typer.Argument(help="Facts, rules, or sessions whose summary is meant.")]
Limit = Annotated[int, typer.Option(min=1, max=500, help="At most so many.")]
By = Annotated[str | None, typer.Option("--by", help="Your name; it is kept in the audit.")]


@dataclass(frozen=True)
class _Person:
    """The agent, and the person that it talks to."""

    agent: AgentOption
    user: UserOption = None
    session: SessionOption = None

    @property
    def owner(self) -> Owner:
        """Whose memory it is. Raises MemoryInputError."""
        return checked_owner(self.agent, self.user, self.session)

    @property
    def subject(self) -> str | None:
        """The person; None where none is named, and all of the agent's are meant."""
        if self.user is None and self.session is None:
            return None
        return resolve_owner_id(user_id=self.user, session_id=self.session)


@app.command("status")
def status(command: JsonCommand, person: _Person) -> None:
    """Show how many facts, sessions and rules an agent has of a person, what waits, and whether it is shown."""
    owner = person.owner
    found = command.run(lambda service: service.conversation.status(owner))
    counts = found.counts.model_dump()
    command.show_facts({**owner.model_dump(), **counts, "recall": found.recall, "version": found.version})


@app.command("subjects")
def subjects(command: JsonCommand, agent: AgentOption) -> None:
    """List the people that an agent has talked to: users, and sessions without a user."""
    found = command.run(lambda service: service.conversation.subjects(agent))
    command.show_rows(({"subject": each} for each in found), "subject")


@app.command("facts")
def facts(command: JsonCommand, person: _Person, state: StateOption = None) -> None:
    """Show the facts about a person, the newest first."""
    owner = person.owner
    found = command.run(lambda service: service.conversation.facts(owner, states=state))
    command.show_rows(map(_row, found), "created_at", "state", "text", "fact_id")


@app.command("rules")
def rules(command: JsonCommand, person: _Person, state: StateOption = None) -> None:
    """Show how a person asked to be answered, the newest first."""
    owner = person.owner
    found = command.run(lambda service: service.conversation.rules(owner, states=state))
    command.show_rows(map(_row, found), "created_at", "state", "text", "rule_id")


@app.command("sessions")
def sessions(command: JsonCommand, person: _Person, limit: Limit = 20) -> None:
    """Show a person's sessions and what they were about, the newest first."""
    owner = person.owner
    found = command.run(lambda service: service.conversation.sessions(owner, limit=limit))
    rows = ({**session_facts(each), "arc": _summary(arc)} for each, arc in found)
    command.show_rows(rows, "begun_at", "ended_at", "turns", "is_private", "arc", "session_id")


@app.command("export")
def export(command: JsonCommand, person: _Person) -> None:
    """Print as JSON all that is kept of one person: memory in every state, texts of turns, crises, feedback."""
    owner = person.owner
    show_json(command.run(lambda service: service.conversation.export(owner)))


@app.command("recall")
def recall(
    command: JsonCommand,
    switch: Annotated[str, typer.Argument(help="on or off.")],
    person: _Person,
) -> None:
    """Turn on or off that an agent is shown what is kept of a person; nothing is deleted."""
    if switch not in {"on", "off"}:
        raise MemoryInputError("switch", "must be on or off")
    owner = person.owner
    command.run(lambda service: service.conversation.set_recall(owner, is_on=switch == "on"))
    command.show_facts({**owner.model_dump(), "recall": switch == "on"})


@app.command("forget")
def forget(command: JsonCommand, ids: IdsArgument, person: _Person) -> None:
    """Forget facts, rules and summaries: no agent is shown them. `memtend conversation restore` brings them back."""
    owner = person.owner
    changed = command.run(lambda service: service.conversation.forget(owner, ids))
    command.show_facts({**owner.model_dump(), "state": FactState.FORGOTTEN.value, "changed": changed})


@app.command("restore")
def restore(command: JsonCommand, ids: IdsArgument, person: _Person, by: By = None) -> None:
    """Bring back facts, rules and summaries that were forgotten, replaced or archived."""
    owner = person.owner
    changed = command.run(lambda service: service.conversation.restore(owner, ids, by=by))
    command.show_facts({**owner.model_dump(), "state": FactState.ACTIVE.value, "changed": changed})


@app.command("conflicts")
def conflicts(command: JsonCommand, person: _Person, limit: Limit = 20) -> None:
    """List pairs of facts of which one may have replaced the other; `supersede` and `both-hold` decide."""
    found = command.run(
        lambda service: service.conversation.conflicts(person.agent, subject=person.subject, limit=limit)
    )
    columns = ("subject", "older", "newer", "verdict", "older_text", "newer_text")
    command.show_rows((_pair(command, each) for each in found), *columns)


@app.command("supersede")
def supersede(
    command: JsonCommand,
    old_id: Annotated[str, typer.Argument(help="The fact that holds no more.")],
    new_id: Annotated[str, typer.Argument(help="The fact that replaced it.")],
    person: _Person,
    by: By = None,
) -> None:
    """Let one fact replace another, which is shown no longer; `restore` takes that back."""
    owner = person.owner
    command.run(lambda service: service.conversation.supersede(owner, old_id, new_id, by=by))
    command.show_facts({"superseded": old_id, "by": new_id})


@app.command("both-hold")
def both_hold(
    command: JsonCommand,
    old_id: Annotated[str, typer.Argument(help="The older fact.")],
    new_id: Annotated[str, typer.Argument(help="The newer fact, which does not replace it.")],
    person: _Person,
    by: By = None,
) -> None:
    """Say that two facts both hold: they are no conflict."""
    owner = person.owner
    command.run(lambda service: service.conversation.both_hold(owner, old_id, new_id, by=by))
    command.show_facts({"holds": old_id, "beside": new_id})


@app.command("crises")
def crises(command: JsonCommand, person: _Person, limit: Limit = 20) -> None:
    """Show the crises that an agent's engine detected, the newest first; no prompt ever has them."""
    found = command.run(lambda service: service.conversation.crises(person.agent, subject=person.subject, limit=limit))
    command.show_rows(found, "at", "level", "path", "action", "subject", "session_id")


@app.command("feedback")
def feedback(command: JsonCommand, person: _Person, limit: Limit = 20) -> None:
    """Show what people thought of an agent's sessions, the newest first; no prompt ever has it."""
    found = command.run(
        lambda service: service.conversation.feedback(person.agent, subject=person.subject, limit=limit)
    )
    command.show_rows(found, "at", "label", "source", "comment", "subject", "session_id")


def _summary(arc: Arc | None) -> str | None:
    return None if arc is None else f"{arc.summary} ({arc.state})"


def _pair(command: JsonCommand, pair: UnsureFacts) -> dict[str, Any]:
    if command.as_json:
        return {"subject": pair.owner.subject, "older": pair.older, "newer": pair.newer, "verdict": "unsure"}
    named = {"older": pair.older, "newer": pair.newer}
    texts = {f"{name}_text": f"{day_of(each.created_at)} {each.evidence_quote}" for name, each in named.items()}
    ids = {name: each.fact_id for name, each in named.items()}
    return {"subject": pair.owner.subject, **ids, "verdict": "unsure", **texts}


def _row(kept: Fact | ProfileRule) -> dict[str, Any]:
    return {**kept.model_dump(), "text": format_working_memory_entries([entry_of(kept)])}
