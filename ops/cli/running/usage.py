"""``memtend usage`` and ``memtend audit``: cost of language models, and decisions of people."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from memcore.errors import MemoryInputError
from memcore.ledger.llm_usage import UsageBy
from memcore.ledger.organization.audit import MAX_PAGE
from ops.cli.console import AsJson, show_rows
from ops.cli.session import HomeOption, ledger_of, settings_of

#: Most days of one report.
_MAX_DAYS = 3_660


def usage(
    by: Annotated[str, typer.Option(help=f"A row for each {', '.join(UsageBy)}.")] = UsageBy.AGENT.value,
    days: Annotated[int, typer.Option(help="So many days of UTC, today included, 1 to 3660.")] = 7,
    agent: Annotated[str | None, typer.Option(help="One agent alone.")] = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the calls, tokens and cost of language models by agent, day, purpose, run or model."""
    if by not in set(UsageBy):
        raise MemoryInputError("by", f"must be one of {', '.join(UsageBy)}")
    if not 1 <= days <= _MAX_DAYS:
        raise MemoryInputError("days", f"must be 1 to {_MAX_DAYS}")
    settings = settings_of(home)
    until = datetime.now(UTC).date()
    with ledger_of(settings) as ledger:
        rows = ledger.usage.report(
            settings.company, UsageBy(by), since=until - timedelta(days=days - 1), until=until, agent_id=agent
        )
    columns = ("calls", "refused", "failed", "open", "attempts", "prompt_tokens", "completion_tokens", "tokens", "cost")
    reported = (
        {by: each["key"], **each, "tokens": each["prompt_tokens"] + each["completion_tokens"]}
        for each in map(asdict, rows)
    )
    show_rows(
        ({name: value for name, value in each.items() if name != "key"} for each in reported),
        columns=(by, *columns),
        as_json=as_json,
    )


_COLUMNS = ("at", "actor", "action", "verdict", "subject", "reason")


def audit(
    actor: Annotated[str | None, typer.Option(help="Only this person or agent, as person:NAME or agent:ID.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this, such as org.write or approval.approved.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows.")] = 20,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show who was refused, and what people decided and changed, newest first."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        lines = ledger.audit.page(settings.company, actor=actor, action=action, limit=limit)
    rows = ({**line.model_dump(exclude={"verdict"}), "verdict": str(line.verdict)} for line in lines)
    show_rows(rows, columns=_COLUMNS, as_json=as_json)


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    app.command("usage")(usage)
    app.command("audit")(audit)
