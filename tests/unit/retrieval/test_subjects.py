"""Order in a prompt: what is about one subject stands together by date, and the latest says so."""

import re
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW
from support.scored_memories import scored
from support.search_backends import HybridBackend, hits, near

from memcore.backends.fusion import RankedLists
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.formatting import MEMORY_DIRECTIVE, memory_block
from memcore.retrieval.protocol import DefaultTokenEstimator, ScoredMemory
from memcore.retrieval.strategies.tool_based import ToolBasedInjectionStrategy
from memcore.retrieval.subjects import by_subject, marked_within


def said(
    memory_id: str,
    text: str,
    *,
    days_old: float = 0,
    score: float = 0.5,
    is_shared: bool = False,
    superseded_by: str | None = None,
) -> ScoredMemory:
    memory = scored(memory_id, score, text, is_shared=is_shared)
    times: dict[str, object] = {"created_at": NOW - timedelta(days=days_old), "relevance_score": score}
    if superseded_by is not None:
        times |= {"superseded_by": superseded_by, "superseded_at": NOW}
    return memory.model_copy(update={"entry": memory.entry.model_copy(update=times)})


def order(question: str, *memories: ScoredMemory) -> list[str]:
    return [each.entry.id for each in by_subject(question, memories)]


def marks(memories: Sequence[ScoredMemory]) -> list[str]:
    return re.findall(r'(?:newer|latest)="\d+ of \d+"', "".join(map(memory_block, memories)))


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "Where does Joris keep his boat?",
            "The boat of Joris lies in Hoorn.",
            "Joris found a cheaper berth, in Medemblik.",
        ),
        (
            "Who reviews the invoices?",
            "Invoices are reviewed by Ngozi.",
            "Since the merger an outside firm looks through every invoice.",
        ),
        ("Wann fährt der Bus?", "Der Bus fährt um sieben.", "Ab Mai kommt der Bus zehn Minuten später."),
    ],
)
def test_a_change_in_other_words_stands_behind_what_it_changed_and_is_marked(
    question: str, older: str, newer: str
) -> None:
    other = said("other", "The lighthouse opens on Sundays.", days_old=1)
    shown = by_subject(question, [said("new", newer), other, said("old", older, days_old=90)])
    assert [each.entry.id for each in shown] == ["old", "new", "other"]
    assert marks(shown) == ['latest="2 of 2"']
    assert 'latest="2 of 2"' in memory_block(shown[1])
    assert "latest is" in MEMORY_DIRECTIVE


def test_a_group_stands_where_its_best_member_stood_and_each_newer_one_is_marked() -> None:
    shown = by_subject(
        "What does Paola train for?",
        [
            said("a", "The gym has a new rowing machine.", days_old=4),
            said("b", "Paola signed up for the triathlon in Nice.", days_old=5),
            said("c", "The bakery is shut in August.", days_old=9),
            said("d", "Paola is in training for a marathon.", days_old=300),
            said("e", "Only the relay is left for Paola, because of her knee."),
        ],
    )
    assert [each.entry.id for each in shown] == ["a", "d", "b", "e", "c"]
    assert marks(shown) == ['newer="2 of 3"', 'latest="3 of 3"']


def test_two_in_nearly_the_same_words_are_one_subject_whatever_is_asked() -> None:
    new = said("new", "The staging database has 32 gigabytes of memory.")
    old = said("old", "The staging database has 16 gigabytes of memory.", days_old=30)
    assert order("What did we plan?", new, old) == ["old", "new"]


def test_a_word_that_many_have_is_no_subject() -> None:
    memories = [said(str(number), f"Lotte {word}.", days_old=number) for number, word in enumerate(_DOINGS)]
    assert by_subject("What does Lotte do?", memories) == tuple(memories)


_DOINGS = ("paints", "sings", "swims at noon", "collects stamps", "hates rain", "owns two ferrets", "reads maps")


def test_facts_of_one_form_about_others_are_no_subject() -> None:
    people = "Ada Bea Cleo Dina".split()  # noqa: SIM905
    memories = [said(who, f"The phone number of {who} is {place}1.") for place, who in enumerate(people)]
    newer = said("new", "The phone number of Bea is 77.", days_old=-1)
    assert order("Whom can I call?", newer, *memories) == ["Bea", "new", "Ada", "Cleo", "Dina"]


def test_own_and_shared_memories_are_no_subject_together() -> None:
    own, shared = (
        said("own", "The pump was oiled in May."),
        said("shared", "The pump leaks.", days_old=3, is_shared=True),
    )
    assert by_subject("How is the pump?", [own, shared]) == (own, shared)


def test_what_is_superseded_stands_before_what_superseded_it_and_names_it() -> None:
    new = said("0123456789abcdef", "We meet in the annex.", days_old=9)
    # Of a later day: a person said afterwards which of them holds.
    old = said("old", "Talks take place in the hall.", days_old=2, superseded_by=new.entry.id)
    shown = by_subject("Where is the talk?", [new, old])
    assert [each.entry.id for each in shown] == ["old", new.entry.id]
    assert f'superseded="{NOW.date()} by 01234567"' in memory_block(shown[0])
    assert marks(shown) == ['latest="2 of 2"']
    (alone,) = by_subject("Where is the talk?", [old])
    assert "latest" not in memory_block(alone)


@given(
    texts=st.lists(
        st.lists(st.sampled_from("Ada pump Oslo red nine leaks moved tea".split()), min_size=1).map(" ".join),  # noqa: SIM905
        max_size=9,
    ),
    ages=st.lists(st.integers(0, 5), min_size=9, max_size=9),
    question=st.sampled_from(["Where is the pump?", "Does Ada drink tea in Oslo?", ""]),
)
def test_the_same_memories_come_out_and_those_of_a_subject_by_date(
    texts: list[str], ages: list[int], question: str
) -> None:
    given_ = [said(str(place), text, days_old=ages[place]) for place, text in enumerate(texts)]
    shown = by_subject(question, given_)
    assert sorted(each.entry.id for each in shown) == sorted(each.entry.id for each in given_)
    for before, after in pairwise(shown):
        if after.place_in_subject > 1:
            assert after.place_in_subject == before.place_in_subject + 1
            assert after.subject_size == before.subject_size
            assert after.entry.created_at >= before.entry.created_at
    assert by_subject(question, shown) == shown
    for budget in (0, 30, 60, 10_000):
        some = marked_within(shown, estimator=DefaultTokenEstimator(), token_budget=budget)
        assert [each.entry.id for each in some] == [each.entry.id for each in shown]
        if marks(some):
            assert DefaultTokenEstimator().estimate_tokens("\n".join(map(memory_block, some))) <= budget


def backend() -> HybridBackend:
    """Return one that finds the newer best, then another subject, then the older."""
    found = [
        said("new", "Joris found a cheaper berth for his boat.", score=0.9).entry,
        said("other", "The lighthouse opens on Sundays.", days_old=1, score=0.8).entry,
        said("old", "The boat of Joris lies in Hoorn.", days_old=90, score=0.7).entry,
    ]
    return HybridBackend(RankedLists(dense=near(*found), sparse=hits(*found)))


def openings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("<memory-entry")]


async def test_a_prompt_and_a_tool_show_subjects_by_date_and_keep_what_they_kept() -> None:
    question, config = "Where does Joris keep his boat?", MemoryRetrievalConfig()
    prompts = ContextInjectionStrategy(backend=backend(), config=config, clock=lambda: NOW)
    tools = ToolBasedInjectionStrategy(backend=backend(), config=config, clock=lambda: NOW)
    messages = await prompts.prepare_messages("ada", question, 1_000)
    answer = await tools.handle_tool_call("ada", "search_memory", {"query": question})
    for text in (messages[1].content, answer):
        assert re.findall(r"\n(The boat|Joris|The lighthouse)", text) == ["The boat", "Joris", "The lighthouse"]
        assert ['latest="2 of 2"' in each for each in openings(text)] == [False, True, False]
    assert "of one subject the newest last" in answer
    # A budget that the marks do not fit holds the same memories.
    exact = DefaultTokenEstimator().estimate_tokens(messages[1].content) - 2
    tight = await prompts.prepare_messages("ada", question, exact)
    assert len(openings(tight[1].content)) == 3
    assert "latest" not in tight[1].content
