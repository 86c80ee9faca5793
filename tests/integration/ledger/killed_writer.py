"""A process that prepares a booking and dies before its n-th statement, or just before the commit.

Usage: python killed_writer.py JOURNAL_URL N; exit status 9 when it died, 0 when N lies beyond the last statement.
"""

import os
import sys
from typing import Any

from ledgers import StoppedClock, make_booking
from sqlalchemy import event

from memcore.ledger.engine import Database
from memcore.ledger.journal import Journal


def main() -> None:
    url, last = sys.argv[1], int(sys.argv[2])
    database = Database(url, name="journal")
    left = [last]

    def die_in_time(*_arguments: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)

    event.listen(database.engine(), "before_cursor_execute", die_in_time)
    event.listen(database.engine(), "commit", die_in_time)
    Journal(database, clock=StoppedClock()).prepare(
        make_booking("killed", incoming=("back",), outgoing=("gone", "too"), incoming_kind="restored")
    )


if __name__ == "__main__":
    main()
