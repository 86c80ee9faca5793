"""What travels when a reindex is to be carried on: nothing but whose; the ledger has the rest."""

from typing import Literal

from memcore.jobs.payload import Payload


class ReindexPayload(Payload):
    """One slice of the company's reindex; the ledger knows which.

    Attributes:
        version: the version of this payload.
    """

    version: Literal[1] = 1
