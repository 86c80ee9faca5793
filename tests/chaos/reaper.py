"""The reaper: kills what the strikes name, one after the other, and watches it come back."""

import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psutil
from chaos.fall import Fall
from chaos.post import Post
from chaos.strike import Strike, Target
from support.running_stack import StackAddress

from workers.stack.home import same_process

if TYPE_CHECKING:
    from chaos.sleeper import Sleeper

#: Seconds until a part that fell must be ready again: twice the supervisor's longest wait, and a slow start.
_UP_SECONDS = 90.0

#: A storm whose parts hang is over after this many times the time that its pauses take, whatever is left to kill.
_LONGEST_TIMES = 6.0

#: Seconds between two looks at the stack.
_LOOK_SECONDS = 0.05


class Reaper(Post):
    """Carry out the strikes.

    Args:
        stack: whose parts fall.
        strikes: in order.
        sleeper: says which processes it keeps stopped; they are left to wake up, or nothing would be learnt of them.
        dice: choose among children.

    Attributes:
        hung: parts that stood and were not ready for so long that the reaper ended them, as a person would.
    """

    def __init__(
        self, stack: StackAddress, strikes: Sequence[Strike], *, sleeper: "Sleeper", dice: random.Random
    ) -> None:
        super().__init__()
        self.falls: list[Fall] = []
        self.hung: list[str] = []
        self._stack = stack
        self._strikes = list(strikes)
        self._sleeper = sleeper
        self._dice = dice

    def work(self) -> None:
        """Strike until none is left."""
        until = time.monotonic() + _LONGEST_TIMES * 2 * sum(strike.pause_seconds for strike in self._strikes)
        while self._strikes and not self.is_over.is_set() and time.monotonic() < until:
            self._pause(self._strikes[0].pause_seconds)
            # A part that sleeps now is struck later: the first strike that may be carried out comes before it.
            may = [strike for strike in self._strikes if strike.target not in self._sleeper.spared]
            if may:
                fall = self._strike(may[0].target)
                if fall is not None:
                    self._strikes.remove(may[0])
                    self.falls.append(fall)
        self._await_all()

    def _strike(self, target: Target) -> Fall | None:
        """Kill once the target stands; None when it was put to sleep before that."""
        until = time.monotonic() + _UP_SECONDS
        while target not in self._sleeper.spared:
            self._look()
            victim = self._child() if target is Target.CHILD else self._part(target)
            if victim is not None:
                fall = Fall(
                    target=str(target),
                    at=time.time(),
                    restarts=self._stack.restarts(_part_of(target)),
                    children=frozenset(child.pid for child in night_children(self._stack)),
                )
                victim.kill()
                return fall
            if time.monotonic() > until:
                self._end_hung(target)
                return None
            time.sleep(_LOOK_SECONDS)
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
        children = [child for child in night_children(self._stack) if child.pid not in self._sleeper.asleep]
        return self._dice.choice(children) if children else None

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._look()
            time.sleep(min(left, _LOOK_SECONDS))

    def _await_all(self) -> None:
        until = time.monotonic() + _UP_SECONDS
        while any(fall.up_at is None for fall in self.falls) and time.monotonic() < until:
            self._pause(_LOOK_SECONDS)

    def _look(self) -> None:
        """Note which of the fallen stand again."""
        for fall in self.falls:
            if fall.up_at is None and self._is_up(fall):
                fall.up_at = time.time()

    def _is_up(self, fall: Fall) -> bool:
        if fall.target == Target.CHILD:
            return any(child.pid not in fall.children for child in night_children(self._stack))
        return self._stack.restarts(fall.target) > fall.restarts and self._stack.is_ready(fall.target)


def night_children(stack: StackAddress) -> list[psutil.Process]:
    """Return the processes in which nights run, while the night worker is ready."""
    part = next(each for each in stack.state.parts if each.name == Target.NIGHT_WORKER)
    if part.pid is None or not part.ready or not same_process(part.pid, part.born):
        return []
    try:
        return psutil.Process(part.pid).children()
    except psutil.Error:
        return []


def _part_of(target: Target) -> str:
    return str(Target.NIGHT_WORKER if target is Target.CHILD else target)
