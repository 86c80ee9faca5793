"""``memtend keys``: keys of programs and people who come over HTTP."""

from typing import Annotated

import typer

from memcore.ledger.access.keys import ApiKey, Verb
from memcore.ledger.organization import audit
from memcore.models.origin import Authority, Channel
from ops.cli.console import say, show_json
from ops.cli.session import Commands, CompanyCommand

app = Commands("keys", "Keys for `memtend serve`: create, list, revoke.")

By = Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")]

#: What a key is for unless it is said otherwise: what an engine does.
_ENGINE = [Verb.READ.value, Verb.WRITE.value]


@app.command("create")
def create(
    command: CompanyCommand,
    name: Annotated[str, typer.Argument(help="Who uses it, such as an engine; the audit names it.")],
    by: By,
    agent: Annotated[list[str] | None, typer.Option(help="Only for this agent; give it again for others.")] = None,
    verb: Annotated[
        list[str] | None,
        typer.Option(help=f"What for: {', '.join(Verb)}; again for others. {' and '.join(_ENGINE)} when left out."),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            help="Highest channel that it may claim for what it stores: "
            f"{', '.join(each for each in Channel if each not in {Channel.UNKNOWN, Channel.SUSPECT})}. "
            "Left out: operator with the verb admin, else agent."
        ),
    ] = None,
    min_authority: Annotated[
        str | None,
        typer.Option(help=f"Least authority of what it is shown, whatever it asks for: {', '.join(Authority)}."),
    ] = None,
) -> None:
    """Make a key and print its token. The token is shown once: only a hash of it is kept."""
    with command.ledger() as ledger:
        made = ledger.api_keys.create(
            command.company,
            name=name,
            verbs=verb or _ENGINE,
            agents=agent,
            channel=channel,
            min_authority=min_authority,
        )
        ledger.audit.note(command.company, audit.done_by(by, "keys.create", made.key.key_id))
    if command.as_json:
        show_json({**made.key.model_dump(mode="json"), "token": made.token})
        return
    say(made.token)


@app.command("list")
def list_keys(command: CompanyCommand) -> None:
    """Show the keys of a company, those that were revoked too; never a token."""
    with command.ledger() as ledger:
        keys = ledger.api_keys.list(command.company)
    columns = ("key_id", "name", "agents", "verbs", "channel", "min_authority", "created_at")
    command.show_rows(map(_row, keys), *columns, "last_used_at", "revoked_at")


@app.command("revoke")
def revoke(
    command: CompanyCommand, key_id: Annotated[str, typer.Argument(help="The key's id, as `list` shows it.")], by: By
) -> None:
    """Make a key invalid for good; running servers refuse it within five seconds."""
    with command.ledger() as ledger:
        key = ledger.api_keys.revoke(command.company, key_id)
        ledger.audit.note(command.company, audit.done_by(by, "keys.revoke", key.key_id))
    command.show_facts(_row(key))


def _row(key: ApiKey) -> dict[str, object]:
    return key.model_dump(mode="json")
