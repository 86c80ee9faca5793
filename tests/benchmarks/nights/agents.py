"""What the bench's agents remember and are asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from benchmarks.consolidation.contexts import FRAME
from benchmarks.consolidation.evidence import asked_of, share, terms_of
from benchmarks.nights.facts import (
    Fact,
    contradictions,
    facts,
    languages,
    lookalikes,
    paraphrases,
    repeated,
    structured,
)
from benchmarks.retrieval.conversations import Conversation

#: The evening before the first run; all that is there is older than a week.
START = datetime(2026, 1, 31, 20, tzinfo=UTC)

#: How often each of the numbered facts that are said twice is among the questions: every third fact is asked for.
_ASKED_EVERY = 3

#: Facts that are said again.
REPEATED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A text to store, and when it was said."""

    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and what share of its answer a prompt holds."""

    text: str
    found: Callable[[str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent before the first run.

    Attributes:
        keep: the texts of which each must be left word for word; of those that say the same, one.
        current: the values that are true now.
        alike: texts that are no repetition of anything.
        again: for each fact that was said twice, both of its texts.
    """

    name: str
    memories: Sequence[Memory]
    questions: Sequence[Question]
    keep: Sequence[frozenset[str]] = ()
    current: Sequence[str] = ()
    alike: frozenset[str] = frozenset()
    again: Sequence[frozenset[str]] = field(default=())


def person() -> Agent:
    """Return the agent of a person whose facts are of all kinds."""
    plain, alike, pairs, others = facts(), lookalikes(), contradictions(), [*structured(), *languages()]
    said_again = repeated(plain[:REPEATED])
    reworded = [fact for pair in paraphrases() for fact in pair]
    outdated, current = [old for old, _ in pairs], [new for _, new in pairs]
    asked = [*plain[::_ASKED_EVERY], *alike[::_ASKED_EVERY], *current[::_ASKED_EVERY], *others[::_ASKED_EVERY]]
    again = [frozenset({fact.text, other.text}) for fact, other in zip(plain, said_again, strict=False)]
    single = [*plain[REPEATED:], *alike, *current, *others, *reworded]
    return Agent(
        name="person",
        memories=[
            *_over_days([*plain, *alike, *others, *reworded, *outdated], since=timedelta(days=120)),
            *_over_days([*said_again, *current], since=timedelta(days=40)),
        ],
        questions=[Question(text=fact.question, found=_has(fact.value)) for fact in asked],
        keep=[*again, *(frozenset({fact.text}) for fact in single)],
        current=[fact.text for fact in current],
        alike=frozenset(fact.text for fact in (*alike, *reworded)),
        again=again,
    )


def talk(conversation: Conversation) -> Agent:
    """Return the agent of a conversation; its turns keep their dates, long before the first run."""
    return Agent(
        name=conversation.agent_id,
        memories=[Memory(text=turn.stored_text, at=turn.at) for turn in conversation.turns],
        questions=[
            Question(text=asked.text, found=_holds({key for keys in asked.keys.values() for key in keys}))
            for asked in asked_of(conversation)
        ],
    )


def _over_days(some: Sequence[Fact], *, since: timedelta) -> list[Memory]:
    """Spread the facts evenly over the days until a month before the first run, in an order that mixes the kinds."""
    first, step = START - since, (since - timedelta(days=30)) / len(some)
    mixed = sorted(range(len(some)), key=lambda place: (place * 7919) % len(some))
    return [Memory(text=some[place].text, at=first + number * step) for number, place in enumerate(mixed)]


def _has(value: str) -> Callable[[str], float]:
    return lambda prompt: float(value in FRAME.sub("", prompt))


def _holds(keys: set[str]) -> Callable[[str], float]:
    return lambda prompt: share(keys, terms_of(FRAME.sub("", prompt)))
