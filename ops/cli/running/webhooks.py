"""``memtend webhooks``: who is told of held runs, dead jobs and the like, and what became of each delivery."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, cast

import typer

from memcore.ledger.webhooks.endpoints import NewWebhookEndpoint, WebhookEndpoint
from memcore.ledger.work_items import OPEN_STATES, WorkState
from memcore.models.webhook import SUBSCRIBABLE, WebhookEventType
from memcore.service.service import MemoryService
from memcore.service.webhooks import DeliveryInfo
from ops.cli.console import say, show_json
from ops.cli.session import Commands, CompanyCommand

app = Commands("webhooks", "Webhooks: add, list, test, deliveries, replay, rotate, enable, disable, remove.")

NameArgument = Annotated[str, typer.Argument(help="The webhook's name, as `list` shows it.")]
By = Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")]

_DELIVERY = ("announced_at", "delivery_id", "webhook", "event", "state", "failures", "status", "error", "next_try_at")

#: How long `test` waits for the first try: a worker takes it at once, and a try has ten seconds.
TEST_SECONDS, _LOOK_SECONDS = timedelta(seconds=20), 0.2


@app.command("add")
def add(
    command: CompanyCommand,
    url: Annotated[str, typer.Argument(help="Where events are sent, by POST: https://...")],
    event: Annotated[list[str], typer.Option(help=f"Told of: {', '.join(SUBSCRIBABLE)}; give it again for others.")],
    by: By,
    name: Annotated[str | None, typer.Option(help="What it is called; the name of its host when left out.")] = None,
) -> None:
    """Add a webhook and print the secret that verifies what it gets. The secret is shown once."""
    events = cast("tuple[WebhookEventType, ...]", tuple(event))
    _show_secret(command, command.run(lambda service: service.webhooks.add(url, events, name=name, by=by)))


@app.command("list")
def list_webhooks(command: CompanyCommand) -> None:
    """Show the webhooks, what each is told of, and which are failing or disabled."""
    found = command.run(lambda service: service.webhooks.list())
    command.show_rows(map(_row, found), "name", "url", "events", "state", "reason", "failing_since")


@app.command("test")
def test(command: CompanyCommand, name: NameArgument, by: By) -> None:
    """Send a ping, wait for the first try, and show what became of it; exit 1 when it was not accepted."""
    tried = command.run(lambda service: _tried(service, name, by))
    command.show_facts(tried)
    if tried.state is not WorkState.DONE:
        raise typer.Exit(1)


@app.command("deliveries")
def deliveries(
    command: CompanyCommand,
    webhook: Annotated[str | None, typer.Option(help="Of this webhook alone.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed for good.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many, 1 to 256.")] = 20,
) -> None:
    """Show deliveries, newest first: what was answered, and when one that failed is tried again."""
    state = WorkState.FAILED if failed else None
    found = command.run(lambda service: service.webhooks.deliveries(webhook=webhook, state=state, limit=limit))
    command.show_rows(found, *_DELIVERY)


@app.command("replay")
def replay(
    command: CompanyCommand,
    by: By,
    delivery_id: Annotated[str | None, typer.Argument(help="A delivery that has ended.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All that failed, the newest thousand.")] = False,
    webhook: Annotated[str | None, typer.Option(help="With --failed: of this webhook alone.")] = None,
) -> None:
    """Send deliveries again, under the same webhook-id: a receiver that has handled one can tell."""
    sent = command.run(
        lambda service: service.webhooks.replay_these(delivery_id=delivery_id, failed=failed, webhook=webhook, by=by)
    )
    command.show_facts({"replayed": sent})


@app.command("rotate")
def rotate(command: CompanyCommand, name: NameArgument, by: By) -> None:
    """Make a new secret and print it; for 24 hours what is sent is signed with the old one too."""
    _show_secret(command, command.run(lambda service: service.webhooks.rotate(name, by=by)))


@app.command("enable")
def enable(command: CompanyCommand, name: NameArgument, by: By) -> None:
    """Let a webhook be told of what happens from now on; `replay --failed` sends what it missed."""
    command.show_facts(_row(command.run(lambda service: service.webhooks.enable(name, by=by))))


@app.command("disable")
def disable(command: CompanyCommand, name: NameArgument, by: By) -> None:
    """Let a webhook be told of nothing more."""
    command.show_facts(_row(command.run(lambda service: service.webhooks.disable(name, by=by))))


@app.command("remove")
def remove(command: CompanyCommand, name: NameArgument, by: By) -> None:
    """Remove a webhook, and the log of its deliveries."""
    command.run(lambda service: service.webhooks.remove(name, by=by))
    command.show_facts({"removed": name})


async def _tried(service: MemoryService, name: str, by: str) -> DeliveryInfo:
    sent, clock = await service.webhooks.test(name, by=by), asyncio.get_running_loop().time
    until = clock() + TEST_SECONDS.total_seconds()
    while sent.state in OPEN_STATES and not sent.failures and clock() < until:
        await asyncio.sleep(_LOOK_SECONDS)
        sent = await service.webhooks.delivery(sent.delivery_id)
    return sent


def _show_secret(command: CompanyCommand, made: NewWebhookEndpoint) -> None:
    if command.as_json:
        show_json({**_row(made.endpoint), "secret": made.secret})
        return
    say(made.secret)


def _row(endpoint: WebhookEndpoint) -> Mapping[str, Any]:
    return endpoint.model_dump(mode="json", exclude={"company"})
