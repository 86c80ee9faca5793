"""The relation of a new skill to an old one: the verdicts that people expect, pair by pair."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lessons import ANSWER

from memcore.procedural.records import ProceduralMemoryProposal
from memcore.skills.supersession import ParsedClaim, Verdict, jaccard, tokens

CONFLICT, FULL, PARTIAL = Verdict.CONFLICT, Verdict.FULL, Verdict.PARTIAL


def claim(condition: str, action: str, confidence: float = 0.8) -> ParsedClaim:
    return ParsedClaim(condition=tokens(condition), action=tokens(action), confidence=confidence)


#: (why, condition and action of the new one, of the old one, confidence of the new one where the old has 0.8, verdict)
PAIRS: list[tuple[str, tuple[str, str], tuple[str, str], float, Verdict]] = [
    # The same case, another action: whoever is surer, a person must look.
    ("opposite", ("disk is full", "delete old exports"), ("disk is full", "stop the import"), 0.9, CONFLICT),
    ("opposite, less sure", ("disk is full", "delete old exports"), ("disk is full", "stop the import"), 0.1, CONFLICT),
    ("do against do nothing", ("build fails twice", "retry the build"), ("build fails twice", "ask somebody"), 0.9,
     CONFLICT),
    ("half the words of the case", ("api returns 429", "wait one minute"), ("api returns 500", "call support"), 0.9,
     CONFLICT),
    ("wider case, other action", ("nightly import disk is full", "delete exports"), ("import disk is full", "stop it"),
     0.9, CONFLICT),
    ("narrower case, other action", ("import disk full", "delete exports"), ("import disk full at night", "wait"), 0.9,
     CONFLICT),
    ("case and order of words", ("FULL disk IS", "delete exports"), ("disk is full", "stop everything"), 0.9, CONFLICT),
    ("punctuation", ("disk: is, full!", "delete exports"), ("(disk) is full", "stop everything"), 0.9, CONFLICT),
    ("one word of the action shared of many", ("tests fail", "rerun tests with one worker"),
     ("tests fail", "skip tests that fail and tell owner"), 0.9, CONFLICT),
    ("an action without a word", ("disk is full", "?!"), ("disk is full", "delete exports"), 0.9, CONFLICT),
    ("two actions without a word", ("disk is full", "?!"), ("disk is full", "!"), 0.9, CONFLICT),
    ("German", ("die Festplatte ist voll", "alte Exporte löschen"), ("die Festplatte ist voll", "Import anhalten"), 0.9,
     CONFLICT),
    ("Russian", ("диск переполнен ночью", "удалить старые файлы"), ("диск переполнен ночью", "остановить импорт"), 0.9,
     CONFLICT),
    ("covers it and contradicts it", ("disk is full or slow", "delete exports"), ("disk is full", "buy another disk"),
     0.9, CONFLICT),
    # It reaches as far, acts alike, and is surer.
    ("the same, surer", ("disk is full", "delete old exports"), ("disk is full", "delete old exports"), 0.9, FULL),
    ("wider case, same action", ("disk is full or nearly full", "delete old exports"),
     ("disk is full", "delete old exports"), 0.9, FULL),
    ("action with a word more", ("disk is full", "delete old exports first"), ("disk is full", "delete old exports"),
     0.9, FULL),
    ("four of five words of the case", ("import stops with error", "restart import"),
     ("import stops with error 28", "restart import"), 0.9, FULL),
    ("far wider case", ("import or export or backup or sync stops because the disk is full", "delete old exports"),
     ("disk is full", "delete old exports"), 0.9, FULL),
    ("half of the action's words", ("disk is full", "delete exports"), ("disk is full", "delete old exports now"), 0.9,
     FULL),
    ("surer by a little", ("disk is full", "delete exports"), ("disk is full", "delete exports"), 0.800001, FULL),
    ("case and punctuation of both", ("Disk IS full.", "Delete exports!"), ("disk is full", "delete exports"), 0.9,
     FULL),
    ("German, in another Unicode form", ("Gera\u0308t ist voll", "Exporte lo\u0308schen"),
     ("Gerät ist voll", "Exporte löschen"), 0.9, FULL),
    ("Greek", ("ένας δίσκος είναι γεμάτος", "διαγραφή παλιών"), ("δίσκος είναι γεμάτος", "διαγραφή παλιών"), 0.9, FULL),
    ("letters of full width", ("\uff44\uff49\uff53\uff4b is full", "delete exports"),
     ("disk is full", "delete exports"), 0.9, FULL),
    # Everything else stands beside it.
    ("the same, as sure", ("disk is full", "delete exports"), ("disk is full", "delete exports"), 0.8, PARTIAL),
    ("the same, less sure", ("disk is full", "delete exports"), ("disk is full", "delete exports"), 0.7, PARTIAL),
    ("another case, another action", ("disk is full", "delete exports"), ("login fails", "renew token"), 0.9, PARTIAL),
    ("another case, same action", ("login fails", "restart service"), ("queue grows", "restart service"), 0.9, PARTIAL),
    ("narrower case, same action", ("disk full", "delete exports"), ("disk full on import at night", "delete exports"),
     0.9, PARTIAL),
    ("little of the case, other action", ("disk is slow today", "wait"), ("disk full", "delete exports"), 0.9, PARTIAL),
    ("three of four words of the case", ("import stops with", "restart import"),
     ("import stops with code", "restart import"), 0.9, PARTIAL),
    ("far wider case, other action", ("import export backup or sync stops because the disk is full", "wait"),
     ("disk is full", "delete exports"), 0.9, PARTIAL),
    ("new condition without a word", ("?", "delete exports"), ("disk is full", "stop"), 0.9, PARTIAL),
    ("old condition without a word", ("disk is full", "delete exports"), ("...", "delete exports"), 0.9, PARTIAL),
    ("conditions of single letters", ("a b c", "delete exports"), ("a b c", "stop"), 0.9, PARTIAL),
    ("same words in another language", ("disk is full", "delete exports"), ("диск переполнен", "delete exports"), 0.9,
     PARTIAL),
]  # fmt: skip


@pytest.mark.parametrize(("why", "new", "old", "confidence", "verdict"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_a_pair_has_the_verdict_that_a_person_gives(
    why: str, new: tuple[str, str], old: tuple[str, str], confidence: float, verdict: Verdict
) -> None:
    assert claim(*new, confidence).verdict(claim(*old)) is verdict, why


def test_the_table_is_long_enough_and_has_every_verdict_often() -> None:
    verdicts = [pair[-1] for pair in PAIRS]
    assert len(PAIRS) >= 30
    assert len({pair[0] for pair in PAIRS}) == len(PAIRS)
    assert all(verdicts.count(verdict) >= 10 for verdict in Verdict)


def test_a_proposal_can_be_compared_as_it_is() -> None:
    old = ProceduralMemoryProposal.model_validate(ANSWER)
    surer = old.model_copy(update={"confidence": 1.0})
    reading = ParsedClaim.of(surer, confidence=surer.confidence)
    assert reading.verdict(ParsedClaim.of(old, confidence=old.confidence)) is FULL


WORDS = st.lists(
    st.sampled_from(["disk", "full", "import", "night", "delete", "wait", "retry", "token"]), max_size=6
).map(" ".join)
SKILLS = st.builds(claim, WORDS, WORDS, st.sampled_from([0.2, 0.5, 0.9]))


@given(SKILLS, SKILLS)
def test_a_contradiction_is_never_taken_for_progress_and_is_mutual(one: ParsedClaim, other: ParsedClaim) -> None:
    verdict = one.verdict(other)
    assert (verdict is CONFLICT) == (other.verdict(one) is CONFLICT)
    if verdict is FULL:
        assert one.confidence > other.confidence
        assert other.verdict(one) is not FULL


@pytest.mark.parametrize(
    ("new", "is_repeat"),
    [
        (claim("disk is full", "delete old exports", 0.9), True),
        (claim("full disk", "delete exports", 0.5), True),
        (claim("disk is full at night", "delete old exports"), False),
        (claim("disk is full", "wait"), False),
        (claim("?", "delete old exports"), False),
    ],
)
def test_a_skill_repeats_one_that_reaches_as_far_and_acts_alike(new: ParsedClaim, is_repeat: bool) -> None:
    assert new.repeats(claim("disk is full", "delete old exports")) is is_repeat


def test_tokens_are_words_of_two_characters_or_more() -> None:
    assert tokens("A full-disk: x, don't Über_alles 42 7 日本語") == {
        "full",
        "disk",
        "don",
        "über_alles",
        "42",
        "日本語",
    }


def test_nothing_shares_nothing() -> None:
    assert jaccard(frozenset(), frozenset()) == 0.0
