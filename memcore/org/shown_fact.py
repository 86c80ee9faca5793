"""A version of a fact as the vector store shows it, among the shared knowledge of the company."""

from collections.abc import Collection
from typing import NamedTuple

from memcore import ids
from memcore.backends.facts import ORGANISATION
from memcore.backends.record import MemoryRecord
from memcore.config.write_access import OrgFactCategory
from memcore.models import MAX_TAGS, MemoryCategory, MemoryEntry, MemoryMetadata
from memcore.org_models import OperationLogEntry
from memcore.retrieval.memory_filter import NON_INFERABLE_TAG

_NAMESPACE = "org:"
_VERSION_TAG = "version:"


class Shown(NamedTuple):
    """Which version of which fact an entry of the store shows."""

    fact_id: str
    version: int


def shown_id(company: str, fact_id: str, version: int) -> str:
    """Return the id under which the store shows a version of a fact."""
    return ids.shown_fact_id(company=company, fact_id=fact_id, version=version)


def record_of(company: str, line: OperationLogEntry) -> MemoryRecord:
    """Return the record that shows what a line published; it has the same text, and its tags as far as they fit."""
    if line.content is None or line.category is None:
        raise ValueError("a retraction shows nothing")
    # Nobody infers what an organisation agreed on: where prompts hold such memories alone, facts are among them.
    own = (f"{_VERSION_TAG}{line.version}", NON_INFERABLE_TAG)
    tags = dict.fromkeys((*own, *line.tags[: MAX_TAGS - len(own)]))
    entry = MemoryEntry(
        id=shown_id(company, line.fact_id, line.version),
        agent_id=ORGANISATION,
        namespace=namespace_of(line.category),
        category=MemoryCategory.SEMANTIC,
        content=line.content,
        metadata=MemoryMetadata(source=line.fact_id, tags=tuple(tags)),
        created_at=line.timestamp,
    )
    return MemoryRecord(entry=entry)


def shown_by(entry: MemoryEntry) -> Shown | None:
    """Return which fact an entry shows; None for one that is no fact."""
    source, tag = entry.metadata.source, next(iter(entry.metadata.tags), "")
    version = tag.removeprefix(_VERSION_TAG)
    if entry.agent_id != ORGANISATION or source is None or not version.isdecimal():
        return None
    return Shown(source, int(version))


def namespace_of(category: OrgFactCategory) -> str:
    """Return the namespace in which facts of a category are shown."""
    return f"{_NAMESPACE}{category}"


def category_in(namespace: str) -> str:
    """Return the category that a namespace of facts names."""
    return namespace.removeprefix(_NAMESPACE)


def namespaces_of(categories: Collection[OrgFactCategory] | None) -> frozenset[str] | None:
    """Return the namespaces of categories; None for all."""
    return None if categories is None else frozenset(map(namespace_of, categories))
