"""The effects of the keys of conversation memory."""

import asyncio
from contextlib import closing
from datetime import timedelta

from memcore.backends.protocol import MemoryBackend
from memcore.config.policy import Policy
from memcore.conversation.loading import TurnLoader
from memcore.ledger.ledger import Ledger
from support.config_effects import COMPANY, Effect, Place
from support.kept_conversations import arc, fact, keep, owner, without_vectors
from support.ledger_records import StoppedClock


def turn_loaded(place: Place, policy: Policy) -> object:
    """What an agent is shown before a reply, of a person with many facts and sessions, one of them older."""
    clock = StoppedClock()
    days = (40, 9, 8, 7, 6)

    async def open_backend() -> MemoryBackend:
        return without_vectors()

    with closing(Ledger.open(place.settings().ledger_urls, clock=clock)) as ledger:
        facts = (fact(f"f-{number}", "my boss shouts", at=clock.now) for number in range(9))
        arcs = (arc(f"s-{day}", "a talk about the boss", at=clock.now - timedelta(days=day)) for day in days)
        keep(ledger, owner(), *facts, *arcs, company=COMPANY)
        loader = TurnLoader(ledger, company=COMPANY, config=policy.memory.conversation, clock=clock)
        context = asyncio.run(loader.load_turn(owner(), "my boss", is_first_turn=False, open_backend=open_backend))
    return [each.fact_id for each in context.facts], [each.session_id for each in context.arcs]


EFFECTS = {
    "memory.conversation.facts_shown": Effect(turn_loaded, 2),
    "memory.conversation.arcs_shown": Effect(turn_loaded, 1),
    "memory.conversation.arc_days": Effect(turn_loaded, 50),
}
