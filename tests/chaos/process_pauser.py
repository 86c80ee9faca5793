"""Stops processes for longer than others wait for them, then resumes them."""

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil
from chaos.fault_thread import FaultThread
from chaos.kill import Target
from chaos.process_killer import run_children
from support.running_stack import StackAddress

from memcore.ledger.attempt import LEASE_LENGTH
from workers.groups import STORE

#: Seconds beyond the time after which others take the work of a silent process: enough that they have begun.
_BEYOND_SECONDS = 12.0

#: Seconds between two looks for a process to pause.
_POLL_INTERVAL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """One process that was stopped.

    Attributes:
        at: when, in seconds of the wall clock.
        seconds: how long.
        was_killed: whether it ended in its sleep: with its parent, or because it showed no life.
    """

    target: str
    at: float
    seconds: float
    was_killed: bool


class ProcessPauser(FaultThread):
    """Put a child of the maintenance worker to sleep for longer than its lease, then the store worker for longer than its messages.

    Attributes:
        asleep: pids that sleep now.
        spared: targets that must not be killed meanwhile: killed, they would never resume after their lease.
    """  # noqa: E501  # one sentence

    def __init__(self, stack: StackAddress, *, dice: random.Random, is_busy: Callable[[], bool]) -> None:
        super().__init__()
        self.sleeps: list[Sleep] = []
        self.asleep: frozenset[int] = frozenset()
        self.spared: frozenset[Target] = frozenset()
        self._stack = stack
        self._dice = dice
        self._is_busy = is_busy

    def work(self) -> None:
        """Stop one after the other, each until its work has gone to others."""
        plan = [
            (Target.CHILD, LEASE_LENGTH.total_seconds(), Target.MAINTENANCE_WORKER),
            (Target.STORE_WORKER, STORE.visibility.total_seconds(), Target.STORE_WORKER),
        ]
        self._dice.shuffle(plan)
        for target, seconds, spared in plan:
            self.is_over.wait(self._dice.uniform(1.0, _BEYOND_SECONDS))
            self.spared = frozenset({spared})
            while not self.is_over.is_set():
                # One that dies between the two was killed by others: the next one.
                with suppress(psutil.NoSuchProcess):
                    if (process := self._find(target)) is not None:
                        self._put_to_sleep(target, process, seconds + _BEYOND_SECONDS)
                    break
            self.asleep, self.spared = frozenset(), frozenset()

    def _find(self, target: Target) -> psutil.Process | None:
        while not self.is_over.wait(_POLL_INTERVAL_SECONDS):
            if target is Target.CHILD:
                children = run_children(self._stack)
                if children and self._is_busy():
                    return self._dice.choice(children)
            elif self._stack.is_ready(target) and (pid := self._stack.pid(target)) is not None:
                return psutil.Process(pid)
        return None

    def _put_to_sleep(self, target: Target, process: psutil.Process, seconds: float) -> None:
        at, begun = time.time(), time.monotonic()
        self.asleep = frozenset({process.pid})
        process.send_signal(signal.SIGSTOP)
        try:
            # To the end, even when the chaos run is over: a short sleep would prove nothing of one that wakes up.
            psutil.wait_procs([process], timeout=seconds)
            slept = time.monotonic() - begun
            # The plan of a seed is the same whatever a supervisor does meanwhile.
            time.sleep(max(0.0, seconds - slept))
        finally:
            # psutil compares the time of creation first: never another process that has got this pid.
            was_killed = not process.is_running()
            if not was_killed:
                process.send_signal(signal.SIGCONT)
            self.asleep = frozenset()
        self.sleeps.append(Sleep(target=str(target), at=at, seconds=slept, was_killed=was_killed))
