"""What approving does: one effect for each action, each carried out as often as one likes with one result."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from memcore.approval_models import Approval
from memcore.errors import MemoryCapabilityError
from memcore.ledger.room import Room


@runtime_checkable
class ApprovalEffects(Protocol):
    """Carry out the approvals of one action, and take them back.

    A process may die between any two steps, and a slow one may go on after another has finished its work: both calls
    may come again, at the same moment, and ``publish`` even after ``take_back``. Each counts once by the approval's id.
    """

    @property
    def action(self) -> str:
        """The action of the proposals that these are for, such as ``shared:publish``."""
        ...

    def room(self, approval: Approval) -> Room | None:
        """Return the bound that is looked at as a person's word is written down; None for none.

        Raises MemoryInputError when it could never be carried out; nothing is decided then.
        """
        ...

    async def publish(self, approval: Approval) -> str:
        """Carry it out and return the id of what it left; after it was taken back, nothing comes back.

        Raises MemoryError; the approval stays open then, and this is called again.
        """
        ...

    async def take_back(self, approval: Approval) -> None:
        """Take back what it left, and bring back what it took the place of; raises as publish does."""
        ...


class EffectRegistry:
    """The effects that this process can carry out, by action.

    Args:
        effects: one for each action.
    """

    def __init__(self, effects: Iterable[ApprovalEffects] = ()) -> None:
        self._effects = {each.action: each for each in effects}

    def of(self, action: str) -> ApprovalEffects:
        """Return the effects of an action; MemoryCapabilityError when nothing here carries it out."""
        found = self._effects.get(action)
        if found is None:
            known = ", ".join(sorted(self._effects)) or "none"
            raise MemoryCapabilityError(f"nothing here carries out the action {action!r}; known are: {known}")
        return found
