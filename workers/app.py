"""The Celery app of a worker: the jobs of tasks/ and scheduler/, and what their process opens and closes."""

from functools import cache
from typing import TYPE_CHECKING, Any

from celery import Celery

from memcore.company import SharedConnections
from memcore.config.loader import effective_policy
from memcore.config.settings import Settings
from memcore.jobs import Queue
from tasks.job import all_jobs
from workers.broker import ANSWER_SECONDS, BrokerDispatcher, broker_app, results_within
from workers.celery_task import build_tasks
from workers.children import Children
from workers.consumer import refuse_compressed
from workers.context import WorkerContexts
from workers.groups import STORE, WorkerGroup
from workers.lifecycle import watch_heartbeat, watch_pool
from workers.progress import TaskProgress
from workers.unreadable import Refusals, unreadable_step

if TYPE_CHECKING:
    from memcore.embedding.protocol import Embedder


def create_app(settings: Settings, *, group: WorkerGroup = STORE) -> Celery:
    """Return the app for one group of workers; nothing is connected yet.

    Raises MemoryConfigError: the policy file is invalid, or this group lacks what it asks for.
    """
    refuse_compressed()
    policy = effective_policy(settings.policy_path)
    if Queue.FINETUNE in group.queues:
        from memcore.finetune.execution.factory import execution_of, require_executor  # noqa: PLC0415  # one group's

        require_executor(execution_of(settings, policy))
    jobs = all_jobs()
    app = broker_app(settings, group=group)
    dispatcher = BrokerDispatcher(app)
    progress_of = TaskProgress(app, settings).of_this_job

    # Loaded once, on first use: a prefork parent loads it for all its children.
    @cache
    def embedder() -> "Embedder | None":
        from memcore.backends.factory import create_configured_embedder  # noqa: PLC0415  # see open_context

        return create_configured_embedder(settings, policy)

    contexts = WorkerContexts(
        lambda: SharedConnections.open(settings, policy, dispatcher, embedder=embedder()), progress_of=progress_of
    )
    build_tasks(app, jobs, contexts)
    children = Children()
    watch_pool(contexts, group, children, share=embedder)
    watch_heartbeat(app, settings, group, children, is_ready=lambda: contexts.is_ready)
    steps: Any = app.steps
    refusals = Refusals(lambda: results_within(settings, seconds=ANSWER_SECONDS))
    steps["consumer"].add(unreadable_step(settings.ledger_urls, company=settings.company, on_refused=refusals.write))
    return app
