"""Finding facts of an organisation by words and meaning: those of the file and of the ledger in one order."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memcore.backends.fusion import weighted
from memcore.config.write_access import OrgFactCategory
from memcore.embedding.bm25 import Bm25Encoder
from memcore.org.shown_fact import Shown
from memcore.org.static_policies import StaticPolicies
from memcore.org_models import OrgFact

if TYPE_CHECKING:
    from memcore.ledger.org_log import OrgLog

#: Terms of a question that are looked up, as in the archive.
_MAX_TERMS = 1_000

#: Fewest facts by words that are ranked together with those by meaning.
_CANDIDATES = 50

#: Categories to look in; None for all.
Categories = frozenset[OrgFactCategory] | None


@dataclass(frozen=True, slots=True)
class Near:
    """What lies near a question by meaning.

    Attributes:
        cosines: the similarity of each version of a fact that was found.
        dense_weight: the share of meaning in a rank, 0 to 1.
    """

    cosines: Mapping[Shown, float] = field(default_factory=dict)
    dense_weight: float = 0.0


#: Where there is no store, or it does not answer.
NOTHING_NEAR = Near()


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

    def ranked(
        self, context: str, categories: Categories, *, limit: int, near: Near = NOTHING_NEAR
    ) -> tuple[OrgFact, ...]:
        """Return the facts that have words of a context or lie near it, best first.

        Args:
            context: what is asked.
            categories: only these.
            limit: most facts.
            near: what lies near by meaning; of it only what stands in the version that was found. With nothing near, a
                fact without any of the words is no match.
        """
        terms = self._encoder.encode_query(context).indices[:_MAX_TERMS]
        worth = self._worth(terms) if terms else {}
        hits = [*self._log.search(self._company, worth, categories=categories, limit=max(_CANDIDATES, limit))]
        if _has_policies(categories):
            hits += self._policies.search(worth)
        standing = self._log.standing(self._company, {each.fact_id for each in near.cosines}) if near.cosines else {}
        cosines = {
            each.fact_id: cosine
            for each, cosine in near.cosines.items()
            if each.fact_id in standing and standing[each.fact_id][0] == each.version
        }
        facts = {fact.id: fact for _, fact in hits} | {key: standing[key][1] for key in cosines}
        scores = weighted(cosines, {fact.id: score for score, fact in hits}, dense_weight=near.dense_weight)
        # Sorting is stable: facts that are equally good by words stay newest first.
        best = sorted((key for key in facts if scores[key] > 0.0), key=scores.__getitem__, reverse=True)
        return tuple(facts[key] for key in best[:limit])

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
