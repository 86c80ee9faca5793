"""Dense groups keep their facts word by word, chatty ones are summarised."""

import logging
from collections.abc import Sequence

from memcore.backends.record import MemoryRecord
from memcore.maintenance.density import ContentDensity, DensityClassifier
from memcore.maintenance.draft import ConsolidationOp, Draft
from memcore.maintenance.events import MaintenanceEvent

_log = logging.getLogger(__name__)


class DensityRoutingOp:
    """Choose between two ops by what most of a group is.

    Args:
        classifier: tells dense from chatty.
        dense: for groups of which more than half is dense.
        sparse: for the others; a tie is chatty.
    """

    def __init__(self, classifier: DensityClassifier, *, dense: ConsolidationOp, sparse: ConsolidationOp) -> None:
        self._classifier = classifier
        self._dense = dense
        self._sparse = sparse

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
        """Return what the chosen op writes; the memory that is kept has a vote too."""
        voters = [*sources, kept] if kept is not None else list(sources)
        dense = sum(self._classifier.classify(each.entry.content) is ContentDensity.DENSE for each in voters)
        is_dense = 2 * dense > len(voters)
        _log.info(MaintenanceEvent.GROUP_CLASSIFIED, extra={"dense": dense, "voters": len(voters)})
        return await (self._dense if is_dense else self._sparse).write(sources, kept=kept)
