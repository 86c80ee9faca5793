"""What a condensed summary keeps."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.maintenance_fixture import memory

from memcore.embedding.bm25 import Vocabulary
from memcore.errors import MemoryConfigError
from memcore.maintenance.consolidation.condense import CondensingOp

SMALL_TALK = [
    f"Hi there! How are you today, friend number {n}? Thanks a lot, that is really great to hear!" for n in range(9)
]


def condense(texts: Sequence[str], *, keep_share: float = 0.5, among: Sequence[str] = ()) -> str:
    async def vocabulary(_agent_id: str) -> Vocabulary:
        return Vocabulary(among)

    op = CondensingOp(keep_share=keep_share, vocabulary=vocabulary)
    draft = asyncio.run(op.write([memory(n, content=text) for n, text in enumerate(texts, 1)]))
    assert draft.tags == ("condensed",)
    return draft.content


def test_what_tells_a_memory_from_the_others_stays_and_small_talk_goes() -> None:
    texts = [
        "Hi there! The deploy key is 4f9c-77aa. Thanks a lot!",
        "How are you today? Maria moved to Lisbon on 3 May 2024. That is really great!",
        "Thanks a lot, that is really great to hear! How are you, friend?",
    ]

    summary = condense(texts, keep_share=0.4, among=[*texts, *SMALL_TALK])

    assert summary == "The deploy key is 4f9c-77aa.\nMaria moved to Lisbon on 3 May 2024."


def test_what_is_said_twice_is_kept_once() -> None:
    texts = [
        "Maria moved to Lisbon. She likes trams. It rained.",
        "Maria moved to Lisbon. She bought skis. It rained.",
    ]

    assert condense(texts, keep_share=0.8) == "Maria moved to Lisbon. She likes trams. It rained.\nShe bought skis."


def test_when_and_by_whom_stays_with_what_is_kept_and_neighbours_of_a_day_share_it() -> None:
    texts = [
        "[8 May 2023] Ada: Hi there! I planted eleven tomatoes. Thanks a lot!",
        "[8 May 2023] Bob: How are you? My bicycle was stolen yesterday. Hi there!",
        "[9 May 2023] Ada: Thanks a lot! The police found two bicycles. How are you?",
        "Hi there! Unlabelled kites fly. Thanks a lot!",
    ]

    assert condense(texts, keep_share=0.65, among=[*texts, *SMALL_TALK]).split("\n") == [
        "[8 May 2023]",
        "- Ada: I planted eleven tomatoes.",
        "- Bob: My bicycle was stolen yesterday.",
        "[9 May 2023] Ada: The police found two bicycles.",
        "Unlabelled kites fly.",
    ]


def test_a_memory_of_one_or_two_sentences_stays_whole_or_goes_whole() -> None:
    facts = [
        "Ann must never order from the Thai place on 5th street for anyone in the office, because of her allergy.",
        "Customer ACME must get invoices as PDF by mail, never by post. Ask Ines instead of Paul about it.",
        "we talked about this and that and this and that again and about that and this and then about something else",
    ]

    for percent in range(5, 100, 5):
        assert {*condense(facts, keep_share=percent / 100).split("\n")} <= {*facts}


def test_without_a_vocabulary_the_sources_tell_what_is_rare() -> None:
    texts = ["good day to all! zebras sleep here. Good day!", "good day to all!", "good day! good day to all!"]

    assert condense(texts, keep_share=0.3) == "zebras sleep here."


def test_any_language_is_condensed() -> None:
    texts = ["你好。我在里斯本买了一艘船。再见。", "你好。谢谢你。", "你好。他住在布拉格。再见。"]

    assert (
        condense(texts, keep_share=0.6, among=[*texts, "你好。谢谢你。", "你好。再见。"])
        == "我在里斯本买了一艘船。\n他住在布拉格。"
    )


@given(
    st.lists(st.text(alphabet="ab .!\n[]:é漢🙂", min_size=1, max_size=120).filter(str.strip), min_size=1, max_size=6),
    st.floats(0.1, 0.9),
)
def test_a_summary_is_never_empty_nor_longer_than_its_share_unless_one_statement_is(
    texts: list[str], keep_share: float
) -> None:
    summary = condense(texts, keep_share=keep_share)

    assert summary.strip()
    capacity = keep_share * sum(len(text.encode()) for text in texts)
    assert len(summary.encode()) <= capacity or "\n" not in summary
    assert summary == condense(texts, keep_share=keep_share)


@given(st.lists(st.text(min_size=1, max_size=200).filter(str.strip), min_size=2, max_size=5))
def test_no_word_is_made_up(texts: list[str]) -> None:
    letters = "".join(texts)

    assert set("".join(condense(texts).split())) <= set(letters) | {"-"}


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_a_share_that_keeps_all_or_nothing_is_refused(share: float) -> None:
    with pytest.raises(MemoryConfigError, match=r"consolidation\.keep_share"):
        CondensingOp(keep_share=share)
