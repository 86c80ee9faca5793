"""``memtend dead``: dead letters, the jobs that were given up, kept until a person replays or deletes them."""

import json
from datetime import timedelta
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from memcore.clock import utc_now
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.jobs import StorePayload, declared_payloads, job_owner
from memcore.ledger.dead_letters import UNREADABLE, DeadLetter
from memcore.ledger.ledger import Ledger
from ops.cli.console import say
from ops.cli.session import Commands, JsonCommand

app = Commands("dead", "Dead letters: list, show, replay, purge.")

JobsArgument = Annotated[list[str] | None, typer.Argument(help="The jobs' ids.", metavar="[JOB_IDS]...")]

#: Longest age that `--older-than` may name, in days (a century): more overflows a date.
MOST_DAYS = 36_500


@app.command("list")
def list_letters(
    command: JsonCommand, limit: Annotated[int, typer.Option(help="Most rows, newest first.")] = 20
) -> None:
    """Show the dead letters, newest first, and why each job was given up."""
    with command.ledger() as ledger:
        found = ledger.dead_letters.list(command.company, limit=limit)
    command.show_rows(map(facts_of, found), "job_id", "job", "queue", "attempts", "died_at", "reason")


@app.command("show")
def show(
    command: JsonCommand,
    job_id: Annotated[str, typer.Argument(help="The job's id.")],
    content: Annotated[bool, typer.Option("--content", help="Show the payload too, memories and all.")] = False,
) -> None:
    """Show one dead letter: why the job was given up, and whose memories it holds; --content shows their text."""
    with command.ledger() as ledger:
        letter = _found(ledger, command.company, job_id)
    facts = {**facts_of(letter), **_holds(letter)}
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
    # Whoever speaks to the broker loads Celery, and no other of these commands does.
    from memcore.client.envelopes import OutgoingJob  # noqa: PLC0415  # see above
    from memcore.client.publisher import JobResults  # noqa: PLC0415  # see above

    settings, company = command.settings, command.company
    with command.ledger() as ledger:
        if bool(job_ids) == every:
            raise MemoryInputError("job_ids", "name the jobs, or say --all")
        wanted = ledger.dead_letters.ids(company) if every else tuple(dict.fromkeys(job_ids or ()))
        if not every:
            for job_id in wanted:
                if (why := _refusal(_found(ledger, company, job_id))) is not None:
                    raise MemoryInputError("job_ids", f"{job_id} {why}, and cannot be sent again")
        sender, sent = JobResults(settings.broker_url, settings.result_url), 0
        try:
            for job_id in wanted:
                letter = ledger.dead_letters.get(job_id)
                # Another person may have replayed or deleted it just now.
                if letter is not None and _refusal(letter) is None:
                    # Its outcome says that it died, and an outcome that is final is never written over.
                    sender.forget(job_id)
                    job = OutgoingJob(
                        job_id=job_id,
                        queue=letter.queue,
                        payload=letter.payload,
                        summary="replayed",
                        owner=job_owner(letter.company),
                    )
                    sender.publish(letter.job, [job], track=True)
                    ledger.dead_letters.remove(letter)
                    sent += 1
        finally:
            sender.close()
    command.show_facts({"replayed": sent})


@app.command("purge")
def purge(
    command: JsonCommand,
    job_ids: JobsArgument = None,
    older_than: Annotated[int | None, typer.Option(help="Those that died more than this many days ago.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without this option they are only counted.")] = False,
) -> None:
    """Delete dead letters for good, with the memories in them."""
    company = command.company
    if bool(job_ids) == (older_than is not None):
        raise MemoryInputError("job_ids", "name the jobs, or say --older-than DAYS")
    if older_than is not None and not 0 <= older_than <= MOST_DAYS:
        raise MemoryInputError("older_than", f"must be from 0 to {MOST_DAYS} days")
    with command.ledger() as ledger:
        letters = ledger.dead_letters
        if older_than is not None:
            before = utc_now() - timedelta(days=older_than)
            count = letters.older(company, before=before)
            gone = letters.purge_older(company, before=before) if yes else 0
        else:
            wanted = [_found(ledger, company, job_id).job_id for job_id in dict.fromkeys(job_ids or ())]
            count = len(wanted)
            gone = letters.purge(company, wanted) if yes else 0
    if not yes:
        raise MemoryInputError("yes", f"would drop {count} for good; say --yes")
    if command.as_json:
        command.show_facts({"purged": gone})
    else:
        say(f"dropped: {gone}")


def facts_of(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter's fields without its memories."""
    return {**letter.model_dump(exclude={"payload"}), "payload_bytes": len(letter.payload.encode())}


def _refusal(letter: DeadLetter) -> str | None:
    """Return why a letter's job cannot be sent again; None where it can."""
    if letter.job == UNREADABLE:
        return "could not be read"
    if any(payload.task == letter.job and payload.unkept for payload in declared_payloads()):
        return "keeps nothing of what was said"
    return None


def _holds(letter: DeadLetter) -> dict[str, Any]:
    if letter.job == UNREADABLE:
        message = json.loads(letter.payload)
        return {"message_bytes": message["bytes"], "message_sha256": message["sha256"]}
    try:
        items = StorePayload.model_validate_json(letter.payload).items
    except ValidationError:
        return {"agents": [], "memory_ids": []}
    return {"agents": sorted({item.agent_id for item in items}), "memory_ids": [item.id for item in items]}


def _readable(payload: str) -> Any:
    try:
        return json.loads(payload)
    except ValueError:
        return payload


def _found(ledger: Ledger, company: str, job_id: str) -> DeadLetter:
    letter = ledger.dead_letters.get(job_id)
    if letter is None or letter.company != company:
        raise MemoryNotFoundError(f"job_id: {job_id!r} names no dead letter; see `memtend dead list`")
    return letter
