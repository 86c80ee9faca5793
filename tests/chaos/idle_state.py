"""Waits until nothing is queued or in hand and every planned run has ended."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.rabbitmq import messages_of
from chaos.run_planner import ACTIVE, RunPlanner
from redis import Redis
from support.stored import jobs_in_hand, jobs_waiting

from memcore.config.settings import Settings
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from workers.groups import MAINTENANCE_RUN, STORE

#: Seconds that the work left over may take: a dead worker's messages and its run come back within a minute, and may
#: have to wait for others first.
_LIMIT_SECONDS = 240.0

#: Seconds between two looks.
_POLL_INTERVAL_SECONDS = 0.25

#: More runs than a chaos run can plan.
_ALL = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleState:
    """What was left after the last kill, and for how long.

    Attributes:
        seconds: from the last kill until nothing was left.
        left: what was left when time ran out; empty when all is well.
        redelivered: messages of dead run workers that were made overdue and delivered a second time.
    """

    seconds: float
    left: Mapping[str, int]
    redelivered: int


def await_idle(settings: Settings, ledger: Ledger, maintenance_runs: RunPlanner) -> IdleState:
    """Wait until all work is done, then let the messages of dead run workers be delivered again, all at once.

    By themselves they would come back after more than an hour, long after their runs were done by others: each of them
    must then do nothing.
    """
    begun = time.monotonic()

    def work() -> dict[str, int]:
        rows = {run.run_id: run for run in ledger.runs.list(settings.company, limit=_ALL)}
        planned = [
            NewRun(company=settings.company, agent_id=agent, planned_at=at).run_id
            for agent, at in maintenance_runs.planned
        ]
        return {
            **_jobs(settings, STORE.name),
            "runs not begun": sum(run_id not in rows for run_id in planned),
            "runs under way": sum(run.state in ACTIVE for run in rows.values()),
        }

    def late() -> dict[str, int]:
        return {**work(), **_jobs(settings, STORE.name, MAINTENANCE_RUN.name)}

    left = _await(work)
    redelivered = 0 if left else _age(settings)
    left = left or _await(late)
    return IdleState(seconds=time.monotonic() - begun, left=left, redelivered=redelivered)


def _await(health_check: Callable[[], Mapping[str, int]]) -> dict[str, int]:
    until = time.monotonic() + _LIMIT_SECONDS
    while left := {what: number for what, number in health_check().items() if number}:
        if time.monotonic() > until:
            return left
        time.sleep(_POLL_INTERVAL_SECONDS)
    return {}


def _jobs(settings: Settings, *groups: str) -> dict[str, int]:
    if _is_rabbitmq(settings):
        # It gives what a dead worker had in hand to the next one at once, whatever its group.
        waiting, in_hand = messages_of(settings.broker_url)
    else:
        waiting, in_hand = jobs_waiting(settings), jobs_in_hand(settings, *groups)
    return {"jobs in the queues": waiting, "jobs in hand": in_hand}


def _is_rabbitmq(settings: Settings) -> bool:
    return settings.broker_url.startswith("amqp")


def _age(settings: Settings) -> int:
    if _is_rabbitmq(settings):
        return 0
    index = f"unacked_index.{MAINTENANCE_RUN.name}"
    with Redis.from_url(settings.broker_url) as broker:
        tags: list[Any] = broker.zrange(index, 0, -1)
        for tag in tags:
            # XX: one that was acknowledged meanwhile must not come back as a tag without a message.
            broker.zadd(index, {tag: -MAINTENANCE_RUN.visibility.total_seconds()}, xx=True, incr=True)
        return len(tags)
