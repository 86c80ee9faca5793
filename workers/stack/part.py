"""A part of the stack: what is started, how it shows that it is ready, how it is told to stop."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

#: How long a part may take until it is ready, unless it says otherwise; imports are slow on a busy machine.
START_LIMIT = timedelta(seconds=60)

#: How long a part may take to stop after it was told, unless it says otherwise.
STOP_LIMIT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process of the stack.

    Attributes:
        name: what people call it; also the name of its log.
        argv: the command, without a shell.
        is_ready: looks whether it does its work; must not block for more than a second.
        is_well: looks whether it still does, once it was ready; None for a part that has no heartbeat.
        env: variables beside those of the stack.
        is_beside: whether it may start while the part before it is not ready yet.
        stop_signal: what asks it to finish and go.
        start_limit: how long it may take to be ready.
        stop_limit: how long it may take to go before it is killed.
    """

    name: str
    argv: tuple[str, ...]
    is_ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    is_well: Callable[[], bool] | None = None
    is_beside: bool = False
    stop_signal: signal.Signals = signal.SIGTERM
    start_limit: timedelta = START_LIMIT
    stop_limit: timedelta = STOP_LIMIT
