"""The handwritten memories: one page an agent, grouped by category and namespace."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

from examples.demo.fleet.day import moment
from examples.demo.fleet.memory import FleetMemory
from examples.demo.fleet.pages import page
from examples.demo.fleet.phrases import Phrases
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryStoreRequest


class HandwrittenMemory(Frozen):
    """One handwritten memory.

    Attributes:
        days_ago: its age in days at the start of today; the fraction gives the hour.
        expires_in_days: counted from its creation.
        again_after_days: when the agent sends the very same text a second time.
    """

    days_ago: float
    text: NotBlankStr
    key: str | None = None
    source: str | None = None
    tags: tuple[str, ...] = ()
    confidence: float = 1.0
    expires_in_days: float | None = None
    again_after_days: float | None = None


def handwritten(agent_id: str, today: datetime) -> Iterator[FleetMemory]:
    """Yield what a person wrote for the agent, exact duplicates included."""
    phrases = Phrases({}, Random(agent_id), today)  # noqa: S311 - handwritten texts hold dates only, nothing is drawn
    for group, rows in page(f"told/{agent_id}.yaml").items():
        category, namespace = group.split("/")
        for row in rows:
            item = HandwrittenMemory.model_validate(row)
            created_at = moment(today, item.days_ago)
            request = MemoryStoreRequest(
                category=MemoryCategory(category),
                namespace=namespace,
                content=phrases.fill(item.text, item.days_ago),
                metadata=MemoryMetadata(source=item.source, confidence=item.confidence, tags=item.tags),
                expires_at=None if item.expires_in_days is None else created_at + timedelta(days=item.expires_in_days),
            )
            yield FleetMemory(agent_id=agent_id, key=item.key, created_at=created_at, request=request)
            if item.again_after_days is not None:
                again = moment(today, item.days_ago - item.again_after_days)
                yield FleetMemory(agent_id=agent_id, created_at=again, request=request)
