"""Searches an organisation's facts by words and meaning: those of the configuration and of the ledger in one order."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from memcore import ids
from memcore.backends.evidence import DEFAULT_NOISE, MOST_JUDGED, Candidate, evidence_of, showing, standings
from memcore.backends.fusion import led
from memcore.backends.protocol import ORGANISATION, FactStore
from memcore.embedding.bm25 import Bm25Encoder
from memcore.models.answers import Shown
from memcore.models.memory import MAX_TAGS, NON_INFERABLE_TAG, MemoryCategory, MemoryEntry, MemoryMetadata, MemoryQuery
from memcore.models.organization import (
    WHOLE,
    FactView,
    OperationLogEntry,
    OrgFact,
    OrgFactAuthor,
    OrgFactCategory,
    origin_of,
)
from memcore.records import ORIGIN_KEY, MemoryRecord
from memcore.telemetry.events import Event

if TYPE_CHECKING:
    from memcore.ledger.organization.facts import OrgLog

_NAMESPACE = "org:"
_VERSION_TAG = "version:"


class IndexedFact(NamedTuple):
    """The version of a fact that an entry of the store shows."""

    fact_id: str
    version: int


def record_of(company: str, line: OperationLogEntry) -> MemoryRecord:
    """Return the store's record of a published line, with its text, and its tags as far as they fit."""
    if line.content is None or line.category is None:
        raise ValueError("a retraction shows nothing")
    # Nobody infers what an organisation agreed on: where prompts hold such memories alone, facts are among them.
    own = (f"{_VERSION_TAG}{line.version}", NON_INFERABLE_TAG)
    tags = dict.fromkeys((*own, *line.tags[: MAX_TAGS - len(own)]))
    entry = MemoryEntry(
        id=ids.shown_fact_id(company=company, fact_id=line.fact_id, version=line.version),
        agent_id=ORGANISATION,
        namespace=namespace_of(line.category),
        category=MemoryCategory.SEMANTIC,
        content=line.content,
        metadata=MemoryMetadata(source=line.fact_id, tags=tuple(tags)),
        created_at=line.timestamp,
    )
    origin = origin_of(is_human=line.author_is_human, principal=line.author_principal)
    return MemoryRecord(entry=entry, extra={ORIGIN_KEY: origin.stored()})


def shown_by(entry: MemoryEntry) -> IndexedFact | None:
    """Return the fact that an entry shows; None for another entry."""
    source, tag = entry.metadata.source, next(iter(entry.metadata.tags), "")
    version = tag.removeprefix(_VERSION_TAG)
    if entry.agent_id != ORGANISATION or source is None or not version.isdecimal():
        return None
    return IndexedFact(source, int(version))


def namespace_of(category: OrgFactCategory) -> str:
    """Return the store's namespace of a category's facts."""
    return f"{_NAMESPACE}{category}"


def category_in(namespace: str) -> str:
    """Return the category that a namespace of facts names."""
    return namespace.removeprefix(_NAMESPACE)


#: How the ids of these policies begin.
ID_PREFIX = "core-policy-"

#: When they apply from: before every written fact, since the configuration does not say; always the same, so that one
#: policy is one fact however often it is read.
_SINCE = datetime(1970, 1, 1, tzinfo=UTC)


#: Terms of a question that are looked up, as in the archive.
_MAX_TERMS = 1_000

#: Fewest facts by words that are ranked together with those by meaning, and versions that the store is asked for.
_CANDIDATES = 50

#: Categories to look in; None for all.
Categories = frozenset[OrgFactCategory] | None


@dataclass(frozen=True, slots=True)
class ScoredFact:
    """The cosine of each version of a fact that is near a question, and what goes with the embedder.

    These are the share of meaning in a rank, 0 to 1, and the cosine of unrelated texts.
    """

    cosines: Mapping[IndexedFact, float] = field(default_factory=dict)
    dense_weight: float = 0.0
    noise: float = DEFAULT_NOISE


_log = logging.getLogger(__name__)


class OrgSearch:
    """Searches what one company knows: the ledger's facts, and these policies of the configuration."""

    def __init__(self, log: "OrgLog", policies: Sequence[str], *, company: str) -> None:
        self._log = log
        self._company = company
        self._encoder = Bm25Encoder()
        #: The policies as facts, under the ids ``core-policy-0``, ``core-policy-1`` and so on.
        self.policies = tuple(
            OrgFact(
                id=f"{ID_PREFIX}{place}",
                content=text,
                category=OrgFactCategory.CORE_POLICY,
                author=OrgFactAuthor(is_human=True),
                created_at=_SINCE,
            )
            for place, text in enumerate(policies)
        )
        vectors = self._encoder.encode_documents(policies)
        self._weights = [dict(zip(vector.indices, vector.values, strict=True)) for vector in vectors]

    def newest(
        self, categories: Categories, *, limit: int, offset: int = 0, view: FactView = WHOLE
    ) -> tuple[OrgFact, ...]:
        """Return the newest facts that a reader is shown; policies of the configuration are older than all."""
        found = self._log.facts(
            self._company, categories=categories, view=view, offset=offset, limit=limit, newest_first=True
        )
        if len(found) == limit or not _has_policies(categories, view):
            return found
        skipped = max(0, offset - self._log.count(self._company, categories=categories, view=view))
        return (found + self.policies[skipped:])[:limit]

    def ranked(
        self,
        context: str,
        categories: Categories,
        *,
        limit: int,
        near: ScoredFact,
        min_evidence: float,
        shown: Shown,
        view: FactView = WHOLE,
    ) -> tuple[OrgFact, ...]:
        """Return the facts that have words of a context or lie near it, best first; an outdated version does not count.

        Each has its standing (memcore.backends.evidence).
        """
        terms = self._encoder.encode_query(context).indices[:_MAX_TERMS]
        worth = self._worth(terms) if terms else {}
        most, search = max(_CANDIDATES, limit), self._log.search
        hits = [*search(self._company, worth, categories=categories, limit=most, view=view)]
        if _has_policies(categories, view):
            for fact, weights in zip(self.policies, self._weights, strict=True):
                if relevance := sum(weight * worth.get(term, 0.0) for term, weight in weights.items()):
                    hits.append((relevance, fact))
        named = {each.fact_id for each in near.cosines}
        standing = self._log.standing(self._company, named, view=view) if named else {}
        cosines = {
            each.fact_id: cosine
            for each, cosine in near.cosines.items()
            if each.fact_id in standing and standing[each.fact_id][0] == each.version
        }
        facts = {fact.id: fact for _, fact in hits} | {key: standing[key][1] for key in cosines}
        words = {fact.id: score for score, fact in hits}

        def first_of(scores: Mapping[str, float]) -> list[Candidate]:
            # Sorting is stable: facts that are equally good by words stay newest first.
            first = sorted(facts, key=scores.__getitem__, reverse=True)[:MOST_JUDGED]
            return [Candidate(text=facts[key].content, cosine=cosines.get(key)) for key in first]

        scores = led(context, cosines, words, first_of, dense_weight=near.dense_weight)
        best = sorted((key for key in facts if scores[key] > 0.0), key=scores.__getitem__, reverse=True)
        found = evidence_of(context, first_of(scores), noise=near.noise)
        evidence = dict(zip(best, found, strict=False))
        standing_of = standings({key: scores[key] for key in best}, evidence, least=min_evidence)
        shown = showing(standing_of.values(), shown)
        chosen = [key for key in best if shown.has(standing_of[key])][:limit]
        return tuple(facts[key].model_copy(update={"standing": standing_of[key]}) for key in chosen)

    def _worth(self, terms: tuple[int, ...]) -> dict[int, float]:
        # Counted over all categories: a filter must not change which words are rare.
        total = self._log.count(self._company) + len(self.policies)
        stored = self._log.spread(self._company, terms)
        having = {term: stored.get(term, 0) + sum(term in each for each in self._weights) for term in terms}
        # BM25's inverse document frequency, above 0; facts may be written between the two counts.
        return {
            term: math.log(1.0 + (max(0, total - count) + 0.5) / (count + 0.5))
            for term, count in having.items()
            if count
        }


def _has_policies(categories: Categories, view: FactView) -> bool:
    return True in view.authors and (categories is None or OrgFactCategory.CORE_POLICY in categories)


async def fact_similarity(facts: FactStore | None, context: str, categories: Categories) -> ScoredFact:
    """Return the facts near a context; none, with an event, when the store or the embedder fails."""
    if facts is None:
        return ScoredFact()
    try:
        namespaces = None if categories is None else frozenset(map(namespace_of, categories))
        rankings = await facts.rankings(MemoryQuery(text=context, namespaces=namespaces, limit=_CANDIDATES))
    except Exception as error:  # noqa: BLE001  # an engine's own embedder may raise anything
        _log.warning(Event.ORG_MEMORY_QUERY_DEGRADED, extra={"error": type(error).__name__})
        return ScoredFact()
    shown = [(shown_by(hit.entry), hit.cosine) for hit in (*rankings.sparse, *rankings.dense)]
    cosines = {fact: cosine for fact, cosine in shown if fact is not None and cosine is not None}
    return ScoredFact(cosines, facts.dense_weight, rankings.noise)
