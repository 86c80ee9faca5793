"""One person's five sessions, in five languages: what is kept, held and dropped is the same in each of them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
import yaml
from support.conversation_fixture import OWNER, ConversationFixture
from support.ledger_records import COMPANY
from support.repository import ROOT
from support.table_model import decided, extracted, fact, rule

from memcore.jobs import Done
from memcore.models.conversation import FactState, LayerCounts, SemanticCandidate

TALK = ROOT / "examples" / "demo" / "talk" / "en.yaml"
TRANSLATIONS = ROOT / "tests" / "fixtures" / "talks"

LANGUAGES = ("en", *sorted(path.stem for path in TRANSLATIONS.iterdir()))

#: By the relation of a new fact, what the model says of it beside one that is known of the same relation.
ACTIONS = {"LIVES_IN": "supersede", "HAS_SISTER": "bump", "IS_ALLERGIC_TO": "bump"}

_NEW = re.compile(r'<new-entry kind="fact" number="(\d+)">\n(.*)')
_KNOWN = re.compile(r'<known-entry number="(\d+)">\n(.*)')


def judged(content: str) -> dict[str, Any]:
    """Return what a careful model says of new facts: of what it is shown, most has nothing to do with them."""
    verdicts: list[dict[str, Any]] = []
    for part in re.split(r"(?=<new-entry )", content):
        new = _NEW.match(part)
        relation = next((each for each in ACTIONS if new and f" {each} " in new[2]), None)
        known = [int(number) for number, line in _KNOWN.findall(part) if relation and f" {relation} " in line]
        if new and relation and known:
            about = {"action": ACTIONS[relation], "known": known[:1], "confidence": "high"}
            verdicts.append({"number": int(new[1]), **about})
    return {"facts": verdicts, "rules": []}


SHORT, LISTS = "Answer in short sentences.", "Write plans as lists."
NURSE, HARBOUR, SWIMMING = "nurse at the harbour clinic", "harbour in the early morning", "swimming in the fjord"


@dataclass(frozen=True, kw_only=True)
class Became:
    """What became of a session, by the objects and the rules of the English talk.

    Attributes:
        written: what its turns wrote, in order.
        dropped: by guards, how many of its turns' candidates, or turns, they kept out.
        held: by what waited for its end, the guard that held it back; None where the policy did.
        promoted: what its end wrote.
        known: what its end heard again.
        bumped: what is known and was said again in a turn.
        replaced: what is superseded by what.
        arcs: how many summaries it has.
    """

    written: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])
    held: tuple[tuple[str, str | None], ...] = ()
    promoted: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    bumped: tuple[str, ...] = ()
    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    arcs: int = 1


EXPECTED = (
    Became(
        written=("Mira Olsen", "Bergen", SHORT),
        held=(("tram", "session_category"), ("Ida", None)),
        promoted=("Ida",),
    ),
    Became(
        written=("walnuts",),
        held=((LISTS, None), (LISTS, None), ("Jonas", None), (LISTS, None)),
        promoted=(LISTS,),
    ),
    # Of a session in which something was not to be kept nothing is promoted, and nothing is summed up.
    Became(written=(NURSE,), dropped={"memory_control": 1}, held=((HARBOUR, None),), arcs=0),
    Became(
        written=("Oslo", SWIMMING),
        held=(("grandmother", "held_category"), ("failure", "fragile_self_belief")),
        promoted=("grandmother",),
        replaced={"Bergen": "Oslo"},
    ),
    Became(
        dropped={"safety_conflict": 1},
        held=(("Ida", None), ("old maps", None)),
        promoted=("old maps",),
        known=("Ida",),
        bumped=("walnuts",),
    ),
)

#: The same, where nothing but the guards judges.
CARELESS = (
    Became(written=("Mira Olsen", "Bergen", SHORT, "Ida"), dropped={"turn_scoped": 1}),
    Became(
        written=("walnuts", "Jonas"),
        held=((LISTS, "implicit"), (LISTS, "implicit"), (LISTS, "implicit")),
        promoted=(LISTS,),
    ),
    Became(written=(NURSE, HARBOUR), dropped={"memory_control": 1}, arcs=0),
    Became(
        written=("Oslo", SWIMMING),
        held=(("grandmother", "held_category"), ("failure", "fragile_self_belief")),
        promoted=("grandmother",),
        replaced={"Bergen": "Oslo"},
    ),
    Became(written=("old maps",), dropped={"safety_conflict": 1}, bumped=("Ida", "walnuts")),
)


class Spoken(NamedTuple):
    """A turn in one of the languages, and what a good model finds in it."""

    text: str
    reply: str
    found: dict[str, Any]
    decision: dict[str, Any]


class Script:
    """The talk in one of the languages: the structure of the English one, in the language's own words.

    Attributes:
        sessions: the turns of each session.
        english: by each object and each rule, what it is in English.
    """

    def __init__(self, language: str, *, is_careful: bool) -> None:
        talk: list[dict[str, Any]] = yaml.safe_load(TALK.read_text(encoding="utf-8"))["sessions"]
        turns = [turn for session in talk for turn in session["turns"]]
        users = [turn["user"] for turn in turns]
        said = [(_name(note), note["quote"]) for turn in turns for note in _notes(turn)]
        names = [name for name, _ in said]
        if language != "en":
            words = yaml.safe_load((TRANSLATIONS / f"{language}.yaml").read_text(encoding="utf-8"))
            users, said = words["users"], [(name, quote) for name, quote in words["said"]]
        self.english = dict(zip((name for name, _ in said), names, strict=True))
        texts, notes = iter(users), iter(said)
        in_language = dict(zip(names, (name for name, _ in said), strict=True))
        self.days = [session["day"] for session in talk]
        self.sessions = [
            [_spoken(turn, next(texts), notes, in_language, is_careful=is_careful) for turn in session["turns"]]
            for session in talk
        ]
        assert [*texts, *notes] == [], "each text and each note has its place"


def _notes(turn: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    return [*turn.get("facts", ()), *turn.get("rules", ())]


def _name(note: Mapping[str, Any]) -> str:
    return str(note["rule"] if "rule" in note else note["object"])


def _spoken(
    turn: Mapping[str, Any],
    text: str,
    said: Iterator[tuple[str, str]],
    in_language: Mapping[str, str],
    *,
    is_careful: bool,
) -> Spoken:
    facts, rules = list[dict[str, str]](), list[dict[str, str]]()
    for note in _notes(turn):
        name, quote = next(said)
        assert quote.casefold() in text.casefold()
        quote = quote if is_careful else text
        if "rule" in note:
            rules.append(rule(quote, name, kind=note["kind"]))
        else:
            found = fact(quote, name, category=note["category"], predicate=note["predicate"])
            subject = note.get("subject", "User")
            facts.append({**found, "subject": in_language.get(subject, subject)})
    decisions = [note.get("decision", "commit_now") if is_careful else "commit_now" for note in _notes(turn)]
    is_unsafe = is_careful and any(note.get("safety_conflict") for note in _notes(turn))
    return Spoken(
        text, turn["assistant"], extracted(*facts, rules=tuple(rules)), decided(*decisions, safety_conflict=is_unsafe)
    )


def named(talk: ConversationFixture, script: Script) -> dict[str, str]:
    """Return by their ids what every fact and every rule is in English."""
    facts = talk.ledger.conversation.facts(COMPANY, OWNER, states=tuple(FactState))
    rules = talk.ledger.conversation.rules(COMPANY, OWNER, states=tuple(FactState))
    return {fact.fact_id: script.english[fact.object] for fact in facts} | {
        rule.rule_id: script.english[rule.rule] for rule in rules
    }


async def lived(talk: ConversationFixture, script: Script, number: int) -> Became:
    """Let a session take place, and return what became of it."""
    session_id, outcomes = f"talk-{number}", list[dict[str, Any]]()
    for text, reply, found, decision in script.sessions[number]:
        talk.table.extract, talk.table.policy = {text: found}, {text: decision}
        turn = await talk.drawn(text, reply=reply, session_id=session_id)
        outcomes.append(turn.outcome or {})
        talk.clock.advance(timedelta(minutes=1))
    key = talk.key(session_id)
    waited = talk.ledger.sessions.held(COMPANY, key)
    what = {
        each.candidate_id: script.english[
            each.candidate.object if isinstance(each.candidate, SemanticCandidate) else each.candidate.rule
        ]
        for each in waited
    }
    assert isinstance(await talk.end(session_id), Done)
    assert talk.held(session_id) == []
    end = talk.session(session_id).outcome or {}
    names, ends = named(talk, script), talk.ledger.sessions.ended_candidates(COMPANY, key)
    dropped = Counter(each["skipped"] for each in outcomes if "skipped" in each)
    for each in outcomes:
        for layer in ("semantic", "procedural"):
            dropped.update(each.get(layer, {}).get("dropped", {}))

    def named_in(field: str) -> Iterator[str]:
        return (names[key] for each in outcomes for key in each.get(field, ()))

    return Became(
        written=tuple(named_in("written")),
        dropped=dict(dropped),
        held=tuple((what[each.candidate_id], each.decision.guard) for each in waited),
        promoted=tuple(names[key] for key in end["written"]),
        known=tuple(name for key, name in what.items() if ends[key][0] == "known"),
        bumped=tuple(named_in("bumped")),
        replaced={names[old]: names[new] for each in (*outcomes, end) for old, new in each.get("replaced", {}).items()},
        arcs=end["arcs"],
    )


async def talked(talk: ConversationFixture, script: Script, expected: Sequence[Became]) -> None:
    """Let all sessions take place; what becomes of each must be as expected."""
    began = talk.clock()
    talk.table.reconcile = {"new-entry": judged}
    for number, became in enumerate(expected):
        talk.clock.now = began + timedelta(days=script.days[number])
        assert await lived(talk, script, number) == became
    # Nobody was asked about the turn that was not to be kept.
    secret = script.sessions[2][2].text
    assert not any(secret in message.content for request in talk.table.asked for message in request.messages)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_of_the_same_sessions_the_same_is_kept_in_every_language(
    talk: ConversationFixture, language: str
) -> None:
    script = Script(language, is_careful=True)
    await talked(talk, script, EXPECTED)
    assert talk.ledger.conversation.counts(COMPANY, OWNER) == LayerCounts(
        semantic=8, episodic=4, procedural=2, superseded=1
    )
    (old,) = talk.facts(FactState.SUPERSEDED).values()
    assert (script.english[old.object], old.predicate) == ("Bergen", "LIVES_IN")
    active = {script.english[name] for name in talk.facts()}
    assert active == {"Mira Olsen", "walnuts", NURSE, "Oslo", "grandmother", SWIMMING, "Ida", "old maps"}
    assert {script.english[name] for name in talk.rules()} == {SHORT, LISTS}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_guards_know_every_language_without_the_help_of_a_careful_model(
    talk: ConversationFixture, language: str
) -> None:
    """The model quotes whole turns, would write everything at once, and sees no danger."""
    await talked(talk, Script(language, is_careful=False), CARELESS)
    assert talk.ledger.conversation.counts(COMPANY, OWNER) == LayerCounts(
        semantic=10, episodic=4, procedural=2, superseded=1
    )
