"""Local rules that no answer of a model overrules: what a turn asks of the memory, and what is never written from it.

``before_policy`` looks at a candidate before the policy is asked about it, ``after_policy`` at what the policy said.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from enum import StrEnum

from memcore.conversation import cues
from memcore.conversation.quotes import own_words, without_quoted
from memcore.conversation.words import Words, plain, stands_in
from memcore.embedding.bm25 import Tokenizer
from memcore.ledger.conversation.turns import Control
from memcore.llm.grounding import Grounds
from memcore.models.conversation import (
    HELD_CATEGORIES,
    SESSION_CATEGORIES,
    Candidate,
    Decision,
    Fact,
    FactCategory,
    ProceduralCandidate,
    SemanticCandidate,
    WriteDecision,
)
from memcore.untrusted_text import holds_secret

#: The relation of what was named in passing: no fact.
MENTIONED_IN = "MENTIONED_IN"

#: Share of the words of a fact's terms that the turn need not have: they are few, and the person's own. A rule says for
#: all times what was asked for once: "write plans as lists".
_OWN_WORDS, _OWN_WORDS_OF_RULE = 1 / 3, 2 / 3

#: Characters that may stand between what is to be left out and the word that says so.
_NEAR = 40

#: What ends a sentence. People write to agents without capitals, so that no more than its mark is asked for.
_SENTENCE = re.compile(r"[.!?;\n\u061b\u061f\u06d4\u2026\u3002\uff01\uff1b\uff1f]+")

#: A sentence with its mark, and the marks of a question.
_WITH_MARK = re.compile(
    r"[^.!?;\n\u061b\u061f\u06d4\u2026\u3002\uff01\uff1b\uff1f]+[.!?;\u061b\u061f\u06d4\u2026\u3002\uff01\uff1b\uff1f]?"
)
_QUESTION = "?\u061f\uff1f"

#: As that, and what takes back a part: "forget Berlin but keep Paris".
_PART = re.compile(rf"{_SENTENCE.pattern}|\b(?:but|aber|sondern|mais|pero|mas|но)\b|لكن|但是|でも", re.IGNORECASE)

#: A number of a payment card: 13 to 19 digits, which its last digit checks.
_CARD = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")

_PAUSE = re.compile("[,:\u3001\u060c]")

#: What is said of oneself in these categories is a belief about oneself.
_SELF = frozenset({FactCategory.BELIEF, FactCategory.IDENTITY})


class Guard(StrEnum):
    """The name of a guard, as outcomes count it."""

    MEMORY_CONTROL = "memory_control"
    MENTIONED_IN = "mentioned_in"
    NO_QUOTE = "quote_not_in_turn"
    QUOTED = "quoted_from_others"
    ASKED = "asked_or_supposed"
    UNGROUNDED = "not_in_turn"
    SECRET = "holds_secret"  # noqa: S105  # the name of a guard
    TURN_SCOPED = "turn_scoped"
    HEARSAY = "said_by_others"
    FRAGILE = "fragile_self_belief"
    HELD_CATEGORY = "held_category"
    SESSION_CATEGORY = "session_category"
    SAFETY = "safety_conflict"
    FACT_SHAPED = "fact_shaped"
    IMPLICIT = "implicit"
    LOW_CONFIDENCE = "low_confidence"


#: What each guard makes of a candidate, and why.
_VERDICTS = {
    Guard.MEMORY_CONTROL: (WriteDecision.DROP, "the person asked in this turn that it be not kept"),
    Guard.MENTIONED_IN: (WriteDecision.DROP, "it was named in passing"),
    Guard.NO_QUOTE: (WriteDecision.DROP, "the quote does not stand in the turn"),
    Guard.QUOTED: (WriteDecision.DROP, "it stands in what the person quotes from others"),
    Guard.ASKED: (WriteDecision.DROP, "the person asks it, or supposes it"),
    Guard.UNGROUNDED: (WriteDecision.DROP, "it says what the turn does not"),
    Guard.SECRET: (WriteDecision.DROP, "it seems to hold a password or a key"),
    Guard.TURN_SCOPED: (WriteDecision.DROP, "it holds for this turn or this day alone"),
    Guard.HEARSAY: (WriteDecision.REQUIRE_REPETITION, "what others say is kept once the person says it again"),
    Guard.FRAGILE: (
        WriteDecision.REQUIRE_REPETITION,
        "what people say against themselves is kept once they say it again",
    ),
    Guard.HELD_CATEGORY: (WriteDecision.COMMIT_AT_SESSION_END, "no turn alone writes a fact of this category"),
    Guard.SESSION_CATEGORY: (
        WriteDecision.REQUIRE_REPETITION,
        "what holds for a session is kept once it is said again",
    ),
    Guard.SAFETY: (WriteDecision.DROP, "it asks to leave out what keeps people safe"),
    Guard.FACT_SHAPED: (WriteDecision.DROP, "it says something of the person, and nothing of how to answer"),
    Guard.IMPLICIT: (WriteDecision.COMMIT_AT_SESSION_END, "nobody asked for it, it only shows"),
    Guard.LOW_CONFIDENCE: (WriteDecision.COMMIT_AT_SESSION_END, "the policy is not sure"),
}


def memory_control(text: str) -> Control | None:
    """Return what a person asks of the memory itself in a turn; None where nothing is asked."""
    folded = plain(text)
    return next((control for control, asked in cues.MEMORY_CONTROL.items() if asked.search(folded)), None)


def asked_to_forget(text: str, facts: Iterable[Fact]) -> tuple[str, ...]:
    """Return the ids of the facts that a person asks to forget: all, or those whose object the request names."""
    parts = [part for part in _PART.split(text) if cues.MEMORY_CONTROL[Control.FORGET].search(plain(part))]
    if not parts:
        return ()
    is_all = any(cues.EVERYTHING.search(plain(part)) for part in parts)
    said = [Words(part) for part in parts]
    return tuple(fact.fact_id for fact in facts if is_all or any(words.has_term(Words(fact.object)) for words in said))


def in_own_words(candidate: Candidate, *, user_text: str) -> Candidate:
    """Return a candidate with the person's words in place of the model's quote; as it is where that is no quote."""
    said = own_words(candidate.evidence_quote, user_text)
    return candidate if said is None else candidate.model_copy(update={"evidence_quote": said})


def before_policy(
    candidate: Candidate,
    *,
    user_text: str,
    control: Control | None,
    said_on: date | None = None,
    beside: Sequence[str] = (),
) -> Guard | None:
    """Return the guard that drops a candidate of a turn before the policy is asked; None where it may go on.

    Args:
        candidate: a fact or a rule.
        user_text: what the person says in the turn.
        control: what the turn asks of the memory.
        said_on: the day of the turn: a date that it names as "last month" may be written out.
        beside: what the person said before, and what is known: whom "she" means in the turn.
    """
    if control is not None:
        return Guard.MEMORY_CONTROL
    if isinstance(candidate, SemanticCandidate) and candidate.predicate == MENTIONED_IN:
        return Guard.MENTIONED_IN
    if (misquoted := _misquoted(candidate, user_text)) is not None:
        return misquoted
    if _tells_secret(candidate, user_text):
        return Guard.SECRET
    days = [] if said_on is None else [said_on]
    own = without_quoted(user_text)
    turn, grounds = Grounds([own], said_on=days), Grounds([own, *map(without_quoted, beside)], said_on=days)
    return None if _is_grounded(candidate, turn, grounds) else Guard.UNGROUNDED


def _misquoted(candidate: Candidate, user_text: str) -> Guard | None:
    """Return the guard for a quote that is not the person's own, or that states nothing."""
    if own_words(candidate.evidence_quote, user_text) is None:
        return Guard.NO_QUOTE
    if own_words(candidate.evidence_quote, without_quoted(user_text)) is None:
        return Guard.QUOTED
    # A rule may be asked for: "Can you write that as a list?"
    is_fact = isinstance(candidate, SemanticCandidate)
    return Guard.ASKED if is_fact and _is_asked(candidate.evidence_quote, user_text) else None


def _is_asked(quote: str, text: str) -> bool:
    """Whether a quote stands in a question, and not before its last comma, or in what is only supposed."""
    for sentence in _WITH_MARK.findall(text):
        if own_words(quote, sentence) is None:
            continue
        if cues.SUPPOSED.search(plain(sentence)):
            return True
        before, comma, _ = sentence.rpartition(",")
        if sentence[-1] in _QUESTION and not (comma and own_words(quote, before)):
            return True
    return False


def _is_hearsay(candidate: SemanticCandidate, text: str) -> bool:
    """Whether a quote stands in what the person says that others say: of themselves they know, and of health."""
    quote = plain(candidate.evidence_quote)
    for sentence in map(plain, _WITH_MARK.findall(text)):
        report = cues.REPORTED.search(sentence)
        if report is None or candidate.category is FactCategory.HEALTH or own_words(quote, sentence) is None:
            continue
        before, behind = sentence[: report.start()], sentence[report.end() :].lstrip(" ,:\u3001\uff0c")
        reported = _PAUSE.split(behind)[0] if Tokenizer.words(behind) else before
        is_beside = own_words(quote, before) is not None or own_words(quote, behind) is not None
        if is_beside and own_words(quote, reported) is None:
            continue
        if not Words(before).shared_with(Words(candidate.subject)):
            return True
    return False


def _is_grounded(candidate: Candidate, turn: Grounds, grounds: Grounds) -> bool:
    """Whether the person says what a fact or a rule says, whatever its quote is, and the turn does not deny it."""
    if isinstance(candidate, ProceduralCandidate):
        return grounds.fault(candidate.rule, own_words=_OWN_WORDS_OF_RULE) is None
    terms = (candidate.subject, candidate.object)
    said = f"{candidate.subject} {candidate.predicate.replace('_', ' ').lower()} {candidate.object}"
    return not turn.denies(said) and all(grounds.fault(term, own_words=_OWN_WORDS) is None for term in terms)


def after_policy(candidate: Candidate, decision: Decision, *, user_text: str) -> Decision:
    """Return the policy's decision as the guards leave it; its ``guard`` is set where one overruled it."""
    if decision.decision is WriteDecision.DROP:
        return decision
    around = plain(_around(candidate.evidence_quote, user_text))
    if isinstance(candidate, ProceduralCandidate):
        guard = _procedural(candidate, decision, around)
    elif _is_hearsay(candidate, user_text):
        guard = Guard.HEARSAY
    else:
        guard = _semantic(candidate, decision, around)
    if guard is None:
        return decision
    verdict, reason = _VERDICTS[guard]
    is_unsafe = decision.safety_conflict or guard is Guard.SAFETY
    return decision.model_copy(
        update={"decision": verdict, "reason": reason, "guard": guard.value, "safety_conflict": is_unsafe}
    )


def _semantic(candidate: SemanticCandidate, decision: Decision, around: str) -> Guard | None:
    said = plain(f"{candidate.evidence_quote}. {candidate.object}")
    is_now = decision.decision is WriteDecision.COMMIT_NOW
    # The words of the fact alone: "today I heard that I am ill" says since when it is known, not how long it holds.
    if cues.TURN_SCOPED.search(said) and not cues.DURABLE.search(around):
        return Guard.TURN_SCOPED
    is_framed = candidate.category in _SELF or cues.FRAMING.search(said)
    if decision.decision is not WriteDecision.REQUIRE_REPETITION and is_framed and cues.NEGATIVE.search(said):
        return Guard.FRAGILE
    if is_now and candidate.category in SESSION_CATEGORIES:
        return Guard.SESSION_CATEGORY
    if is_now and candidate.category in HELD_CATEGORIES:
        return Guard.HELD_CATEGORY
    return Guard.LOW_CONFIDENCE if is_now and decision.confidence == "low" else None


def _procedural(candidate: ProceduralCandidate, decision: Decision, around: str) -> Guard | None:
    rule, is_now = plain(candidate.rule), decision.decision is WriteDecision.COMMIT_NOW
    if decision.safety_conflict or _drops_safety(rule) or _drops_safety(plain(candidate.evidence_quote)):
        return Guard.SAFETY
    if cues.FACT_SHAPED.search(rule) and not cues.AGENT_FACING.search(rule):
        return Guard.FACT_SHAPED
    # The whole sentence: a rule is easily quoted without its "just this once".
    said = f"{rule}. {around}"
    if cues.TURN_SCOPED.search(said) and not cues.DURABLE.search(said):
        return Guard.TURN_SCOPED
    if is_now and candidate.kind == "implicit":
        return Guard.IMPLICIT
    return Guard.LOW_CONFIDENCE if is_now and decision.confidence == "low" else None


def _drops_safety(said: str) -> bool:
    """Whether a text asks to leave out what keeps people safe, rather than never to leave it out."""
    for sentence in _SENTENCE.split(said):
        for skip in cues.SKIP.finditer(sentence):
            if cues.NOT_BEFORE.search(sentence[: skip.start()]) or cues.NOT_BEHIND.search(sentence[skip.end() :]):
                continue
            for safety in cues.SAFETY.finditer(sentence):
                between = sentence[min(skip.end(), safety.end()) : max(skip.start(), safety.start())]
                if len(between) <= _NEAR and not _PAUSE.search(between):
                    return True
    return False


def _around(quote: str, text: str) -> str:
    """Return the sentences of a text in which a quote stands, whole or in part."""
    parts = [part for part in _SENTENCE.split(text) if stands_in(quote, part) or stands_in(part, quote)]
    return ". ".join([*parts, quote])


def _tells_secret(candidate: Candidate, user_text: str) -> bool:
    terms = (candidate.rule,) if isinstance(candidate, ProceduralCandidate) else (candidate.subject, candidate.object)
    kept = [candidate.evidence_quote, *terms]
    if any(holds_secret(each) or any(map(_is_card, _CARD.findall(each))) for each in kept):
        return True
    return any(secret in plain(each) for secret in _secrets(user_text) for each in kept)


def _secrets(text: str) -> Iterator[str]:
    """Yield the passwords and numbers that a text tells in so many words."""
    folded = plain(text)
    for found in cues.PASSWORD.finditer(folded):
        yield folded[found.end() - 1 :].split(" ", 1)[0].rstrip(".,;:!?。")


def _is_card(number: str) -> bool:
    """Whether the last digit of a number checks the others (Luhn)."""
    digits = [int(each) for each in number if each.isdigit()]
    doubled = [sum(divmod(2 * each, 10)) for each in digits[-2::-2]]
    return (sum(doubled) + sum(digits[-1::-2])) % 10 == 0
