"""``memtend erase``: erase an agent or a person for good, verify a receipt, search the data folder for texts."""

from pathlib import Path
from time import sleep
from typing import Annotated

import typer

from memcore.errors import MemoryInputError, MemoryStoreError
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.work_items import ENDED_STATES, WorkState
from ops.cli.console import read_text, say
from ops.cli.progress import progress_bar
from ops.cli.session import Commands, JsonCommand

app = Commands("erase", "Erasure: agent, subject, list, receipt, verify, check.")

AgentArgument = Annotated[str, typer.Argument(help="The agent's id.")]
By = Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit and in the receipt.")]
Why = Annotated[str, typer.Option("--reason", help="Why; the audit keeps it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Erase it; nothing brings it back.")]
Retire = Annotated[
    bool, typer.Option("--retire-checkpoints", help="Delete the embedders that were trained on memories, too.")
]

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the receipt, with a bar.")]

#: Pause between two looks at an erasure that is waited for, in seconds.
_POLL_INTERVAL_SECONDS = 0.5

_COLUMNS = ("requested_at", "erasure_id", "agent_id", "subject", "state", "reason", "finished_at")


@app.command("agent")
def erase_agent(
    command: JsonCommand,
    agent_id: AgentArgument,
    by: By,
    reason: Why,
    yes: Yes = False,
    retire: Retire = False,
    wait: Wait = False,
) -> None:
    """Erase all that is stored of an agent, for good; stop its engine first."""
    _request(command, agent_id, None, Confirmed(by, reason, yes), retire=retire, wait=wait)


@app.command("subject")
def erase_subject(
    command: JsonCommand,
    agent_id: AgentArgument,
    subject: Annotated[str, typer.Argument(help="The person: the engine's user_id, or session:NAME.")],
    by: By,
    reason: Why,
    yes: Yes = False,
    retire: Retire = False,
    wait: Wait = False,
) -> None:
    """Erase what an agent has kept of a person, for good: conversations, and memories under the person's name."""
    _request(command, agent_id, subject, Confirmed(by, reason, yes), retire=retire, wait=wait)


@app.command("list")
def list_erasures(
    command: JsonCommand,
    agent: Annotated[str | None, typer.Option(help="Of this agent alone.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, 1 to 256.")] = 20,
) -> None:
    """Show erasures, newest first: which wait, and for what."""
    command.show_rows(command.run(lambda service: service.erasures.list(agent_id=agent, limit=limit)), *_COLUMNS)


@app.command("receipt")
def receipt(
    command: JsonCommand,
    erasure_id: Annotated[str, typer.Argument(help="The id that `erase list` shows.")],
) -> None:
    """Print the signed receipt of an erasure; keep it in a file."""
    found = command.run(lambda service: service.erasures.get(erasure_id))
    if found.receipt is None:
        raise MemoryInputError("erasure_id", f"is {found.state} and has no receipt yet: {found.reason or 'it waits'}")
    say(found.receipt)


@app.command("verify")
def verify(command: JsonCommand, file: Annotated[Path, typer.Argument(help="The receipt.")]) -> None:
    """Check that this installation signed a receipt, and show what it says."""
    text = read_text(file)
    found = command.run(lambda service: service.erasures.verify(text))
    places = {f"found in {name}": place.found for name, place in found.places.items() if place.found}
    left = sum(place.left for place in found.places.values())
    facts = found.model_dump(include={"erasure_id", "agent_id", "subject", "requested_by", "finished_at"})
    trained = {"checkpoints": ", ".join(found.checkpoints), "retired": ", ".join(found.retired)}
    remains = "; ".join(found.remains)
    command.show_facts({**facts, **places, "left": left, **trained, "remains": remains, "is_signed": True})


@app.command("check")
def check(
    command: JsonCommand,
    probe: Annotated[list[str], typer.Option("--probe", help="A text to look for; may be given several times.")],
) -> None:
    """Search every file of the data folder for texts; the exit code is 1 when one holds any."""
    with progress_bar("reading files", total=None, is_silent=command.as_json) as bar:
        hits = command.run(lambda service: service.erasures.check(probe, watch=bar.reached))
    command.show_rows(hits, "file", "probe", "encoding")
    if hits:
        raise typer.Exit(1)


class Confirmed:
    """What a person gives with an erasure."""

    def __init__(self, by: str, reason: str, is_meant: bool) -> None:  # an option's value
        if not is_meant:
            raise MemoryInputError("yes", "would erase for good, and nothing brings it back; say --yes")
        self.confirmation = Confirmation(actor=by, confirm=True, reason=reason)


def _request(
    command: JsonCommand, agent_id: str, subject: str | None, confirmed: Confirmed, *, retire: bool, wait: bool
) -> None:
    with command.service() as (service, runner):
        request = service.erasures.request(agent_id, confirmed.confirmation, subject=subject, retire_checkpoints=retire)
        found = runner.run(request)
        if wait:
            with progress_bar("erasing", total=None, is_silent=command.as_json) as bar:
                while found.state not in ENDED_STATES:
                    sleep(_POLL_INTERVAL_SECONDS)
                    found = runner.run(service.erasures.get(found.erasure_id))
                    rows = f"{sum(found.found.values())} found in {len(found.found)} places"
                    bar.show(what=f"erasing, {rows}{f': {found.reason}' if found.reason else ''}")
    command.show_facts(found.model_dump(include={"erasure_id", "agent_id", "subject", "state"}))
    if wait and found.state is not WorkState.DONE:
        raise MemoryStoreError(f"the erasure has ended without a receipt: {found.state}, {found.reason}")
