"""Key terms of a question's evidence, and the share of them that a text holds."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from benchmarks.retrieval.conversations import Conversation

from memcore.embedding.bm25 import Tokenizer

#: A term is a key term when it stands in at most this share of its conversation's turns; fixed before anything was
#: tuned on it.
RARE_SHARE = 0.01

Terms = frozenset[str]

_tokenizer = Tokenizer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question that has key terms.

    Attributes:
        keys: the key terms of each turn of its evidence.
        answer: the terms of its answer that the question itself does not say; empty where it has no answer.
    """

    text: str
    keys: Mapping[str, Terms]
    answer: Terms


def terms_of(text: str) -> Terms:
    """Return what a text says, each term once."""
    return frozenset(_tokenizer.terms(text))


def asked_of(conversation: Conversation) -> list[Asked]:
    """Return the questions whose evidence has key terms, in order."""
    said = {turn.name: terms_of(turn.stored_text) for turn in conversation.turns}
    spread = Counter(term for terms in said.values() for term in terms)
    most = RARE_SHARE * len(said)
    found = []
    for question in conversation.questions:
        keys = {name: frozenset(term for term in said[name] if spread[term] <= most) for name in question.evidence}
        if any(keys.values()):
            answer = terms_of(question.answer) - terms_of(question.text)
            found.append(Asked(text=question.text, keys=keys, answer=answer))
    return found


def share(wanted: Collection[str], there: Collection[str]) -> float:
    """Return which share of the wanted is there."""
    return len(set(wanted) & set(there)) / len(set(wanted))
