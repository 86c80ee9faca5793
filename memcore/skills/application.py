"""An agent did as a skill, or a lesson of its own, says: counted once, under one id."""

from memcore.backends.owner import require_memory_id
from memcore.jobs.skill_payloads import AppliedPayload
from memcore.ledger.ledger import Ledger


def count_application(ledger: Ledger, payload: AppliedPayload) -> bool:
    """Count it and return True; False when it was counted before.

    A skill that came back under another id counts under its first one. Nobody asks whether a memory with the id is
    there: a lesson may have been forgotten since it was applied.

    Raises MemoryInputError for an id that no memory can have.
    """
    lines = ledger.shared_log.history(payload.company, require_memory_id(payload.skill_id))
    return ledger.skills.apply(payload, skill_id=lines[0].memory_id if lines else payload.skill_id)
