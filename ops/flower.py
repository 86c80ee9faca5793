"""The program ``ops.flower``: Flower for this stack, behind a password, on loopback, without memory texts."""

import asyncio
import os
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import click
from flower.command import flower
from flower.urls import handlers
from flower.utils.broker import RedisBase
from flower.views.monitor import Metrics
from tornado.web import HTTPError

from memcore.config.loader import effective_policy
from memcore.config.settings import Settings
from memcore.config.urls import Address
from memcore.errors import MemoryConfigError
from memcore.jobs import declared_payloads
from memcore.operational import report_error
from workers.broker import broker_app, read_queue_lengths
from workers.logs import set_up_logs

#: Jobs that Flower remembers; its own default of 100,000 grows without end (STACK, Settings).
MAX_JOBS = 5_000


class ProtectedMetrics(Metrics):  # type: ignore[misc]  # flower is untyped
    """Flower's metrics behind the password of all its pages: they name workers, their hosts and every kind of job."""

    async def prepare(self) -> None:
        """Refuse with 401 whoever does not say the password; nothing has been gathered yet."""
        if not self.current_user:
            raise HTTPError(401)


def arguments_of(settings: Settings) -> list[str]:
    """Return Flower's arguments; raises MemoryConfigError where the settings name no address with a password for it."""
    url = urlsplit(settings.flower_url or "")
    if not (url.hostname and url.port and url.username and url.password):
        raise MemoryConfigError("flower_url: must be http://USER:PASSWORD@HOST:PORT")
    return [
        # Otherwise it runs the flowerconfig.py of the working directory.
        f"--conf={os.devnull}",
        f"--address={url.hostname}",
        f"--port={url.port}",
        f"--basic-auth={url.username}:{url.password}",
        f"--max-tasks={MAX_JOBS}",
        "--logging=warning",
    ]


def count_sorted(settings: Settings) -> None:
    """Let Flower's queues have the messages that workers sorted by owner: it counts the others only."""
    count = RedisBase.queues

    async def queues(self: RedisBase, names: Iterable[str]) -> list[dict[str, Any]]:
        counted: list[dict[str, Any]] = await count(self, names)
        lengths, _ = await asyncio.to_thread(read_queue_lengths, settings)
        return [{**each, "messages": lengths.get(each["name"], each["messages"])} for each in counted]

    RedisBase.queues = queues


def _runs_elsewhere(payload: str = "{}") -> None:  # as the workers' tasks take it
    """Stand for a job: Flower sends jobs and runs none."""


def main() -> int:
    """Run Flower until it is told to stop; return its exit code."""
    try:
        settings = Settings.load(os.environ)
        set_up_logs(settings)
        effective_policy(settings.policy_path)  # Flower refuses an invalid one like every part beside it
        app = broker_app(settings)
        # Flower answers calls about a task, such as its limits, only where its own app knows the name.
        for payload in declared_payloads():
            app.task(_runs_elsewhere, name=payload.task, shared=False)
        # Flower looks into queues by itself and knows kombu's own schemes only; it takes no jobs, so it loses none.
        app.conf.update(broker_url=Address.of(settings.broker_url).url)
        arguments = arguments_of(settings)
        count_sorted(settings)
        # Before Flower's own, which asks for nothing; /healthcheck stays open, for it says OK and no more.
        handlers.insert(0, (r"/metrics", ProtectedMetrics))
    except Exception as error:  # noqa: BLE001  # a defect is raised again
        return report_error(error)
    # Flower puts its own variables before its command line.
    for name in [name for name in os.environ if name.startswith("FLOWER_")]:
        del os.environ[name]
    # Not by Celery's command line, which would import a shell for people.
    command = click.Context(flower, obj=SimpleNamespace(app=app, quiet=True))
    command.invoke(flower, tornado_argv=arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
