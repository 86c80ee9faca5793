"""``memtend usage`` and ``memtend audit``: cost of language models, and decisions of people."""

from dataclasses import asdict
from typing import Annotated

import typer

from memcore.errors import MemoryInputError
from memcore.ledger.llm_usage import UsageBy
from memcore.ledger.organization.audit import MAX_PAGE
from memcore.service.usage import FORECAST_DAYS, UsageForecast
from ops.cli.console import say
from ops.cli.session import Commands, CompanyCommand, JsonCommand

app = Commands()


@app.command("usage")
def usage(
    command: CompanyCommand,
    by: Annotated[str, typer.Option(help=f"A row for each {', '.join(UsageBy)}.")] = UsageBy.AGENT.value,
    days: Annotated[int, typer.Option(help="So many days of UTC, today included, 1 to 3660.")] = 7,
    agent: Annotated[str | None, typer.Option(help="One agent alone.")] = None,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="The next 30 days by purpose, from so many whole days before today.")
    ] = False,
) -> None:
    """Show the calls, tokens and cost of language models by agent, day, purpose, run or model, or of every company."""
    if forecast:
        if by not in {UsageBy.AGENT, UsageBy.PURPOSE}:
            raise MemoryInputError("by", "must be purpose: a forecast has a row for each")
        _show_forecast(command, command.run(lambda service: service.usage.forecast(days=days, agent_id=agent)))
        return
    found = command.run(lambda service: service.usage.usage(by, days=days, agent_id=agent))
    rows = (
        {by: each.pop("key"), **each, "tokens": each["prompt_tokens"] + each["completion_tokens"]}
        for each in map(asdict, found)
    )
    calls = ("calls", "refused", "failed", "asked_again", "open", "attempts")
    command.show_rows(rows, by, *calls, "prompt_tokens", "completion_tokens", "tokens", "cost")


def _show_forecast(command: CompanyCommand, found: UsageForecast) -> None:
    if command.as_json:
        command.show_facts(found)
        return
    if found.rows:
        command.show_rows(found.rows, "purpose", "calls", "tokens", "cost")
        say(f"\nthe next {FORECAST_DAYS} days, if they are like the {found.days} whole days since {found.since}")
    elif found.days:
        say(f"nothing is expected: nothing was asked in the {found.days} whole days since {found.since}")
    else:
        say("nothing is known: the account has no whole day yet")
    if (pending := found.pending) is not None:
        takes = (
            "what one takes was not measured yet"
            if pending.tokens_per_memory is None
            else f"{pending.tokens} tokens at {pending.tokens_per_memory} each, cost {pending.cost:.3f}"
        )
        say(f"once, for {pending.memories} memories without search notes: {takes}")


@app.command("audit")
def audit(
    command: JsonCommand,
    actor: Annotated[str | None, typer.Option(help="Only this person or agent, as person:NAME or agent:ID.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this, such as org.write or approval.approved.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows.")] = 20,
) -> None:
    """Show who was refused, and what people decided and changed, newest first."""
    lines = command.run(lambda service: service.usage.audit(actor=actor, action=action, limit=limit))
    rows = ({**line.model_dump(exclude={"verdict"}), "verdict": str(line.verdict)} for line in lines)
    command.show_rows(rows, "at", "actor", "action", "verdict", "subject", "reason")
