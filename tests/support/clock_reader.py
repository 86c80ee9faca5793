"""``python clock_reader.py FOLDER``: a tick and a look at an agent's slot by this machine's clock, as JSON."""

import json
import sys
from contextlib import closing
from pathlib import Path

from memcore.clock import utc_now
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate
from memcore.models.memory import ConsolidationInterval
from support.ledger_records import sqlite_urls


def main() -> None:
    """Do what a tick does, and print what it left."""
    urls, hourly = sqlite_urls(Path(sys.argv[1])), ConsolidationInterval.HOURLY
    migrate(urls)
    with closing(Ledger.open(urls)) as ledger:
        ledger.companies.register("acme")
        ledger.agents.register("acme", ["ada"], interval=hourly)
        ledger.ticks.watch("acme")
        ledger.agents.claim_due(["acme"], interval=hourly, limit=9)
        ledger.ticks.note("acme", sent=0)
        agent = ledger.agents.get("acme", "ada")
        assert agent is not None
        assert agent.next_due_at is not None
        said = {"now": utc_now().isoformat(), "due": agent.next_due_at.isoformat(), "doubted": ledger.ticks.doubted()}
        sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
