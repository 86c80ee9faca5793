"""What travels when a fine-tune run is to be carried on: which; the ledger has the rest."""

from typing import Literal

from memcore.jobs.payload import Payload
from memcore.models import Key


class FineTunePayload(Payload):
    """One stage of a run.

    Attributes:
        run_id: the run; which stage is next stands in its row.
    """

    version: Literal[1] = 1
    run_id: Key
