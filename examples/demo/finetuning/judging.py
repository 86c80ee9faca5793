"""How well the questions find their notes, through the very search that agents use."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from examples.demo.finetuning.corpus import Question
from memcore.backends.factory import WorkerBackend, create_worker_backend
from memcore.config.loader import effective_policy
from memcore.config.retrieval import FusionStrategy
from memcore.config.settings import Settings
from memcore.errors import MemoryStoreError
from memcore.finetune.evaluate import DEPTH, ndcg_of, recall_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How long a reader may take to see that something else serves, in seconds; it looks every two.
_SEEN_SECONDS = 60.0

_POLL_INTERVAL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Where each question found its note; 0 is first, and what is not among the first ten counts as the eleventh.

    Attributes:
        dense: by meaning alone.
        fused: with the words beside it, as agents search.
    """

    dense: "NDArray[np.int64]"
    fused: "NDArray[np.int64]"

    def means(self) -> tuple[float, float, float, float]:
        """Return NDCG@10 and recall@10, by meaning alone and fused."""
        dense, fused = self.dense, self.fused
        each = ndcg_of(dense), recall_of(dense), ndcg_of(fused), recall_of(fused)
        return tuple(float(one.mean()) for one in each)  # type: ignore[return-value]  # four of them

    def equals(self, other: "Figures") -> bool:
        """Whether every question found its note at the same place."""
        return np.array_equal(self.dense, other.dense) and np.array_equal(self.fused, other.fused)


class Judge:
    """Ask the questions of running backends, which stay connected through every change of the embedder.

    Args:
        dense: searches by meaning alone.
        fused: searches as the policy says.
        runner: runs their coroutines.
        questions: what is asked.
        keys: the key of each memory, by its id.
    """

    def __init__(
        self,
        dense: WorkerBackend,
        fused: WorkerBackend,
        runner: asyncio.Runner,
        questions: Sequence[Question],
        keys: Mapping[str, str],
    ) -> None:
        self._dense = dense
        self._fused = fused
        self._runner = runner
        self._questions = questions
        self._keys = keys

    def figures(self) -> Figures:
        """Ask every question twice."""
        return Figures(dense=self._ranks(self._dense), fused=self._ranks(self._fused))

    def await_space(self, label: str) -> None:
        """Wait until both backends search among these vectors. Raises MemoryStoreError."""
        deadline = time.monotonic() + _SEEN_SECONDS
        question = self._questions[0]
        while {self._dense.vector_space, self._fused.vector_space} != {label}:
            if time.monotonic() > deadline:
                raise MemoryStoreError(f"nobody here has seen that {label} serves")
            time.sleep(_POLL_INTERVAL_SECONDS)
            for backend in (self._dense, self._fused):
                self._rank(backend, question)

    def _ranks(self, backend: WorkerBackend) -> "NDArray[np.int64]":
        return np.array([self._rank(backend, question) for question in self._questions], dtype=np.int64)

    def _rank(self, backend: WorkerBackend, question: Question) -> int:
        found = self._runner.run(backend.retrieve(question.agent_id, question.query(DEPTH)))
        keys = [self._keys.get(entry.id) for entry in found]
        return next((place for place, key in enumerate(keys) if key in question.expects), DEPTH)


@contextmanager
def judge(settings: Settings, questions: Sequence[Question], keys: Mapping[str, str]) -> Iterator[Judge]:
    """Yield a judge whose backends are connected."""
    policy = effective_policy(settings.policy_path)
    with asyncio.Runner() as runner, ExitStack() as open_ones:

        def connected(**retrieval: Any) -> WorkerBackend:
            wanted = policy.memory.retrieval.model_copy(update=retrieval)
            memory = policy.memory.model_copy(update={"retrieval": wanted})
            backend = create_worker_backend(settings, policy.model_copy(update={"memory": memory}))
            runner.run(backend.connect())
            open_ones.callback(lambda: runner.run(backend.disconnect()))
            return backend

        yield Judge(connected(fusion_strategy=FusionStrategy.LINEAR), connected(), runner, questions, keys)
