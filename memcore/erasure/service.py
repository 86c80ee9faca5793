"""Erases an agent, or a person of its conversations: finds, removes, looks again, and signs a receipt.

The row of the erasure bars the agent: while it is open, workers drop jobs that name the agent. Once none is left on the
broker, nobody writes for it any more. Then each place is counted, noted and emptied, in an order in which whatever is
still needed to find something goes last. All steps may be repeated, and after a crash all are.

A write that began before and ends behind it, in a process that nobody can ask, lets it begin anew (Erasures.late).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from memcore.approvals import PUBLISHER
from memcore.backends.factory import WorkerBackend, mem0_config_of
from memcore.backends.protocol import sharing_of
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.erasure.checkpoints import CHECKPOINT_PLACE, TrainedCheckpoints
from memcore.erasure.files import AgentFiles
from memcore.erasure.points import AgentPoints
from memcore.erasure.queues import BrokerMessages
from memcore.erasure.receipt import ErasureReceipt, PlaceReceipt, older_key, signed
from memcore.errors import CheckpointConflictError, MemoryConnectionError
from memcore.jobs import Done, Outcome
from memcore.ledger.attempt import LEASE_RENEWAL, Attempt, RetryPolicy
from memcore.ledger.erasure.decisions import ErasureScope
from memcore.ledger.erasure.erasures import Erasure
from memcore.ledger.erasure.hidden import showing_all
from memcore.ledger.erasure.shared_rows import HistoryRows, rewrite_file
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.models.memory import propagated_tag
from memcore.records import Where
from memcore.telemetry.events import Event

#: Wait for workers to take the jobs that name the agent, and for those that began before the bar to end.
DRAIN_DELAY = timedelta(seconds=5)

#: Looks at a place before an erasure gives up: something writes there all the time.
_LOOKS = 3

#: Why one begins anew that was at its end.
_WRITTEN_MEANWHILE = "something was written meanwhile, and goes as well"

#: How often an erasure is attempted: without an end, since half of one is worse than a late one.
_RETRY = RetryPolicy(attempts=None)

#: What no erasure reaches.
_BEYOND: tuple[str, ...] = (
    "backups of the data folder, and of the databases and their logs: they end with your retention of backups",
    "texts that other agents, models' providers or people have kept in their own words",
)

#: Places that hold memories of a person, beside conversations.
_MEMORIES = ("store", "history", "archive", "booking_records", "memory_keys")

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Place:
    """What is counted and emptied; the functions are called again and again."""

    count: Callable[[], Awaitable[Mapping[str, int]]]
    erase: Callable[[], Awaitable[Any]]


class _Found(NamedTuple):
    """What leads to others' things, read before it goes."""

    memory_ids: frozenset[str]
    publications: frozenset[str]


@dataclass(frozen=True, eq=False)
class ErasureService:
    """Erases for one company."""

    ledger: Ledger
    backend: WorkerBackend
    points: AgentPoints
    history: HistoryRows
    files: AgentFiles
    broker: BrokerMessages
    trained: TrainedCheckpoints
    _: KW_ONLY
    company: str
    home: Path
    clock: Clock = utc_now
    renewal: timedelta = LEASE_RENEWAL

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company; its connections close with the context."""
        settings, ledger = context.settings, context.ledger
        points = AgentPoints(mem0_config_of(settings), ledger, company=context.company)
        context.opened.callback(points.close)
        history = HistoryRows(settings.history_url)
        context.opened.callback(history.close)
        return cls(
            ledger,
            context.backend,
            points,
            history,
            AgentFiles(settings, context.policy, ledger, context.backend),
            BrokerMessages(settings.broker_url),
            TrainedCheckpoints(ledger, company=context.company, home=settings.home),
            company=context.company,
            home=settings.home,
            clock=context.clock,
        )

    async def run(self, erasure_id: str, *, retire: bool = False) -> Outcome:
        """Carry an erasure out; one that was interrupted goes on, and one that is done stays done.

        Args:
            erasure_id: the erasure.
            retire: whether embedders that were trained on memories go, too.

        Returns:
            Done: nothing is left, and the receipt is in the row.
            Deferred: jobs of the agent are still on the broker, other work would write what it has read before, an
                embedder that is to go is in use, or a store does not answer.
            Skipped: it is done, or another worker has it.
            Dead: there is no such erasure.
        """
        with Attempt(self.ledger.erasures, self.company, erasure_id, retry=_RETRY, renewal=self.renewal) as attempt:
            erasure = attempt.claim()
            scope = ErasureScope(
                company=self.company,
                agent_id=erasure.agent_id,
                subject=erasure.subject,
                tag=propagated_tag(erasure.agent_id),
            )
            await self._stop_work(scope)
            if (reason := await self._busy(scope, erasure, retire=retire)) is not None:
                return self._waits(attempt, erasure, reason)
            erasure, left = await self._emptied(scope, erasure, attempt, retire=retire)
            # Behind it: what has read memories before they went may write them again, and is looked for then.
            if (reason := await self._writes_again(scope, erasure)) is not None:
                return self._waits(attempt, erasure, reason)
            rewritten, remains = await self._rewritten(scope, erasure)
            # Files take minutes: what was written meanwhile, by a process that began before, goes as well.
            erasure = self.ledger.erasures.note(self.company, erasure_id, attempt.token, {})
            if await self._has_more(scope, erasure, retire=retire):
                return self._waits(attempt, erasure, _WRITTEN_MEANWHILE)
            receipt = await asyncio.to_thread(self._receipt, erasure, left, rewritten, remains, is_named=retire)
            key = await asyncio.to_thread(self.ledger.signing_keys.signing, older=older_key(self.home))
            text = signed(receipt, key)
            self._check(attempt)
            done = self.ledger.erasures.finish(
                self.company,
                erasure_id,
                attempt.token,
                receipt=text,
                at=self.clock(),
                late_writes=erasure.late_writes,
            )
            if done is None:
                return self._waits(attempt, erasure, _WRITTEN_MEANWHILE)
            facts = {"found": sum(erasure.found.values())}
            _log.info(Event.ERASURE_DONE, extra={"company": self.company, "agent_id": erasure.agent_id, **facts})
            attempt.outcome = Done(facts=facts)
        return attempt.outcome

    def _waits(self, attempt: Attempt[Erasure], erasure: Erasure, reason: str) -> Outcome:
        _log.info(Event.ERASURE_DRAINING, extra={"company": self.company, "agent_id": erasure.agent_id})
        attempt.outcome = attempt.wait(reason, DRAIN_DELAY)
        return attempt.outcome

    async def _stop_work(self, scope: ErasureScope) -> None:
        """Cancel what the agent's jobs were still to do: their workers stop before their next write."""
        await asyncio.to_thread(self.ledger.erasable.cancel_work, scope, at=self.clock())

    async def _busy(self, scope: ErasureScope, erasure: Erasure, *, retire: bool) -> str | None:
        """Return why it cannot begin yet."""
        if self.clock() - erasure.requested_at < DRAIN_DELAY:
            return "jobs that began before it may still write"
        waiting = await asyncio.to_thread(self.broker.count, scope)
        if waiting:
            return f"{waiting} jobs of the agent are still on the broker"
        if retire:
            try:
                await asyncio.to_thread(self.trained.require_unused)
            except CheckpointConflictError as error:
                return str(error)
        has_memories = _has_memories(erasure) or bool((await self._leads(scope)).memory_ids)
        if (has_memories or retire) and await asyncio.to_thread(self.files.is_training):
            return "a fine-tune run has not ended: see `memtend finetune status`"
        return await self._maintained(scope) if has_memories else None

    async def _writes_again(self, scope: ErasureScope, erasure: Erasure) -> str | None:
        """Return what may still write memories that it has read, so that all is looked through once more behind it."""
        if not _has_memories(erasure):
            return None
        pointer = await asyncio.to_thread(self.ledger.collection_pointers.get, self.company)
        if pointer is not None and pointer.phase is not None:
            return "a reindex has not ended, and its copies are looked through then: see `memtend reindex --status`"
        return await self._maintained(scope)

    async def _maintained(self, scope: ErasureScope) -> str | None:
        # An agent that goes as a whole has none any more: its work was cancelled.
        if scope.subject is None:
            return None
        run = await asyncio.to_thread(self.ledger.runs.active, self.company, scope.agent_id)
        return None if run is None else f"run {run.run_id} of the agent has not ended"

    async def _emptied(
        self, scope: ErasureScope, erasure: Erasure, attempt: Attempt[Erasure], *, retire: bool
    ) -> tuple[Erasure, Mapping[str, int]]:
        """Empty every place until a look finds nothing; return the erasure with what was found, and the last look."""
        for _ in range(_LOOKS):
            found = await self._leads(scope)
            last: dict[str, int] = {}
            for place in self._places(scope, found, erasure, retire=retire):
                counts = dict(await place.count())
                self._check(attempt)
                erasure = self.ledger.erasures.note(self.company, erasure.erasure_id, attempt.token, counts)
                if any(counts.values()):
                    await place.erase()
                last |= counts
            if not any(last.values()):
                return erasure, last
        raise MemoryConnectionError("something writes for the agent all the time: stop its engine, and it goes on")

    async def _has_more(self, scope: ErasureScope, erasure: Erasure, *, retire: bool) -> bool:
        """Return whether a last look finds anything."""
        for place in self._places(scope, await self._leads(scope), erasure, retire=retire):
            if any((await place.count()).values()):
                return True
        return False

    def _check(self, attempt: Attempt[Erasure]) -> None:
        attempt.lease.enter()

    async def _leads(self, scope: ErasureScope) -> _Found:
        ledger = self.ledger
        if scope.subject is not None:
            of_person = await asyncio.to_thread(ledger.erasable.memory_ids, scope)
            return _Found(of_person | await self.points.find(scope, also=of_person), frozenset())
        derived = await asyncio.to_thread(ledger.erasable.skills.find, scope)
        publications = await asyncio.to_thread(ledger.erasable.publications.find, scope)
        for each in derived:
            publications |= await asyncio.to_thread(ledger.erasable.publications.of_fact, self.company, each.skill_id)
        rows = await asyncio.to_thread(ledger.erasable.memory_ids, scope)
        stored = await self.points.find(scope, also=publications)
        return _Found(rows | stored | publications, publications)

    def _places(self, scope: ErasureScope, found: _Found, erasure: Erasure, *, retire: bool) -> Iterator[_Place]:
        if retire:
            by = Confirmation(actor=erasure.requested_by, confirm=True, reason=f"erasure {erasure.erasure_id}")
            yield _Place(_in_thread(self.trained.count), _in_thread(partial(self.trained.retire, by)))
        if scope.subject is None:
            yield from self._of_agent(scope, found)
        else:
            proposals = self.ledger.erasable.proposals
            proposed = partial(proposals.find, scope, found.memory_ids)
            # Before the memories, which say what was proposed of the person.
            yield _Place(
                partial(_sized, "approvals", proposed),
                _in_thread(lambda: proposals.erase(self.company, proposed())),
            )
            yield self._tests(scope, found)
            yield from self._of_person(scope, found) if found.memory_ids else ()
        letters = self.ledger.erasable.letters
        yield _Place(
            partial(_sized, "dead_letters", partial(letters.find, scope)),
            _in_thread(partial(letters.erase, scope)),
        )
        rows = self.ledger.erasable
        yield _Place(_in_thread(partial(rows.count, scope)), _in_thread(partial(rows.delete, scope)))

    def _tests(self, scope: ErasureScope, found: _Found) -> _Place:
        tests, ids = self.ledger.erasable.tests, found.memory_ids

        async def named() -> list[str]:
            with showing_all():
                stored = await self.backend.get_many(scope.agent_id, sorted(ids)) if ids else ()
            held = await asyncio.to_thread(lambda: [*self.ledger.lineage.held(scope.company, scope.agent_id)])
            memories = [each.entry for each in (*stored, *held) if each.entry.id in ids]
            return await asyncio.to_thread(tests.find, scope, memories)

        async def count() -> Mapping[str, int]:
            return {"memory_tests": len(await named())}

        async def erase() -> None:
            await asyncio.to_thread(tests.erase, scope, await named())

        return _Place(count, erase)

    def _of_person(self, scope: ErasureScope, found: _Found) -> Iterator[_Place]:
        """Yield what holds the person's memories, but for rows that say so themselves."""
        rows, ids = self.ledger.erasable, found.memory_ids
        yield from self._copies(scope, ids)
        yield _Place(_in_thread(partial(rows.count_of, scope, ids)), _in_thread(partial(rows.delete_of, scope, ids)))

        async def points() -> Mapping[str, int]:
            return {"store": await self.points.count(scope, also=found.memory_ids)}

        yield _Place(points, partial(self._delete_persons_points, scope, found))

    async def _delete_persons_points(self, scope: ErasureScope, found: _Found) -> None:
        # By the backend first, as for an agent.
        await self.backend.delete_where(Where(agent_id=scope.agent_id, namespaces=frozenset({str(scope.subject)})))
        await self.points.delete(scope, also=found.memory_ids)

    def _copies(self, scope: ErasureScope, ids: frozenset[str]) -> Iterator[_Place]:
        """Yield the texts of memories outside the store: its wiki, which runs export anew, training texts, history."""
        files, agent_id, history = self.files, scope.agent_id, self.history
        yield _Place(
            partial(_counted, "wiki", partial(files.wiki, agent_id)), _in_thread(partial(files.remove_wiki, agent_id))
        )
        yield _Place(partial(_sized, "training_files", files.training), _in_thread(files.remove_training))
        yield _Place(partial(_counted, "history", partial(history.count, ids)), _in_thread(partial(history.erase, ids)))

    def _of_agent(self, scope: ErasureScope, found: _Found) -> Iterator[_Place]:
        ledger, files, in_thread = self.ledger, self.files, asyncio.to_thread
        ids = found.memory_ids
        yield from self._copies(scope, ids)

        def skill_folders() -> list[Path]:
            return files.skills(ids, ledger.erasable.skills.find(scope))

        yield _Place(
            partial(_sized, "skill_files", skill_folders),
            _in_thread(lambda: files.remove_skills(skill_folders())),
        )

        async def points() -> Mapping[str, int]:
            return {"store": await self.points.count(scope, also=found.publications)}

        yield _Place(points, partial(self._delete_points, scope, found))
        # Behind the points: the log's lines say which of them are the agent's.
        published = ledger.erasable.publications
        yield _Place(
            partial(_counted, "shared_log", partial(published.count, self.company, found.publications)),
            _in_thread(partial(published.erase, self.company, found.publications)),
        )
        proposals = ledger.erasable.proposals

        async def derived() -> Mapping[str, int]:
            skills = await in_thread(ledger.erasable.skills.find, scope)
            asked = await in_thread(proposals.find, scope)
            return {"skills": len(skills), "approvals": len(asked)}

        def drop_derived() -> None:
            skills = ledger.erasable.skills.find(scope)
            proposals.erase(self.company, [*proposals.find(scope), *(each.approval_id for each in skills)])
            ledger.erasable.skills.erase(self.company, skills)

        yield _Place(derived, _in_thread(drop_derived))

    async def _delete_points(self, scope: ErasureScope, found: _Found) -> None:
        sharing = sharing_of(self.backend)
        if sharing is not None:
            # So that the log is at its end, and no line of it brings a point back.
            for memory_id in sorted(found.publications):
                for publisher in (scope.agent_id, PUBLISHER):
                    await sharing.retract(publisher, memory_id)
        # By the backend first: it tells a reindex which agent changed.
        await self.backend.delete_where(Where(agent_id=scope.agent_id))
        await self.points.delete(scope, also=found.publications)

    async def _rewritten(self, scope: ErasureScope, erasure: Erasure) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Have files and logs written anew; return which were, and what remains for people."""
        rewritten: list[str] = []
        remains = list(_BEYOND)
        parts: list[tuple[str, Callable[[], Awaitable[bool]], str]] = [
            (
                "ledger and journal",
                _in_thread(self.ledger.rewrite_files),
                "free pages and logs of the database server: VACUUM FULL, and its retention of logs, end them",
            ),
            (
                "broker",
                _in_thread(self.broker.rewrite),
                "the broker's own files and logs: it was not asked, or refused, to write them anew",
            ),
        ]
        if _has_memories(erasure):
            parts += [
                (
                    "history",
                    _in_thread(partial(rewrite_file, self.history.database)),
                    "free pages and logs of the history's database server",
                ),
                (
                    "store",
                    self.points.rewrite,
                    "segments and logs of the Qdrant server, until its optimizer has written them anew",
                ),
            ]
        for name, rewrite, otherwise in parts:
            if await rewrite():
                rewritten.append(name)
            else:
                remains.append(otherwise)
        if scope.subject is None:
            count = await asyncio.to_thread(self.ledger.erasable.publications.authored_facts, scope)
            if count:
                remains.append(f"{count} facts that the agent wrote for the organisation: `memtend org` retracts them")
        return tuple(rewritten), tuple(remains)

    def _receipt(
        self,
        erasure: Erasure,
        left: Mapping[str, int],
        rewritten: tuple[str, ...],
        remains: tuple[str, ...],
        *,
        is_named: bool,
    ) -> ErasureReceipt:
        retired = self.trained.retired(erasure.found)
        trained = self.trained.find() if is_named or _has_memories(erasure) else ()
        return ErasureReceipt(
            erasure_id=erasure.erasure_id,
            company=self.company,
            agent_id=erasure.agent_id,
            subject=erasure.subject,
            requested_by=erasure.requested_by,
            requested_at=erasure.requested_at,
            finished_at=self.clock(),
            places={
                name: PlaceReceipt(found=count, left=left.get(name, 0))
                for name, count in sorted(erasure.found.items())
                if not name.startswith(CHECKPOINT_PLACE)
            },
            rewritten=rewritten,
            remains=remains,
            checkpoints=tuple(sorted({*retired, *(each.checkpoint_id for each in trained)})),
            retired=retired,
        )


def _has_memories(erasure: Erasure) -> bool:
    """Return whether what goes has, or had, memories: those of an agent always, those of a person once found."""
    return erasure.subject is None or any(erasure.found.get(name) for name in _MEMORIES)


def _in_thread(call: Callable[[], _T]) -> Callable[[], Awaitable[_T]]:
    async def run() -> _T:
        return await asyncio.to_thread(call)

    return run


async def _counted(name: str, count: Callable[[], int]) -> Mapping[str, int]:
    return {name: await asyncio.to_thread(count)}


async def _sized(name: str, find: Callable[[], Any]) -> Mapping[str, int]:
    return {name: len(await asyncio.to_thread(find))}
