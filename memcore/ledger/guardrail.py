"""The word that a destructive call needs: who asks, that it is meant, and why."""

from typing import Annotated, Literal

from pydantic import BeforeValidator

from memcore.approval_models import Name, Reason
from memcore.ledger.audit import AuditNote, AuditVerdict, person
from memcore.validated import ValidatedModel


def _literally(value: object) -> object:
    if value is not True:
        raise ValueError("must be True")
    return value


class Guardrail(ValidatedModel):
    """Who asks for what cannot simply be taken back.

    Attributes:
        actor: the person, as the audit names them.
        confirm: True, and nothing that merely looks like it.
        reason: why, in a sentence that is kept in the audit.

    Raises:
        MemoryInputError: one of the three is missing, blank or too long; the message names it.
    """

    actor: Name
    confirm: Annotated[Literal[True], BeforeValidator(_literally)]
    reason: Reason

    def note(self, action: str, subject: str) -> AuditNote:
        """Return the line for the audit."""
        return AuditNote(
            actor=person(self.actor), action=action, subject=subject, verdict=AuditVerdict.DONE, reason=self.reason
        )
