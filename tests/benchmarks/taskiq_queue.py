"""taskiq over Redis streams, acknowledged once executed; its own command line loads this module's factory."""

import asyncio
import os
import sys

from benchmarks.contender import BROKER
from taskiq_redis import RedisStreamBroker

#: Jobs that wait, and jobs taken and not acknowledged.
COUNTS = """
local lag, pending
local group = redis.call('XINFO', 'GROUPS', 'taskiq')[1]
for at = 1, #group, 2 do
  if group[at] == 'lag' then lag = group[at + 1] elseif group[at] == 'pending' then pending = group[at + 1] end
end
return {lag, pending}
"""


async def noop() -> None:
    """Do nothing, on the event loop: its native task, and cheaper for it than a thread."""


def make_broker(url: str = "") -> RedisStreamBroker:
    # Without a timeout, a worker killed while it claims would keep the lock of all others for ever.
    broker = RedisStreamBroker(url or os.environ[BROKER], unacknowledged_lock_timeout=60)
    broker.register_task(noop, task_name="noop")
    return broker


def send(url: str, jobs: int) -> None:
    asyncio.run(_send(url, jobs))


async def _send(url: str, jobs: int) -> None:
    broker = make_broker(url)
    await broker.startup()
    task = broker.find_task("noop")
    assert task is not None
    for _ in range(jobs):
        await task.kiq()
    await broker.shutdown()


def command(processes: int) -> tuple[str, ...]:
    """Return the worker's command: a hundred jobs at a time and a hundred in one read are taskiq's defaults."""
    options = ("--workers", str(processes), "--ack-type", "when_executed", "--log-level", "ERROR")
    return (sys.executable, "-m", "taskiq", "worker", "benchmarks.taskiq_queue:make_broker", *options)
