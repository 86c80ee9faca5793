"""``memtend distrust``: take back all that ever came of a source, and trust it again."""

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from memcore.ledger.access.distrusts import Distrust
from memcore.ledger.organization.audit import Confirmation
from memcore.models.base import naming_fields
from memcore.models.distrust import DistrustRule
from memcore.models.origin import Channel
from memcore.service.distrusts import DistrustOperations, DistrustView
from ops.cli.console import read_text, say
from ops.cli.memory.memories import moment
from ops.cli.progress import progress_bar
from ops.cli.session import Commands, JsonCommand, Result

app = Commands("distrust", "Distrust: plan, add, list, show, complete, report, verify, lift.")

IdArgument = Annotated[str, typer.Argument(help="The id that `distrust list` shows.")]
By = Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")]
Why = Annotated[str, typer.Option("--reason", help="Why; the audit keeps it.")]

_COLUMNS = ("at", "distrust_id", "rule", "by", "reason", "completed_at", "lifted_at")


@dataclass(frozen=True)
class RuleOptions:
    """What is not trusted; every option given must hold."""

    agent: Annotated[str | None, typer.Option(help="Of this agent alone; left out, of all.")] = None
    principal: Annotated[str | None, typer.Option(help="What this key wrote: its id, as `keys list` shows it.")] = None
    channel: Annotated[Channel | None, typer.Option(help="What came through this channel.")] = None
    source: Annotated[str | None, typer.Option(help="What its writer called its source.")] = None
    session: Annotated[str | None, typer.Option(help="What was stored in this session of the agent.")] = None
    memory: Annotated[str | None, typer.Option(help="This memory of the agent.")] = None
    since: Annotated[str | None, typer.Option(help="Made from this time on, such as 2027-01-01T00:00:00Z.")] = None
    until: Annotated[str | None, typer.Option(help="Made before this time.")] = None

    def rule(self) -> DistrustRule:
        """Return the rule. Raises MemoryInputError."""
        with naming_fields():
            return DistrustRule(
                agent_id=self.agent,
                principal=self.principal,
                channel=self.channel,
                source=self.source,
                session_id=self.session,
                memory_id=self.memory,
                since=moment("since", self.since),
                until=moment("until", self.until),
            )


@app.command("plan")
def plan(command: JsonCommand, options: RuleOptions) -> None:
    """Show what a distrust would hide and bring back, by agent; nothing is written."""
    rule = options.rule()
    found = _watched(command, lambda distrusts: distrusts.plan(rule))
    if command.as_json:
        command.show_facts(found)
    elif found.agents:
        command.show_rows(found.agents, "agent_id", "memories", "in_store", "brought_back")
    else:
        say("No agent has anything of it.")
    if not command.as_json:
        _say_skills(found.skills)


@app.command("add")
def add(command: JsonCommand, options: RuleOptions, by: By, reason: Why) -> None:
    """Hide all that meets every condition, and all that was made of it, from every reader at once.

    Clean memories that merges have taken with it come back. `distrust lift` takes it back.
    """
    rule = options.rule()
    confirmation = Confirmation(actor=by, confirm=True, reason=reason)
    _show(command, _watched(command, lambda distrusts: distrusts.distrust(rule, confirmation=confirmation)))


@app.command("list")
def list_distrusts(
    command: JsonCommand,
    limit: Annotated[int, typer.Option(help="At most so many, 1 to 200.")] = 20,
) -> None:
    """Show what is not trusted, newest first; what was lifted too."""
    found = command.run(lambda service: service.distrusts.list(limit=limit))
    command.show_rows([_shown(each) for each in found], *_COLUMNS)


@app.command("show")
def show(command: JsonCommand, distrust_id: IdArgument) -> None:
    """Show a distrust, the ids of what came of it by agent, and the runs that brought clean memories back."""
    found = command.run(lambda service: service.distrusts.get(distrust_id))
    if command.as_json:
        command.show_facts(found)
        return
    rule = found.distrust.rule.model_dump(mode="json", exclude_none=True)
    facts = {**found.distrust.model_dump(), "rule": _in_words(rule), "runs": " ".join(found.runs)}
    command.show_facts(facts)
    hidden = [{"agent_id": agent, "memory_id": memory_id} for agent, ids in found.memories.items() for memory_id in ids]
    command.show_rows(hidden, "agent_id", "memory_id")
    _say_skills(found.skills)


@app.command("complete")
def complete(command: JsonCommand, distrust_id: IdArgument) -> None:
    """Find again all that came of a source, where the first time was cut off: completed_at is empty."""
    _show(command, _watched(command, lambda distrusts: distrusts.complete(distrust_id)))


@app.command("report")
def report(command: JsonCommand, distrust_id: IdArgument) -> None:
    """Print the signed report of what came of a source, by id; keep it in a file."""
    say(json.dumps(command.run(lambda service: service.distrusts.report(distrust_id)), indent=2, sort_keys=True))


@app.command("verify")
def verify(command: JsonCommand, file: Annotated[Path, typer.Argument(help="The report.")]) -> None:
    """Check that this installation signed a report, and show what it says."""
    text = read_text(file)
    found = command.run(lambda service: service.distrusts.verify(text))
    counts = {name: sum(map(len, getattr(found, name).values())) for name in ("memories", "brought_back")}
    facts = found.model_dump(exclude={"rule", "checkpoints", "skills", *counts})
    rule = _in_words(found.rule.model_dump(mode="json", exclude_none=True))
    named = {"skills": ", ".join(found.skills), "checkpoints": ", ".join(found.checkpoints)}
    command.show_facts({**facts, "rule": rule, **counts, **named, "is_signed": True})


@app.command("lift")
def lift(command: JsonCommand, distrust_id: IdArgument, by: By, reason: Why) -> None:
    """Trust a source again: what came of it is shown, and what had come back out of merges goes there again."""
    confirmation = Confirmation(actor=by, confirm=True, reason=reason)
    _show(command, command.run(lambda service: service.distrusts.lift(distrust_id, confirmation=confirmation)))


def _watched(command: JsonCommand, call: "Callable[[DistrustOperations], Coroutine[Any, Any, Result]]") -> Result:
    """Return the result of a call that looks at one agent after the other, with a bar until then."""
    with (
        command.service() as (service, runner),
        progress_bar("looking at agents", total=None, is_silent=command.as_json) as bar,
    ):
        service.distrusts.watch = bar.reached
        return runner.run(call(service.distrusts))


def _shown(distrust: Distrust) -> dict[str, object]:
    shown = DistrustView.of(distrust).model_dump()
    return {**shown, "rule": _in_words(distrust.rule.model_dump(mode="json", exclude_none=True))}


def _say_skills(fallen: Mapping[str, tuple[str, ...]]) -> None:
    for skill_id, instead in fallen.items():
        say(f"The skill {skill_id} is of it; shown instead: {', '.join(instead) or 'none'}.")


def _in_words(rule: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in rule.items())


def _show(command: JsonCommand, distrust: Distrust) -> None:
    command.show_facts(_shown(distrust))
