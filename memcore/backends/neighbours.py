"""Neighbours: what was said beside a memory in its session, by whom, and at what length, moves its place in an answer.

The weights are round, and measured over the candidates of a search (docs/benchmarks/2026-11.md).
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Self

from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.sentences import part_label
from memcore.embedding.time_words import LANGUAGES
from memcore.records import ATTRIBUTES_KEY, SEQUENCE_KEY, MemoryRecord

#: Share of the score of the memory before and of the one after in the same session; and in a chat of a user with an
#: assistant, where each turn answers the one before it.
_BESIDE, _BESIDE_IN_CHAT = 0.1, 0.2

#: Share of the score of the memory before, where that asks a question: this one may answer it, if it has at most so
#: many bytes. The long replies of an assistant say much else.
_ANSWER, _ANSWER_BYTES = 0.3, 400

#: Factor of a memory whose speaker or source the question names.
_NAMED = 1.2

#: Factor of a memory that says a number, where the question asks how many or how much.
_NUMBER = 1.2

#: What a text gains by its length, at most, and the bytes from which on it has all of that: a word alone says little.
#: Beyond the last number of bytes it gains nothing.
_LONG, _LONG_BYTES, _MOST_BYTES = 0.2, 240, 1_000

#: The sides of a chat as stores of messages name them: who asks, and all.
_USER, _ASSISTANT = frozenset({"user", "human"}), frozenset({"assistant", "ai"})
_ROLES = _USER | _ASSISTANT | {"tool", "system"}

#: Words by which a user names the assistant, and itself.
_YOU = frozenset("you your yours du dir dich dein deine tu toi te vous votre ti voi usted ustedes jij je jouw".split())  # noqa: SIM905
_ME = frozenset(
    "i me my mine we our us ich mir mich mein meine wir uns je moi mon ma nous yo mi nosotros io noi ik mij wij".split()  # noqa: SIM905
)

#: The words of no name.
_NOBODY = frozenset[str]()

#: A tag that begins so names who said what the memory holds, which need not be the agent that keeps it.
SPEAKER_TAG = "speaker:"

#: Where a speaker's name ends at the latest, in characters.
_HEAD_CHARS = 80

#: What a question ends with, and what may stand behind it.
_QUESTION_MARKS, _CLOSING = ("?", "\uff1f", "\u061f"), " \t\n\"'\u201d\u2019)]*_"

#: What asks for a number, in the languages whose words of time are known, and in Japanese, Chinese and Korean.
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|old|far|often|big|large|tall|high|deep|heavy|wide|fast|late|early)\b"
    r"|\bwie ?viele?\b|\bwie (?:lange|alt|oft|weit|gro[sß]s?|hoch|tief|schwer|teuer|breit|schnell|spät|früh)\b"
    r"|\b(?:what time(?! of)|hoe laat|quelle heure|qu[ée] horas?|(?:che|quale) ora)\b"
    r"|\bhoeveel\b|\bhoe (?:lang|oud|vaak|ver|groot|hoog|diep|zwaar|duur|breed|snel|laat|vroeg)\b"
    r"|\bcombien\b|\bcu[áa]nt[oa]s?\b|\bquant[oaie]s?\b"
    r"|いくら|いくつ|何[人個円時日回年歳本枚台匹冊分杯頁ヶか月階度]|どのくらい|多少|[几幾][个個点點年月天次人只岁页頁]|多[久大高长長重远遠]|몇|얼마",
    re.IGNORECASE,
)

#: A number in digits, and the words of numbers: one and its like are mostly articles.
_DIGIT = re.compile("[0-9二三四五六七八九十百千万億]")
_NUMBER_WORDS = frozenset(word for each in LANGUAGES for numbers in each.numbers for word in numbers.split()[1:])
_LETTERS = re.compile(r"[^\W\d_]+")


class Remark(NamedTuple):
    """A candidate's text, where it stands in its session, its source, speaker and role; None where that is not known.

    Sessions of two agents (``agent_id``) may have one name.
    """

    text: str
    agent_id: str = ""
    session_id: str | None = None
    sequence: int | None = None
    source: str | None = None
    speaker: str | None = None
    role: str | None = None

    @classmethod
    def of(cls, record: MemoryRecord) -> Self:
        """Return a record as its neighbours see it."""
        entry, sequence = record.entry, record.extra.get(SEQUENCE_KEY)
        return cls(
            text=entry.content,
            agent_id=entry.agent_id,
            session_id=record.lineage.session_id,
            sequence=sequence if isinstance(sequence, int) else None,
            source=entry.metadata.source,
            speaker=speaker_of(entry.metadata.tags),
            role=role_of(record.extra),
        )


def speaker_of(tags: Iterable[str]) -> str:
    """Return the speaker that a memory's tags name; empty where none does."""
    return next((tag.removeprefix(SPEAKER_TAG) for tag in tags if tag.startswith(SPEAKER_TAG)), "")


def role_of(fields: Mapping[str, object]) -> str | None:
    """Return the role in the attributes of a memory's free fields, as importers of messages write it."""
    attributes = fields.get(ATTRIBUTES_KEY)
    role = attributes.get("role") if isinstance(attributes, Mapping) else None
    return role if isinstance(role, str) and role else None


def among_neighbours(question: str, scores: Mapping[str, float], remarks: Mapping[str, Remark]) -> dict[str, float]:
    """Return the scores with what neighbours, names and lengths add; the best stays as good as the best was.

    ``remarks`` has each key of the scores.
    """
    places = {
        (remark.agent_id, remark.session_id, remark.sequence): key
        for key, remark in remarks.items()
        if key in scores and remark.session_id is not None and remark.sequence is not None
    }
    asked, is_number = frozenset(Tokenizer.words(question)), asks_number(question)
    found: dict[str, float] = {}
    for key, score in scores.items():
        remark = remarks[key]
        raised, size, speakers = score, len(remark.text.encode()), _speakers(remark)
        role = _role(speakers) if speakers else _NOBODY
        beside = _BESIDE_IN_CHAT if role else _BESIDE
        if remark.session_id is not None and remark.sequence is not None:
            before = places.get((remark.agent_id, remark.session_id, remark.sequence - 1))
            after = places.get((remark.agent_id, remark.session_id, remark.sequence + 1))
            if after is not None:
                raised += beside * scores[after]
            if before is not None:
                is_answer = size <= _ANSWER_BYTES and _asks(remarks[before].text)
                raised += (beside + _ANSWER * is_answer) * scores[before]
        if (speakers or remark.source) and (_is_named(remark, speakers, asked) or (role and _is_meant(role, asked))):
            raised *= _NAMED
        if is_number and says_number(remark.text):
            raised *= _NUMBER
        found[key] = raised * (1.0 + _LONG * min(1.0, size / _LONG_BYTES) * (size <= _MOST_BYTES))
    best = max(found.values(), default=0.0)
    if best <= 0.0:
        return dict(scores)
    scale = max(scores.values()) / best
    return {key: score * scale for key, score in found.items()}


def asks_number(question: str) -> bool:
    """Return whether a question asks for a number: how many, how much, how long, in the known languages."""
    return _ASKS_NUMBER.search(question) is not None


def says_number(text: str) -> bool:
    """Return whether a text has a number, in digits or in words."""
    return _DIGIT.search(text) is not None or not _NUMBER_WORDS.isdisjoint(_LETTERS.findall(text.lower()))


def _asks(text: str) -> bool:
    return text.rstrip(_CLOSING).endswith(_QUESTION_MARKS)


def _speakers(remark: Remark) -> list[frozenset[str]]:
    """Return the words of each name of who said it: a role, a tag, the label of the text."""
    names = [_words(name) for name in (remark.role, remark.speaker) if name]
    if end := remark.text.find(":", 0, _HEAD_CHARS) + 1:
        names.append(_speaker(remark.text[:end]))
    return names


def _role(speakers: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the first name that is a role, such as assistant; empty among people."""
    return next((words for words in speakers if words and words <= _ROLES), _NOBODY)


def _is_named(remark: Remark, speakers: Iterable[frozenset[str]], asked: frozenset[str]) -> bool:
    """Return whether a question names who said it, or its source."""
    source = _words(remark.source) if remark.source else _NOBODY
    return any(words and asked.issuperset(words) for words in (source, *speakers))


def _is_meant(role: frozenset[str], asked: frozenset[str]) -> bool:
    """Return whether a question is about what this side of a chat said: a user says "you" to the assistant."""
    if not asked.isdisjoint(_YOU):
        return bool(role & _ASSISTANT)
    return bool(role & _USER) and not asked.isdisjoint(_ME)


@lru_cache(maxsize=4_096)
def _speaker(head: str) -> frozenset[str]:
    """Return the words of the speaker's name in the label that a text begins with; none without a label."""
    # A label stands before a text; remarks of one speaker and one day have the same.
    label, _ = part_label(f"{head} text")
    return frozenset(Tokenizer.words(label.who))


@lru_cache(maxsize=4_096)
def _words(source: str) -> frozenset[str]:
    return frozenset(Tokenizer.words(source))
