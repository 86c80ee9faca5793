"""Checks that every promise has its effect once, and that there is no other effect."""

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime

from chaos.evidence import Evidence
from chaos.finding import Finding, finding
from chaos.receipt import Acknowledged

from examples.demo.balance import Counts, balance
from memcore.ledger.work_items import WorkState

#: How a run may end: done, held back for a person, or given up for a newer one.
_ENDED = frozenset({WorkState.DONE, WorkState.HELD, WorkState.DISMISSED})


class Reconciliation:
    """Hold the promises against the evidence.

    Args:
        promises: what the engines' receipts say.
        planned: agent and time of each run.
        poison: ids of jobs that must be dead letters, and of nothing else.
        unreadable: what must have been put aside, and nothing else.
        evidence: what is there.
    """

    def __init__(
        self,
        *,
        promises: Acknowledged,
        planned: Collection[tuple[str, datetime]],
        poison: Collection[str],
        unreadable: Collection[bytes],
        evidence: Evidence,
    ) -> None:
        self._acknowledged = promises
        self._planned = planned
        self._poison = frozenset(poison)
        self._unreadable = frozenset(unreadable)
        self._evidence = evidence
        self._stored = self._times_stored()

    @property
    def exact_agents(self) -> int:
        """Agents whose account balances, as multisets of ids."""
        return sum(self._is_exact(agent_id) for agent_id in self._agents)

    @property
    def agents(self) -> int:
        """Agents with an account."""
        return len(self._agents)

    def findings(self) -> list[Finding]:
        """Return all that is wrong; nothing is what a chaos run should leave."""
        return [*self._memories(), *self._copies(), *self._history(), *self._journal(), *self._runs(), *self._aside()]

    @property
    def _agents(self) -> set[str]:
        return set(self._acknowledged.ids) | {agent_id for agent_id, _ in self._evidence.live.values()}

    def _tally(self, agent_id: str) -> Counts:
        return self._evidence.tallies.get(agent_id) or Counts()

    def _times_stored(self) -> Counter[str]:
        """How often each id must have been stored from outside, for what is there and what entries did."""
        times: Counter[str] = Counter(self._evidence.live.keys())
        for tally in self._evidence.tallies.values():
            times.update(tally.removed)
            times.subtract(tally.created)
            times.subtract(tally.restored)
        return times

    def _memories(self) -> Iterator[Finding]:
        acknowledged = {memory_id for ids in self._acknowledged.ids.values() for memory_id in ids}
        lost = [memory_id for memory_id in acknowledged if self._stored[memory_id] < 1]
        twice = [
            memory_id
            for memory_id in acknowledged
            if self._stored[memory_id] > self._acknowledged.resent.get(memory_id, 1)
        ]
        unasked = [
            memory_id for memory_id, times in self._stored.items() if times > 0 and memory_id not in acknowledged
        ]
        gone = [memory_id for memory_id, times in self._stored.items() if times < 0]
        texts = Counter(self._evidence.live.values())
        yield from finding("lost", "memories that a receipt names", lost)
        yield from finding("duplicated", "memories stored more often than sent", twice)
        yield from finding("duplicated", "memories that no receipt and no run names", unasked)
        yield from finding("lost", "memories that a run made and nobody removed", gone)
        same = [memory_text for (_, memory_text), number in texts.items() if number > 1]
        yield from finding("duplicated", "texts of one agent with two ids", same)
        owners = {memory_id: agent_id for agent_id, ids in self._acknowledged.ids.items() for memory_id in ids}
        strayed = [key for key, (agent_id, _) in self._evidence.live.items() if owners.get(key, agent_id) != agent_id]
        yield from finding("duplicated", "memories in another agent's hands", strayed)
        unbalanced = sorted(agent_id for agent_id in self._agents if not self._is_exact(agent_id))
        yield from finding("lost", "agents whose account does not balance", unbalanced)

    def _copies(self) -> Iterator[Finding]:
        """Of each summary in the store the archived originals can be found, and no others."""
        out, copies = self._evidence.archived, self._evidence.copies
        found = {(summary_id, out.get(key)) for key, summary_id in copies.items()}
        originals = set(out.values())
        wanted = {(key, each) for key, ids in self._evidence.replaced.items() for each in ids if each in originals}
        yield from finding(
            "lost", "archived originals that cannot be found", sorted(each for _, each in wanted - found)
        )
        stray = [key for key, summary_id in copies.items() if (summary_id, out.get(key)) not in wanted]
        yield from finding("unsettled", "copies of what is not archived, or whose summary has left", stray)

    def _is_exact(self, agent_id: str) -> bool:
        mine = self._acknowledged.ids.get(agent_id, set())
        account = balance(
            stored=mine,
            tally=self._tally(agent_id),
            live=[key for key, (owner, _) in self._evidence.live.items() if owner == agent_id],
        )
        # What an engine sent twice may have been removed in between, and is then stored twice.
        anew = Counter({key: self._stored[key] - 1 for key in mine & self._acknowledged.resent.keys()})
        return account.into + anew == account.out

    def _history(self) -> Iterator[Finding]:
        events, live = self._evidence.history, self._evidence.live
        removed: Counter[str] = Counter()
        for tally in self._evidence.tallies.values():
            removed.update(tally.removed)
        ids = {memory_id for memory_id, _ in events} | live.keys() | removed.keys()
        added = {memory_id: events[memory_id, "ADD"] - (memory_id in live) - removed[memory_id] for memory_id in ids}
        deleted = {memory_id: events[memory_id, "DELETE"] - removed[memory_id] for memory_id in ids}
        yield from finding("duplicated", "ADD rows too many", [key for key, more in added.items() if more > 0])
        yield from finding("lost", "ADD rows missing", [key for key, more in added.items() if more < 0])
        yield from finding("duplicated", "DELETE rows too many", [key for key, more in deleted.items() if more > 0])
        yield from finding("lost", "DELETE rows missing", [key for key, more in deleted.items() if more < 0])
        yield from finding(
            "unsettled", "texts of removed memories in the history", self._evidence.history_texts - live.keys()
        )

    def _journal(self) -> Iterator[Finding]:
        yield from finding("unsettled", "bookings decided and not carried out", self._evidence.open_entries)
        without_tombstone = [
            key
            for key in self._evidence.tombstoned & self._evidence.live.keys()
            if key not in self._acknowledged.resent
        ]
        yield from finding("duplicated", "memories in the store although buried", without_tombstone)
        wrong = [
            run.run_id
            for run in self._evidence.runs
            if run.state in _ENDED and not self._evidence.counted[run.run_id].items() <= run.counts.items()
        ]
        yield from finding("lost", "runs whose counts are not the journal's", wrong)

    def _runs(self) -> Iterator[Finding]:
        planned = Counter(self._planned)
        rows = Counter((run.agent_id, run.planned_at) for run in self._evidence.runs)
        yield from finding("lost", "planned runs without a row", list((planned - rows).elements()))
        yield from finding("duplicated", "runs without a plan", list((rows - planned).elements()))
        unfinished = [
            f"{run.run_id} {run.state} {run.reason}" for run in self._evidence.runs if run.state not in _ENDED
        ]
        yield from finding("unsettled", "runs that did not end as they should", unfinished)

    def _aside(self) -> Iterator[Finding]:
        dead = self._evidence.dead
        yield from finding("lost", "jobs given up although nothing was wrong with them", dead.keys() - self._poison)
        yield from finding("lost", "poison jobs without their dead letter", self._poison - dead.keys())
        unreadable = self._evidence.unreadable
        yield from finding("lost", "unreadable messages that nobody sent", unreadable - self._unreadable)
        yield from finding("lost", "unreadable messages not put aside", self._unreadable - unreadable)
