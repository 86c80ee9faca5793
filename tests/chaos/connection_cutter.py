"""Ends all PostgreSQL connections at once: by the server, or by a crash of it."""

import os
import random
import signal
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum

import psycopg
from chaos.fault_thread import FaultThread
from sqlalchemy.engine import make_url

#: Mean pause between two cuts, in seconds.
_PAUSE_SECONDS = 8.0

#: Seconds within which the server must answer again.
_BACK_SECONDS = 60.0

#: Seconds between two tries to reach it.
_POLL_INTERVAL_SECONDS = 0.1

#: One process for each connection to this database but one's own.
_OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


class CutKind(StrEnum):
    """How connections are cut."""

    ENDED = "ended by the server"
    CRASHED = "lost in a crash of the server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One cut of every connection.

    Attributes:
        connections: how many there were.
        seconds: until the server took new ones.
    """

    way: CutKind
    connections: int
    seconds: float


class ConnectionCutter(FaultThread):
    """Cut until the chaos run is over.

    Args:
        url: the database.
        may_crash: whether the server may be crashed: it is the chaos run's own, and on this machine.
        dice: choose pause and way.
    """

    def __init__(self, url: str, *, may_crash: bool, dice: random.Random) -> None:
        super().__init__()
        self.cuts: list[Cut] = []
        self._address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._ways = list(CutKind) if may_crash else [CutKind.ENDED]
        self._dice = dice

    def work(self) -> None:
        """Pause, cut, see the server come back."""
        while not self.is_over.wait(self._dice.uniform(0.0, 2 * _PAUSE_SECONDS)):
            way = self._dice.choice(self._ways)
            begun = time.monotonic()
            connections = self._cut(way)
            self._await_server()
            self.cuts.append(Cut(way=way, connections=connections, seconds=time.monotonic() - begun))

    def _cut(self, way: CutKind) -> int:
        with closing(psycopg.connect(self._address, autocommit=True)) as connection:
            if way is CutKind.ENDED:
                return len(connection.execute(f"SELECT pg_terminate_backend(pid) {_OTHERS}").fetchall())
            pids = [pid for (pid,) in connection.execute(f"SELECT pid {_OTHERS} ORDER BY pid").fetchall()]
            if pids:
                # One dies, and the server ends all the others and puts its data in order: it cannot trust them.
                with suppress(ProcessLookupError):
                    os.kill(self._dice.choice(pids), signal.SIGKILL)
        return len(pids)

    def _await_server(self) -> None:
        until = time.monotonic() + _BACK_SECONDS
        while True:
            try:
                with psycopg.connect(self._address) as connection:
                    connection.execute("SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(_POLL_INTERVAL_SECONDS)
            else:
                return
