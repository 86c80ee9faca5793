"""A process of its own that claims due agents, or one run, until nothing is left, and prints what it got.

Usage: python claimer.py LEDGER_URL JOURNAL_URL (due | RUN_ID)
"""

import sys
import time
from datetime import timedelta

from memcore.ledger import Ledger, LedgerUrls
from memcore.models import ConsolidationInterval


def main() -> None:
    ledger_url, journal_url, what = sys.argv[1:]
    ledger = Ledger.open(LedgerUrls(ledger=ledger_url, journal=journal_url))
    # Everyone starts at the same moment: the starter closes our input when all of us have said that we are ready.
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    if what == "due":
        while runs := ledger.agents.claim_due("acme", interval=ConsolidationInterval.DAILY, limit=7):
            for run in runs:
                sys.stdout.write(f"{run.run_id}\n")
            # Let the others have the write lock: whoever keeps asking keeps it.
            time.sleep(0)
    elif claimed := ledger.runs.claim(what, lease=timedelta(minutes=5)):
        sys.stdout.write(f"{claimed.token}\n")


if __name__ == "__main__":
    main()
