"""``memtend dead``: dead letters, the jobs that were given up, kept until a person replays or deletes them."""

import json
from typing import Annotated, Any

import typer

from memcore.errors import MemoryInputError
from memcore.ledger.dead_letters import DeadLetter
from memcore.service.dead_letters import held_by
from ops.cli.console import say
from ops.cli.session import Commands, JsonCommand

app = Commands("dead", "Dead letters: list, show, replay, purge.")

JobsArgument = Annotated[list[str] | None, typer.Argument(help="The jobs' ids.", metavar="[JOB_IDS]...")]


@app.command("list")
def list_letters(
    command: JsonCommand,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Most rows, newest first.")] = 20,
) -> None:
    """Show the dead letters, newest first, and why each job was given up."""
    found = command.run(lambda service: service.dead_letters.list(limit=limit))
    command.show_rows(map(facts_of, found), "job_id", "job", "queue", "attempts", "died_at", "reason")


@app.command("show")
def show(
    command: JsonCommand,
    job_id: Annotated[str, typer.Argument(help="The job's id.")],
    content: Annotated[bool, typer.Option("--content", help="Show the payload too, memories and all.")] = False,
) -> None:
    """Show one dead letter: why the job was given up, and whose memories it holds; --content shows their text."""
    letter = command.run(lambda service: service.dead_letters.get(job_id))
    facts = {**facts_of(letter), **held_by(letter)}
    if content:
        facts["payload"] = _readable(letter.payload) if command.as_json else letter.payload
    command.show_facts(facts)


@app.command("replay")
def replay(
    command: JsonCommand,
    job_ids: JobsArgument = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, oldest first.")] = False,
) -> None:
    """Send jobs again under their ids, once the cause is fixed; a letter is deleted when the broker has its job.

    A message that could not be read, or whose text is not kept, cannot be sent again; --all leaves it where it is.
    """
    if bool(job_ids) == every:
        raise MemoryInputError("job_ids", "name the jobs, or say --all")
    sent = command.run(lambda service: service.dead_letters.replay(None if every else job_ids))
    command.show_facts({"replayed": sent})


@app.command("purge")
def purge(
    command: JsonCommand,
    job_ids: JobsArgument = None,
    older_than: Annotated[int | None, typer.Option(help="Those that died more than this many days ago.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without this option they are only counted.")] = False,
) -> None:
    """Delete dead letters for good, with the memories in them."""
    if bool(job_ids) == (older_than is not None):
        raise MemoryInputError("job_ids", "name the jobs, or say --older-than DAYS")
    with command.service() as (service, runner):
        letters = service.dead_letters
        if not yes:
            count = runner.run(
                letters.count_named(job_ids or ()) if older_than is None else letters.count_older(older_than)
            )
            raise MemoryInputError("yes", f"would drop {count} for good; say --yes")
        gone = runner.run(letters.delete(job_ids or ()) if older_than is None else letters.delete_older(older_than))
    if command.as_json:
        command.show_facts({"purged": gone})
    else:
        say(f"dropped: {gone}")


def facts_of(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter's fields without its memories."""
    return {**letter.model_dump(exclude={"payload"}), "payload_bytes": len(letter.payload.encode())}


def _readable(payload: str) -> Any:
    try:
        return json.loads(payload)
    except ValueError:
        return payload
