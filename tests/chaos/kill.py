"""The plan of kills: targets and pauses, all decided by a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle, islice


class Target(StrEnum):
    """What is killed: one child of the maintenance worker, or a part of the stack by its own name."""

    CHILD = "run child"
    STORE_WORKER = "worker-store"
    MAINTENANCE_WORKER = "worker-night"
    BEAT = "beat"
    BROKER = "broker"
    STORE_SERVER = "store-server"
    SERVE = "serve"


#: Shares of fifty kills. Parts that hold work are killed most often; without a model its worker sleeps.
_SHARES: dict[Target, int] = {
    Target.CHILD: 12,
    Target.STORE_WORKER: 8,
    Target.MAINTENANCE_WORKER: 8,
    Target.STORE_SERVER: 8,
    Target.SERVE: 3,
    Target.BROKER: 7,
    Target.BEAT: 4,
}

#: Shortest pause after a kill as a share of the mean pause; the longest is as far above the mean.
_LEAST_PAUSE_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill -9 to come.

    Attributes:
        pause_seconds: since the last kill, or since the start.
    """

    target: Target
    pause_seconds: float


def plan_kills(seed: int, *, kills: int, mean_pause_seconds: float) -> Sequence[Kill]:
    """Return the kills of a run: the same for the same seed, and each target at least once if there are enough."""
    dice = random.Random(f"strikes {seed}")
    rest = [target for target, share in _SHARES.items() for _ in range(share - 1)]
    dice.shuffle(rest)
    chosen = list(islice(cycle([*_SHARES, *rest]), kills))
    dice.shuffle(chosen)
    least = mean_pause_seconds * _LEAST_PAUSE_SHARE
    return [Kill(target=target, pause_seconds=dice.uniform(least, 2 * mean_pause_seconds - least)) for target in chosen]
