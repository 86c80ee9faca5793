"""Turns of six people through the capture path, with a model's real answers: what is kept beside what they said."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from support.conversation_fixture import ConversationFixture
from support.ledger_records import COMPANY, StoppedClock
from support.recorded_answers import RecordedAnswers, in_turn
from support.repository import ROOT

from memcore.config.urls import LedgerUrls
from memcore.conversation.service import RETRY
from memcore.jobs import Dead, Deferred, Outcome
from memcore.ledger.ledger import Ledger
from memcore.llm.protocol import CompletionProvider
from memcore.models.conversation import FactState, Owner

FIXTURES = ROOT / "tests" / "fixtures" / "small_model"

_AGENT = "ada"

#: More tries than a turn or an end has.
_MOST_TRIES = 25


def answers_of(name: str) -> Path:
    """Return where the recorded answers of a model are."""
    return FIXTURES / f"{name}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidTurn:
    """A turn and what is to be kept of it, as ``turns.yaml`` says."""

    said: str
    reply: str
    keep: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    nothing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person's one session."""

    user: str
    day: datetime
    turns: tuple[SaidTurn, ...]


def people() -> list[Person]:
    """Read the turns."""
    found = yaml.safe_load((FIXTURES / "turns.yaml").read_text(encoding="utf-8"))
    return [
        Person(
            user=each["user"],
            day=datetime.combine(each["day"], datetime.min.time(), UTC) + timedelta(hours=9),
            turns=tuple(
                SaidTurn(**{**turn, "keep": tuple(turn.get("keep", ())), "also": tuple(turn.get("also", ()))})
                for turn in each["turns"]
            ),
        )
        for each in found
    ]


def recorded(path: Path, live: CompletionProvider | None = None) -> RecordedAnswers:
    """Return a model with the answers of a file, in turn for each turn or session and purpose."""
    return RecordedAnswers.read(
        path, name_of=in_turn(lambda by: f"{by.run_id} {by.purpose.rpartition(':')[2]}"), live=live
    )


@dataclass(slots=True, kw_only=True)
class Capture:
    """What became of the turns.

    Attributes:
        wanted: how many things are worth keeping.
        kept: by what was kept, as a text, the turn that it came of, and whether it is ``right``, ``also``
            true, or ``invented``.
        missed: what is worth keeping and was not kept, as turn and expression.
        given_up: turns and sessions whose answers nobody could read.
    """

    wanted: int = 0
    kept: list[tuple[str, str, SaidTurn]] = field(default_factory=list[tuple[str, str, SaidTurn]])
    missed: list[tuple[SaidTurn, str]] = field(default_factory=list[tuple[SaidTurn, str]])
    given_up: int = 0

    @property
    def inventions(self) -> list[tuple[str, SaidTurn]]:
        return [(text, turn) for kind, text, turn in self.kept if kind == "invented"]

    @property
    def precision(self) -> float:
        return sum(kind == "right" for kind, _, _ in self.kept) / max(1, len(self.kept))

    @property
    def recall(self) -> float:
        return 1 - len(self.missed) / max(1, self.wanted)

    def kinds(self) -> Counter[str]:
        return Counter(kind for kind, _, _ in self.kept)


async def captured(every: Sequence[Person], model: RecordedAnswers, urls: LedgerUrls) -> Capture:
    """Let everybody talk, end each session, and judge what is kept."""
    clock, found = StoppedClock(), Capture()
    with closing(Ledger.open(urls, clock=clock)) as ledger:
        talk = ConversationFixture(ledger, clock, model)
        for person in every:
            owner, session_id = Owner(agent_id=_AGENT, subject=f"user:{person.user}"), f"of-{person.user}"
            clock.now, turns = person.day, dict[str, SaidTurn]()
            for turn in person.turns:
                turn_id = talk.said(turn.said, reply=turn.reply, session_id=session_id, subject=owner.subject)
                turns[turn_id] = turn
                found.given_up += isinstance(await _finished(talk, turn_id=turn_id), Dead)
                clock.advance(timedelta(minutes=1))
            key = talk.key(session_id, owner.subject)
            ledger.sessions.close_now(COMPANY, key, at=clock())
            found.given_up += isinstance(await _finished(talk, session_key=key), Dead)
            _judge(found, turns, list(_kept(ledger, owner)))
    return found


async def _finished(talk: ConversationFixture, *, turn_id: str = "", session_key: str = "") -> Outcome:
    """Try as long as a worker would; the next turn is said as if no time had passed."""
    began = talk.clock.now
    outcome: Outcome = Deferred(reason="not tried")
    for _ in range(_MOST_TRIES):
        outcome = await (talk.extraction().run(turn_id) if turn_id else talk.ending().run(session_key))
        if not isinstance(outcome, Deferred):
            break
        talk.clock.advance(RETRY.longest_delay)
    talk.clock.now = began
    return outcome


def _kept(ledger: Ledger, owner: Owner) -> Iterator[tuple[str, str]]:
    """Yield what is kept of a person, and was since replaced, with the turn that it came of."""
    for fact in ledger.conversation.facts(COMPANY, owner, states=tuple(FactState)):
        yield f"{fact.subject} {fact.predicate.replace('_', ' ')} {fact.object}".lower(), fact.turn_id or ""
    for rule in ledger.conversation.rules(COMPANY, owner, states=tuple(FactState)):
        yield rule.rule.lower(), rule.turn_id or ""


def _judge(found: Capture, turns: dict[str, SaidTurn], kept: Sequence[tuple[str, str]]) -> None:
    for text, turn_id in kept:
        # What a session's end promoted from several turns names none of them.
        turn = turns.get(turn_id) or _together(turns.values())
        kinds = {"right": turn.keep, "also": turn.also}
        kind = next((name for name, every in kinds.items() if any(re.search(each, text) for each in every)), "invented")
        found.kept.append((kind, text, turn))
    for turn in turns.values():
        found.wanted += len(turn.keep)
        found.missed += [(turn, each) for each in turn.keep if not any(re.search(each, text) for text, _ in kept)]


def _together(turns: Iterable[SaidTurn]) -> SaidTurn:
    every = list(turns)
    return SaidTurn(
        said="the whole session",
        reply="",
        keep=tuple(one for each in every for one in each.keep),
        also=tuple(one for each in every for one in each.also),
    )
