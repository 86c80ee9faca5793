"""``memtend audit``: what was refused, and what people did by hand."""

from typing import Annotated

import typer

from memcore.ledger.audit import MAX_PAGE
from ops.cli.console import AsJson, show_rows
from ops.cli.session import HomeOption, ledger_of, settings_of

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
    """Put the command on the command line."""
    app.command("audit")(audit)
