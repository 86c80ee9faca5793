"""What came of a distrusted source through any number of merges, and the clean memories that these have taken."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from memcore.ledger.ledger import Ledger
from memcore.ledger.lineage import Exchange
from memcore.models.distrust import DistrustRule
from memcore.models.experience import DetailedExperience
from memcore.records import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What came of a distrusted source in an agent.

    Attributes:
        memory_ids: what the rule takes, and all that was made of it, wherever it is now.
        clean: memories that are not of it and went into something of it, wherever they are now.
        taken: those of them that are gone, each with the entry by which something of it took its place.
    """

    memory_ids: frozenset[str]
    clean: frozenset[str]
    taken: dict[str, str]


def reach_of(ledger: Ledger, company: str, agent_id: str, rule: DistrustRule, *, stored: Collection[str] = ()) -> Reach:
    """Return what came of a source in an agent through any number of merges.

    ``stored`` are memories in the store that the rule takes. What has left the store is known while journal or archive
    hold it; what was made of it, as long as the journal knows who went into what. Raises MemoryConnectionError.
    """
    found = {each.entry.id for each in ledger.lineage.held(company, agent_id) if rule.takes(each.entry)} | {*stored}
    if rule.memory_id is not None and ledger.lineage.moves(company, agent_id, [rule.memory_id]):
        found.add(rule.memory_id)
    if not rule.follows_origin and rule.session_id is None:
        # What was compressed of it carries its origin, and neither its source nor its time.
        found.update(_experiences(ledger, company, agent_id, rule))
    derivations, learned = ledger.lineage.derivations(company, agent_id), ledger.lineage.learned(company, agent_id)
    # A new text is its writer's own, whose origin says so; another rule may know the old one alone.
    lead_on = [each for each in derivations if each.reason == "consolidated" or not rule.follows_origin]
    level = frozenset(found)
    while level:
        made = {new for each in lead_on if not level.isdisjoint(each.outgoing) for new in each.incoming}
        made |= {new for task, new in learned if task in level}
        level = frozenset(made - found)
        found |= level
    mixed = [each for each in derivations if not found.isdisjoint(each.incoming)]
    clean = frozenset(old for each in mixed for old in each.outgoing if old not in found)
    return Reach(memory_ids=frozenset(found), clean=clean, taken=_taken(ledger, mixed, clean))


def _experiences(ledger: Ledger, company: str, agent_id: str, rule: DistrustRule) -> Iterator[str]:
    last: DetailedExperience | None = None
    while page := ledger.experiences.page(company, agent_id, before=last):
        yield from (each.id for each in page if rule.takes_experience(each))
        last = page[-1]


def reach_learned(
    ledger: Ledger,
    company: str,
    agent_id: str,
    task_id: str,
    memories: Collection[MemoryRecord],
    *,
    learned: str,
    experience: DetailedExperience | None = None,
) -> None:
    """Let the distrusts of a finished task reach the memory that is made of it; it has left ``memories``.

    ``experience`` is the raw one where the memory is made of that.
    """
    for each in ledger.hidden.of(company).distrusts:
        is_of_it = any(each.rule.takes(memory.entry) for memory in memories)
        is_of_it |= experience is not None and each.rule.takes_experience(experience)
        if is_of_it or task_id in ledger.distrusts.reached(company, each.distrust_id).get(agent_id, ()):
            ledger.distrusts.reach(company, each.distrust_id, agent_id, [learned])


def _taken(ledger: Ledger, mixed: Collection[Exchange], clean: Collection[str]) -> dict[str, str]:
    entries = {each.booking_id: each for each in mixed}
    gone = {old: entries[by] for old, by in ledger.journal.taken_by(clean).items() if by in entries}
    # Whoever deleted what they went into meant them, too.
    deleted = {
        booking_id: were_deleted(ledger, frozenset(entries[booking_id].incoming))
        for booking_id in {each.booking_id for each in gone.values()}
    }
    return {old: each.booking_id for old, each in gone.items() if not deleted[each.booking_id]}


def were_deleted(ledger: Ledger, memory_ids: frozenset[str]) -> bool:
    """Return whether an engine or a person has deleted any of these memories, or what they went into."""
    met: set[str] = set()
    level = memory_ids
    while level:
        met |= level
        gone = ledger.journal.gone(level).values()
        if any(reason == "deleted" for _, reason in gone):
            return True
        exchanges = ledger.lineage.exchanges({booking_id for booking_id, _ in gone})
        level = frozenset(each for exchange in exchanges.values() for each in exchange.incoming) - met
    return False
