"""Finding facts of an organisation by words: those of the configuration and those of the ledger in one order."""

import math
from typing import TYPE_CHECKING

from memcore.config.write_access import OrgFactCategory
from memcore.embedding.bm25 import Bm25Encoder
from memcore.org.static_policies import StaticPolicies
from memcore.org_models import OrgFact

if TYPE_CHECKING:
    from memcore.ledger.org_log import OrgLog

#: Terms of a question that are looked up, as in the archive.
_MAX_TERMS = 1_000

#: Categories to look in; None for all.
Categories = frozenset[OrgFactCategory] | None


class OrgSearch:
    """Search what one company knows.

    Args:
        log: the ledger's facts.
        policies: the configuration's.
        company: whose facts.
    """

    def __init__(self, log: "OrgLog", policies: StaticPolicies, *, company: str) -> None:
        self._log = log
        self._policies = policies
        self._company = company
        self._encoder = Bm25Encoder()

    def newest(self, categories: Categories, *, limit: int, offset: int = 0) -> tuple[OrgFact, ...]:
        """Return the newest facts; policies of the configuration are older than all."""
        found = self._log.facts(self._company, categories=categories, offset=offset, limit=limit, newest_first=True)
        if len(found) == limit or not _has_policies(categories):
            return found
        skipped = max(0, offset - self._log.count(self._company, categories=categories))
        return (found + self._policies.facts[skipped:])[:limit]

    def ranked(self, context: str, categories: Categories, *, limit: int) -> tuple[OrgFact, ...]:
        """Return the facts that have words of a context, best first; with none of them a fact is no match."""
        terms = self._encoder.encode_query(context).indices[:_MAX_TERMS]
        if not terms:
            return ()
        worth = self._worth(terms)
        found = [*self._log.search(self._company, worth, categories=categories, limit=limit)]
        if _has_policies(categories):
            found += self._policies.search(worth)
        # Sorting is stable: equally good facts of the ledger stay newest first.
        found.sort(key=lambda hit: hit[0], reverse=True)
        return tuple(fact for _, fact in found[:limit])

    def _worth(self, terms: tuple[int, ...]) -> dict[int, float]:
        # Counted over all categories: a filter must not change which words are rare.
        total = self._log.count(self._company) + len(self._policies.facts)
        stored = self._log.spread(self._company, terms)
        having = {term: stored.get(term, 0) + self._policies.having(term) for term in terms}
        return {term: _rarity(total, count) for term, count in having.items() if count}


def _rarity(total: int, having: int) -> float:
    """Return what a term is worth that so many of all facts have: BM25's inverse document frequency, above 0."""
    # Facts may be written between the two counts.
    return math.log(1.0 + (max(0, total - having) + 0.5) / (having + 0.5))


def _has_policies(categories: Categories) -> bool:
    return categories is None or OrgFactCategory.CORE_POLICY in categories
