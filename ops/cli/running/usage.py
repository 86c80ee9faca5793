"""``memtend usage`` and ``memtend audit``: cost of language models, and decisions of people."""

from dataclasses import asdict
from typing import Annotated

import typer

from memcore.ledger.llm_usage import UsageBy
from memcore.ledger.organization.audit import MAX_PAGE
from ops.cli.session import Commands, CompanyCommand, JsonCommand

app = Commands()


@app.command("usage")
def usage(
    command: CompanyCommand,
    by: Annotated[str, typer.Option(help=f"A row for each {', '.join(UsageBy)}.")] = UsageBy.AGENT.value,
    days: Annotated[int, typer.Option(help="So many days of UTC, today included, 1 to 3660.")] = 7,
    agent: Annotated[str | None, typer.Option(help="One agent alone.")] = None,
) -> None:
    """Show the calls, tokens and cost of language models by agent, day, purpose, run or model, or of every company."""
    with command.service() as (service, runner):
        found = runner.run(service.usage.usage(by, days=days, agent_id=agent))
    rows = (
        {by: each.pop("key"), **each, "tokens": each["prompt_tokens"] + each["completion_tokens"]}
        for each in map(asdict, found)
    )
    calls = ("calls", "refused", "failed", "asked_again", "open", "attempts")
    command.show_rows(rows, by, *calls, "prompt_tokens", "completion_tokens", "tokens", "cost")


@app.command("audit")
def audit(
    command: JsonCommand,
    actor: Annotated[str | None, typer.Option(help="Only this person or agent, as person:NAME or agent:ID.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this, such as org.write or approval.approved.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows.")] = 20,
) -> None:
    """Show who was refused, and what people decided and changed, newest first."""
    with command.service() as (service, runner):
        lines = runner.run(service.usage.audit(actor=actor, action=action, limit=limit))
    rows = ({**line.model_dump(exclude={"verdict"}), "verdict": str(line.verdict)} for line in lines)
    command.show_rows(rows, "at", "actor", "action", "verdict", "subject", "reason")
