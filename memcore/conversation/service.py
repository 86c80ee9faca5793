"""What the services of turns and of sessions' ends share: levels, switches, waits, vectors, reconciliation."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, Self

from memcore.backends.protocol import vector_backend_of
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.conversation import ConversationConfig
from memcore.conversation.entries import searched_text
from memcore.conversation.extraction import Asker
from memcore.conversation.reconciliation import Likeness, Reconciled, reconcile
from memcore.errors import MalformedAnswerError, MemoryError, ProviderError  # noqa: A004  # the reference fixes the name
from memcore.jobs import Deferred, Outcome
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.attempt import LEASE_RENEWAL, Attempt, RetryPolicy
from memcore.ledger.conversation.memory import Commit, Embedded, arc_key
from memcore.ledger.conversation.turns import Session, Turn
from memcore.ledger.ledger import Ledger
from memcore.llm.answer_cache import CachingModel
from memcore.llm.protocol import Model
from memcore.models.conversation import Arc, Fact, Owner, ProfileRule
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryLevel, experience_refusal
from memcore.models.origin import AUTHORITIES, Authority, Channel
from memcore.telemetry.events import Event

#: A turn, or the end of a session, is given up after more than three days.
RETRY = RetryPolicy(attempts=21, first_delay=timedelta(minutes=1), longest_delay=timedelta(hours=6))

#: How often a step decides anew because another one has written the owner's memory: more workers than that do not
#: work for one person at once.
MAX_ROUNDS = 20

#: Wait after so many rounds.
BUSY_DELAY = timedelta(seconds=5)

_log = logging.getLogger(__name__)


def refused_level(ledger: Ledger, company: str, agent_id: str, *, level: MemoryLevel) -> str | None:
    """Return why nothing is kept of what people say to an agent, by its level; None where it is kept."""
    own = ledger.agents.levels(company, [agent_id]).get(agent_id, level)
    if own is MemoryLevel.NONE:
        return "level none: nothing is kept for this agent"
    if experience_refusal(own) is not None:
        return f"level {own}: what is known of a person outlives its {own}"
    return None


def key_of(entry: Fact | Arc) -> str:
    """Return the id under which a commit takes the vector of a fact or an arc."""
    return arc_key(entry.session_id) if isinstance(entry, Arc) else entry.fact_id


@dataclass(frozen=True, eq=False)
class Embedding:
    """Makes the vectors of what is kept, each once; without a backend that makes vectors there are none."""

    backend: object
    clock: Clock
    made: dict[str, Embedded] = field(default_factory=dict[str, Embedded])

    async def of(self, agent_id: str, wanted: Iterable[Fact | Arc]) -> dict[str, Embedded]:
        """Return the vectors by id; none where the embedder fails: what is kept is found by its words."""
        backend, space = vector_backend_of(self.backend), getattr(self.backend, "vector_space", None)
        texts = {key_of(each): searched_text(each) for each in wanted}
        new = [key for key in texts if key not in self.made]
        if backend is not None and space is not None and new:
            entries = [self._entry(agent_id, key, texts[key]) for key in new]
            try:
                vectors = await backend.document_vectors(entries)
            except MemoryError as error:
                about = {"agent_id": agent_id, "entries": len(new), "error": type(error).__name__}
                _log.warning(Event.CONVERSATION_EMBEDDING_FAILED, extra=about)
            else:
                self.made.update({key: Embedded(space, each.dense) for key, each in zip(new, vectors, strict=True)})
        return {key: self.made[key] for key in texts if key in self.made}

    def _entry(self, agent_id: str, key: str, text: str) -> MemoryEntry:
        return MemoryEntry(
            id=key, agent_id=agent_id, category=MemoryCategory.SEMANTIC, content=text, created_at=self.clock()
        )


def written_by(commit: Commit) -> dict[str, Any]:
    """Return the ids of what a commit writes and changes, for people who ask what came of a turn or a session."""
    return {
        "written": sorted([fact.fact_id for fact in commit.facts] + [rule.rule_id for rule in commit.rules]),
        "bumped": sorted(commit.bumped),
        "replaced": dict(sorted(commit.superseded.items())),
    }


class Candidates(NamedTuple):
    """New facts and rules that are to be written, if nothing known says the same."""

    facts: Sequence[Fact]
    rules: Sequence[ProfileRule]


async def reconciled(
    ledger: Ledger,
    asker: Asker,
    owner: Owner,
    new: Candidates,
    embedding: Embedding,
    *,
    authorities: Mapping[Channel, Authority],
) -> tuple[Reconciled, int]:
    """Return what becomes of new facts and rules, and the owner's version at which that holds.

    What is distrusted is written as it is: it takes no other's place, and nothing said again is taken for it.
    """
    company, hidden = asker.company, ledger.hidden.of(asker.company)

    def is_trusted(each: Fact | ProfileRule) -> bool:
        return not hidden.distrusts_origin(owner.agent_id, each.origin)

    given, new = new, Candidates(list(filter(is_trusted, new.facts)), list(filter(is_trusted, new.rules)))
    # The version first: what is written behind it makes the commit fail, not what was read.
    expected = ledger.conversation.state(company, owner).version
    known = ledger.conversation.searchable(company, owner) if new.facts else ()
    known_facts = [each.entry for each in known if isinstance(each.entry, Fact) and is_trusted(each.entry)]
    vectors = {key_of(each.entry): each.embedded for each in known if each.embedded is not None}
    if vectors:
        vectors |= await embedding.of(owner.agent_id, new.facts)
    known_rules = ledger.conversation.rules(company, owner) if new.rules else ()
    known_rules = tuple(filter(is_trusted, known_rules))
    found = await reconcile(
        asker,
        new.facts,
        new.rules,
        known_facts=known_facts,
        known_rules=known_rules,
        likeness=Likeness(vectors),
        authorities=authorities,
    )
    facts = [each for each in given.facts if not is_trusted(each)]
    rules = [each for each in given.rules if not is_trusted(each)]
    return (found.beside(facts, rules) if facts or rules else found), expected


@dataclass(frozen=True, eq=False)
class ConversationService:
    """What the services of turns and of ends share; each serves one company."""

    ledger: Ledger
    config: ConversationConfig
    _: KW_ONLY
    backend: object
    company: str
    level: MemoryLevel
    model: Model | None
    clock: Clock = utc_now
    renewal: timedelta = LEASE_RENEWAL
    authorities: Mapping[Channel, Authority] = AUTHORITIES

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        memory = context.policy.memory
        return cls(
            context.ledger,
            memory.conversation,
            backend=context.backend,
            company=context.company,
            level=memory.level,
            model=context.model,
            clock=context.clock,
            authorities=memory.origins.authority,
        )

    def check_switch(self, record: Turn | Session) -> None:
        """Raise MaintenancePausedError while a person has paused the agent, the company or everything."""
        check_kill_switch(self.ledger.agents, self.company, record.agent_id)

    def asker(self, model: Model, agent_id: str, run_id: str) -> Asker:
        """Return what asks the model for one turn or one session."""
        return Asker(
            model=CachingModel(model, self.ledger.answers),
            config=self.config,
            company=self.company,
            agent_id=agent_id,
            run_id=run_id,
        )

    def postponed(self, attempt: Attempt[Any], work: Any, key: str, tries: int, error: ProviderError) -> Outcome:
        """Let a turn or an end wait for a model that does not answer or refuses; its tries are counted."""
        if isinstance(error, MalformedAnswerError):
            # A kept answer would be as malformed the next time.
            self.ledger.answers.forget(self.company, key)
        until = self.clock() + RETRY.delay(tries)
        reason = f"the language model: {type(error).__name__}; try {tries}, the next at {until:%H:%M}"
        work.wait(self.company, key, attempt.token, until=until, reason=reason)
        about = {"company": self.company, "key": key, "tries": tries, "error": type(error).__name__}
        _log.info(Event.CONVERSATION_MODEL_AWAY, extra=about)
        return Deferred(reason=reason)

    def busy(self, attempt: Attempt[Any], key: str) -> Outcome:
        """Let a turn or an end wait whose person's memory others write all the time."""
        _log.warning(Event.CONVERSATION_OWNER_BUSY, extra={"company": self.company, "key": key})
        return attempt.wait("other steps write this person's memory", BUSY_DELAY)
