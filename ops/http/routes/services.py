"""The parts of the service whose routes follow from its methods, but for one: the archive takes a query's fields."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AwareDatetime

from memcore.models.base import Frozen, naming_fields
from memcore.models.memory import MAX_TAGS, MemoryCategory, MemoryQuery
from memcore.service.archive import ArchivedMemory, ArchiveOperations
from memcore.service.dead_letters import DeadLetterOperations
from memcore.service.distrusts import DistrustOperations
from memcore.service.memory_tests import MemoryTestOperations
from memcore.service.org import OrgOperations
from memcore.service.skills import SkillOperations
from memcore.service.webhooks import WebhookOperations
from ops.http.access import ReadAgent
from ops.http.context import Service
from ops.http.declared import router_of

archive = router_of("archive", ArchiveOperations)


class ArchivePage(Frozen):
    """Archived memories: best first by words, newest first without a text.

    Attributes:
        total: how many of the agent's memories are in the archive.
    """

    memories: tuple[ArchivedMemory, ...]
    total: int


@archive.get("/agents/{agent_id}/archive")
async def search(
    agent_id: ReadAgent,
    service: Service,
    text: Annotated[str | None, Query(min_length=1, max_length=4_096)] = None,
    category: Annotated[list[MemoryCategory] | None, Query(max_length=len(MemoryCategory))] = None,
    namespace: Annotated[list[str] | None, Query(max_length=64)] = None,
    tag: Annotated[list[str] | None, Query(max_length=MAX_TAGS)] = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> ArchivePage:
    """Find archived memories by words, the best first; without a text the newest first."""
    with naming_fields():
        query = MemoryQuery.model_validate(
            {
                "text": text,
                "categories": frozenset(category) if category else None,
                "namespaces": frozenset(namespace) if namespace else None,
                "tags": tuple(tag or ()),
                "since": since,
                "until": until,
                "limit": limit,
            }
        )
    found = await service.archive.search(agent_id, query)
    return ArchivePage(memories=found, total=await service.archive.count(agent_id))


router = APIRouter()
# Included, they would be one route each for who looks at the routes of this module.
router.routes += archive.routes
router.routes += router_of("skills", SkillOperations).routes
router.routes += router_of("org", OrgOperations, tag="organisation").routes
router.routes += router_of("dead_letters", DeadLetterOperations).routes
router.routes += router_of("webhooks", WebhookOperations).routes
router.routes += router_of("distrusts", DistrustOperations).routes
router.routes += router_of("memory_tests", MemoryTestOperations).routes
