"""A question about two texts, an earlier and a later one: does what the later says replace what the earlier says?

A model says what the earlier one answers, and what the answer is after the later one. Code decides what that means.
"""

import json
import re
from collections.abc import Awaitable, Callable
from enum import StrEnum

from pydantic import ConfigDict

from memcore.embedding.bm25 import Tokenizer, bare, fold
from memcore.models.base import Frozen
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive, wrap_untrusted

#: Characters of a text that the model reads.
MAX_INPUT_CHARS = 1_000

#: Who asks says "I", and is called the user.
_SELF = frozenset({"i", "me", "my", "mine", "we", "our", "us", "user", "ich", "wir", "mein", "je", "yo", "ik"})

#: The first word of a text but for an article.
_FIRST_WORD = re.compile(
    r"\W*(?:(?:the|a|an|der|die|das|le|la|les|el|los|las|il|gli|de|het)\s+)?([^\W\d_]+)", re.IGNORECASE
)

#: What narrows the word before it: "the recipe for the glaze", "der Kurs am Samstag", "el bar del puerto".
_NARROWED = re.compile(
    r"\S*\s+(?:of|for|in|on|at|from|with|near|von|vom|für|im|am|an|auf|aus|mit|bei|zu[mr]?|du|des?|pour|dans|sur|aux?|"
    r"avec|chez|del|para|con|por|del(?:l[ao])?|nell?[ao]?|per|d[aeo]s?|em|n[ao]s?|com|van|voor|op|bij|met|для|на|из|от)"
    r"\s+((?:\S+\s*){1,2})",
    re.IGNORECASE,
)

#: A text that begins with what somebody has: "Ada's office".
_OWNED = re.compile(r"\W*(?:the\s+)?[^\W\d_]+['\u2019]s\s+([^\W\d_]+)", re.IGNORECASE)

#: Words of a text about an earlier time.
_PAST = re.compile(
    r"\b(?:used to|former(?:ly)?|previously|back (?:in|then|when)|at th(?:e|at) time|in those days|years ago|"
    r"once (?:was|had|lived|worked)|as an? (?:child|kid|boy|girl|student|teenager)|when \w+ (?:was|were)|"
    r"früher|damals|ehemals|autrefois|antes|vroeger)\b"
)

#: Words of an answer that something has ended; they need not stand in the text that says so.
_ENDED = frozenset({"no", "not", "none", "nothing", "nobody", "nowhere", "never", "nichts", "nein", "rien", "nada"})

#: A year, as texts write it.
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")

_tokenizer = Tokenizer()


class Verdict(StrEnum):
    """What a newer memory means for an older one."""

    SUPERSEDES = "supersedes"
    BOTH_HOLD = "both_hold"
    UNSURE = "unsure"


class ChangeAnswer(Frozen):
    """How a model reads a pair.

    Attributes:
        question: what the earlier memory answers.
        then: its answer.
        now: the answer after the later memory.
    """

    model_config = ConfigDict(extra="ignore")

    question: str
    then: str
    now: str

    def verdict(self, old: str, new: str, *, subject: str = "") -> Verdict:
        """Return what holds of a pair: a model says what is so, and not whether that is another thing.

        An answer that only adds to the earlier one, or leaves out of it, is none that replaced it. One that does not
        stand in the later text is nobody's. The earlier text must answer the question: who was born in Turin and lives
        in Graz has not moved, and a painter may sing, whatever "What do you do?" is answered with. Words of the
        ``subject``, whom both are about, ask nothing.
        """
        then, now = (frozenset(Tokenizer.words(text)) for text in (self.then, self.now))
        if not then or not now or then <= now or now <= then:
            return Verdict.BOTH_HOLD
        asked, said, earlier, later = (bare(_tokenizer.terms(text)) for text in (self.question, self.now, old, new))
        is_said = not now.isdisjoint(_ENDED) or not said.isdisjoint(later)
        telling = asked - _SELF - frozenset(_tokenizer.terms(subject))
        is_asked = not telling.isdisjoint(earlier)
        is_of_new = not asked & later <= earlier
        return Verdict.SUPERSEDES if is_said and is_asked and not is_of_new else Verdict.UNSURE


#: Pairs, and how they are to be read.
_EXAMPLES = (
    (
        ("The gym opens at six.", "Since the new owner came, nobody gets into the gym before eight."),
        ("When does the gym open?", "at six", "at eight"),
    ),
    (
        ("The gym opens at six.", "The gym has bought two rowing machines."),
        ("When does the gym open?", "at six", "at six"),
    ),
    (("Rosa teaches maths.", "Rosa's brother teaches music."), ("What does Rosa teach?", "maths", "maths")),
    (("Rosa teaches maths.", "Rosa retired last month."), ("What does Rosa teach?", "maths", "nothing")),
    (("Rosa likes jazz.", "Rosa likes chess."), ("What does Rosa like?", "jazz", "jazz and chess")),
    (("Tim is ill.", "Tim got well on Sunday and is back at work."), ("Is Tim ill?", "yes", "no")),
    (
        ("User rides to school with Tim.", "User has got a car and needs no lift any more."),
        ("How does the user get to school?", "with Tim", "by car"),
    ),
    (
        ("The code of the gate is 4411.", "The code of the gate was changed."),
        ("What is the code?", "4411", "another one"),
    ),
)


def shown_pair(old: str, new: str, *, newest_first: bool = False) -> str:
    """Return what a model is shown of two memories."""
    texts = [
        wrap_untrusted(TAG_MEMORY_ENTRY, text[:MAX_INPUT_CHARS], attributes={"is": name})
        for name, text in (("earlier", old), ("later", new))
    ]
    return "\n".join(reversed(texts) if newest_first else texts)


def _example(texts: tuple[str, str], answer: tuple[str, str, str]) -> str:
    return f"{shown_pair(*texts)}\n{json.dumps(dict(zip(ChangeAnswer.model_fields, answer, strict=True)))}"


SYSTEM = f"""\
You are shown two memories of an agent, an earlier and a later one. {untrusted_content_directive(TAG_MEMORY_ENTRY)}
Answer with one JSON object: "question" is what the earlier memory answers; "then" is its answer; "now" is the answer
after the later memory. Where the later one does not change it, "now" is the same as "then".
Examples:
""" + "\n".join(_example(texts, answer) for texts, answer in _EXAMPLES)


def is_of_one_subject(one: str, other: str) -> bool:
    """Return whether two texts may be about the same: what one begins with stands in the other, or both say "I"."""
    first, second = _first_word(one), _first_word(other)
    if first == second or {first, second} <= _SELF:
        return True
    mine, theirs = (frozenset(_tokenizer.terms(text)) for text in (one, other))
    return not theirs.isdisjoint(_tokenizer.terms(first)) or not mine.isdisjoint(_tokenizer.terms(second))


def _begins_with_known(old: str, new: str) -> bool:
    """Return whether what a later text begins with, and what narrows it, stands in the earlier one; or both say "I"."""
    first, known = _FIRST_WORD.match(new), frozenset(_tokenizer.terms(old))
    if first is None or known.isdisjoint(_tokenizer.terms(first[1])):
        return {_first_word(old), _first_word(new)} <= _SELF
    narrowed = _NARROWED.match(new, first.end())
    return narrowed is None or known.issuperset(_tokenizer.terms(narrowed[1])[:1])


def _first_word(text: str) -> str:
    match = _FIRST_WORD.match(text)
    return "" if match is None else fold(match[1])


def may_replace(old: str, new: str, *, year: int) -> bool:
    """Return whether a later text may replace an earlier one, said in that year, with no more than a model's word.

    What Ada's brother does is not what Ada does, and the port of the metrics is not the port.
    """
    owned = _OWNED.match(new)
    is_of_another = owned is not None and fold(owned[1]) not in Tokenizer.words(old)
    return not is_of_another and _begins_with_known(old, new) and is_of_today(new, year=year)


def is_of_today(new: str, *, year: int) -> bool:
    """Return whether a text is about no time before one that was said in that year."""
    years = [int(each) for each in _YEAR.findall(new)]
    return _PAST.search(fold(new)) is None and not (years and max(years) < year)


async def agreed(
    ask: Callable[[str], Awaitable[Verdict | None]], old: str, new: str, *, is_possible: bool
) -> Verdict | None:
    """Return the verdict on a pair; None where the model did not answer.

    That one superseded the other must be said whichever is read first, and be possible; else a person decides.

    Args:
        ask: returns the model's verdict on what it is shown of the pair.
        old: the earlier text.
        new: the later text.
        is_possible: whether a model's word alone may let one supersede the other.
    """
    verdict = await ask(shown_pair(old, new))
    if verdict is not Verdict.SUPERSEDES:
        return verdict
    if not is_possible:
        return Verdict.UNSURE
    again = await ask(shown_pair(old, new, newest_first=True))
    return again if again in {None, Verdict.SUPERSEDES} else Verdict.UNSURE
