"""``memtend migrate``: bring the databases to this release's form, before the workers of this release start."""

import typer

from memcore.ledger import migrate as ledger
from ops.cli.console import say
from ops.cli.session import HomeOption, settings_of


def migrate(home: HomeOption = None) -> None:
    """Create or upgrade the tables of ledger, journal and history; `memtend up` does it by itself."""
    settings = settings_of(home)
    ledger.migrate(settings.ledger_urls)
    ledger.migrate_history(settings.history_url)
    say("ledger, journal and history are in this release's form")


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command("migrate")(migrate)
