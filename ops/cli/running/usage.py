"""``memtend usage`` and ``memtend audit``: cost of language models, and decisions of people."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from memcore.errors import MemoryInputError
from memcore.ledger.llm_usage import UsageBy
from memcore.ledger.organization.audit import MAX_PAGE
from ops.cli.session import Commands, CompanyCommand, JsonCommand

app = Commands()

#: Most days of one report.
_MAX_DAYS = 3_660


@app.command("usage")
def usage(
    command: CompanyCommand,
    by: Annotated[str, typer.Option(help=f"A row for each {', '.join(UsageBy)}.")] = UsageBy.AGENT.value,
    days: Annotated[int, typer.Option(help="So many days of UTC, today included, 1 to 3660.")] = 7,
    agent: Annotated[str | None, typer.Option(help="One agent alone.")] = None,
) -> None:
    """Show the calls, tokens and cost of language models by agent, day, purpose, run or model, or of every company."""
    if by not in set(UsageBy):
        raise MemoryInputError("by", f"must be one of {', '.join(UsageBy)}")
    if not 1 <= days <= _MAX_DAYS:
        raise MemoryInputError("days", f"must be 1 to {_MAX_DAYS}")
    until = datetime.now(UTC).date()
    since = until - timedelta(days=days - 1)
    with command.ledger() as ledger:
        company = None if by == UsageBy.COMPANY else command.company
        found = ledger.usage.report(company, UsageBy(by), since=since, until=until, agent_id=agent)
    rows = (
        {by: each.pop("key"), **each, "tokens": each["prompt_tokens"] + each["completion_tokens"]}
        for each in map(asdict, found)
    )
    columns = ("calls", "refused", "failed", "open", "attempts", "prompt_tokens", "completion_tokens", "tokens", "cost")
    command.show_rows(rows, by, *columns)


@app.command("audit")
def audit(
    command: JsonCommand,
    actor: Annotated[str | None, typer.Option(help="Only this person or agent, as person:NAME or agent:ID.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this, such as org.write or approval.approved.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows.")] = 20,
) -> None:
    """Show who was refused, and what people decided and changed, newest first."""
    with command.ledger() as ledger:
        lines = ledger.audit.page(command.company, actor=actor, action=action, limit=limit)
    rows = ({**line.model_dump(exclude={"verdict"}), "verdict": str(line.verdict)} for line in lines)
    command.show_rows(rows, "at", "actor", "action", "verdict", "subject", "reason")
