"""One embedded fleet for many companies: ``fleet_of_companies.py [companies] [agents] [seconds]``.

Every agent stores a few memories, one of which has expired; then one tick sends the runs of all. It tells the seconds
of those runs, the memory, threads and open files of every process as the companies become more, and whether each
company has exactly what it must have and nothing of another one. 200 companies of 5 agents take some minutes. After so
many seconds it goes no further, and prints what it has seen by then.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from qdrant_client import QdrantClient
from sqlalchemy import create_engine, text

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.meter import family  # noqa: E402
from benchmarks.report import show  # noqa: E402
from benchmarks.stack import BenchStack, open_home  # noqa: E402

from memcore.backends.mem0.backend import Mem0Backend  # noqa: E402
from memcore.client.client import MemoryClient  # noqa: E402
from memcore.client.envelopes import ImportRecord  # noqa: E402
from memcore.clock import utc_now  # noqa: E402
from memcore.jobs import MaintenancePayload, TickPayload  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest  # noqa: E402
from workers.broker import broker_app  # noqa: E402
from workers.context import MAX_CONTEXTS  # noqa: E402

#: Companies, and agents of each.
COMPANIES, AGENTS = 200, 5

#: Memories of an agent that stay, beside the one that has expired.
KEPT = 3

#: The shares of the companies after which every process is looked at, each after the runs of all companies so far.
_STAGES = (0.2, 0.5, 1.0)

#: Most MiB of PSS that one more company adds to a process, once there are more than a worker keeps contexts of.
_MOST_MIB = {"worker": 0.25, "store-server": 2.0}

#: Seconds between two looks whether all is done, and after which no more is measured.
_POLL_INTERVAL_SECONDS = 0.2
_LIMIT_SECONDS = 1_200

#: What a log says of an error, in lower case.
_ERRORS = (" error ", " critical ", "traceback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What one process takes."""

    rss: float
    pss: float
    threads: int
    files: int

    def __str__(self) -> str:
        return f"RSS {self.rss:.0f} MiB, {self.threads} threads, {self.files} files"


class Fleet:
    """The companies of one running stack."""

    def __init__(self, stack: BenchStack, ledger: Ledger, qdrant: QdrantClient, *, agents: int, seconds: float) -> None:
        self._stack = stack
        self._ledger = ledger
        self._qdrant = qdrant
        self._agents = [f"agent-{number}" for number in range(agents)]
        self._database = create_engine(stack.settings.database_url)
        self._runs = 0
        self._deadline = time.monotonic() + seconds
        self.names: list[str] = []

    def grow(self, companies: int) -> float:
        """Register companies up to a number and store what their agents say; return the seconds until it is found."""
        begun, yesterday = time.perf_counter(), utc_now() - timedelta(days=1)
        new = [f"company-{number:03}" for number in range(len(self.names), companies)]
        for name in new:
            self._ledger.companies.add(name)
            expired = [
                ImportRecord(
                    agent_id=agent,
                    category=MemoryCategory.SEMANTIC,
                    content=f"{_word(name)} was over an hour ago",
                    created_at=yesterday,
                    expires_at=utc_now() - timedelta(hours=1),
                )
                for agent in self._agents
            ]
            with MemoryClient.from_settings(self._stack.settings.model_copy(update={"company": name})) as client:
                client.import_many(expired, track=False)
                for agent in self._agents:
                    client.store_many(agent, [_memory(name, number) for number in range(KEPT)], track=False)
        for name in new:
            self._await(partial(self._is_stored, name), f"the memories of {name} are stored")
        self.names += new
        return time.perf_counter() - begun

    def maintain(self) -> float:
        """Make every agent due and send one tick; return the seconds until every run is done."""
        with self._database.begin() as connection:
            # Another slot each time: a slot has one run.
            due = f"{utc_now() - timedelta(minutes=1):%Y-%m-%d %H:%M:%S.%f}"
            connection.execute(text("UPDATE agents SET next_due_at = :due"), {"due": due})
        self._runs += len(self.names) * len(self._agents)
        begun = time.perf_counter()
        with closing(broker_app(self._stack.settings)) as app:
            app.send_task(TickPayload.task, queue=str(TickPayload.queue), ignore_result=True)
        self._await(lambda: self.runs_left() == 0, "all runs are done")
        return time.perf_counter() - begun

    def count(self, name: str) -> int:
        """Return how many memories a company has."""
        collection = f"memtend_{name}"
        if not self._qdrant.collection_exists(collection):
            return 0
        return self._qdrant.count(collection, exact=True).count

    def wrong_counts(self) -> int:
        """Return how many companies have not exactly the memories that no run may remove."""
        return sum(self.count(name) != len(self._agents) * KEPT for name in self.names)

    def wrong_answers(self) -> int:
        """Search each company for another one's word, and for its own; return how many companies answered wrong."""
        wrong = 0
        for name, other in zip(self.names, (*self.names[1:], *self.names[:1]), strict=True):
            with self._stack.backend(name) as (backend, runner):
                assert isinstance(backend, Mem0Backend)  # the one of the default policy, which can search by words
                foreign = runner.run(backend.retrieve_sparse("agent-0", MemoryQuery(text=_word(other))))
                near = runner.run(backend.retrieve("agent-0", MemoryQuery(text=_word(other))))
                own = runner.run(backend.retrieve_sparse("agent-0", MemoryQuery(text=_word(name))))
            is_own = all(_word(name) in each.content for each in (*near, *own))
            wrong += bool(foreign) or not is_own or len(own) != KEPT
        return wrong

    def errors(self) -> Counter[str]:
        """Return how many lines of each log tell of an error."""
        return Counter(
            log.name
            for log in (self._stack.home / "logs").glob("*.log")
            for line in log.read_text(errors="replace").lower().splitlines()
            if any(word in line for word in _ERRORS)
        )

    def sizes(self) -> dict[str, Size]:
        """Return what every process of the stack takes now."""
        found = {}
        for part, pid in self._stack.pids().items():
            for number, member in enumerate(family(pid)):
                info = member.memory_full_info()
                found[f"{part} {number}" if number else part] = Size(
                    rss=info.rss / 2**20,
                    # Only Linux tells PSS; elsewhere what is the process's own comes nearest.
                    pss=getattr(info, "pss", info.uss) / 2**20,
                    threads=member.num_threads(),
                    files=member.num_fds(),
                )
        return found

    def close(self) -> None:
        self._database.dispose()

    def _is_stored(self, name: str) -> bool:
        # An agent is registered behind its first memory.
        is_known = self._ledger.agents.count(name) == len(self._agents)
        return is_known and self.count(name) == len(self._agents) * (KEPT + 1)

    def runs_left(self) -> int:
        """Return how many runs were sent and are not done."""
        return self._runs - self._done()

    def _done(self) -> int:
        query = text("SELECT count(*) FROM work_items WHERE kind = :kind AND state = 'done'")
        with self._database.connect() as connection:
            done: int = connection.execute(query, {"kind": MaintenancePayload.task}).scalar_one()
        return done

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            if time.monotonic() > self._deadline:
                msg = f"the time is over before {what}"
                raise TimeoutError(msg)
            time.sleep(_POLL_INTERVAL_SECONDS)


def fleet_of_companies(companies: int, agents: int, *, seconds: float) -> tuple[list[Figure], list[Target]]:
    """Measure on a stack of its own."""
    stages = sorted({max(1, round(companies * share)) for share in _STAGES})
    figures: list[Figure] = []
    seen: dict[int, dict[str, Size]] = {}
    with (
        open_home() as stack,
        closing(stack.qdrant()) as qdrant,
        closing(Ledger.open(stack.settings.ledger_urls)) as ledger,
        closing(Fleet(stack, ledger, qdrant, agents=agents, seconds=seconds)) as fleet,
    ):
        seen[0] = fleet.sizes()
        for number in stages:
            group = f"{number} companies of {agents} agents"
            try:
                stored, took = fleet.grow(number), fleet.maintain()
            except TimeoutError as error:
                sys.stderr.write(f"{group}: {error}; {fleet.runs_left()} runs are not done\n")
                break
            seen[number] = fleet.sizes()
            note = f"{number * agents / took:.0f} runs/s"
            figures += [
                Figure(group=group, name="stores of the new ones", unit="s", samples=[stored]),
                Figure(group=group, name="maintenance over all", unit="s", samples=[took], note=note),
            ]
            figures += [
                Figure(group=group, name=process, unit="MiB PSS", samples=[size.pss], note=str(size))
                for process, size in seen[number].items()
            ]
            sizes = ", ".join(f"{process} {size.pss:.0f}" for process, size in seen[number].items())
            sys.stderr.write(f"{group}: stores {stored:.1f} s, maintenance {took:.1f} s, {note}; MiB PSS: {sizes}\n")
        wrong = {
            "companies with wrong counts": fleet.wrong_counts(),
            "companies with wrong answers": fleet.wrong_answers(),
            "lines of errors in the logs": fleet.errors().total(),
        }
    for process, before in seen[0].items():
        figures.append(
            Figure(group="without companies", name=process, unit="MiB PSS", samples=[before.pss], note=str(before))
        )
    targets = [Target(name=what, values=[number], wanted=0, at_most=True) for what, number in wrong.items()]
    reached = [number for number in seen if number > MAX_CONTEXTS]
    if not reached:
        return figures, targets  # each company has a context still
    few, many = seen[reached[0]], seen[reached[-1]]
    for part, most in _MOST_MIB.items():
        grown = [many[name].pss - few[name].pss for name in few if name.startswith(part) and name in many]
        each = [mib / max(1, reached[-1] - reached[0]) for mib in grown]
        targets.append(
            Target(name=f"MiB that a company adds to the {part}", values=[max(each)], wanted=most, at_most=True)
        )
    return figures, targets


def _word(company: str) -> str:
    """Return a word that the memories of this company alone have."""
    return f"zebra{company.rpartition('-')[2]}quagga"


def _memory(company: str, number: int) -> MemoryStoreRequest:
    return MemoryStoreRequest(
        category=MemoryCategory.SEMANTIC, content=f"{_word(company)} pages the operator at {number} o'clock"
    )


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    defaults = (str(COMPANIES), str(AGENTS), str(_LIMIT_SECONDS))
    companies, agents, seconds = (int(each) for each in (*argv, *defaults[len(argv) :]))
    show(*fleet_of_companies(companies, agents, seconds=seconds), {"companies": companies})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
