"""Forks of the test's own process, for ledgers that several share: to import anew takes longer than what they do."""

import itertools
import os
import traceback
from collections.abc import Callable

from sqlalchemy import event

from memcore.ledger.database import Database

#: What a child that was to die says; no child that lives says it.
_DIED = 9


class Child:
    """A process that does one thing and says what came of it."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self._said, say = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(say)
            return
        # No return into pytest from here, whatever happens.
        status = 1
        try:
            os.write(say, work())
            status = 0
        except BaseException:  # noqa: BLE001  # reported, and the child ends
            traceback.print_exc()
        finally:
            os._exit(status)

    def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        os.close(self._said)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def said(self) -> str:
        """Wait for its end, and return what it said."""
        parts = list(iter(lambda: os.read(self._said, 65_536), b""))
        assert self.ended() == 0
        return b"".join(parts).decode()


def dies(url: str, work: Callable[[Database], object], *, before: int) -> bool:
    """Work on a database in a child that dies before the n-th statement or commit; say whether it came to that."""

    def work_and_die() -> bytes:
        database = Database(url, name="ledger")
        left = itertools.count(before, -1)

        def die_in_time(*_arguments: object) -> None:
            if next(left) == 0:
                os._exit(_DIED)

        event.listen(database.engine(), "before_cursor_execute", die_in_time)
        event.listen(database.engine(), "commit", die_in_time)
        work(database)
        return b""

    status = Child(work_and_die).ended()
    assert status in {0, _DIED}
    return status == _DIED
