"""What is shown of a store to questions that it cannot answer, and what the least evidence costs those it can."""

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta

import numpy as np
from benchmarks.figure import Figure, Target
from benchmarks.nights.agents import START
from benchmarks.nights.facts import facts, lookalikes
from benchmarks.retrieval.conversations import conversations
from benchmarks.retrieval.product import with_memory
from benchmarks.stack import BenchStack, open_home, policy_of, store_said

from memcore.models.answers import Shown
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.retrieval.context import ContextInjectionStrategy

#: Of 100 questions without an answer so many may show anything; so many hundredths of NDCG@10 the others may lose.
_MOST_SHOWN, _MOST_LOST = 5.0, 1.0

#: Questions about other subjects than any fact's.
_OTHER = (
    "How do I descale the {}?",
    "What is the boiling point of {}?",
    "Who painted the {}?",
    "Why did the price of {} rise?",
    "Which museum shows the {}?",
    "How many calories are in {}?",
    "When was the {} discovered?",
    "Where can I buy a used {}?",
    "Is it legal to import {}?",
    "What does the error code of the {} mean?",
)
_SUBJECTS = ("coffee machine", "ethanol", "chapel ceiling", "copper", "Rosetta stone", "marzipan", "penicillin",
             "telescope", "ivory", "dishwasher")  # fmt: skip

#: Questions of each group.
_EACH = 100

#: Place in an answer up to which it counts.
_DEPTH = 10


def evidence() -> tuple[list[Figure], list[Target]]:
    """Ask both kinds of questions of one agent by search and by prompt."""
    known = [fact for place, fact in enumerate(facts()) if place % 2 == 0]
    others = [fact.question for place, fact in enumerate(facts()) if place % 2]
    unanswerable = [
        *others[:: len(others) // _EACH][:_EACH],
        *[form.format(subject) for form in _OTHER for subject in _SUBJECTS],
        *[fact.question for fact in lookalikes()[::2]][:_EACH],
    ]
    with open_home(policy="memory: {}\n") as stack:
        answerable = [(fact.question, {fact.text}) for fact in known]
        shown, lost = _asked(stack, "facts", [fact.text for fact in known], answerable, unanswerable)
        rows = [("questions without an answer", shown, [lost]), *_talks(stack)]
    targets = [
        Target(name=f"{name}: {what}", values=[100.0 * float(np.mean(values))], wanted=most, at_most=True)
        for name, some, losses in rows
        for what, values, most in (
            ("show anything, %", some, _MOST_SHOWN),
            ("the others lose, NDCG@10 in %", losses, _MOST_LOST),
        )
    ]
    return [], targets


def _talks(stack: BenchStack) -> Iterator[tuple[str, list[bool], list[float]]]:
    """Ask each conversation of LoCoMo its own questions and those of the others, where the data are there."""
    corpus = conversations()
    shown, losses = list[bool](), list[float]()
    for place, each in enumerate(corpus):
        foreign = [asked.text for other in corpus if other is not each for asked in other.questions]
        names = {turn.name: turn.stored_text for turn in each.turns}
        some, lost = _asked(
            stack,
            f"talk-{place}",
            list(names.values()),
            [(asked.text, {names[name] for name in asked.evidence}) for asked in each.questions],
            foreign[:: len(foreign) // _EACH][:_EACH],
        )
        shown += some
        losses += [lost] * len(each.questions)
    if corpus:
        yield "questions of other conversations", shown, losses


def _asked(
    stack: BenchStack,
    company: str,
    texts: Sequence[str],
    answerable: Sequence[tuple[str, set[str]]],
    unanswerable: Sequence[str],
) -> tuple[list[bool], float]:
    """Return for each question without an answer whether anything strong was shown, and what the others lost."""
    with stack.backend(f"evidence-{company}") as (backend, runner):
        begun = START - timedelta(days=40)
        said = ((text, begun + place * timedelta(minutes=1)) for place, text in enumerate(texts))
        runner.run(store_said(backend, said, company=company))
        policy = with_memory(policy_of(stack.settings), retrieval={"standing": Shown.STRONG})
        prompts = ContextInjectionStrategy.from_policy(policy, backend=backend, clock=lambda: START)
        shown = [
            bool(runner.run(backend.retrieve("agent", MemoryQuery(text=question, standing=Shown.STRONG))))
            or bool(runner.run(prompts.prepare_messages("agent", question, 1_000)))
            for question in unanswerable
        ]
        lost = [
            _ndcg(runner.run(backend.retrieve("agent", MemoryQuery(text=question, standing=Shown.ANY))), wanted)
            - _ndcg(runner.run(backend.retrieve("agent", MemoryQuery(text=question))), wanted)
            for question, wanted in answerable
        ]
    return shown, float(np.mean(lost))


def _ndcg(found: Sequence[MemoryEntry], wanted: set[str]) -> float:
    ranks = [place for place, entry in enumerate(found[:_DEPTH]) if entry.content in wanted]
    best = sum(1.0 / math.log2(place + 2) for place in range(min(_DEPTH, len(wanted))))
    return sum(1.0 / math.log2(place + 2) for place in ranks) / best
