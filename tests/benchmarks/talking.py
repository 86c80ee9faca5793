"""What conversation memory takes: ``talking.py [--turns N] [--only talk|replay]``.

Turns of 500 people go through client, queue and workers to the stub model, which answers at once: what is measured is
memtend and its ledger on SQLite, not a model. Half of the turns say something that the stub finds, in four relations;
a person says each of them several times, of other things, so that most facts meet one that is known already. That is
harder than life: such a turn costs a third call. Then every session is ended.

With LoCoMo's folder in MEMTEND_LOCOMO_DIR its conversations are replayed; see ``benchmarks.retrieval.turn_loading``.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import ColumnElement, Table, func, select

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.meter import Measurement, measured  # noqa: E402
from benchmarks.report import show  # noqa: E402
from benchmarks.retrieval.conversations import FOLDER, conversations  # noqa: E402
from benchmarks.retrieval.turn_loading import replayed  # noqa: E402
from benchmarks.stack import BenchStack, open_home, policy_of  # noqa: E402
from rich.console import Console  # noqa: E402
from support.stub_llm_process import StubLLM, stub_llm  # noqa: E402

from memcore import MemoryClient  # noqa: E402
from memcore.client.envelopes import build_turn_payload  # noqa: E402
from memcore.clock import utc_now  # noqa: E402
from memcore.conversation.turns import TurnRecorder  # noqa: E402
from memcore.ledger.conversation.tables import sessions, turns  # noqa: E402
from memcore.ledger.database import Database  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.tables import model_calls  # noqa: E402

#: Who talk, and the agents they talk to.
PEOPLE, AGENTS = 500, 20

#: Calls of a turn that the design allows in the median, and of a turn in which nothing is found.
MOST_CALLS, CALLS_OF_NOTHING = 2, 1

#: Turns recorded in this process, for the latency of the recorder alone.
_RECORDED = 500

#: Threads that send; seconds between two looks, and seconds after which a stretch without progress is given up.
_THREADS, _LOOK_SECONDS, _LIMIT_SECONDS = 2, 0.5, 300.0

#: How often a stretch tells how far it is.
_REPORTS = 10

#: The agent of the turn that starts the worker of models; it is in no figure.
_WARM_UP = "warm-up"

#: What the stub finds a fact in, and what it does not.
_TELLING = ("I like oats {}.", "I live in Port {}.", "I work as a baker {}.", "I am allergic to dust {}.")
_PLAIN = ("It rains again, and bus {} was late.", "Which of the {} doors is open now?")

#: No session ends before it is asked to, and no budget makes a turn wait.
_POLICY = """\
memory:
  level: persistent
  llm: {model: stub-small}
  budgets: {tokens_per_agent_per_day: null}
  conversation: {idle_minutes: 1440}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A turn to be sent; one that tells something holds one fact for the stub."""

    agent_id: str
    person: str
    text: str
    is_telling: bool

    @property
    def fields(self) -> dict[str, Any]:
        """What the client is told beside the agent; each person has one session."""
        named = {"session_id": f"talk-{self.person}", "user_id": self.person}
        return {**named, "user_text": self.text, "assistant_text": "I see. Go on."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls that were made for one turn or one end."""

    count: int
    tokens: int


def spoken(count: int) -> Iterator[Spoken]:
    """Yield turns: everybody says one, then everybody the next; every second one of a person says something."""
    for number in range(count):
        turn, person = divmod(number, PEOPLE)
        is_telling = (turn + person) % 2 == 0
        forms = _TELLING if is_telling else _PLAIN
        text = forms[(turn // 2 + person) % len(forms)].format(number)
        named = {"agent_id": f"agent-{person % AGENTS}", "person": f"person-{person}"}
        yield Spoken(**named, text=text, is_telling=is_telling)


class Talking:
    """A running stack in which people talk."""

    def __init__(self, stack: BenchStack, stub: StubLLM, database: Database, ledger: Ledger) -> None:
        self._stack = stack
        self._stub = stub
        self._database = database
        self._ledger = ledger
        self._company = stack.settings.company

    def run(self, count: int) -> tuple[list[Figure], list[Target]]:
        """Send so many turns and end all sessions; return what it took."""
        said = list(spoken(count))
        with MemoryClient.from_settings(self._stack.settings) as client:
            warm = client.extract_turn(_WARM_UP, session_id="w", user_text="It is warm.")
            if warm is None:
                raise ConnectionError("the first turn could not be sent")
            self._await(lambda: int(self._is_settled(warm.turn_id)), 1, what="first turn")
            with measured(self._pids) as talk:
                begun = time.perf_counter()
                self._send(client, said)
                sending = time.perf_counter() - begun
                self._await(self._settled, count, what="turns")
            people = {each.person: each for each in said}
            with measured(self._pids) as ending:
                for each in people.values():
                    client.end_conversation(each.agent_id, session_id=each.fields["session_id"], user_id=each.person)
                self._await(self._ended, len(people), what="ends")
        return self._report(count, len(people), talk=talk, sending=sending, ending=ending)

    def _send(self, client: MemoryClient, said: Sequence[Spoken]) -> None:
        def send(part: Sequence[Spoken]) -> None:
            for each in part:
                if client.extract_turn(each.agent_id, **each.fields) is None:
                    raise ConnectionError("a turn could not be sent")

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(send, [said[first::_THREADS] for first in range(_THREADS)]))

    def _record(self, count: int) -> list[float]:
        """Record further turns in this process, and return each one's milliseconds."""
        memory = policy_of(self._stack.settings).memory
        recorder = TurnRecorder(
            self._ledger, memory.conversation, level=memory.level, interval=memory.consolidation.interval
        )
        taken: list[float] = []
        for each in spoken(count):
            fields = {**each.fields, "session_id": f"later-{each.person}"}
            payload = build_turn_payload(each.agent_id, company=self._company, now=utc_now(), **fields)
            begun = time.perf_counter()
            recorder.record(payload)
            taken.append((time.perf_counter() - begun) * 1e3)
        return taken

    def _report(
        self, count: int, people: int, *, talk: Measurement, sending: float, ending: Measurement
    ) -> tuple[list[Figure], list[Target]]:
        outcomes, calls = self._outcomes(), self._calls()
        # Behind them: the sweep may find a model for these turns too.
        recorder = self._record(_RECORDED)
        telling = {key for key, outcome in outcomes.items() if outcome["semantic"]["extracted"]}
        of_turns = {key: calls.get(key, Calls(count=0, tokens=0)) for key in outcomes}
        found = [each.count for key, each in of_turns.items() if key in telling]
        nothing = [each.count for key, each in of_turns.items() if key not in telling]
        tokens = [each.tokens for each in of_turns.values()]
        of_ends = [each for key, each in calls.items() if key not in outcomes]
        kept = sum(len(outcome["written"]) + len(outcome["bumped"]) for outcome in outcomes.values())
        asked = sum(each.is_telling for each in spoken(count))
        every, group = [*found, *nothing], f"{count:,} turns of {people} people"
        ends = f"{sum(each.count for each in of_ends) / people:.2f} calls, "
        ends += f"{sum(each.tokens for each in of_ends) / people:,.0f} tokens a session; {people} sessions"
        late = statistics.quantiles(recorder, n=20)[-1]
        figures = [
            Figure(group=group, name="sent by the client", unit="turns/s", samples=[count / sending]),
            Figure(
                group=group, name="client to outcome", unit="turns/s", samples=[count / talk.wall],
                cpu_ms=talk.cpu * 1e3 / count, note=_parts(talk, count),
            ),
            Figure(group=group, name="calls, every turn", unit="calls", samples=every, note=_spread(every)),
            Figure(group=group, name="calls, something is found", unit="calls", samples=found, note=_spread(found)),
            Figure(group=group, name="calls, nothing is found", unit="calls", samples=nothing, note=_spread(nothing)),
            Figure(
                group=group, name="tokens of a turn", unit="tokens", samples=tokens,
                note=f"mean {statistics.mean(tokens):,.0f}",
            ),
            Figure(
                group=group, name="all sessions ended", unit="s", samples=[ending.wall],
                cpu_ms=ending.cpu * 1e3 / people, note=f"{ends}; {_parts(ending, people)}",
            ),
            Figure(
                group=group, name="TurnRecorder.record", unit="ms", samples=recorder,
                note=f"95 % within {late:.2f}; this process alone, in the ledger of all these turns",
            ),
        ]  # fmt: skip
        return figures, [
            Target(name="calls of a turn, median", values=every, wanted=MOST_CALLS, at_most=True),
            Target(name="calls where nothing is found", values=nothing, wanted=CALLS_OF_NOTHING, at_most=True),
            Target(name="facts written or said again, of those said", values=[kept / asked], wanted=1),
        ]

    def _outcomes(self) -> dict[str, dict[str, Any]]:
        query = select(turns.c.turn_id, turns.c.outcome).where(*self._of(turns), turns.c.outcome.is_not(None))
        return {row["turn_id"]: row["outcome"] for row in self._database.rows(query)}

    def _calls(self) -> dict[str, Calls]:
        """Return by turn, and by session for the ends, what was asked: the account's figures."""
        of = model_calls.c
        tokens = func.sum(of.prompt_tokens + of.completion_tokens).label("tokens")
        query = select(of.run_id, func.count().label("count"), tokens).where(*self._of(model_calls))
        rows = self._database.rows(query.group_by(of.run_id))
        return {row["run_id"]: Calls(count=row["count"], tokens=row["tokens"]) for row in rows}

    def _of(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        return table.c.company == self._company, table.c.agent_id != _WARM_UP

    def _is_settled(self, turn_id: str) -> bool:
        turn = self._ledger.turns.get(self._company, turn_id)
        return turn is not None and turn.outcome is not None

    def _settled(self) -> int:
        return self._database.count(turns, *self._of(turns), turns.c.outcome.is_not(None))

    def _ended(self) -> int:
        ended = (sessions.c.ended_at.is_not(None), sessions.c.outcome.is_not(None))
        return self._database.count(sessions, *self._of(sessions), *ended)

    def _await(self, reached: Callable[[], int], wanted: int, *, what: str) -> None:
        before, deadline = 0, time.monotonic() + _LIMIT_SECONDS
        while (now := reached()) < wanted:
            if now > before:
                if now * _REPORTS // wanted > before * _REPORTS // wanted:
                    sys.stderr.write(f"{now:,} of {wanted:,} {what}\n")
                before, deadline = now, time.monotonic() + _LIMIT_SECONDS
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{now} of {wanted} {what} were done, and no more for {_LIMIT_SECONDS:g} s")
            # It keeps every question for tests that look at them: of so many turns hundreds of megabytes.
            self._stub.forget()
            time.sleep(_LOOK_SECONDS)

    def _pids(self) -> dict[str, int]:
        return {**self._stack.pids(), "stub": self._stub.process.pid}


def talking(count: int) -> tuple[list[Figure], list[Target]]:
    """Measure on a stack of its own."""
    with stub_llm() as stub, open_home(policy=_POLICY, llm_url=stub.url) as stack:
        urls = stack.settings.ledger_urls
        with closing(Database(urls.ledger, name="ledger")) as database, closing(Ledger.open(urls)) as ledger:
            return Talking(stack, stub, database, ledger).run(count)


def _spread(counts: Sequence[int]) -> str:
    shares = ", ".join(f"{calls}: {each / len(counts):.0%}" for calls, each in sorted(Counter(counts).items()))
    return f"mean {statistics.mean(counts):.2f} ({shares})"


def _parts(measurement: Measurement, count: int) -> str:
    parts = [f"{part} {seconds * 1e3 / count:.1f}" for part, seconds in measurement.parts.items()]
    busy = [part for part in parts if not part.endswith(" 0.0")]
    return f"{', '.join(busy)}; others took {measurement.foreign:.0%} of the machine"


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python tests/benchmarks/talking.py", description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000, help="turns of all people (default: %(default)s)")
    parser.add_argument("--only", choices=("talk", "replay"), help="measure the one and leave out the other")
    options = parser.parse_args(argv)
    console = Console(highlight=False, width=150)
    if options.only != "talk":
        corpus = conversations()
        if corpus:
            replayed(corpus, console)
        else:
            console.print(f"replay: skipped: no data (set {FOLDER} to a folder of conversation_*.json)")
    if options.only != "replay":
        machine = {
            "cores": psutil.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
        }
        measurements = talking(options.turns)
        show(*measurements, {**machine, "load": f"{os.getloadavg()[0]:.1f}"})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
