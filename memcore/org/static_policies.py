"""The core policies of the configuration, as facts that can be listed and searched like those of the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from memcore.config.write_access import OrgFactCategory
from memcore.embedding.bm25 import Bm25Encoder
from memcore.org_models import OrgFact, OrgFactAuthor

#: How the ids of these policies begin.
ID_PREFIX = "core-policy-"

#: When they apply from: the configuration does not say, so before everything that was ever written, and always the
#: same, so that one policy is one fact however often it is read.
_SINCE = datetime(1970, 1, 1, tzinfo=UTC)


class StaticPolicies:
    """Hold the policies of a configuration, under the ids ``core-policy-0``, ``core-policy-1`` and so on.

    Args:
        texts: the policies, in their order.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.facts = tuple(
            OrgFact(
                id=f"{ID_PREFIX}{place}",
                content=text,
                category=OrgFactCategory.CORE_POLICY,
                author=OrgFactAuthor(is_human=True),
                created_at=_SINCE,
            )
            for place, text in enumerate(texts)
        )
        vectors = Bm25Encoder().encode_documents(texts)
        self._weights = [dict(zip(vector.indices, vector.values, strict=True)) for vector in vectors]

    def having(self, term: int) -> int:
        """Return how many of the policies have a term."""
        return sum(term in weights for weights in self._weights)

    def search(self, worth: Mapping[int, float]) -> Iterable[tuple[float, OrgFact]]:
        """Return the policies that have one of the terms, each with its relevance, as the ledger's search does."""
        for fact, weights in zip(self.facts, self._weights, strict=True):
            if relevance := sum(weight * worth.get(term, 0.0) for term, weight in weights.items()):
                yield relevance, fact
