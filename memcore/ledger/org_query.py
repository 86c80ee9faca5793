"""What is asked of the facts of an organisation, as SQL: filters, words, times and order are the database's work."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, func, literal_column, select

from memcore.config.write_access import OrgFactCategory
from memcore.ledger.ledger_tables import org_facts, org_log, org_terms

_PUBLISHED = org_log.c.operation == "PUBLISH"


def standing(company: str, categories: Collection[OrgFactCategory] | None) -> ColumnElement[bool]:
    """Return the condition for facts that are published and not retracted."""
    found = and_(org_facts.c.company == company, org_facts.c.retracted_at.is_(None))
    return found if categories is None else found & org_facts.c.category.in_(sorted(categories))


def spread(company: str, terms: Collection[int]) -> Select[*tuple[Any, ...]]:
    """Return the statement that counts, for each of the terms, the facts that have it."""
    mine = (org_terms.c.company == company) & org_terms.c.term.in_(terms)
    return select(org_terms.c.term, func.count().label("facts")).where(mine).group_by(org_terms.c.term)


def best(
    company: str, worth: Mapping[int, float], *, categories: Collection[OrgFactCategory] | None, limit: int
) -> Select[*tuple[Any, ...]]:
    """Return the statement that ranks facts by the sum of their terms' weights, each times what the term is worth."""
    relevance = func.sum(org_terms.c.weight * case(dict(worth), value=org_terms.c.term, else_=0.0))
    of_fact = and_(org_terms.c.company == org_facts.c.company, org_terms.c.fact_id == org_facts.c.fact_id)
    order = (org_facts.c.created_at.desc(), org_facts.c.fact_id)
    hits = (
        select(org_facts.c.fact_id, relevance.label("relevance"))
        .join_from(org_terms, org_facts, of_fact)
        .where(org_terms.c.company == company, org_terms.c.term.in_(worth), standing(company, categories))
        .group_by(org_facts.c.fact_id, org_facts.c.created_at)
        .order_by(relevance.desc(), *order)
        .limit(limit)
        .subquery()
    )
    return (
        select(org_facts, hits.c.relevance)
        .join_from(hits, org_facts, hits.c.fact_id == org_facts.c.fact_id)
        .where(org_facts.c.company == company)
        .order_by(hits.c.relevance.desc(), *order)
    )


def as_of(company: str, at: datetime, *, after: str, limit: int) -> Select[*tuple[Any, ...]]:
    """Return the statement that reads off the log how each fact stood at a time, by fact id."""
    version = org_log.c.version
    ends = (
        select(
            org_log.c.fact_id,
            func.max(version).label("version"),
            func.max(version).filter(_PUBLISHED).label("published"),
            func.min(org_log.c.at).label("created_at"),
        )
        .where(org_log.c.company == company, org_log.c.at <= at, org_log.c.fact_id > after)
        .group_by(org_log.c.fact_id)
        .order_by(org_log.c.fact_id)
        .limit(limit)
        .subquery()
    )
    last, text = org_log.alias("last"), org_log.alias("text")
    retracted_at = case((last.c.operation == "RETRACT", last.c.at), else_=literal_column("NULL"))
    return (
        select(
            ends.c.fact_id,
            ends.c.version,
            ends.c.created_at,
            retracted_at.label("retracted_at"),
            text.c.category,
            text.c.body,
        )
        .join_from(ends, last, and_(last.c.fact_id == ends.c.fact_id, last.c.version == ends.c.version))
        .join(text, and_(text.c.fact_id == ends.c.fact_id, text.c.version == ends.c.published))
        .where(last.c.company == company, text.c.company == company)
        .order_by(ends.c.fact_id)
    )
