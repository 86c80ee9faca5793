"""Agents that go on searching and storing while the embedder is changed, and the count of what failed them."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from examples.demo.finetuning.corpus import Question
from memcore import MemoryClient
from memcore.backends.factory import WorkerBackend, create_worker_backend
from memcore.client.results import JobState
from memcore.config.loader import effective_policy
from memcore.config.settings import Settings
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.records import Where

#: Who stores meanwhile: an agent whom no question asks, so that the figures stay comparable.
_WRITER = "scribe"

#: Pause between two rounds, in seconds: the reindex shall have something of the processor too.
_PAUSE_SECONDS = 0.2

#: How long what was sent may take until it is written, in seconds.
_WRITTEN_SECONDS = 120.0


@dataclass(slots=True)
class Traffic:
    """What happened to those who went on.

    Attributes:
        reads: searches, each of which must find something.
        failed_reads: those that raised, or found nothing.
        writes: ids of the memories that were sent.
        failed_writes: stores that raised.
        lost: how many of those that were sent are not in the store; None until somebody has looked.
    """

    reads: int = 0
    failed_reads: int = 0
    writes: list[str] = field(default_factory=list)
    failed_writes: int = 0
    lost: int | None = None

    @property
    def is_unaffected(self) -> bool:
        """Whether nothing failed, and somebody looked and missed nothing."""
        return self.lost == 0 and not (self.failed_reads or self.failed_writes)


@contextmanager
def traffic(settings: Settings, questions: Sequence[Question], *, about: str) -> Iterator[Traffic]:
    """Search and store in a thread of its own until the block ends; then look for what was stored.

    Args:
        settings: of the stack.
        questions: what is searched for, in turn.
        about: what goes on meanwhile, for the memories' texts.
    """
    seen, is_over = Traffic(), threading.Event()
    thread = threading.Thread(target=_go_on, args=(settings, questions, about, seen, is_over), name="traffic")
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def _go_on(
    settings: Settings, questions: Sequence[Question], about: str, seen: Traffic, is_over: threading.Event
) -> None:
    policy = effective_policy(settings.policy_path)
    backend = create_worker_backend(settings, policy)
    with asyncio.Runner() as runner, MemoryClient.from_settings(settings) as client:
        runner.run(backend.connect())
        jobs: list[str] = []
        try:
            while not is_over.wait(_PAUSE_SECONDS):
                _search(backend, runner, questions[seen.reads % len(questions)], seen)
                jobs += _store(client, f"Round {seen.reads} while the embedder changes: {about}.", seen)
            # By the default, a job's result is kept for longer than this takes.
            ended = list(client.wait(jobs, timeout_seconds=_WRITTEN_SECONDS))
            seen.failed_writes += sum(each.state is not JobState.DONE for each in ended)
            live = runner.run(_ids(backend))
            seen.lost = len(set(seen.writes) - live)
        finally:
            runner.run(backend.disconnect())


def _search(backend: WorkerBackend, runner: asyncio.Runner, question: Question, seen: Traffic) -> None:
    seen.reads += 1
    try:
        found = runner.run(backend.retrieve(question.agent_id, question.query(5)))
    except MemoryError:
        found = ()
    seen.failed_reads += not found


def _store(client: MemoryClient, text: str, seen: Traffic) -> tuple[str, ...]:
    try:
        receipt = client.store(_WRITER, MemoryStoreRequest(category=MemoryCategory.EPISODIC, content=text))
    except MemoryError:
        seen.failed_writes += 1
        return ()
    seen.writes += receipt.memory_ids
    return receipt.job_ids


async def _ids(backend: WorkerBackend) -> set[str]:
    ids: set[str] = set()
    cursor: str | None = None
    while True:
        page = await backend.scan(Where(agent_id=_WRITER), cursor=cursor)
        ids |= {record.entry.id for record in page.records}
        cursor = page.cursor
        if cursor is None:
            return ids
