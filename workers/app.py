"""The Celery app: settings, the jobs of tasks/ and scheduler/, and one worker group's configuration."""

from functools import cache
from importlib import import_module
from typing import Any

from celery import Celery

from memcore.backends.factory import create_configured_embedder
from memcore.client.publisher import OwnCelery, broker_queue
from memcore.clock import Clock, utc_now
from memcore.config.loader import effective_policy
from memcore.config.settings import Settings
from memcore.finetune.execution.factory import execution_of, require_executor
from memcore.jobs.payloads import Queue
from tasks import JOBS
from tasks.job import Job
from workers import transport
from workers.broker import broker_conf
from workers.celery_task import build_tasks
from workers.consumer import refuse_compressed
from workers.context import ContextHolder, WorkerContext
from workers.dispatcher import BrokerDispatcher
from workers.groups import STORE, WorkerGroup
from workers.lifecycle import watch_heartbeat, watch_pool
from workers.progress import TaskProgress
from workers.unreadable import UnreadableKeeper, unreadable_step

#: How long a stopping worker lets running jobs finish, in seconds, before it returns them to the broker.
SOFT_SHUTDOWN_SECONDS = 15

#: How long a child may take to open its connections, in seconds; the default of 4 kills children on a busy machine.
CHILD_START_SECONDS = 120

#: How long a job's outcome can be asked for, in seconds (one hour).
RESULT_SECONDS = 3_600


def create_app(settings: Settings, *, group: WorkerGroup = STORE, clock: Clock = utc_now) -> Celery:
    """Return the app for one group of workers; nothing is connected yet.

    Raises:
        MemoryConfigError: the policy file is invalid, or this group lacks what it asks for.
    """
    transport.register()
    refuse_compressed()
    policy = effective_policy(settings.policy_path)
    if Queue.FINETUNE in group.queues:
        require_executor(execution_of(settings, policy))
    app = OwnCelery("memtend")
    _configure(app, settings, group)
    dispatcher = BrokerDispatcher(app)
    # Loaded once, on first use: a prefork parent loads it for all its children.
    embedder = cache(lambda: create_configured_embedder(settings, policy))
    progress_of = TaskProgress(app, settings, keep_seconds=RESULT_SECONDS).of_this_job
    job_context = ContextHolder(
        lambda: WorkerContext(settings, policy, dispatcher, embedder=embedder(), clock=clock, progress_of=progress_of)
    )
    build_tasks(app, all_jobs(), job_context)
    watch_pool(job_context, group, share=embedder)
    watch_heartbeat(app, settings, group)
    steps: Any = app.steps
    keeper = UnreadableKeeper(settings.ledger_urls, company=settings.company, clock=clock)
    steps["consumer"].add(unreadable_step(keeper))
    app.conf.beat_schedule = import_module("scheduler").schedule(settings)
    return app


def all_jobs() -> tuple[Job, ...]:
    """Return every job of tasks/ and scheduler/; the scheduler is loaded by name, so that no worker imports it."""
    scheduler_jobs: tuple[Job, ...] = import_module("scheduler").JOBS
    return JOBS + scheduler_jobs


def _configure(app: Celery, settings: Settings, group: WorkerGroup) -> None:
    app.conf.update(
        **broker_conf(settings, group),
        broker_connection_retry_on_startup=True,
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        task_queues=[broker_queue(name) for name in Queue],
        task_default_queue=str(Queue.STORE),
        task_create_missing_queues=False,
        task_acks_late=True,
        # A child that dies or is killed at the hard limit returns its message like a worker that dies, and the ledger
        # counts both (workers/redelivery.py). Celery's own retries would count separately and end without a record.
        task_reject_on_worker_lost=True,
        task_retry_on_worker_lost=False,
        task_acks_on_timeout=False,
        task_ignore_result=False,
        task_store_errors_even_if_ignored=False,
        task_track_started=False,
        result_expires=RESULT_SECONDS,
        worker_consumer="workers.consumer:RequeueUnknownConsumer",
        worker_prefetch_multiplier=group.prefetch,
        worker_max_tasks_per_child=group.recycle_after,
        worker_proc_alive_timeout=CHILD_START_SECONDS,
        worker_soft_shutdown_timeout=SOFT_SHUTDOWN_SECONDS,
        worker_enable_soft_shutdown_on_idle=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=settings.send_events,
        worker_disable_rate_limits=True,
        beat_max_loop_interval=5,
        timezone="UTC",
        enable_utc=True,
    )
