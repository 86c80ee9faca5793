"""The hierarchical retriever: a model routes, workers search at once, poor results are tried again."""

from datetime import timedelta
from typing import Any

import pytest
from support.agent_tools import COMPANY, ListModel, WordBackend
from support.memories import NOW
from support.scored_memories import entry
from support.search_backends import SharedStore

from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.errors import BudgetExceededError, MemoryRetrievalError
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest
from memcore.retrieval.pipeline import MemoryPipeline
from memcore.retrieval.strategies.hierarchical import LLMHierarchicalRetriever

CONFIG = MemoryRetrievalConfig(retriever="hierarchical", fusion_strategy=FusionStrategy.LINEAR, personal_boost=0.0)
FLAT = CONFIG.model_copy(update={"retriever": "flat"})

TEXTS = {
    "semantic": "the disk of the host is small",
    "episodic": "the disk of the host was full",
    "procedural": "to clean the disk of the host, rotate logs",
    "social": "Mara owns the disk of the host",
}


async def store(*, days_old: float = 1.0) -> WordBackend:
    backend = WordBackend(company=COMPANY, clock=lambda: NOW - timedelta(days=days_old))
    await backend.connect()
    for category, text in TEXTS.items():
        await backend.store("ada", MemoryStoreRequest(category=MemoryCategory(category), content=text))
    return backend


def retriever(
    model: ListModel, backend: WordBackend, config: MemoryRetrievalConfig = CONFIG, **parts: Any
) -> LLMHierarchicalRetriever:
    flat = MemoryPipeline(backend=backend, config=FLAT, clock=lambda: NOW, **parts)
    return LLMHierarchicalRetriever(
        flat=flat, backend=backend, model=model, config=config, company=COMPANY, clock=lambda: NOW
    )


async def found(answers: dict[str, Any], query: str = "disk of the host", **given: Any) -> tuple[list[str], ListModel]:
    model = ListModel(answers)
    backend = given.pop("backend", None) or await store()
    memories = await retriever(model, backend, given.pop("config", CONFIG)).retrieve("ada", query, limit=10, **given)
    return [str(each.entry.category) for each in memories], model


EVERY = {"semantic", "episodic", "procedural", "social"}


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        ({"workers": ["procedural"]}, {"procedural"}),
        ({"workers": ["episodic"]}, {"episodic"}),
        ({"workers": ["procedural", "episodic"]}, {"procedural", "episodic"}),
        ({"workers": ["procedural", "episodic", "semantic"]}, {"procedural", "episodic"}),
        ({"workers": ["procedural", "procedural", "nobody", 7, None]}, {"procedural"}),
        ('```json\n{"workers": ["procedural"]}\n```', {"procedural"}),
        ({"workers": ["semantic"]}, EVERY),
        ({"workers": []}, EVERY),
        ({"workers": "Procedural"}, {"procedural"}),
        ({"workers": ["secret"]}, EVERY),
        ("procedural", EVERY),
        ("[1]", EVERY),
        ("{" * 40_000 + "}", EVERY),
        (BudgetExceededError("no", until=NOW), EVERY),
        (RuntimeError("no"), EVERY),
    ],
)
async def test_the_model_says_who_searches_and_the_flat_search_stands_in(answer: Any, kinds: set[str]) -> None:
    memories, model = await found({"route": answer})

    assert set(memories) == kinds
    assert {each.agent_id for each in model.by} == {"ada"}
    assert model.asked[0].temperature == 0.0
    assert model.asked[0].messages[1].content.startswith("<question>")


@pytest.mark.parametrize(
    ("most", "kinds"), [(1, {"procedural"}), (3, {"procedural", "episodic"}), (4, {"procedural", "episodic"})]
)
async def test_no_more_workers_search_than_the_policy_allows(most: int, kinds: set[str]) -> None:
    config = CONFIG.model_copy(update={"max_workers_per_query": most})

    memories, _ = await found({"route": {"workers": ["procedural", "episodic"]}}, config=config)

    assert set(memories) == kinds


async def test_the_episodic_worker_looks_back_72_hours_and_prefers_the_latest() -> None:
    backend = WordBackend(company=COMPANY, clock=lambda: NOW)
    await backend.connect()
    for hours in (1, 71, 73):
        backend._clock = lambda hours=hours: NOW - timedelta(hours=hours)  # type: ignore[misc]
        text = "the disk of the host" if hours == 71 else f"a disk of a host, {hours}"
        await backend.store("ada", MemoryStoreRequest(category=MemoryCategory.EPISODIC, content=text))
    backend._clock = lambda: NOW
    model = ListModel({"route": {"workers": ["episodic"]}})

    memories = await retriever(model, backend).retrieve("ada", "disk of the host", limit=10)

    assert [each.entry.content for each in memories] == ["a disk of a host, 1", "the disk of the host"]
    assert memories[0].combined_score == pytest.approx(0.4 * 0.75 + 0.6 * 71 / 72)
    assert memories[1].combined_score == pytest.approx(0.4 * 1.0 + 0.6 * 1 / 72)


async def test_a_memory_that_two_workers_find_has_its_best_score() -> None:
    backend = await store()
    model = ListModel({"route": {"workers": ["semantic", "procedural"]}})

    memories = await retriever(model, backend).retrieve("ada", "disk of the host", limit=10)
    alone = await retriever(ListModel({"route": {"workers": ["procedural"]}}), backend).retrieve(
        "ada", "disk of the host", limit=10
    )

    assert len(memories) == 4
    (both,) = [each for each in memories if each.entry.category is MemoryCategory.PROCEDURAL]
    assert both.combined_score == alone[0].combined_score == 1.0


async def test_shared_memories_are_found_by_the_semantic_worker() -> None:
    theirs = SharedStore((entry("s", "the disk of bob", relevance=0.9, agent_id="bob"),))
    model = ListModel({"route": {"workers": ["semantic"]}})

    memories = await retriever(model, await store(), shared_store=theirs).retrieve("ada", "disk", limit=2)

    assert [each.entry.id for each in memories if each.is_shared] == ["s"]
    assert len(memories) == 3


async def test_categories_that_are_asked_for_bind_every_worker() -> None:
    wanted = frozenset({MemoryCategory.EPISODIC})

    memories, _ = await found({"route": {"workers": ["semantic", "procedural"]}}, categories=wanted)

    assert memories == ["episodic"]


CORRECTIONS = [{"query": f"host {n} zzzz zzzz zzzzz zzzzzzz"} for n in range(9)]
POOR = "host zzz zzzz zzzzz zzzzzz"


@pytest.mark.parametrize(
    ("query", "reflect", "purposes", "kinds"),
    [
        # Nothing: the semantic worker, without a question to the model.
        ("lift", None, ["route"], set()),
        (POOR, {"query": "disk of the host"}, ["route", "reflect"], {"procedural"}),
        (POOR, {"action": "semantic_only"}, ["route", "reflect"], set()),
        (POOR, {"action": "episodic_only"}, ["route", "reflect"], {"episodic"}),
        (POOR, {"action": "skip"}, ["route", "reflect"], set()),
        (POOR, {"action": "obey"}, ["route", "reflect", "reflect"], set()),
        (POOR, {"query": " "}, ["route", "reflect", "reflect"], set()),
        (POOR, {"query": "x" * 401}, ["route", "reflect", "reflect"], set()),
        (POOR, {"query": 7}, ["route", "reflect"], set()),
        (POOR, {"query": POOR.upper()}, ["route", "reflect"], set()),
        (POOR, "nothing", ["route", "reflect", "reflect"], set()),
        (POOR, BudgetExceededError("no", until=NOW), ["route", "reflect"], set()),
        (POOR, list(CORRECTIONS), ["route", "reflect", "reflect"], set()),
    ],
)
async def test_poor_results_are_tried_again_by_the_rules(
    query: str, reflect: Any, purposes: list[str], kinds: set[str]
) -> None:
    memories, model = await found({"route": {"workers": ["procedural"]}, "reflect": reflect}, query)

    assert model.purposes == purposes
    assert set(memories) == kinds


@pytest.mark.parametrize(
    ("changed", "reflections"),
    [({"reflective_retry_enabled": False}, 0), ({"max_retry_count": 0}, 0), ({"max_retry_count": 4}, 4)],
)
async def test_retries_are_bounded_by_the_policy(changed: dict[str, Any], reflections: int) -> None:
    config = CONFIG.model_copy(update=changed)

    _, model = await found({"route": {"workers": ["procedural"]}, "reflect": list(CORRECTIONS)}, POOR, config=config)

    assert model.purposes.count("reflect") == reflections


async def test_a_worker_that_fails_leaves_what_the_others_find(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, usual = await store(), WordBackend.retrieve

    async def broken(self: WordBackend, agent_id: str, query: MemoryQuery) -> Any:
        if query.categories is not None:
            raise MemoryRetrievalError("no")
        return await usual(self, agent_id, query)

    monkeypatch.setattr(WordBackend, "retrieve", broken)
    memories, _ = await found({"route": {"workers": ["semantic", "procedural"]}}, backend=backend)

    assert set(memories) == EVERY
