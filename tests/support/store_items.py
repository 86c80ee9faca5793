"""Store items as a client builds them."""

from datetime import datetime, timedelta
from typing import Any

from memcore.client.envelopes import Scope, build_payload
from memcore.jobs import StoreItem
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryStoreRequest
from support.memories import NOW


def item(
    content: str = "a note",
    *,
    agent_id: str = "ada",
    company: str = "acme",
    sent_at: datetime = NOW,
    created_at: datetime | None = None,
    tags: tuple[str, ...] = (),
    expires_in: timedelta | None = None,
    session_id: str | None = None,
    key: str | None = None,
    attributes: dict[str, Any] | None = None,
    namespace: str = "default",
) -> StoreItem:
    """Return the item of one memory."""
    request = MemoryStoreRequest(
        category=MemoryCategory.SEMANTIC,
        content=content,
        metadata=MemoryMetadata(tags=tags),
        expires_at=sent_at + expires_in if expires_in else None,
        key=key,
        attributes=attributes or {},
        namespace=namespace,
    )
    return build_payload(
        agent_id,
        request,
        company=company,
        scope=Scope(session_id=session_id),
        sent_at=sent_at,
        created_at=created_at,
    )
