"""No strategy returns more than it was given."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.maintenance_fixture import memory

from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, ConsolidationStrategyType, DualModeConfig
from memcore.maintenance.consolidation.condense import no_vocabulary
from memcore.maintenance.consolidation.factory import ConsolidationDeps, build_consolidation_strategy
from memcore.maintenance.consolidation.llm import Question, Reply
from memcore.maintenance.consolidation.strategy import text_size, write_draft

SHIPPED = [each for each in ConsolidationStrategyType if each is not ConsolidationStrategyType.NONE]

#: Facts, remarks, settings and code, so that every strategy has something to shorten, and texts of all kinds.
PARTS = st.sampled_from(
    [
        "Ann is allergic to nuts. ",
        "[8 May 2023] Bob: Hi there! ",
        "ratio = 0.5\n",
        "https://example.org/a?b=c ",
        "deploy v1.2.3 of 9b2c-11\n",
        "if x:\n    call(y)\n",
        "そうです。",
        "🙂",
        "x" * 90 + ". ",
        "As said. ",
    ]
)
TEXTS = st.lists(PARTS, min_size=1, max_size=12).map("".join) | st.text(min_size=1, max_size=300)


class AnAnswer:
    """Answers every question with one text, or with none."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    async def ask(self, question: Question) -> Reply:
        del question
        return Reply(text=self._text, reason="" if self._text else "away")


@pytest.mark.parametrize("strategy", SHIPPED)
@given(texts=st.lists(TEXTS.filter(str.strip), min_size=2, max_size=6), answer=st.none() | TEXTS.filter(str.strip))
async def test_a_draft_is_never_longer_than_its_sources(
    strategy: ConsolidationStrategyType, texts: Sequence[str], answer: str | None
) -> None:
    dual_mode = ArchivalConfig(dual_mode=DualModeConfig(enabled=True, summarization_model="m"))
    policy = ConsolidationConfig(strategy=strategy, archival=dual_mode)
    built = build_consolidation_strategy(
        ConsolidationDeps(policy=policy, answers=AnAnswer(answer), vocabulary=no_vocabulary)
    )
    assert built is not None
    sources = [memory(number, content=text) for number, text in enumerate(texts, start=1)]

    draft = await write_draft(built, sources, kept=None)

    assert draft is None or text_size(draft.content) <= text_size("\n".join(texts))
