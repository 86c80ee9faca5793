"""What of the held candidates is kept at a session's end: each threshold from both sides, in any order and script."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW

from memcore.conversation.promotion import MAX_ARCS, Promoted, Promotion, promote
from memcore.models.conversation import (
    Confidence,
    Decision,
    FactCategory,
    HeldCandidate,
    Layer,
    ProceduralCandidate,
    SemanticCandidate,
    WriteDecision,
)

END, AGAIN = WriteDecision.COMMIT_AT_SESSION_END, WriteDecision.REQUIRE_REPETITION


def held(
    name: str,
    candidate: SemanticCandidate | ProceduralCandidate,
    *,
    turn: int = 1,
    decision: WriteDecision = END,
    confidence: Confidence = "medium",
) -> HeldCandidate:
    return HeldCandidate(
        candidate_id=name,
        layer=Layer.SEMANTIC if isinstance(candidate, SemanticCandidate) else Layer.PROCEDURAL,
        candidate=candidate,
        decision=Decision(decision=decision, reason="it waits", confidence=confidence, policy_version="1"),
        turn_id=f"turn-{turn}",
        created_at=NOW + timedelta(minutes=turn),
    )


def fact(
    name: str,
    quote: str = "my boss shouts",
    thing: str = "boss",
    *,
    predicate: str = "WORRIES_ABOUT",
    category: FactCategory = FactCategory.RELATIONSHIP,
    **changed: Any,
) -> HeldCandidate:
    candidate = SemanticCandidate(
        category=category, subject="User", predicate=predicate, object=thing, evidence_quote=quote
    )
    return held(name, candidate, **changed)


def rule(
    name: str,
    quote: str = "keep answers brief",
    says: str = "Answer briefly",
    *,
    kind: Literal["explicit", "implicit"] = "implicit",
    **changed: Any,
) -> HeldCandidate:
    return held(name, ProceduralCandidate(rule=says, evidence_quote=quote, kind=kind), **changed)


def kept(
    candidates: Sequence[HeldCandidate],
    transcript: Sequence[str] = (),
    *,
    arcs: Sequence[str] = (),
    before: Sequence[HeldCandidate] = (),
    is_private: bool = False,
) -> Promotion:
    return promote(candidates, transcript, arcs=arcs, before=before, is_private=is_private)


def names(promoted: Sequence[Promoted]) -> list[set[str]]:
    return [{each.candidate_id for each in cluster.candidates} for cluster in promoted]


# Support


def test_a_session_in_which_nothing_was_held_promotes_nothing() -> None:
    assert kept([], ["my boss shouts"]) == Promotion()


@pytest.mark.parametrize("is_private", [False, True])
def test_a_request_about_memory_drops_all_that_was_held(*, is_private: bool) -> None:
    done = kept([fact("f"), rule("r")], ["my boss shouts, keep answers brief"] * 3, is_private=is_private)
    assert (set(done.dropped) == {"f", "r"}) is is_private
    assert (not done.semantic and not done.procedural) is is_private


@pytest.mark.parametrize("decision", [END, AGAIN])
@pytest.mark.parametrize(
    ("transcript", "is_kept"),
    [
        ([], False),
        (["my boss shouts"], False),
        (["my boss shouts", "the weather is nice"], False),
        # The object itself.
        (["my boss shouts", "I saw the boss"], True),
        (["my boss shouts", "BOSSES everywhere"], True),
        (["my boss shouts", "an embossed card"], False),
        # Two words of the quote, and one.
        (["my boss shouts loudly at work", "work is where he shouts"], True),
        (["my boss shouts loudly at work", "work is fine"], False),
    ],
)
def test_a_fact_is_kept_once_two_turns_support_it(
    transcript: list[str], decision: WriteDecision, *, is_kept: bool
) -> None:
    quote = transcript[0] if transcript else "my boss shouts"
    done = kept([fact("f", quote, decision=decision)], transcript)
    assert names(done.semantic) == ([{"f"}] if is_kept else [])
    assert list(done.dropped) == ([] if is_kept else ["f"])


def test_two_candidates_of_two_turns_support_each_other_without_any_text_and_those_of_one_turn_do_not() -> None:
    assert names(kept([fact("a", turn=1), fact("b", turn=2)]).semantic) == [{"a", "b"}]
    assert names(kept([fact("a", turn=1), fact("b", turn=1)]).semantic) == []


def test_support_is_the_larger_of_the_two_counts() -> None:
    two = [fact("a", turn=1), fact("b", turn=2)]
    assert kept(two).semantic[0].support == 2
    assert kept(two, ["my boss shouts"]).semantic[0].support == 2
    assert kept(two, ["my boss shouts"] * 5).semantic[0].support == 5


@pytest.mark.parametrize("decision", [END, AGAIN])
def test_what_an_earlier_session_held_counts_with_one_turn(decision: WriteDecision) -> None:
    said = ["my boss shouts"]
    one = [fact("f", decision=decision)]
    assert names(kept(one, said, before=[fact("old", turn=-9)]).semantic) == [{"f"}]
    assert names(kept(one, said, before=[fact("old", "my cat purrs", "cat")]).semantic) == []
    assert names(kept(one, said, before=[rule("old", "my boss shouts", "My boss shouts")]).semantic) == []


def test_of_what_needs_no_repetition_a_turn_must_still_tell_by_its_text() -> None:
    before = [fact("old", turn=-9)]
    assert names(kept([fact("f", decision=AGAIN)], [], before=before).semantic) == [{"f"}]
    assert names(kept([fact("f", decision=END)], [], before=before).semantic) == []


@pytest.mark.parametrize(
    ("arc", "score"),
    [
        ("They talked about the boss.", 2),
        ("The person shouts in the office, loudly.", 2),
        ("Somebody shouts in an office.", 1),
        ("Somebody shouts.", 0),
        ("They talked about holidays.", 0),
    ],
)
@pytest.mark.parametrize("decision", [END, AGAIN])
def test_the_summary_of_an_earlier_session_counts_from_a_score_of_two(
    arc: str, score: int, decision: WriteDecision
) -> None:
    said = "my boss shouts loudly in the office"
    done = kept([fact("f", said, decision=decision)], [said], arcs=["nothing", arc])
    # What must be said again is not kept for a summary's sake.
    assert names(done.semantic) == ([{"f"}] if score >= 2 and decision is END else [])


def test_scores_of_two_summaries_are_not_added_up() -> None:
    said = "my boss shouts loudly in the office"
    arcs = ["Somebody shouts in an office.", "Somebody was loud in an office."]
    assert names(kept([fact("f", said)], [said], arcs=arcs).semantic) == []


def test_a_hundred_summaries_are_looked_at() -> None:
    summary, others = "They talked about the boss.", ["They talked about holidays."]
    assert MAX_ARCS == 100
    assert kept([fact("f")], ["my boss shouts"], arcs=[*others * 99, summary]).semantic
    assert not kept([fact("f")], ["my boss shouts"], arcs=[*others * 100, summary]).semantic


# Clusters


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        # The same key, whatever the words.
        (("my boss shouts", "boss"), ("she is so unfair", "Boss"), True),
        # Half of the words: boss, shouts / boss, screams, shouts.
        (("boss shouts", "the boss"), ("the boss shouts and screams badly", "boss"), True),
        # Two of five.
        (("boss shouts screams", "the boss"), ("boss shouts, unfair, rude", "boss"), False),
        # Three words, a small share.
        (
            ("boss shouts at work every monday morning before breakfast", "the boss"),
            ("boss shouts at work, unfair, rude, cruel, nasty, cold", "boss"),
            True,
        ),
        # Another object.
        (("boss shouts", "boss"), ("boss shouts", "office"), False),
        (("mein Chef ist schrecklich", "Chef"), ("die schrecklichen Chefs", "Chefs"), True),
    ],
)
def test_facts_are_one_where_object_and_words_are(
    one: tuple[str, str], other: tuple[str, str], *, together: bool
) -> None:
    second = "STRESSED_BY" if one[1] != other[1].lower() else "WORRIES_ABOUT"
    candidates = [fact("a", *one, turn=1), fact("b", *other, turn=2, predicate=second)]
    assert names(kept(candidates).semantic) == ([{"a", "b"}] if together else [])


@pytest.mark.parametrize("turns", list(permutations(range(4))))
def test_a_cluster_grows_by_way_of_others(turns: Sequence[int]) -> None:
    # Each shares half of its words with its neighbours, and the first one nothing with the last.
    quotes = ("boss shouts", "boss shouts, unfair, rude", "unfair, rude", "unfair, rude, cold, cruel")
    chain = [
        fact(f"f{n}", quote, "boss" if n % 2 else "the boss", turn=turn, predicate=f"P{'ABCD'[n]}")
        for n, (quote, turn) in enumerate(zip(quotes, turns, strict=True))
    ]
    done = kept(chain)
    assert names(done.semantic) == [{"f0", "f1", "f2", "f3"}]
    assert done.semantic[0].support == 4
    assert names(kept([chain[0], chain[3]]).semantic) == []


def test_what_was_said_last_stands_for_a_cluster() -> None:
    done = kept([fact("new", "the boss shouts again", turn=3), fact("old", turn=1), fact("mid", "boss shouts", turn=2)])
    (only,) = done.semantic
    assert [each.candidate_id for each in only.candidates] == ["new", "mid", "old"]
    assert only.quotes == ("the boss shouts again", "boss shouts", "my boss shouts")
    assert (only.support, only.reason) == (3, "it was said in 3 turns")


def test_what_may_not_be_kept_itself_does_not_stand_for_a_cluster() -> None:
    # One turn and a summary: enough for the older one, and too little for the newer.
    pair = [fact("again", decision=AGAIN), fact("end", decision=END, turn=1)]
    (only,) = kept(pair, ["my boss shouts"], arcs=["They talked about the boss."]).semantic
    assert [each.candidate_id for each in only.candidates] == ["end", "again"]
    assert only.reason == "the summary of an earlier session speaks of it too"


def test_a_fact_is_as_sure_as_what_stands_for_it() -> None:
    assert (
        kept([fact("a", turn=1, confidence="high"), fact("b", turn=2, confidence="low")]).semantic[0].confidence
        == "low"
    )


# Rules


@pytest.mark.parametrize(("turns", "expected"), [(1, None), (2, "medium"), (3, "high"), (4, "high")])
def test_a_rule_is_kept_once_it_was_said_twice_and_is_sure_at_three(turns: int, expected: str | None) -> None:
    done = kept([rule(f"r{n}", turn=n, confidence="low") for n in range(turns)])
    assert [each.confidence for each in done.procedural] == ([] if expected is None else [expected])


def test_a_rule_has_three_quotes_at_most_and_none_twice() -> None:
    quotes = ["keep answers brief", "brief answers please", "keep answers brief", "answers should be brief", "be brief"]
    (only,) = kept([rule(f"r{n}", quote, turn=n) for n, quote in enumerate(quotes)]).procedural
    assert only.quotes == ("be brief", "answers should be brief", "keep answers brief")


@pytest.mark.parametrize(("text", "is_kept"), [("why not keep them brief", True), ("a brief question", False)])
def test_the_text_of_a_turn_supports_a_rule_by_two_words_of_its_quote(text: str, *, is_kept: bool) -> None:
    done = kept([rule("r")], ["keep answers brief", text])
    assert names(done.procedural) == ([{"r"}] if is_kept else [])


def test_neither_earlier_sessions_nor_summaries_are_enough_for_a_rule() -> None:
    done = kept([rule("r")], ["keep answers brief"], before=[rule("old")], arcs=["They keep answers brief."])
    assert names(done.procedural) == []


# Facts and rules that say the same


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_of_a_fact_and_a_rule_that_say_the_same_one_is_kept(kind: Literal["explicit", "implicit"]) -> None:
    quote = "keep answers brief for me"
    pair = [
        *(fact(f"f{n}", quote, "brief answers", predicate="PREFERS", turn=n) for n in range(2)),
        *(rule(f"r{n}", quote, kind=kind, turn=n) for n in range(2)),
    ]
    done = kept(pair)
    if kind == "explicit":
        assert (names(done.semantic), names(done.procedural)) == ([], [{"r0", "r1"}])
        assert done.dropped == {"f0": "a rule says it", "f1": "a rule says it"}
    else:
        assert (names(done.semantic), names(done.procedural)) == ([{"f0", "f1"}], [])
        assert done.dropped == {"r0": "a fact says it", "r1": "a fact says it"}


@pytest.mark.parametrize(
    ("asked", "quote", "is_same"),
    [
        # Two words of four, two of five, three of seven.
        ("keep answers brief", "brief answers help", True),
        ("keep answers brief", "brief answers calm people", False),
        ("keep answers brief", "keep brief answers calm nervous people mornings", True),
        # Two of many, with a cue that it lasts in both, in one, and one word with it.
        ("always keep answers brief", "brief answers usually calm nervous people", True),
        ("always keep answers brief", "brief answers calm nervous people", False),
        ("always keep answers brief", "long answers usually upset nervous people", False),
    ],
)
def test_a_fact_and_a_rule_say_the_same_from_half_of_their_words_or_three_on(
    asked: str, quote: str, *, is_same: bool
) -> None:
    rules = [rule(f"r{n}", asked, turn=n, kind="explicit") for n in range(2)]
    facts = [fact(f"f{n}", quote, "answers", predicate="PREFERS", turn=n) for n in range(2)]
    assert bool(kept([*rules, *facts]).semantic) is not is_same


def test_a_fact_that_gave_way_to_a_rule_takes_no_other_rule_with_it() -> None:
    asked = [rule(f"asked{n}", "brief answers", "Be brief", kind="explicit", turn=n) for n in range(2)]
    facts = [fact(f"f{n}", "brief answers, calm words", "words", turn=n) for n in range(2)]
    shown = [rule(f"shown{n}", "calm words", "Use calm words", turn=n) for n in range(2)]
    done = kept([*asked, *facts, *shown])
    assert names(done.semantic) == []
    assert names(done.procedural) == [{"asked0", "asked1"}, {"shown0", "shown1"}]


# Any script

#: Words that say a worry, its object, the worry again, something else, a wish, and the wish again.
SAID = {
    "English": (
        *("my boss shouts every day", "boss", "my boss is unfair"),
        *("I like tea", "brief answers only", "give brief answers"),
    ),
    "German": (
        *("mein Chef schreit jeden Tag", "Chef", "der Chef ist unfair"),
        *("ich mag Tee", "nur kurze Antworten", "gib kurze Antworten"),
    ),
    "Japanese": (
        *("上司が毎日怒鳴る", "上司", "上司は不公平だ"),
        *("お茶が好きです", "短い回答だけ", "短い回答をください"),
    ),
    "Arabic": (
        *("مديري يصرخ كل يوم", "مدير", "المدير غير عادل"),
        *("احب الشاي", "اجابات قصيرة فقط", "اعطني اجابات قصيرة"),
    ),
    "Russian": (
        *("мой начальник кричит каждый день", "начальник", "я боюсь начальника"),
        *("я люблю чай", "только короткие ответы", "давай короткие ответы"),
    ),
}


@pytest.mark.parametrize("language", SAID)
def test_the_same_session_promotes_the_same_in_every_script(language: str) -> None:
    quote, thing, again, other, asked, asked_again = SAID[language]
    candidates = [
        fact("boss", quote, thing, decision=AGAIN),
        fact("tea", other, other.split()[-1], turn=2),
        rule("brief", asked, asked, turn=3, kind="explicit"),
    ]
    said = [quote, other, asked]
    once = kept(candidates, said)
    assert (names(once.semantic), names(once.procedural), set(once.dropped)) == ([], [], {"boss", "tea", "brief"})
    done = kept(candidates, [*said, again, asked_again])
    assert (names(done.semantic), names(done.procedural)) == ([{"boss"}], [{"brief"}])
    assert set(done.dropped) == {"tea"}
    earlier = kept(candidates, said, before=[fact("old", again, thing)], arcs=[again])
    assert names(earlier.semantic) == [{"boss"}]


# Properties

QUOTES = (
    *("my boss shouts every day", "the boss shouts", "keep answers brief", "brief answers always", "I like green tea"),
    *("tea is green", "上司が毎日怒鳴る", "上司がひどい", "мой начальник кричит", "начальник кричит всегда"),
    *("it is what it is", "🎉"),
)
THINGS = ("boss", "tea", "上司", "начальник", "answers", "it", "🎉")

candidates_of = st.builds(
    lambda quote, thing, what, layer, turn, kind, sure: (
        fact("any", quote, thing, decision=what, turn=turn, confidence=sure)
        if layer
        else rule("any", quote, quote, kind=kind, turn=turn, decision=what, confidence=sure)
    ),
    st.sampled_from(QUOTES),
    st.sampled_from(THINGS),
    st.sampled_from([END, AGAIN]),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from(["explicit", "implicit"]),
    st.sampled_from(["low", "medium", "high"]),
)


def numbered(candidates: Sequence[HeldCandidate], prefix: str = "c") -> list[HeldCandidate]:
    return [each.model_copy(update={"candidate_id": f"{prefix}{n}"}) for n, each in enumerate(candidates)]


several = st.lists(candidates_of, max_size=8).map(numbered)
texts = st.lists(st.sampled_from(QUOTES), max_size=5)


@given(several, texts, texts, several, st.randoms(use_true_random=False))
def test_the_order_of_what_was_held_does_not_matter(
    candidates: list[HeldCandidate], said: list[str], arcs: list[str], before: list[HeldCandidate], chance: Any
) -> None:
    first = kept(candidates, said, arcs=arcs, before=before)
    for each in (candidates, said, arcs, before):
        chance.shuffle(each)
    assert kept(candidates, said, arcs=arcs, before=before) == first


@given(several, texts, texts, several, st.booleans())
def test_each_candidate_ends_in_one_place(
    candidates: list[HeldCandidate], said: list[str], arcs: list[str], before: list[HeldCandidate], is_private: bool
) -> None:
    done = kept(candidates, said, arcs=arcs, before=before, is_private=is_private)
    ends = [each.candidate_id for one in (*done.semantic, *done.procedural) for each in one.candidates]
    assert sorted([*ends, *done.dropped]) == sorted(each.candidate_id for each in candidates)
    assert all(done.dropped.values())
    assert all(each.candidate.evidence_quote in one.quotes for one in done.semantic for each in one.candidates[:1])
    assert all(1 <= len(one.quotes) <= 3 and one.support >= 1 for one in (*done.semantic, *done.procedural))


@given(several, texts, texts, several, candidates_of, st.sampled_from(QUOTES), st.booleans())
def test_more_support_never_demotes(
    candidates: list[HeldCandidate],
    said: list[str],
    arcs: list[str],
    before: list[HeldCandidate],
    further: HeldCandidate,
    text: str,
    are_facts: bool,
) -> None:
    # Facts and rules that say the same compete, so each kind is looked at by itself.
    layer = Layer.SEMANTIC if are_facts else Layer.PROCEDURAL
    candidates = [each for each in candidates if each.layer is layer]
    more = [further.model_copy(update={"candidate_id": "further"})] if further.layer is layer else []

    def promoted(
        held_now: Sequence[HeldCandidate],
        texts_now: Sequence[str],
        arcs_now: Sequence[str],
        before_now: Sequence[HeldCandidate],
    ) -> dict[str, int]:
        done = kept(held_now, texts_now, arcs=arcs_now, before=before_now)
        return {each.candidate_id: one.support for one in (*done.semantic, *done.procedural) for each in one.candidates}

    least = promoted(candidates, said, arcs, before)
    for then in (
        promoted([*candidates, *more], said, arcs, before),
        promoted(candidates, [*said, text], arcs, before),
        promoted(candidates, said, [*arcs, text], before),
        promoted(candidates, said, arcs, [*before, *more]),
    ):
        assert least.keys() <= then.keys()
        assert all(then[name] >= support for name, support in least.items())
