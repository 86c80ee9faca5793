"""The quality of search after enforcement kept a half or a quarter: ``python tests/benchmarks/enforcing.py``.

LoCoMo (MEMTEND_LOCOMO_DIR): every conversation is an agent. Every other question is asked before, and what it is shown
is recorded as used, as an engine does; then a run keeps the share, by the shipped rule, by age alone or by lot; then
the other questions are asked. Evidence that is gone counts as missed.
"""

import asyncio
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from pydantic import SecretStr

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from benchmarks.retrieval.conversations import FOLDER, Conversation, conversations  # noqa: E402
from support.ledger_records import sqlite_urls  # noqa: E402
from support.store_servers import store_server  # noqa: E402

from memcore import ids  # noqa: E402
from memcore.backends.base import fresh_record  # noqa: E402
from memcore.backends.mem0.backend import Mem0Backend  # noqa: E402
from memcore.backends.mem0.config import Mem0Config  # noqa: E402
from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType  # noqa: E402
from memcore.embedding.bm25 import Bm25Encoder  # noqa: E402
from memcore.embedding.factory import create_embedder  # noqa: E402
from memcore.evaluation.asking import compare, ndcg  # noqa: E402
from memcore.finetune.evaluate import DEPTH  # noqa: E402
from memcore.jobs import Done, Use  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate, migrate_history  # noqa: E402
from memcore.ledger.runs import NewRun  # noqa: E402
from memcore.maintenance.enforcement import Candidate, MemoryValue, usual_value  # noqa: E402
from memcore.maintenance.service import MaintenanceService  # noqa: E402
from memcore.models.memory import (  # noqa: E402
    MemoryCategory,
    MemoryEntry,
    MemoryLevel,
    MemoryMetadata,
    MemoryQuery,
    MemoryStoreRequest,
)

_COMPANY = "bench-enforcing"

#: When the run comes: so long after the last turn.
_LATER = timedelta(days=1)


def oldest_first(candidate: Candidate, now: datetime) -> float:
    """Keep what is new."""
    return -(now - candidate.entry.created_at).total_seconds()


def by_lot(candidate: Candidate, now: datetime) -> float:
    """Keep whatever the dice say; the same every time."""
    del now
    return float(zlib.crc32(candidate.entry.id.encode()))


def without_use(candidate: Candidate, now: datetime) -> float:
    """The shipped rule, had nobody recorded uses."""
    return usual_value(replace(candidate, uses=0, last_used_at=None), now)


_WHOLE, _OURS, _UNUSED, _LOT = "all kept", "the shipped rule", "the same without uses", "by lot"

#: Shares of the memories that a run keeps.
SHARES = {"half": 0.5, "quarter": 0.25}

#: How much better than by lot the rule must be, also where no use was recorded.
_LEAD = 0.1

#: The rules that are compared; None keeps everything.
RULES: dict[str, MemoryValue | None] = {
    _WHOLE: None,
    _OURS: usual_value,
    _UNUSED: without_use,
    "oldest first": oldest_first,
    _LOT: by_lot,
}


class Fleet:
    """The conversations as agents of one company, each as often as there are rules."""

    def __init__(self, backend: Mem0Backend, ledger: Ledger, runner: asyncio.Runner) -> None:
        self._backend = backend
        self._ledger = ledger
        self._runner = runner

    def measure(self, conversation: Conversation, rule: str, value: MemoryValue | None, share: float) -> list[float]:
        """Return NDCG@10 of every other question, after the others have been asked and a run has passed."""
        agent_id = f"{conversation.agent_id}-{zlib.crc32(rule.encode())}-{share}"
        now = max(turn.at for turn in conversation.turns) + _LATER
        self._fill(agent_id, conversation)
        earlier, later = conversation.questions[::2], conversation.questions[1::2]
        shown: Counter[str] = Counter()
        for question in earlier:
            shown.update(entry.id for entry in self._asked(agent_id, question.text))
        uses = [Use(agent_id=agent_id, memory_id=key, uses=count, last_used_at=now) for key, count in shown.items()]
        self._ledger.uses.count(_COMPANY, ids.new_id(), uses)
        if value is not None:
            self._maintenance_run(agent_id, value, now, most=int(len(conversation.turns) * share))
        scores = []
        for question in later:
            ranked = [str(entry.metadata.source) for entry in self._asked(agent_id, question.text)]
            scores.append(ndcg(ranked, question.evidence))
        return scores

    def _asked(self, agent_id: str, text: str) -> Sequence[MemoryEntry]:
        return self._runner.run(self._backend.retrieve(agent_id, MemoryQuery(text=text, limit=DEPTH)))

    def _maintenance_run(self, agent_id: str, value: MemoryValue, now: datetime, *, most: int) -> None:
        policy = ConsolidationConfig(
            strategy=ConsolidationStrategyType.NONE, max_memories_per_agent=most, max_removed_fraction=1.0
        )
        service = MaintenanceService(
            self._backend,
            self._ledger,
            policy,
            company=_COMPANY,
            level=MemoryLevel.PERSISTENT,
            clock=lambda: now,
            value=value,
        )
        run = self._ledger.runs.create(NewRun(run_id=ids.new_id(), company=_COMPANY, agent_id=agent_id, planned_at=now))
        assert run is not None
        outcome = self._runner.run(service.run(run.run_id))
        assert isinstance(outcome, Done), outcome
        assert self._runner.run(self._backend.count(agent_id)) == most

    def _fill(self, agent_id: str, conversation: Conversation) -> None:
        records = [
            fresh_record(
                agent_id,
                MemoryStoreRequest(
                    category=MemoryCategory.EPISODIC,
                    content=turn.stored_text,
                    metadata=MemoryMetadata(source=turn.name),
                ),
                company=_COMPANY,
                now=turn.at,
            )
            for turn in conversation.turns
        ]
        self._runner.run(self._backend.store_many(records))


def enforcing(rules: dict[str, MemoryValue | None]) -> tuple[list[Figure], list[Target]]:
    """Measure every rule on every conversation of the folder."""
    corpus = conversations()
    figures: list[Figure] = []
    targets: list[Target] = []
    with _opened() as fleet:
        for kept, share in SHARES.items():
            scores: dict[str, list[float]] = {name: [] for name in rules}
            for each in corpus:
                for name, value in rules.items():
                    scores[name] += fleet.measure(each, name, value, share)
            figures += _figures(kept, scores, corpus)
            targets += _targets(kept, scores)
    return figures, targets


def _targets(kept: str, scores: dict[str, list[float]]) -> list[Target]:
    ahead = [
        Target(
            name=f"{kept}: {_OURS} ahead of {name}, low end of 95 %",
            values=[compare(scores[_OURS], scores[name]).low],
            wanted=0.0,
        )
        for name in ("oldest first", _LOT)
    ]
    lead = compare(scores[_UNUSED], scores[_LOT]).mean
    return [*ahead, Target(name=f"{kept}: {_UNUSED} ahead of {_LOT}", values=[lead], wanted=_LEAD)]


def _figures(kept: str, scores: dict[str, list[float]], corpus: Sequence[Conversation]) -> list[Figure]:
    is_new = np.array([asked for each in corpus for asked in _asks_for_new(each)])
    kinds = {"all": np.full(len(is_new), fill_value=True), "about what nobody asked for before": is_new}
    figures: list[Figure] = []
    for kind, chosen in kinds.items():
        ours = np.asarray(scores[_OURS])[chosen]
        whole = float(np.mean(np.asarray(scores[_WHOLE])[chosen]))
        for name, found in scores.items():
            mean, apart = (
                float(np.mean(np.asarray(found)[chosen])),
                compare(ours.tolist(), np.asarray(found)[chosen].tolist()),
            )
            note = f"{mean / whole:.1%} of {_WHOLE}; shipped rule ahead by {apart.mean:+.4f}"
            note += f" ({apart.low:+.4f} to {apart.high:+.4f})"
            group = f"{kept} kept: {int(chosen.sum()):,} questions, {kind}"
            figures.append(Figure(group=group, name=name, unit="NDCG@10", samples=[mean], note=note))
    return figures


def _asks_for_new(conversation: Conversation) -> list[bool]:
    """Tell of each question that is measured whether no earlier one had evidence in common with it."""
    known = frozenset[str]().union(*(question.evidence for question in conversation.questions[::2]))
    return [known.isdisjoint(question.evidence) for question in conversation.questions[1::2]]


@contextmanager
def _opened() -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder, store_server(Path(folder) / "store") as store:
        urls, history_url = sqlite_urls(Path(folder)), f"sqlite:///{Path(folder) / 'history.db'}"
        migrate(urls)
        migrate_history(history_url)
        place = Mem0Config(
            url=store.url,
            api_key=SecretStr(store.api_key),
            history_url=history_url,
            collection=Mem0Config.collection_of(_COMPANY),
        )
        backend = Mem0Backend(place, company=_COMPANY, embedder=create_embedder("static"), encoder=Bm25Encoder())
        with closing(Ledger.open(urls)) as ledger, asyncio.Runner() as runner:
            runner.run(backend.connect())
            try:
                yield Fleet(backend, ledger, runner)
            finally:
                runner.run(backend.disconnect())


def main() -> int:
    """Measure and print; 1 when a target is missed."""
    if not conversations():
        sys.stdout.write(f"enforcement: skipped: no data (set {FOLDER} to a folder of conversation_*.json)\n")
        return 0
    figures, targets = enforcing(RULES)
    show(figures, targets, {})
    return 0 if all(target.is_met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
