"""A crew for jobs under test: a real ledger, and a desk, a bell and nights that the test writes the script for."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.intake import Written
from memcore.jobs.outcomes import Done, Outcome
from memcore.jobs.payloads import StoreItem
from memcore.ledger.ledger import Ledger
from memcore.ledger.run import Run


@dataclass
class ScriptedDesk:
    """Answers as the test says: how many were stored, all that became of them, an error, or never (None)."""

    answer: int | Written | Exception | None = 1
    taken: list[tuple[StoreItem, ...]] = field(default_factory=list)

    def submit(self, items: Sequence[StoreItem]) -> "Future[Written]":
        self.taken.append(tuple(items))
        future: Future[Written] = Future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        elif isinstance(self.answer, Written):
            future.set_result(self.answer)
        elif self.answer is not None:
            ids = [item.id for item in items]
            stored, buried = ids[: self.answer], ids[self.answer :]
            future.set_result(Written(stored=frozenset(stored), buried=frozenset(buried)))
        return future


@dataclass
class RecordingBell:
    """Remembers whom it rang for."""

    rung: list[Run] = field(default_factory=list)
    error: Exception | None = None

    def ring_many(self, runs: Iterable[Run]) -> None:
        if self.error is not None:
            raise self.error
        self.rung.extend(runs)


@dataclass
class ScriptedCrew:
    """See tasks.crew.Crew."""

    ledger: Ledger
    company: str = "acme"
    policy: Policy = field(default_factory=Policy)
    desk: ScriptedDesk = field(default_factory=ScriptedDesk)
    bell: RecordingBell = field(default_factory=RecordingBell)
    clock: Clock = utc_now
    night: Callable[[str], Outcome] = lambda _run_id: Done(facts={"live": 3})

    def maintain(self, run_id: str) -> Outcome:
        return self.night(run_id)
