"""``memtend conversation``: what agents keep of people; to show, export, forget and restore it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from memcore.conversation.entries import entry_of, format_working_memory_entries
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.conversation.turns import Session
from memcore.ledger.ledger import Ledger
from memcore.memory.conversation import checked_owner
from memcore.models.conversation import Arc, Fact, FactState, Owner, ProfileRule, resolve_owner_id
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

#: What a person can bring back.
_HIDDEN = (FactState.FORGOTTEN, FactState.ARCHIVED, FactState.SUPERSEDED)

#: What a person can have forgotten.
_KNOWN = (FactState.ACTIVE, FactState.ARCHIVED, FactState.SUPERSEDED)


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
    with command.ledger() as ledger:
        counts = ledger.conversation.counts(command.company, owner)
        state = ledger.conversation.state(command.company, owner)
    command.show_facts({**owner.model_dump(), **counts.model_dump(), "recall": state.recall, "version": state.version})


@app.command("subjects")
def subjects(command: JsonCommand, agent: AgentOption) -> None:
    """List the people that an agent has talked to: users, and sessions without a user."""
    with command.ledger() as ledger:
        found: list[str] = []
        while page := ledger.conversation.subjects(command.company, agent, after=found[-1] if found else ""):
            found += page
    command.show_rows(({"subject": each} for each in found), "subject")


@app.command("facts")
def facts(command: JsonCommand, person: _Person, state: StateOption = None) -> None:
    """Show the facts about a person, the newest first."""
    with command.ledger() as ledger:
        found = _facts(ledger, command.company, person.owner, state)
    command.show_rows(map(_row, found), "created_at", "state", "text", "fact_id")


@app.command("rules")
def rules(command: JsonCommand, person: _Person, state: StateOption = None) -> None:
    """Show how a person asked to be answered, the newest first."""
    with command.ledger() as ledger:
        found = _rules(ledger, command.company, person.owner, state)
    command.show_rows(map(_row, found), "created_at", "state", "text", "rule_id")


@app.command("sessions")
def sessions(command: JsonCommand, person: _Person, limit: Limit = 20) -> None:
    """Show a person's sessions and what they were about, the newest first."""
    with command.ledger() as ledger:
        found = ledger.sessions.page(command.company, person.owner, limit=limit)
        arcs = {arc.session_id: arc for arc in _arcs(ledger, command.company, person.owner)}
    rows = ({**_session(each), "arc": _summary(arcs.get(each.session_id))} for each in found)
    command.show_rows(rows, "begun_at", "ended_at", "turns", "is_private", "arc", "session_id")


@app.command("export")
def export(command: JsonCommand, person: _Person) -> None:
    """Print as JSON all that is kept of one person: memory in every state, texts of turns, crises, feedback."""
    with command.ledger() as ledger:
        show_json(exported(ledger, command.company, person.owner))


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
    with command.ledger() as ledger:
        ledger.conversation.set_recall(command.company, owner, is_on=switch == "on")
    command.show_facts({**owner.model_dump(), "recall": switch == "on"})


@app.command("forget")
def forget(command: JsonCommand, ids: IdsArgument, person: _Person) -> None:
    """Forget facts, rules and summaries: no agent is shown them. `memtend conversation restore` brings them back."""
    _change(command, person.owner, ids, to=FactState.FORGOTTEN, sources=_KNOWN)


@app.command("restore")
def restore(command: JsonCommand, ids: IdsArgument, person: _Person) -> None:
    """Bring back facts, rules and summaries that were forgotten, replaced or archived."""
    _change(command, person.owner, ids, to=FactState.ACTIVE, sources=_HIDDEN)


@app.command("crises")
def crises(command: JsonCommand, person: _Person, limit: Limit = 20) -> None:
    """Show the crises that an agent's engine detected, the newest first; no prompt ever has them."""
    with command.ledger() as ledger:
        found = ledger.crises.page(command.company, person.agent, subject=person.subject, limit=limit)
    command.show_rows(found, "at", "level", "path", "action", "subject", "session_id")


@app.command("feedback")
def feedback(command: JsonCommand, person: _Person, limit: Limit = 20) -> None:
    """Show what people thought of an agent's sessions, the newest first; no prompt ever has it."""
    with command.ledger() as ledger:
        found = ledger.feedback.page(command.company, person.agent, subject=person.subject, limit=limit)
    command.show_rows(found, "at", "label", "source", "comment", "subject", "session_id")


def exported(ledger: Ledger, company: str, owner: Owner) -> dict[str, Any]:
    """Return all that is kept of one person."""
    conversation, agent_id, subject = ledger.conversation, owner.agent_id, owner.subject
    its_sessions = _all_before(lambda last: ledger.sessions.page(company, owner, before=last))
    turns = [turn for each in its_sessions for turn in ledger.turns.of_session(company, each.session_key)]
    held = [candidate for each in its_sessions for candidate in ledger.sessions.held(company, each.session_key)]
    state = conversation.state(company, owner)
    return {
        **owner.model_dump(),
        "recall": state.recall,
        "version": state.version,
        "facts": _facts(ledger, company, owner, None),
        "rules": _rules(ledger, company, owner, None),
        "arcs": _arcs(ledger, company, owner),
        "sessions": list(map(_session, its_sessions)),
        "held": held,
        "turns": [turn.model_dump(mode="json", include=_OF_TURN) for turn in turns if turn.user_text is not None],
        "crises": _all_before(lambda last: ledger.crises.page(company, agent_id, subject=subject, before=last)),
        "feedback": _all_before(lambda last: ledger.feedback.page(company, agent_id, subject=subject, before=last)),
    }


#: What is shown of a session and of a turn: not the lease of the worker that has it.
_OF_SESSION = {"session_id", "session_key", "turns", "is_private", "begun_at", "last_turn_at", "ended_at", "outcome"}
_OF_TURN = {"turn_id", "session_key", "at", "user_text", "assistant_text", "control", "outcome"}


def _session(session: Session) -> dict[str, Any]:
    return session.model_dump(include=_OF_SESSION)


def _summary(arc: Arc | None) -> str | None:
    return None if arc is None else f"{arc.summary} ({arc.state})"


def _row(kept: Fact | ProfileRule) -> dict[str, Any]:
    return {**kept.model_dump(), "text": format_working_memory_entries([entry_of(kept)])}


def _facts(ledger: Ledger, company: str, owner: Owner, states: list[FactState] | None) -> list[Fact]:
    wanted, page = states or list(FactState), ledger.conversation.facts
    found = _all_after(lambda last: page(company, owner, states=wanted, after=last), lambda fact: fact.fact_id)
    return _newest(found)


def _rules(ledger: Ledger, company: str, owner: Owner, states: list[FactState] | None) -> list[ProfileRule]:
    wanted, page = states or list(FactState), ledger.conversation.rules
    found = _all_after(lambda last: page(company, owner, states=wanted, after=last), lambda rule: rule.rule_id)
    return _newest(found)


def _arcs(ledger: Ledger, company: str, owner: Owner) -> list[Arc]:
    page = ledger.conversation.listed_arcs
    found = _all_after(
        lambda last: page(company, owner, states=list(FactState), after=last), lambda arc: arc.session_id
    )
    return _newest(found)


_Kept = TypeVar("_Kept", Fact, ProfileRule, Arc)
_Record = TypeVar("_Record")


def _newest(kept: list[_Kept]) -> list[_Kept]:
    return sorted(kept, key=lambda each: each.created_at, reverse=True)


def _all_after(page: Callable[[str], tuple[_Kept, ...]], id_of: Callable[[_Kept], str]) -> list[_Kept]:
    """Return all pages of a listing by id."""
    found: list[_Kept] = []
    while more := page(id_of(found[-1]) if found else ""):
        found += more
    return found


def _all_before(page: Callable[[_Record | None], tuple[_Record, ...]]) -> list[_Record]:
    """Return all pages of a listing by time."""
    found: list[_Record] = []
    while more := page(found[-1] if found else None):
        found += more
    return found


def _change(
    command: JsonCommand, owner: Owner, ids: list[str], *, to: FactState, sources: tuple[FactState, ...]
) -> None:
    with command.ledger() as ledger:
        changed = ledger.conversation.change_state(command.company, owner, ids, to=to, sources=sources)
    if not changed:
        raise MemoryNotFoundError(
            "ids: name nothing of this person that this would change; see `memtend conversation facts`"
        )
    command.show_facts({**owner.model_dump(), "state": to.value, "changed": changed})
