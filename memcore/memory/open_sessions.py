"""The sessions of conversations that an engine has begun: it ends them when it shuts down."""

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from memcore.client.client import MemoryClient

#: Seconds that an engine's shutdown may spend on ends; the sessions that are left end by themselves when they idle.
SHUTDOWN_SECONDS = 5.0

#: Most sessions that are remembered; of more, the one that was quiet for longest is left to end by itself.
MOST_SESSIONS = 10_000


class SessionName(NamedTuple):
    """How an engine names a session."""

    agent_id: str
    session_id: str
    user_id: str | None


class OpenSessions:
    """Remembers which sessions had a turn, and sends the end of each with ``end`` or when Python exits. Thread-safe.

    Ending a session twice, or one that another process goes on with, does no harm: a later turn opens it again.

    Args:
        client: sends the ends.
        idle: sessions without a turn for so long have ended by themselves.
    """

    def __init__(
        self, client: MemoryClient, *, idle: timedelta, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._idle_seconds = idle.total_seconds()
        self._monotonic = monotonic
        self._last: dict[SessionName, float] = {}
        self._lock = threading.Lock()
        # A child after a fork must not end what its parent goes on with.
        self._process = os.getpid()
        self._at_exit: Callable[[], None] | None = None

    def turned(self, name: SessionName) -> None:
        """Note that a turn of the session was sent."""
        with self._lock:
            if self._process != os.getpid():
                self._last, self._process, self._at_exit = {}, os.getpid(), None
            self._last.pop(name, None)
            self._last[name] = self._monotonic()
            if len(self._last) > MOST_SESSIONS:
                del self._last[next(iter(self._last))]
            if self._at_exit is None:
                # It keeps no engine alive that is dropped without being closed.
                self._at_exit = _ending(weakref.ref(self))
                atexit.register(self._at_exit)

    def ended(self, name: SessionName) -> None:
        """Forget a session whose end was sent."""
        with self._lock:
            self._last.pop(name, None)

    def end(self) -> int:
        """Send the end of every session, within SHUTDOWN_SECONDS and as long as the broker answers; return how many."""
        with self._lock:
            last, self._last = self._last, {}
            at_exit, self._at_exit = self._at_exit, None
            is_own = self._process == os.getpid()
        if at_exit is not None:
            atexit.unregister(at_exit)
        if not is_own:
            return 0
        began, sent = self._monotonic(), 0
        # The newest first: the oldest are the nearest to their end by idling.
        for name, at in reversed(last.items()):
            if began - at >= self._idle_seconds or self._monotonic() - began >= SHUTDOWN_SECONDS:
                break
            receipt = self._client.end_conversation(
                name.agent_id, session_id=name.session_id, user_id=name.user_id, is_shutdown=True
            )
            if receipt is None:
                break
            sent += 1
        return sent


def _ending(sessions: "weakref.ref[OpenSessions]") -> Callable[[], None]:
    def end() -> None:
        found = sessions()
        if found is not None:
            found.end()

    return end
