"""What every payload has: the company whose job it is."""

from memcore.frozen import Frozen
from memcore.models import Key


class Payload(Frozen):
    """The base of all payloads; a worker refuses those of another company.

    Attributes:
        company: whose job.
    """

    company: Key
