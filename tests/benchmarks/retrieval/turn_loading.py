"""LoCoMo asked by ``load_turn``, beside the same turns in the plain store: the evidence in 1,000 tokens of a prompt.

Each conversation is a person of an agent, and every turn one fact, made without a model: the speaker, SAID, the first
words, and what was said, cut to 500 characters. No model would keep so much: the replay measures what is found and how
much of it fits, not what is worth keeping. Why the store is ahead:

- A fact says its relation before the quote that says the same again. Fewer fit, and its first words are heavier than
  the others. The row of the store with the facts' texts tells how much that costs; the rest is the ranking.
- ``load_turn`` takes facts that share enough words with the question, or whose cosine reaches 0.5, as the reference
  says. The store has neighbours, answers, names and lengths count too.

Both leave out what is too far from the question, the store more of it: that is not why it is ahead.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from benchmarks.retrieval.conversations import Conversation
from benchmarks.retrieval.product import load
from benchmarks.stack import BenchStack, open_home, policy_of
from rich.console import Console
from rich.table import Table

from memcore.backends.base import fresh_record
from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import MemoryBackend, pages
from memcore.config.conversation import ConversationConfig
from memcore.conversation.entries import TurnContext, entry_of, format_working_memory_entries
from memcore.conversation.loading import TurnLoader
from memcore.conversation.service import Embedding
from memcore.evaluation.asking import LastUse, compare, ndcg
from memcore.evaluation.published import Turn
from memcore.ledger.conversation.memory import Commit
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import MAX_QUOTE_CHARS, Fact, FactCategory, Owner
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryStoreRequest
from memcore.records import Where
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.formatting import BETWEEN_MEMORIES, fit
from memcore.retrieval.protocol import DefaultTokenEstimator

#: Tokens of a prompt, and of one that holds all that was found.
BUDGET, _UNLIMITED = 1_000, 100_000

#: The most facts that the policy lets ``load_turn`` show: more than fit.
_SHOWN = 50

#: When the questions are asked: so long after the last turn.
_ASKED_AFTER = timedelta(hours=1)

#: Words of a turn that are the object of its fact.
_OBJECT_WORDS = 4

#: Words that make a turn an interest; every other one is an event.
_INTEREST_WORDS = frozenset({"love", "like", "enjoy", "hobby", "favorite", "fan"})

#: The company whose memories are the facts' texts, and memories written in one call.
_FACTS, _AT_ONCE = "facts", 1_024

_LOADED, _PLAIN, _SAME = "load_turn, facts", "store + prompt, the turns", "store + prompt, the facts' texts"


@dataclass(slots=True)
class _Held:
    """What the prompts of one way held, for each question."""

    shares: list[float] = field(default_factory=list)
    ndcg: list[float] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)

    def add(self, evidence: frozenset[str], shown: Sequence[str], found: Sequence[str]) -> None:
        self.shares.append(len(evidence & set(shown)) / len(evidence))
        self.ndcg.append(ndcg(found, evidence))
        self.shown.append(len(shown))
        self.found.append(len(found))

    def row(self) -> tuple[str, ...]:
        empty = sum(not shown for shown in self.shown)
        means = (f"{np.mean(scores):.4f}" for scores in (self.shares, self.ndcg))
        return *means, f"{np.mean(self.shown):.1f}", f"{np.mean(self.found):.1f}", str(empty)


def replayed(corpus: Sequence[Conversation], console: Console) -> None:
    """Replay the conversations, ask every question both ways, and print what the prompts held of its evidence."""
    held = {name: _Held() for name in (_LOADED, _PLAIN, _SAME)}
    with open_home(policy="memory:\n  level: persistent\n") as stack:
        load(stack, corpus)
        _ask_by_turn(stack, corpus, held[_LOADED])
        _ask_the_store(stack, stack.settings.company, corpus, held[_PLAIN])
        _store_facts(stack, corpus)
        _ask_the_store(stack, _FACTS, corpus, held[_SAME])
    cut = sum(len(turn.text) > MAX_QUOTE_CHARS for each in corpus for turn in each.turns)
    count = sum(len(each.turns) for each in corpus)
    table = Table(
        "", f"evidence at {BUDGET:,} tokens", "NDCG@10", "shown", "found", "nothing shown",
        title=f"{len(held[_LOADED].shares):,} questions about {count:,} turns, {cut} of them cut",
    )  # fmt: skip
    for name, row in held.items():
        table.add_row(name, *row.row())
    console.print(table)
    for other in (_PLAIN, _SAME):
        ahead = compare(held[_LOADED].shares, held[other].shares)
        console.print(
            f"{_LOADED}, against {other}: {ahead.mean:+.4f} of the evidence, 95 % of 10,000 paired resamples within "
            f"{ahead.low:+.4f} to {ahead.high:+.4f}"
        )
    console.print()


def fact_of(turn: Turn) -> Fact:
    """Return a turn as a fact, by a rule that needs no model; its id is the turn's name."""
    words = turn.text.split()
    is_interest = not _INTEREST_WORDS.isdisjoint(turn.text.lower().split())
    return Fact(
        fact_id=turn.name,
        category=FactCategory.INTEREST if is_interest else FactCategory.EVENT,
        subject=turn.speaker,
        predicate="SAID",
        object=" ".join(words[:_OBJECT_WORDS])[:100] or "nothing",
        evidence_quote=turn.text[:MAX_QUOTE_CHARS].strip() or "nothing",
        version=1,
        session_id=turn.session_id,
        created_at=turn.at,
        last_referenced_at=turn.at,
        changed_at=turn.at,
    )


def _ask_by_turn(stack: BenchStack, corpus: Sequence[Conversation], held: _Held) -> None:
    company, config = stack.settings.company, ConversationConfig(facts_shown=_SHOWN)
    with stack.backend(company) as (backend, runner), closing(Ledger.open(stack.settings.ledger_urls)) as ledger:

        async def open_backend() -> MemoryBackend:
            return backend

        for each in corpus:
            now = each.turns[-1].at + _ASKED_AFTER
            owner = Owner(agent_id=each.agent_id, subject="user:both")
            facts = tuple(map(fact_of, each.turns))
            vectors = runner.run(Embedding(backend, _always(now)).of(owner.agent_id, facts))
            if len(vectors) < len(facts):
                raise RuntimeError("not every fact got a vector")
            commit = Commit(facts=facts, vectors=vectors)
            ledger.conversation.write(company, owner, commit, expected=0, max_rules=config.max_rules)
            loader = TurnLoader(ledger, company=company, config=config, clock=_always(now))
            for question in each.questions:
                context = runner.run(
                    loader.load_turn(
                        owner, question.text, token_budget=BUDGET, is_first_turn=False, open_backend=open_backend
                    )
                )
                if context.reasons:
                    raise RuntimeError(f"a question was asked by halves: {context.reasons}")
                held.add(question.evidence, _shown(context), [fact.fact_id for fact in context.facts])


def _shown(context: TurnContext) -> list[str]:
    """Return the facts whose blocks stand in the context's text."""
    blocks = [context.model_copy(update={"facts": (fact,)}).text() for fact in context.facts]
    places = fit(blocks, estimator=DefaultTokenEstimator(), token_budget=context.token_budget)
    if BETWEEN_MEMORIES.join(blocks[place] for place in places) != context.text():
        raise RuntimeError("the text of a turn's context has other facts than those counted")
    return [context.facts[place].fact_id for place in places]


def _store_facts(stack: BenchStack, corpus: Sequence[Conversation]) -> None:
    """Give the plain store what a prompt says of each fact."""
    records = [
        fresh_record(
            each.agent_id,
            MemoryStoreRequest(
                category=MemoryCategory.EPISODIC,
                content=format_working_memory_entries([entry_of(fact_of(turn))]),
                metadata=MemoryMetadata(source=turn.name),
            ),
            company=_FACTS,
            now=turn.at,
        )
        for each in corpus
        for turn in each.turns
    ]
    with stack.backend(_FACTS) as (backend, runner):
        for start in range(0, len(records), _AT_ONCE):
            runner.run(backend.store_many(records[start : start + _AT_ONCE]))


def _ask_the_store(stack: BenchStack, company: str, corpus: Sequence[Conversation], held: _Held) -> None:
    config, last = policy_of(stack.settings).memory.retrieval, LastUse()
    with stack.backend(company) as (backend, runner):
        for each in corpus:
            agent_id, clock = each.agent_id, _always(each.turns[-1].at + _ASKED_AFTER)
            strategy = ContextInjectionStrategy(backend=backend, config=config, use_recorder=last, clock=clock)
            names = runner.run(_names(backend, agent_id))
            for question in each.questions:
                runner.run(strategy.prepare_messages(agent_id, question.text, BUDGET))
                shown = [names[memory_id] for memory_id in last.taken()]
                runner.run(strategy.prepare_messages(agent_id, question.text, _UNLIMITED))
                held.add(question.evidence, shown, [names[memory_id] for memory_id in last.taken()])


async def _names(backend: WorkerBackend, agent_id: str) -> Mapping[str, str]:
    records = [record async for page in pages(backend, Where(agent_id=agent_id)) for record in page]
    return {record.entry.id: str(record.entry.metadata.source) for record in records}


def _always(now: datetime) -> Callable[[], datetime]:
    return lambda: now
