"""What is asked before every write: is the run still ours, and may maintenance run?"""

from memcore.maintenance.lease import Lease
from memcore.maintenance.switch import KillSwitch


class Guard:
    """Join the lease with the kill switch.

    Args:
        lease: of the run.
        switch: None for an undo or a restore. A person who has paused everything because a night went wrong must be
            able to reverse that night, or to bring a memory back; and a switch that cannot be read must not stand
            between them and their memories.
    """

    def __init__(self, lease: Lease, switch: KillSwitch | None) -> None:
        self._lease = lease
        self._switch = switch

    @property
    def token(self) -> str:
        """The fencing token of this attempt."""
        return self._lease.token

    def enter(self) -> None:
        """Ask before something new is decided. Raises LeaseLostError, MaintenancePausedError."""
        self._lease.check()
        if self._switch is not None:
            self._switch.check()

    def hold(self) -> None:
        """Ask before a decision is carried further: a pause leaves no booking half done. Raises LeaseLostError."""
        self._lease.check()

    def confirm(self) -> None:
        """Ask the database itself, before something is deleted. Raises LeaseLostError."""
        self._lease.confirm()
