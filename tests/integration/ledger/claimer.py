"""Processes that claim due agents, or one run, or create an undo, until nothing is left, and print what they got.

Usage: python claimer.py LEDGER_URL JOURNAL_URL NUMBER (due | undo | RUN_ID); exit status 0 when all of them went well.
"""

import os
import sys
import time
import traceback
from datetime import timedelta

from memcore.clock import utc_now
from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.models.memory import ConsolidationInterval


def say(line: str) -> None:
    """Write a whole line at once: all of us share one pipe."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def claim(urls: LedgerUrls, what: str) -> None:
    ledger = Ledger.open(urls)
    # Everyone starts at the same moment: the starter closes our input when all of us have said that we are ready.
    say("ready")
    while os.read(sys.stdin.fileno(), 1):
        pass
    if what == "due":
        while runs := ledger.agents.claim_due("acme", interval=ConsolidationInterval.DAILY, limit=7):
            for run in runs:
                say(run.run_id)
            # Let the others have the write lock: whoever keeps asking keeps it.
            time.sleep(0)
    elif what == "undo":
        undo = NewRun(company="acme", agent_id="ada", kind="undo", undo_of="earlier", planned_at=utc_now())
        if ledger.runs.create(undo):
            say(undo.run_id)
    elif claimed := ledger.runs.claim("acme", what, lease=timedelta(minutes=5)):
        say(claimed.token or "")


def main() -> None:
    ledger_url, journal_url, number, what = sys.argv[1:]
    children = []
    # Forks, since importing takes each process longer than its claims.
    for _ in range(int(number)):
        child = os.fork()
        if child == 0:
            try:
                claim(LedgerUrls(ledger=ledger_url, journal=journal_url), what)
            except BaseException:  # noqa: BLE001  # reported, and no return into what the parent does
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


if __name__ == "__main__":
    main()
