"""Injects crashes and stalls at any call that a run makes."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy import event

from memcore.backends.factory import WorkerBackend
from memcore.ledger.ledger import Ledger
from support.thorough import THOROUGH, also_thorough

#: Whether a crash comes after its call: one before the next call leaves the same behind.
AT_CALLS = (False, *also_thorough(True))  # noqa: FBT003  # a parameter

#: Calls that only read; a name that is missing here costs a crash point more, and hides none.
_READS = frozenset(
    (
        "agents.get", "approvals.get", "backend.count_where", "backend.get_many", "backend.retrieve", "backend.scan",
        "journal.gone", "journal.journal_entries", "journal.next_seq", "journal.open_of", "journal.overtaken",
        "journal.protected_by_undo", "journal.removals", "journal.tombstoned", "journal.totals",
        "journal.undoable", "lineage.exchanges", "log.history", "runs.get", "skills.get",
        "companies.paused", "syntheses.of_run", "uses.of", "backend.document_vectors", "backend.query_vectors",
        "consolidation_groups.judged", "consolidation_groups.of_run", "journal.removed_by_run", "agents.why_paused",
        "answers.get", "archive.find", "archive.replaced_by", "backend.indexed_archived", "lineage.archived",
        "consolidation_groups.pairs", "consolidation_groups.pair_counts",
        "consolidation_groups.gate_counts", "runs.is_settled", "runs.last_done", "syntheses.get",
        "webhooks.signing", "deliveries.load", "deliveries.get", "deliveries.page", "deliveries.item",
        "erasures.watch", "erasures.late", "memory_tests.list", "consolidation_groups.protected_by_tests",
    )
)  # fmt: skip


def crash_points(calls: Sequence[str]) -> list[int]:
    """Return the calls before which a crash leaves something else behind than a crash one call earlier.

    Nothing outlives a crash but what was written: of several reads in a row the first one is enough. `make
    test-thorough` crashes before every call.
    """
    after_writes = [at for at in range(1, len(calls)) if THOROUGH or at == 1 or calls[at - 1] not in _READS]
    return each_kind(calls, after_writes)


def stall_points(calls: Sequence[str]) -> list[int]:
    """Return the calls before which a sleep can do harm: those that write. `make test-thorough` sleeps at all."""
    return each_kind(calls, [at for at, call in enumerate(calls) if THOROUGH or call not in _READS])


def each_kind(calls: Sequence[str], points: Sequence[int]) -> list[int]:
    """Return of each kind of point, a call after a call, the first and the last: a loop makes the same calls again.

    `make test-thorough` keeps every point.
    """
    if THOROUGH:
        return list(points)
    kinds = {point: tuple(calls[max(0, point - 1) : point + 1]) for point in points}
    first = {kind: point for point, kind in reversed(kinds.items())}
    last = {kind: point for point, kind in kinds.items()}
    return sorted({*first.values(), *last.values()})


class Crash(BaseException):
    """The process is gone: no handler in the code under test may catch it."""


class Faults:
    """Count calls, and do something at one of them.

    Args:
        at: which call, from 0; None only counts.
        strike: what happens there; raises, or stalls.
        is_after: whether the call itself takes effect first.
    """

    def __init__(
        self, at: int | None = None, *, strike: Callable[[], Any] | None = None, is_after: bool = False
    ) -> None:
        self.calls: list[str] = []
        self._at = at
        self._strike = strike or _crash
        self._is_after = is_after

    def backend(self, backend: WorkerBackend) -> WorkerBackend:
        return cast("WorkerBackend", _Watched(backend, "backend", self))

    def ledger(self, ledger: Ledger) -> Ledger:
        return cast("Ledger", _WatchedLedger(ledger, self))

    def watched(self, thing: object, name: str) -> Any:
        """Return a stand-in that calls the thing and is counted here."""
        return _Watched(thing, name, self)

    def counted(self, name: str) -> bool:
        self.calls.append(name)
        return len(self.calls) - 1 == self._at

    async def acall(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        is_due = self.counted(name)
        if is_due and not self._is_after:
            await self._happen()
        result = await function(*args, **kwargs)
        if is_due and self._is_after:
            await self._happen()
        return result

    def call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        is_due = self.counted(name)
        if is_due and not self._is_after:
            self._happen_now()
        result = function(*args, **kwargs)
        if is_due and self._is_after:
            self._happen_now()
        return result

    async def _happen(self) -> None:
        done = self._strike()
        if inspect.isawaitable(done):
            await done

    def _happen_now(self) -> None:
        done = self._strike()
        if inspect.iscoroutine(done):
            # The ledger is called from inside a running loop: what happens meanwhile happens in a thread of its own.
            failures: list[BaseException] = []

            def go() -> None:
                try:
                    asyncio.run(done)
                except BaseException as error:  # noqa: BLE001  # handed to the test below
                    failures.append(error)

            thread = threading.Thread(target=go)
            thread.start()
            thread.join()
            if failures:
                raise failures[0]


def _crash() -> None:
    raise Crash


class _Watched:
    def __init__(self, inner: object, name: str, faults: Faults) -> None:
        self._inner = inner
        self._name = name
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        label = f"{self._name}.{name}"
        if inspect.iscoroutinefunction(attribute):
            return lambda *args, **kwargs: self._faults.acall(label, attribute, args, kwargs)
        if callable(attribute):
            return lambda *args, **kwargs: self._faults.call(label, attribute, args, kwargs)
        return attribute


class _WatchedLedger:
    def __init__(self, inner: Ledger, faults: Faults) -> None:
        self.agents = _Watched(inner.agents, "agents", faults)
        self.runs = _Watched(inner.runs, "runs", faults)
        self.journal = _Watched(inner.journal, "journal", faults)
        self.lineage = _Watched(inner.lineage, "lineage", faults)
        self.archive = _Watched(inner.archive, "archive", faults)
        self.uses = _Watched(inner.uses, "uses", faults)
        self.ticks = _Watched(inner.ticks, "ticks", faults)
        self.companies = _Watched(inner.companies, "companies", faults)
        self.syntheses = _Watched(inner.syntheses, "syntheses", faults)
        self.consolidation_groups = _Watched(inner.consolidation_groups, "consolidation_groups", faults)
        self.recorded_queries = _Watched(inner.recorded_queries, "recorded_queries", faults)
        self.memory_tests = _Watched(inner.memory_tests, "memory_tests", faults)
        self.answers = _Watched(inner.answers, "answers", faults)
        self.experiences = _Watched(inner.experiences, "experiences", faults)
        self.compressions = _Watched(inner.compressions, "compressions", faults)
        self.note_writing = _Watched(inner.note_writing, "note_writing", faults)
        self.change_finding = _Watched(inner.change_finding, "change_finding", faults)
        self.trajectories = _Watched(inner.trajectories, "trajectories", faults)
        self.lessons = _Watched(inner.lessons, "lessons", faults)
        self.work = _Watched(inner.work, "work", faults)
        self.patterns = _Watched(inner.patterns, "patterns", faults)
        self.approvals = _Watched(inner.approvals, "approvals", faults)
        self.skills = _Watched(inner.skills, "skills", faults)
        self.skill_cycles = _Watched(inner.skill_cycles, "skill_cycles", faults)
        self.shared_log = _Watched(inner.shared_log, "shared_log", faults)
        self.finetune_runs = _Watched(inner.finetune_runs, "finetune_runs", faults)
        self.checkpoints = _Watched(inner.checkpoints, "checkpoints", faults)
        self.conversation = _Watched(inner.conversation, "conversation", faults)
        self.turns = _Watched(inner.turns, "turns", faults)
        self.sessions = _Watched(inner.sessions, "sessions", faults)
        self.keys = _Watched(inner.keys, "keys", faults)
        self.erasures = _Watched(inner.erasures, "erasures", faults)
        self.hidden = _Watched(inner.hidden, "hidden", faults)
        self.distrusts = _Watched(inner.distrusts, "distrusts", faults)
        self.measures = _Watched(inner.measures, "measures", faults)
        self.webhooks = _Watched(inner.webhooks, "webhooks", faults)
        self.deliveries = _Watched(inner.deliveries, "deliveries", faults)


class Crashes:
    """Kills a process before one of the statements of a transaction; BEGIN is the first, the commit the last."""

    def __init__(self) -> None:
        self.left: int | None = None

    def count(self, *_args: object) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Crash

    @contextmanager
    def at(self, statement: int | None) -> Iterator[None]:
        self.left = statement
        try:
            yield
        finally:
            self.left = None


@contextmanager
def crashing(ledger: Ledger) -> Iterator[Crashes]:
    """Let a ledger's transactions crash."""
    crashes, engine = Crashes(), ledger.work._database.engine()
    for name in ("before_cursor_execute", "commit"):
        event.listen(engine, name, crashes.count)
    yield crashes
    for name in ("before_cursor_execute", "commit"):
        event.remove(engine, name, crashes.count)
