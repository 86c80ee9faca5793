"""Processes that prepare the same entry; each dies before the statement that is named to it, or before its commit.

Usage: python killed_writer.py JOURNAL_URL, and a line with a number for each; after each a line comes back: 9 when the
process died, 0 when the number lies beyond the last statement.
"""

import os
import sys
import traceback
from typing import Any

from sqlalchemy import event
from support.ledger_records import StoppedClock, make_journal_entry

from memcore.ledger.database import Database
from memcore.ledger.journal import Journal


def write(url: str, last: int) -> None:
    database = Database(url, name="journal")
    left = [last]

    def die_in_time(*_arguments: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)

    event.listen(database.engine(), "before_cursor_execute", die_in_time)
    event.listen(database.engine(), "commit", die_in_time)
    Journal(database, clock=StoppedClock()).prepare(
        make_journal_entry("killed", incoming=("back",), outgoing=("gone", "too"), incoming_kind="restored")
    )


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                write(sys.argv[1], int(line))
            except BaseException:  # noqa: BLE001  # reported, and no return into what the parent does
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
