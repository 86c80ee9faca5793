"""A memory query as SQL over the archive: filters, words, order and limit are all the database's work."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Subquery, func, select

from memcore.embedding.bm25 import DEFAULT_K1, Bm25Encoder
from memcore.ledger.archive_rows import label
from memcore.ledger.archive_tables import OUT, archive, archive_tags, archive_terms
from memcore.models import MAX_TAGS, MemoryQuery

#: Columns of an entry without its vectors, which only a restore needs.
_COLUMNS = [column for column in archive.c if column.name not in {"dense", "sparse_indices", "sparse_values"}]

#: Terms of a question that are looked up; more than any question has, and well below SQLite's limit of values.
_MAX_TERMS = 1_000

#: No term weighs as much as this in any text: the limit that the weight nears as the term is repeated.
_HEAVIEST = DEFAULT_K1 + 1.0


def matching(company: str, agent_id: str, query: MemoryQuery) -> Select[Any] | None:
    """Return the statement that finds what is out and matches; None when nothing can match."""
    if len(query.tags) > MAX_TAGS:
        return None
    if query.text is None:
        owner = (archive.c.company == company) & (archive.c.agent_id == agent_id)
        found = select(*_COLUMNS).where(owner, OUT, *_filters(query))
        return found.order_by(archive.c.created_at.desc(), archive.c.archival_id).limit(query.limit)
    terms = Bm25Encoder().encode_query(query.text).indices[:_MAX_TERMS]
    if not terms:
        # The question says nothing that a text could be found by.
        return None
    best = _best(company, agent_id, query, terms)
    order = (best.c.relevance.desc(), archive.c.created_at.desc(), archive.c.archival_id)
    return select(*_COLUMNS).join(best, best.c.archival_id == archive.c.archival_id).order_by(*order)


def _best(company: str, agent_id: str, query: MemoryQuery, terms: Sequence[int]) -> Subquery:
    relevance = func.sum(archive_terms.c.weight) / (len(terms) * _HEAVIEST)
    # The owner is looked up in the terms alone. Said of the entries too, it offers PostgreSQL an index by owner for the
    # join, and as long as it has no statistics it takes that, and compares every entry with every other.
    return (
        select(archive.c.archival_id, relevance.label("relevance"))
        .join_from(archive_terms, archive, archive.c.archival_id == archive_terms.c.archival_id)
        .where(archive_terms.c.company == company, archive_terms.c.agent_id == agent_id)
        .where(archive_terms.c.term.in_(terms), OUT, *_filters(query))
        .group_by(archive.c.archival_id)
        .having(relevance >= query.min_relevance)
        .order_by(relevance.desc(), archive.c.created_at.desc(), archive.c.archival_id)
        .limit(query.limit)
        .subquery()
    )


def _filters(query: MemoryQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.categories is not None:
        found.append(archive.c.category.in_(sorted(query.categories)))
    if query.namespaces is not None:
        found.append(archive.c.namespace.in_(sorted(map(label, query.namespaces))))
    if query.since is not None:
        found.append(archive.c.created_at >= query.since)
    if query.until is not None:
        found.append(archive.c.created_at < query.until)
    if query.tags:
        wanted = sorted(set(map(label, query.tags)))
        has = archive_tags.c.archival_id == archive.c.archival_id
        present = select(func.count()).select_from(archive_tags).where(has, archive_tags.c.tag.in_(wanted))
        found.append(present.scalar_subquery() == len(wanted))
    return found
