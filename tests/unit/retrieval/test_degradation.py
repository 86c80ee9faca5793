"""A failing part is left out: one event that names it, no exception; Python's own MemoryError still passes."""

import builtins
import re
from collections.abc import Sequence
from datetime import datetime

import pytest
from support.memories import NOW
from support.scored_memories import entry
from support.search_backends import HybridBackend, PlainBackend, SharedStore, hits, near

from memcore import errors
from memcore.backends.fusion import RankedLists
from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.formatting import AWAY_NOTICE
from memcore.retrieval.protocol import UNNEEDED, ScoredMemory, noting_degraded

_LINEAR = MemoryRetrievalConfig(fusion_strategy=FusionStrategy.LINEAR, min_relevance=0.0)
_WEIGHTED = MemoryRetrievalConfig(min_relevance=0.0)
_OWN, _THEIRS = entry("a", "alpha", relevance=0.5), entry("s", "sigma", relevance=0.9)
_RANKINGS = RankedLists(dense=near(_OWN), sparse=hits(_OWN), shared_dense=near(_THEIRS), shared_sparse=hits(_THEIRS))
_SECRET = "the memory's own text"


class Broken:
    """A part that fails at every call."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def rerank(self, _query_text: str, _memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        raise self._error

    def filter_for_injection(self, _memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        raise self._error

    def record(self, _agent_id: str, _memory_ids: Sequence[str], *, at: datetime) -> None:
        assert at
        raise self._error

    def estimate_tokens(self, _text: str) -> int:
        raise self._error

    def __call__(self, _a: str, _b: str) -> float:
        raise self._error


def _strategy(
    backend: PlainBackend, config: MemoryRetrievalConfig = _LINEAR, **parts: object
) -> ContextInjectionStrategy:
    return ContextInjectionStrategy(backend=backend, config=config, clock=lambda: NOW, **parts)  # type: ignore[arg-type]  # a test's parts


async def _prepared(strategy: ContextInjectionStrategy) -> list[str]:
    messages = await strategy.prepare_messages("ada", "what of 2026?", 500)
    return re.findall(r"<memory-entry [^<>]*>\n(.*)\n</memory-entry>", "\n".join(each.content for each in messages))


def _events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    """Return source, agent and error of each event of degradation; nothing else may have been said."""
    assert {record.message for record in caplog.records} <= {"memory.retrieval.degraded"}
    assert _SECRET not in caplog.text
    return [(each.source, each.agent_id, each.error) for each in caplog.records]  # type: ignore[attr-defined]  # the event's fields


_FAILURES = [
    errors.MemoryConnectionError(_SECRET),
    errors.MemoryRetrievalError(_SECRET),
    RuntimeError(_SECRET),
    ExceptionGroup(_SECRET, [ValueError(_SECRET)]),
]


@pytest.mark.parametrize("error", _FAILURES, ids=lambda error: type(error).__name__)
async def test_a_backend_that_fails_leaves_shared_knowledge(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    strategy = _strategy(PlainBackend(error), shared_store=SharedStore((_THEIRS,)))
    assert await _prepared(strategy) == ["sigma"]
    assert _events(caplog) == [("backend", "ada", type(error).__name__)]


@pytest.mark.parametrize("error", _FAILURES, ids=lambda error: type(error).__name__)
async def test_a_shared_store_that_fails_leaves_the_agents_own(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert await _prepared(_strategy(PlainBackend((_OWN,)), shared_store=SharedStore(error))) == ["alpha"]
    assert _events(caplog) == [("shared_store", "ada", type(error).__name__)]


async def test_both_may_fail_and_each_has_its_event(caplog: pytest.LogCaptureFixture) -> None:
    error = errors.MemoryConnectionError(_SECRET)
    assert await _prepared(_strategy(PlainBackend(error), shared_store=SharedStore(error))) == []
    assert sorted(source for source, _, _ in _events(caplog)) == ["backend", "shared_store"]


async def test_a_hybrid_backend_that_fails_leaves_another_shared_store(caplog: pytest.LogCaptureFixture) -> None:
    backend = HybridBackend(errors.MemoryConnectionError(_SECRET))
    assert await _prepared(_strategy(backend, _WEIGHTED, shared_store=SharedStore((_THEIRS,)))) == ["sigma"]
    assert _events(caplog) == [("backend", "ada", "MemoryConnectionError")]


async def test_one_store_for_both_that_fails_has_one_event(caplog: pytest.LogCaptureFixture) -> None:
    backend = HybridBackend(errors.MemoryConnectionError(_SECRET))
    assert await _prepared(_strategy(backend, _WEIGHTED, shared_store=backend)) == []
    assert _events(caplog) == [("backend", "ada", "MemoryConnectionError")]


async def test_the_shared_part_of_one_store_may_fail_alone(caplog: pytest.LogCaptureFixture) -> None:
    backend = HybridBackend(_RANKINGS, shared_fails=errors.MemoryRetrievalError(_SECRET))
    assert await _prepared(_strategy(backend, _WEIGHTED, shared_store=backend)) == ["alpha"]
    assert _events(caplog) == [("shared_store", "ada", "MemoryRetrievalError")]


@pytest.mark.parametrize("error", [errors.MemoryEmbeddingError(_SECRET), RuntimeError(_SECRET)])
@pytest.mark.parametrize("fusion", [FusionStrategy.WEIGHTED, FusionStrategy.RRF])
async def test_without_an_embedder_keywords_still_answer(
    error: Exception, fusion: FusionStrategy, caplog: pytest.LogCaptureFixture
) -> None:
    backend = HybridBackend(error, words=(_OWN,))
    config = _WEIGHTED.model_copy(update={"fusion_strategy": fusion})
    assert await _prepared(_strategy(backend, config)) == ["alpha"]
    assert _events(caplog) == [("backend", "ada", type(error).__name__)]


async def test_a_reranker_that_fails_keeps_the_order(caplog: pytest.LogCaptureFixture) -> None:
    found = (_OWN, _THEIRS)
    config = _LINEAR.model_copy(update={"query_specific_rerank_enabled": True})
    strategy = _strategy(PlainBackend(found), config, reranker=Broken(TimeoutError(_SECRET)))
    assert await _prepared(strategy) == ["sigma", "alpha"]
    assert _events(caplog) == [("reranker", "ada", "TimeoutError")]


async def test_a_filter_that_fails_lets_nothing_through_but_policies(caplog: pytest.LogCaptureFixture) -> None:
    strategy = _strategy(PlainBackend((_OWN,)), memory_filter=Broken(KeyError(_SECRET)), core_policies=("be kind",))
    messages = await strategy.prepare_messages("ada", "what of 2026?", 500)
    assert [each.content for each in messages[1:]] == [AWAY_NOTICE]
    assert "be kind" in messages[0].content
    assert _events(caplog) == [("filter", "ada", "KeyError")]


async def test_a_similarity_that_fails_keeps_the_order(caplog: pytest.LogCaptureFixture) -> None:
    config = _LINEAR.model_copy(update={"diversity_penalty_enabled": True})
    strategy = _strategy(PlainBackend((_OWN, _THEIRS)), config, similarity_fn=Broken(ZeroDivisionError(_SECRET)))
    assert await _prepared(strategy) == ["sigma", "alpha"]
    assert _events(caplog) == [("diversity", "ada", "ZeroDivisionError")]


async def test_a_recorder_that_fails_costs_no_message(caplog: pytest.LogCaptureFixture) -> None:
    assert await _prepared(_strategy(PlainBackend((_OWN,)), use_recorder=Broken(OSError(_SECRET)))) == ["alpha"]
    assert _events(caplog) == [("use_recorder", "ada", "OSError")]


async def test_an_estimator_that_fails_gives_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert await _prepared(_strategy(PlainBackend((_OWN,)), token_estimator=Broken(ValueError(_SECRET)))) == []
    assert _events(caplog) == [("pipeline", "ada", "ValueError")]


async def test_a_blank_question_gives_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert await _strategy(PlainBackend((_OWN,))).prepare_messages("ada", "  ", 500) == ()
    assert _events(caplog) == []


_AWAY = errors.MemoryConnectionError(_SECRET, part="ledger")


@pytest.mark.parametrize(
    ("backend", "parts", "named"),
    [
        (PlainBackend(errors.MemoryRetrievalError(_SECRET)), {}, ["store"]),
        (PlainBackend(_AWAY), {}, ["ledger"]),
        (HybridBackend(errors.MemoryEmbeddingError(_SECRET), words=(_OWN,)), {}, ["embedder"]),
        (PlainBackend((_OWN,)), {"shared_store": SharedStore(errors.MemoryConnectionError(_SECRET))}, ["store"]),
        (PlainBackend((_OWN,)), {"memory_filter": Broken(KeyError(_SECRET))}, ["filter"]),
        (PlainBackend((_OWN,)), {"use_recorder": Broken(OSError(_SECRET))}, []),
        (PlainBackend(()), {}, []),
    ],
    ids=["store", "ledger", "embedder", "shared", "filter", "recorder", "nothing known"],
)
async def test_a_prompt_says_in_one_line_that_memories_are_missing_and_the_answer_what_was_away(
    backend: PlainBackend, parts: dict[str, object], named: list[str]
) -> None:
    config = _WEIGHTED if isinstance(backend, HybridBackend) else _LINEAR
    with noting_degraded() as failed:
        messages = await _strategy(backend, config, **parts).prepare_messages("ada", "what of 2026?", 500)
    assert [each.content for each in messages].count(AWAY_NOTICE) == bool(named)
    assert [each.part for each in failed if each.source not in UNNEEDED] == named


@pytest.mark.parametrize("fatal", [builtins.MemoryError, RecursionError])
@pytest.mark.parametrize("tombstoned", [False, True])
@pytest.mark.parametrize("part", ["backend", "hybrid", "shared_store", "reranker", "memory_filter", "use_recorder"])
async def test_pythons_own_alarms_pass_from_every_part(fatal: type[Exception], tombstoned: bool, part: str) -> None:
    error = fatal()
    thrown = ExceptionGroup("outer", [ValueError(), ExceptionGroup("inner", [error])]) if tombstoned else error
    backend = PlainBackend((_OWN, _THEIRS))
    config, parts = _LINEAR, dict[str, object]()
    match part:
        case "backend":
            backend = PlainBackend(thrown)
        case "hybrid":
            backend, config = HybridBackend(thrown), _WEIGHTED
        case "shared_store":
            parts["shared_store"] = SharedStore(thrown)
        case _:
            config = _LINEAR.model_copy(update={"query_specific_rerank_enabled": part == "reranker"})
            parts[part] = Broken(thrown)
    with pytest.raises(fatal) as caught:
        await _strategy(backend, config, **parts).prepare_messages("ada", "what of 2026?", 500)
    assert caught.value is error
