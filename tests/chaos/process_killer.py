"""Kills the planned targets one after the other and records when each is ready again."""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
from chaos.fault_thread import FaultThread
from chaos.kill import Kill, Target
from chaos.outage import Outage
from support.running_stack import StackAddress

from workers.stack.home import same_process

if TYPE_CHECKING:
    from chaos.process_pauser import ProcessPauser

#: Seconds until a killed part must be ready again: twice the supervisor's longest wait, and a slow start.
_UP_SECONDS = 90.0

#: A run whose parts hang is over after this many times the time that its pauses take, whatever is left to kill.
_LONGEST_TIMES = 6.0

#: Seconds between two looks at the stack.
_POLL_INTERVAL_SECONDS = 0.05


class ProcessKiller(FaultThread):
    """Carry out the planned kills.

    Args:
        stack: whose parts are killed.
        kills_planned: in order.
        process_pauser: says which processes it keeps stopped; they are left to wake up, or nothing would be learnt of
        them.
        dice: choose among children.

    Attributes:
        hung: parts that stood and were not ready for so long that they were ended, as a person would.
    """

    def __init__(
        self,
        stack: StackAddress,
        kills_planned: Sequence[Kill],
        *,
        process_pauser: "ProcessPauser",
        dice: random.Random,
    ) -> None:
        super().__init__()
        self.outages: list[Outage] = []
        self.hung: list[str] = []
        self._stack = stack
        self._kills = list(kills_planned)
        self._process_pauser = process_pauser
        self._dice = dice

    def work(self) -> None:
        """Kill until none is left."""
        until = time.monotonic() + _LONGEST_TIMES * 2 * sum(kill.pause_seconds for kill in self._kills)
        while self._kills and not self.is_over.is_set() and time.monotonic() < until:
            self._pause(self._kills[0].pause_seconds)
            # A paused part is killed later: the first kill that is allowed comes before it.
            allowed = [kill for kill in self._kills if kill.target not in self._process_pauser.spared]
            if allowed:
                outage = self._kill_one(allowed[0].target)
                if outage is not None:
                    self._kills.remove(allowed[0])
                    self.outages.append(outage)
        self._await_all()

    def _kill_one(self, target: Target) -> Outage | None:
        """Kill once the target is ready; None when it was paused before that."""
        until = time.monotonic() + _UP_SECONDS
        while target not in self._process_pauser.spared:
            self._check_once()
            process = self._child() if target is Target.CHILD else self._part(target)
            if process is not None:
                outage = Outage(
                    target=str(target),
                    at=time.time(),
                    restarts=self._stack.restarts(_part_of(target)),
                    children=frozenset(child.pid for child in run_children(self._stack)),
                )
                # One that dies between the two was killed by others: the next one.
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                    return outage
            if time.monotonic() > until:
                self._end_hung(target)
                return None
            time.sleep(_POLL_INTERVAL_SECONDS)
        return None

    def _end_hung(self, target: Target) -> None:
        name = _part_of(target)
        self.hung.append(name)
        part = next(each for each in self._stack.state.parts if each.name == name)
        if part.pid is not None and same_process(part.pid, part.born):
            psutil.Process(part.pid).kill()

    def _part(self, target: Target) -> psutil.Process | None:
        part = next(each for each in self._stack.state.parts if each.name == target)
        # The state is written once a second: the process may be gone although it says ready.
        if part.pid is None or not part.ready or not same_process(part.pid, part.born):
            return None
        return psutil.Process(part.pid)

    def _child(self) -> psutil.Process | None:
        children = [child for child in run_children(self._stack) if child.pid not in self._process_pauser.asleep]
        return self._dice.choice(children) if children else None

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._check_once()
            time.sleep(min(left, _POLL_INTERVAL_SECONDS))

    def _await_all(self) -> None:
        until = time.monotonic() + _UP_SECONDS
        while any(outage.up_at is None for outage in self.outages) and time.monotonic() < until:
            self._pause(_POLL_INTERVAL_SECONDS)

    def _check_once(self) -> None:
        """Record which killed parts are ready again."""
        for outage in self.outages:
            if outage.up_at is None and self._is_up(outage):
                outage.up_at = time.time()

    def _is_up(self, outage: Outage) -> bool:
        if outage.target == Target.CHILD:
            return any(child.pid not in outage.children for child in run_children(self._stack))
        return self._stack.restarts(outage.target) > outage.restarts and self._stack.is_ready(outage.target)


def run_children(stack: StackAddress) -> list[psutil.Process]:
    """Return the processes in which runs run, while the maintenance worker is ready."""
    part = next(each for each in stack.state.parts if each.name == Target.MAINTENANCE_WORKER)
    if part.pid is None or not part.ready or not same_process(part.pid, part.born):
        return []
    try:
        return psutil.Process(part.pid).children()
    except psutil.Error:
        return []


def _part_of(target: Target) -> str:
    return str(Target.MAINTENANCE_WORKER if target is Target.CHILD else target)
