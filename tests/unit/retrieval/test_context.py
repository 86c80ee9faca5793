"""The pipeline from a question to messages, over scripted backends."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from support.memories import NOW
from support.scored_memories import entry
from support.search_backends import HybridBackend, PlainBackend, SharedStore, hits, near

from memcore.backends.fusion import RankedLists
from memcore.config.organization import OrgMemoryConfig
from memcore.config.policy import Policy
from memcore.config.retrieval import FusionStrategy, InjectionPoint, MemoryRetrievalConfig
from memcore.errors import MemoryConfigError
from memcore.models.answers import Shown
from memcore.models.execution import ChatMessage, MessageRole
from memcore.models.memory import NON_INFERABLE_TAG, MemoryCategory
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.protocol import MemoryInjectionStrategy, ScoredMemory

_LINEAR = MemoryRetrievalConfig(
    fusion_strategy=FusionStrategy.LINEAR, personal_boost=0.0, min_relevance=0.0, standing=Shown.ANY
)
_RRF = _LINEAR.model_copy(update={"fusion_strategy": FusionStrategy.RRF, "min_relevance": 0.3})
_WEIGHTED = _LINEAR.model_copy(update={"fusion_strategy": FusionStrategy.WEIGHTED})


def _lines(messages: Sequence[ChatMessage]) -> list[str]:
    """Return the contents of the injected memories, in their order."""
    return re.findall(r"<memory-entry [^<>]*>\n(.*)\n</memory-entry>", messages[-1].content) if messages else []


def _strategy(
    backend: PlainBackend, config: MemoryRetrievalConfig = _LINEAR, **parts: object
) -> ContextInjectionStrategy:
    return ContextInjectionStrategy(backend=backend, config=config, clock=lambda: NOW, **parts)  # type: ignore[arg-type]  # a test's parts


class Reversed:
    """A re-ranker that finds the last one best."""

    async def rerank(self, query_text: str, memories: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        assert query_text
        return memories[::-1]


async def test_memories_come_between_a_directive_and_nothing_best_first() -> None:
    found = (entry("a", "alpha", relevance=0.4), entry("b", "beta", relevance=0.9))
    messages = await _strategy(PlainBackend(found)).prepare_messages("ada", "what of 2026?", 500)
    assert [each.role for each in messages] == [MessageRole.SYSTEM, MessageRole.SYSTEM]
    assert _lines(messages) == ["beta", "alpha"]


@pytest.mark.parametrize("backend", [PlainBackend(), HybridBackend(RankedLists())])
async def test_the_zone_of_the_asker_reaches_the_store(backend: PlainBackend) -> None:
    strategy = _strategy(backend, MemoryRetrievalConfig())
    await strategy.prepare_messages("ada", "what did I do yesterday?", 500, time_zone="Europe/Berlin")
    await strategy.prepare_messages("ada", "what did I do yesterday?", 500)
    assert [each.time_zone for each in backend.queries] == ["Europe/Berlin", None]


async def test_it_keeps_the_protocol_and_has_no_tools() -> None:
    strategy = _strategy(PlainBackend())
    assert isinstance(strategy, MemoryInjectionStrategy)
    assert strategy.strategy_name == "context"
    assert strategy.get_tool_definitions() == ()


@pytest.mark.parametrize("budget", [0, -1])
async def test_without_tokens_nothing_is_asked_and_nothing_comes(budget: int) -> None:
    backend = PlainBackend((entry("a"),))
    assert await _strategy(backend, core_policies=("be kind",)).prepare_messages("ada", "what of 2026?", budget) == ()
    assert backend.queries == []


async def test_the_categories_go_to_the_store() -> None:
    backend = PlainBackend()
    wanted = frozenset({MemoryCategory.SOCIAL})
    await _strategy(backend).prepare_messages("ada", "what of 2026?", 500, categories=wanted)
    assert backend.queries[0].categories == wanted


async def test_shared_memories_are_marked_and_the_agents_own_are_left_out_there() -> None:
    shared = SharedStore((entry("s", "sigma", relevance=0.9, agent_id="bob"),))
    backend = PlainBackend((entry("a", "alpha", relevance=0.5),))
    messages = await _strategy(backend, shared_store=shared).prepare_messages("ada", "what of 2026?", 500)
    assert f'<memory-entry shared="semantic 0.90" date="{NOW.date()}" by="bob">\nsigma\n' in messages[-1].content
    assert shared.excluded == ["ada"]


async def test_shared_knowledge_is_not_asked_when_the_policy_says_so() -> None:
    shared = SharedStore((entry("s", "sigma", relevance=0.9),))
    config = _LINEAR.model_copy(update={"include_shared": False})
    assert (
        await _strategy(PlainBackend(), config, shared_store=shared).prepare_messages("ada", "what of 2026?", 500) == ()
    )
    assert shared.excluded == []


async def test_memories_may_speak_as_the_user() -> None:
    config = _LINEAR.model_copy(update={"injection_point": InjectionPoint.USER})
    messages = await _strategy(PlainBackend((entry("a"),)), config).prepare_messages("ada", "what of 2026?", 500)
    assert [each.role for each in messages] == [MessageRole.SYSTEM, MessageRole.USER]


# The weak points of the reference (FACTS C.2, K.2): each of these went wrong there.


@pytest.mark.parametrize("config", [_LINEAR, _RRF, _WEIGHTED])
async def test_the_candidate_pool_survives_to_the_diversity_step(config: MemoryRetrievalConfig) -> None:
    same = "the disk of the build host is full again"
    found = (
        *(entry(f"copy{i}", same, relevance=0.9 - i / 100) for i in range(4)),
        entry("new", "Mara reviews before noon", relevance=0.6),
    )
    backend = HybridBackend(RankedLists(dense=near(*found), sparse=hits(*found)))
    backend.answer = found
    diverse = {"diversity_penalty_enabled": True, "diversity_lambda": 0.3, "max_memories": 2}
    strategy = _strategy(backend, config.model_copy(update={**diverse, "candidate_pool_multiplier": 3}))
    # The fifth candidate of a prompt of two: only a pool that was not cut has it.
    assert _lines(await strategy.prepare_messages("ada", "what of 2026?", 500)) == [same, "Mara reviews before noon"]
    assert backend.queries[0].limit == 6


async def test_diversity_keeps_the_order_of_a_rerank() -> None:
    found = tuple(entry(name, name * 3, relevance=score) for name, score in (("a", 0.9), ("b", 0.5), ("c", 0.1)))
    config = _LINEAR.model_copy(update={"query_specific_rerank_enabled": True, "diversity_penalty_enabled": True})
    strategy = _strategy(PlainBackend(found), config, reranker=Reversed())
    # Nothing here is like anything else, so diversity has no reason of its own to change the order.
    assert _lines(await strategy.prepare_messages("ada", "what of 2026?", 500)) == ["ccc", "bbb", "aaa"]


async def test_min_relevance_does_not_always_drop_the_last_rrf_hit() -> None:
    found = (entry("a", "alpha", relevance=0.9), entry("b", "beta", relevance=0.8))
    backend = HybridBackend(RankedLists(dense=near(*found), sparse=hits(*found)))
    assert _lines(await _strategy(backend, _RRF).prepare_messages("ada", "what of 2026?", 500)) == ["alpha", "beta"]


@pytest.mark.parametrize("config", [_RRF, _WEIGHTED])
async def test_is_shared_is_kept_by_every_fusion(config: MemoryRetrievalConfig) -> None:
    own, theirs = entry("a", "alpha", relevance=0.8), entry("s", "sigma", relevance=0.9)
    backend = HybridBackend(
        RankedLists(dense=near(own), sparse=hits(own), shared_dense=near(theirs), shared_sparse=hits(theirs))
    )
    messages = await _strategy(backend, config, shared_store=backend).prepare_messages("ada", "what of 2026?", 500)
    assert re.search(r'<memory-entry shared="semantic \d\.\d\d" date="[-\d]+" by="ada">\nsigma', messages[-1].content)
    assert re.search(r'<memory-entry own="semantic \d\.\d\d" date="[-\d]+">\nalpha', messages[-1].content)
    # One store for both is asked once.
    assert backend.trips == [True]


async def test_bm25_is_never_clamped_on_its_way_to_the_prompt() -> None:
    strong, weak = entry("a", "strong", relevance=0.9), entry("b", "weak", relevance=0.3)
    backend = HybridBackend(RankedLists(sparse=hits(strong, weak)))
    config = _WEIGHTED.model_copy(update={"relevance_weight": 1.0, "recency_weight": 0.0})
    messages = await _strategy(backend, config).prepare_messages("ada", "what of 2026?", 500)
    # Raw scores 10.8 and 3.6, a third of the best: a clamp at 1 would show them alike.
    assert f'"semantic 1.00" date="{NOW.date()}">\nstrong\n' in messages[-1].content
    assert f'"semantic 0.58" date="{NOW.date()}">\nweak\n' in messages[-1].content


@pytest.mark.parametrize("config", [_RRF, _WEIGHTED])
async def test_without_keyword_hits_similarity_ranks_as_linear_does(config: MemoryRetrievalConfig) -> None:
    found = (entry("a", "alpha", relevance=0.4), entry("b", "beta", relevance=0.8))
    relevance_alone = {"relevance_weight": 1.0, "recency_weight": 0.0, "min_relevance": 0.0}
    strategy = _strategy(HybridBackend(RankedLists(dense=near(*found))), config.model_copy(update=relevance_alone))
    messages = await strategy.prepare_messages("ada", "what of 2026?", 500)
    assert f'"semantic 0.80" date="{NOW.date()}">\nbeta\n' in messages[-1].content
    assert f'"semantic 0.40" date="{NOW.date()}">\nalpha\n' in messages[-1].content


async def test_non_inferable_only_injects_what_carries_the_tag() -> None:
    found = (entry("a", "tagged", relevance=0.5, tags=(NON_INFERABLE_TAG,)), entry("b", "plain", relevance=0.9))
    config = _LINEAR.model_copy(update={"non_inferable_only": True})
    assert _lines(await _strategy(PlainBackend(found), config).prepare_messages("ada", "what of 2026?", 500)) == [
        "tagged"
    ]


async def test_hidden_memories_suppress_no_visible_ones() -> None:
    same = "the disk of the build host is full"
    found = (
        entry("hidden", same, relevance=0.9),
        entry("seen", same, relevance=0.8, tags=(NON_INFERABLE_TAG,)),
        entry("other", "Mara reviews before noon", relevance=0.3, tags=(NON_INFERABLE_TAG,)),
    )
    update = {"non_inferable_only": True, "diversity_penalty_enabled": True, "diversity_lambda": 0.5}
    strategy = _strategy(PlainBackend(found), _LINEAR.model_copy(update=update))
    # Were the hidden one an anchor, its copy would fall behind the other.
    assert _lines(await strategy.prepare_messages("ada", "what of 2026?", 500)) == [same, "Mara reviews before noon"]


async def test_core_policies_lead_outside_filter_and_threshold() -> None:
    config = _LINEAR.model_copy(update={"non_inferable_only": True, "min_relevance": 1.0})
    policies = ("Never deploy on Fridays.", "Ask before you delete.")
    messages = await _strategy(PlainBackend(), config, core_policies=policies).prepare_messages(
        "ada", "what of 2026?", 500
    )
    assert [each.role for each in messages] == [MessageRole.SYSTEM]
    assert messages[0].content.splitlines()[1:] == ["- Never deploy on Fridays.", "- Ask before you delete."]


async def test_core_policies_take_their_tokens_before_any_memory(caplog: pytest.LogCaptureFixture) -> None:
    backend = PlainBackend((entry("a", "m" * 200, relevance=0.9),))
    policy = "p" * 100
    strategy = _strategy(backend, core_policies=(policy,))
    assert len(await strategy.prepare_messages("ada", "what of 2026?", 110)) == 3
    assert len(await strategy.prepare_messages("ada", "what of 2026?", 60)) == 1
    assert await strategy.prepare_messages("ada", "what of 2026?", 20) == ()
    assert [each.message for each in caplog.records] == ["memory.token_budget.exceeded"]


async def test_a_strategy_from_a_policy_has_its_core_policies_and_its_retrieval() -> None:
    policy = Policy(org_memory=OrgMemoryConfig(core_policies=("be kind",)))
    messages = await ContextInjectionStrategy.from_policy(policy, backend=PlainBackend()).prepare_messages(
        "ada", "what of 2026?", 500
    )
    assert "be kind" in messages[0].content


@pytest.mark.parametrize(
    ("update", "key"),
    [({"retriever": "hierarchical"}, "retriever"), ({"query_specific_rerank_enabled": True}, "query_specific_rerank")],
)
def test_a_part_that_the_policy_asks_for_must_be_given(update: dict[str, object], key: str) -> None:
    with pytest.raises(MemoryConfigError, match=f"memory.retrieval.{key}"):
        _strategy(PlainBackend(), _LINEAR.model_copy(update=update))


async def test_what_was_injected_is_noted_and_nothing_else() -> None:
    class Noted:
        def __init__(self) -> None:
            self.uses: list[tuple[str, list[str], datetime]] = []

        def record(self, agent_id: str, memory_ids: Sequence[str], *, at: datetime) -> None:
            self.uses.append((agent_id, list(memory_ids), at))

    noted = Noted()
    found = (entry("long", "x" * 4000, relevance=0.9), entry("short", relevance=0.5))
    strategy = _strategy(PlainBackend(found), use_recorder=noted)
    await strategy.prepare_messages("ada", "what of 2026?", 100)
    assert noted.uses == [("ada", ["short"], NOW)]


class _Questions:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.kept: list[tuple[str, str, list[str], datetime]] = []

    def record_query(self, agent_id: str, question: str, memory_ids: Sequence[str], *, at: datetime) -> None:
        if self.error is not None:
            raise self.error
        self.kept.append((agent_id, question, list(memory_ids), at))


@pytest.mark.parametrize("is_on", [True, False])
async def test_a_question_is_kept_with_what_was_shown_only_where_the_policy_says_so(*, is_on: bool) -> None:
    questions, found = _Questions(), (entry("long", "x" * 4000, relevance=0.9), entry("short", relevance=0.5))
    config = _LINEAR.model_copy(update={"record_queries": is_on})
    strategy = _strategy(PlainBackend(found), config, query_recorder=questions)
    await strategy.prepare_messages("ada", "what of 2026?", 100)
    assert questions.kept == ([("ada", "what of 2026?", ["short"], NOW)] if is_on else [])


async def test_a_recorder_of_questions_that_fails_costs_no_prompt(caplog: pytest.LogCaptureFixture) -> None:
    config = _LINEAR.model_copy(update={"record_queries": True})
    strategy = _strategy(PlainBackend((entry("a", "text"),)), config, query_recorder=_Questions(OSError()))
    assert _lines(await strategy.prepare_messages("ada", "what of 2026?", 100)) == ["text"]
    assert [getattr(each, "source", "") for each in caplog.records] == ["query_recorder"]


async def test_an_old_memory_counts_less_than_a_fresh_one() -> None:
    old = entry("old", "old", relevance=0.5, created_at=NOW - timedelta(days=90))
    fresh = entry("fresh", "fresh", relevance=0.48)
    assert _lines(await _strategy(PlainBackend((old, fresh))).prepare_messages("ada", "what of 2026?", 500)) == [
        "fresh",
        "old",
    ]
