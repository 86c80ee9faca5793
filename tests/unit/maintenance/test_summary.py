"""What a summary says, and what it takes over."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.maintenance_fixture import COMPANY, START, memory, uid
from support.present import present

from memcore.config.maintenance import (
    ArchivalConfig,
    ConsolidationConfig,
    ConsolidationStrategyType,
    DualModeConfig,
    LLMConsolidationConfig,
)
from memcore.errors import MemoryConfigError
from memcore.maintenance.consolidation.answers import NoAnswers
from memcore.maintenance.consolidation.factory import ConsolidationDeps, build_consolidation_strategy
from memcore.maintenance.consolidation.strategy import (
    ConcatenationOp,
    ConsolidationStrategy,
    SummaryCandidate,
    SummaryDraft,
    summary_record,
)
from memcore.models.memory import MemoryCategory
from memcore.records import Lineage, MemoryRecord


async def test_a_concatenation_names_the_category_and_keeps_whole_sentences_up_to_200_characters() -> None:
    one, two, three = "x" * 120, "y" * 75 + ".", "Z" * 10
    atomic = f"{'a' * 150}. {'B' * 150}."
    sources = [
        memory(1, content=f"{one}.\n{two}\n{three}", category=MemoryCategory.EPISODIC),
        memory(2, content=atomic, category=MemoryCategory.EPISODIC),
        memory(3, content="two\n\nlines\tand a tab", category=MemoryCategory.EPISODIC),
        memory(4, content=f"{'c' * 201}\nd\ne", category=MemoryCategory.EPISODIC),
    ]

    draft = await ConcatenationOp().write(sources)

    heading, *bullets = draft.content.split("\n")
    assert "episodic" in heading
    assert bullets == [f"- {one}. {two} ...", f"- {atomic}", "- two lines and a tab", f"- {'c' * 201} ..."]


def summary(*sources: MemoryRecord, strategy: str = "simple") -> MemoryRecord:
    return summary_record(
        sources, SummaryDraft(content="in short", tags=("made-so",)), company=COMPANY, strategy=strategy
    )


def test_a_summary_keeps_namespace_sources_confidence_expiry_tags_and_scope() -> None:
    made = summary(
        memory(1, days_old=30, namespace="work", tags=["a", "b"], confidence=0.9, expires_in_days=9),
        memory(2, days_old=20, namespace="work", tags=["b", "c"], confidence=0.4, expires_in_days=4),
    )

    entry = made.entry
    assert (entry.namespace, entry.category, entry.content) == ("work", MemoryCategory.EPISODIC, "in short")
    assert entry.metadata.source == "consolidation"
    assert entry.metadata.tags == ("consolidated", "made-so", "a", "b", "c")
    assert entry.metadata.confidence == 0.4
    assert entry.expires_at == START + timedelta(days=4)
    assert made.lineage.summary_of == (uid(1), uid(2))
    assert made.lineage.depth == 1
    assert made.vectors is None


def test_a_summary_is_as_old_as_its_oldest_source_and_says_until_when_it_reaches() -> None:
    made = summary(memory(1, days_old=30), memory(2, days_old=20))

    assert made.entry.created_at == START - timedelta(days=30)
    assert made.covers_until == START - timedelta(days=20)
    again = summary(made, memory(3, days_old=25))
    assert (again.entry.created_at, again.covers_until) == (made.entry.created_at, made.covers_until)


def test_a_memory_that_is_no_summary_or_has_somebody_elses_key_covers_its_own_time() -> None:
    plain = memory(1, days_old=30)

    for record in (
        plain,
        replace(plain, extra={"covers_until": "soon"}),
        replace(plain, extra={"covers_until": 3}),
        replace(plain, extra={"covers_until": "2026-01-01"}),
    ):
        assert record.covers_until == plain.entry.created_at


def test_a_summary_carries_a_scope_only_when_all_its_sources_share_it() -> None:
    one = Lineage(session_id="s", project_id="p", task_id="t", depth=2)
    other = Lineage(session_id="s", project_id="p", task_id="u")

    lineage = summary(memory(1, lineage=one), memory(2, lineage=other)).lineage

    assert (lineage.session_id, lineage.project_id, lineage.task_id, lineage.depth) == ("s", "p", None, 3)


def test_the_same_sources_make_the_same_summary_in_any_order_and_other_strategies_another() -> None:
    first, second = memory(1), memory(2)

    assert summary(first, second).entry.id == summary(second, first).entry.id
    assert summary(first, second).entry.id != summary(first, second, strategy="mine").entry.id
    assert summary(first, second).entry.id != summary(first, memory(3)).entry.id


def built(**policy: Any) -> ConsolidationStrategy | None:
    return build_consolidation_strategy(ConsolidationDeps(policy=ConsolidationConfig(**policy)))


def test_a_strategy_without_its_model_says_what_is_missing() -> None:
    with pytest.raises(MemoryConfigError, match=r"llm needs a language model; set MEMTEND_LLM_URL"):
        built(strategy="llm")
    with pytest.raises(MemoryConfigError, match=r"dual_mode needs archival\.dual_mode\.enabled and its"):
        built(strategy="dual_mode")
    chatty = ArchivalConfig(dual_mode=DualModeConfig(enabled=True, summarization_model="small"))
    with pytest.raises(MemoryConfigError, match=r"consolidation\.strategy: dual_mode needs a language model"):
        built(strategy="dual_mode", archival=chatty)


def test_none_means_no_strategy_and_simple_needs_nothing() -> None:
    assert built(strategy=ConsolidationStrategyType.NONE) is None
    simple = present(built(strategy="simple"))
    assert simple.name == "simple"


def test_the_configured_threshold_and_limits_are_the_ones_used() -> None:
    strategy = present(built(strategy="simple", group_threshold=6, group_max_entries=2))
    found = [SummaryCandidate.of(memory(n, days_old=40 - n)) for n in range(1, 7)]

    assert list(strategy.parts(found[:5])) == []
    parts = list(strategy.parts(found))
    assert [len(part.members) for part in parts] == [2, 2]
    assert {part.kept.id for part in parts if part.kept} == {found[-1].id}


def test_the_llm_strategy_has_a_threshold_of_its_own() -> None:
    llm = LLMConsolidationConfig(group_threshold=5)
    policy = ConsolidationConfig(strategy=ConsolidationStrategyType.LLM, group_threshold=2, llm=llm)
    strategy = present(build_consolidation_strategy(ConsolidationDeps(policy=policy, answers=NoAnswers())))
    found = [SummaryCandidate.of(memory(n, days_old=40 - n)) for n in range(1, 6)]

    assert list(strategy.parts(found[:4])) == []
    assert len(list(strategy.parts(found))) == 1
