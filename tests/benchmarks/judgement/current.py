"""Which of two memories that contradict one another comes first, and whether facts of one form are confused."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from benchmarks.figure import Figure, Target
from benchmarks.nights.agents import START
from benchmarks.nights.facts import contradictions, facts, lookalikes
from benchmarks.stack import open_home, policy_of, store_said

from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import scanned
from memcore.models.memory import MemoryCategory, MemoryQuery
from memcore.records import MemoryRecord, Where
from memcore.retrieval.conflicts import conflicts
from memcore.retrieval.context import ContextInjectionStrategy

#: What was said first, what is true since, in other words, and the question.
_CHANGED = (
    ("{who} lives in {a}.", "{who} has moved to {b}.", "Where does {who} live?", "Bergen", "Porto"),
    ("{who} drinks {a} in the morning.", "{who} drinks {b} in the morning since the doctor advised it.",
     "What does {who} drink in the morning?", "black coffee", "rooibos"),
    ("The favourite colour of {who} is {a}.", "{who} says that the favourite colour is {b} these days.",
     "What is the favourite colour of {who}?", "teal", "ochre"),
    ("{who} works for {a}.", "{who} works for {b} since spring.", "Whom does {who} work for?",
     "Norrland Rail", "Kite & Co"),
    ("The car of {who} is a {a}.", "{who} sold it, and the car is now a {b}.", "Which car does {who} have?",
     "green Saab", "white Fiat"),
    ("{who} meets the trainer on {a}.", "The trainer of {who} comes on {b} from now on.",
     "When does {who} meet the trainer?", "Mondays", "Thursdays"),
    ("The project of {who} is due on {a}.", "The project of {who} was put off; it is due on {b}.",
     "When is the project of {who} due?", "3 March", "19 June"),
    ("{who} prefers answers in {a}.", "{who} prefers answers in {b} now.",
     "Which language does {who} prefer for answers?", "French", "Dutch"),
    ("The budget of {who} is {a} euros.", "The budget of {who} was raised to {b} euros.",
     "What is the budget of {who}?", "4,000", "6,500"),
    ("{who} takes {a} against the pain.", "Instead of the old pills {who} takes {b} against the pain.",
     "What does {who} take against the pain?", "ibuprofen", "paracetamol"),
    ("The son of {who} goes to {a}.", "The son of {who} changed school and goes to {b}.",
     "Where does the son of {who} go to school?", "Linden School", "Hill Academy"),
    ("{who} plays {a} in the club.", "{who} gave that up and plays {b} in the club.",
     "What does {who} play in the club?", "badminton", "squash"),
)  # fmt: skip

_PEOPLE = ("Ayla", "Bruno", "Chidi", "Doreen", "Eskil", "Fumiko", "Gert", "Hanane", "Ilja")

#: Days between the two, mixed.
_GAPS = (1, 10, 60, 300)

#: Shares, in percent.
_NEWER_FIRST, _BOTH_DATED, _LISTED, _CONFUSED = 95.0, 95.0, 95.0, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    old: str
    new: str
    question: str


def current() -> tuple[list[Figure], list[Target]]:
    """Ask for what changed, and for facts that only look alike."""
    same_words = [_Pair(old=old.text, new=new.text, question=new.question) for old, new in contradictions()]
    reworded = [
        _Pair(old=old.format(who=who, a=a), new=new.format(who=who, b=b), question=question.format(who=who))
        for old, new, question, a, b in _CHANGED
        for who in _PEOPLE
    ]
    random, said = Random(7), list[tuple[str, datetime]]()
    for pair in (*same_words, *reworded):
        first = START - timedelta(days=random.uniform(310, 700))
        said += [(pair.old, first), (pair.new, first + timedelta(days=random.choice(_GAPS)))]
    alike = lookalikes()
    said += [(each.text, START - timedelta(days=random.uniform(1, 700))) for each in (*alike, *facts())]
    with open_home(policy="memory: {}\n") as stack, stack.backend("current") as (backend, runner):
        runner.run(store_said(backend, said, company="evidence-current", category=MemoryCategory.SEMANTIC))
        strategy = ContextInjectionStrategy.from_policy(policy_of(stack.settings), backend=backend, clock=lambda: START)
        targets = list[Target]()
        page = runner.run(_records(backend))
        known = conflicts([each.entry for each in page])
        forms = {each.text for each in alike}
        ill = {each.newer.content for each in known if {each.older.content, each.newer.content} <= forms}
        targets.append(
            _target(
                "facts of one form listed as conflicts, %", [each in ill for each in forms], _CONFUSED, at_most=True
            )
        )
        for name, pairs in (("of one wording", same_words), ("in other words", reworded)):
            ahead = [runner.run(_is_newer_first(backend, pair)) for pair in pairs]
            dated = [runner.run(_are_both_dated(strategy, pair)) for pair in pairs]
            listed = {(each.older.content, each.newer.content) for each in known}
            targets += [
                _target(
                    f"{len(pairs)} changes {name}: listed as conflicts, %",
                    [(pair.old, pair.new) in listed for pair in pairs],
                    _LISTED,
                ),
                _target(f"{len(pairs)} changes {name}: the newer first, %", ahead, _NEWER_FIRST),
                _target(f"{len(pairs)} changes {name}: both with dates in a prompt, %", dated, _BOTH_DATED),
            ]
        wrong = [
            (runner.run(backend.retrieve("agent", MemoryQuery(text=each.question, limit=1))) or (None,))[0]
            for each in alike
        ]
        confused = [found is None or found.content != each.text for found, each in zip(wrong, alike, strict=True)]
        targets.append(_target("facts of one form that are confused, %", confused, _CONFUSED, at_most=True))
    return [], targets


def _target(name: str, held: Sequence[bool], wanted: float, *, at_most: bool = False) -> Target:
    return Target(name=name, values=[100.0 * sum(held) / len(held)], wanted=wanted, at_most=at_most)


async def _records(backend: WorkerBackend) -> list[MemoryRecord]:
    return [record async for page in scanned(backend, Where(agent_id="agent")) for record in page]


async def _is_newer_first(backend: WorkerBackend, pair: _Pair) -> bool:
    found = [entry.content for entry in await backend.retrieve("agent", MemoryQuery(text=pair.question))]
    return pair.new in found and (pair.old not in found or found.index(pair.new) < found.index(pair.old))


async def _are_both_dated(strategy: ContextInjectionStrategy, pair: _Pair) -> bool:
    prompt = "".join(each.content for each in await strategy.prepare_messages("agent", pair.question, 1_000))
    return all(re.search(rf'date="[-0-9]+"[^>]*>\n{re.escape(text)}', prompt) for text in (pair.old, pair.new))
