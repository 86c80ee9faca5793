"""One call that an engine makes; its content follows from seed and number."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memcore import MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.client.results import StoreReceipt
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryStoreRequest

#: Shares of the calls: most engines store what they learn as they learn it.
_SHARES = {"store": 0.6, "store_many": 0.3, "import": 0.1}

#: Most memories in one call of store_many, and in one import.
_MANY, _IMPORTED = 6, 16

#: Days that an imported memory is old: with the policy of the chaos run some are past their retention, some are old
#: enough to be merged, some are left alone.
_AGES_DAYS = (0, 2, 20, 40, 200)

_SUBJECTS = ("the build", "the customer", "the invoice", "the release", "the meeting", "the parser", "the contract")
_EVENTS = ("was delayed by a day", "needs a second look", "went better than planned", "asked for a new date")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCall:
    """One call of the client, ready to be made as often as it takes.

    Attributes:
        memories: agent, memory, and its age in days when it is imported.
    """

    call: str
    memories: Sequence[tuple[str, MemoryStoreRequest, int]]

    def run(self, client: MemoryClient) -> StoreReceipt:
        """Make the call; a repeated call has the same ids."""
        requests = [request for _, request, _ in self.memories]
        agent_id = self.memories[0][0]
        match self.call:
            case "store":
                return client.store(agent_id, requests[0], track=False)
            case "store_many":
                return client.store_many(agent_id, requests, track=False)
            case _:
                return client.import_many(self._records(), track=False)

    def _records(self) -> Iterator[ImportRecord]:
        now = datetime.now(UTC)
        for agent_id, request, age_days in self.memories:
            created_at = now - timedelta(days=age_days) if age_days else None
            # The youngest of the old ones carry an end of their own that has passed.
            expires_at = now - timedelta(days=1) if age_days == _AGES_DAYS[1] else None
            yield ImportRecord(
                agent_id=agent_id,
                created_at=created_at,
                category=request.category,
                content=request.content,
                metadata=request.metadata,
                expires_at=expires_at,
            )


def engine_calls(seed: int, *, engine: int, count: int, agents: Sequence[str]) -> Iterator[EngineCall]:
    """Yield what one engine has to do; no two memories of a chaos run have the same text."""
    dice = random.Random(f"errands {seed} {engine}")
    for number in range(count):
        (call,) = dice.choices(list(_SHARES), list(_SHARES.values()))
        size = {"store": 1, "store_many": dice.randint(2, _MANY), "import": dice.randint(2, _IMPORTED)}[call]
        owner = dice.choice(agents)
        yield EngineCall(
            call=call,
            memories=[
                (
                    dice.choice(agents) if call == "import" else owner,
                    _request(dice, f"{engine}-{number}-{place}"),
                    dice.choice(_AGES_DAYS) if call == "import" else 0,
                )
                for place in range(size)
            ],
        )


def _request(dice: random.Random, name: str) -> MemoryStoreRequest:
    return MemoryStoreRequest(
        category=dice.choice(list(MemoryCategory)),
        content=f"Note {name}: {dice.choice(_SUBJECTS)} {dice.choice(_EVENTS)}.",
        metadata=MemoryMetadata(confidence=round(dice.uniform(0.2, 1.0), 2)),
    )
