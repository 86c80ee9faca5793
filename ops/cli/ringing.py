"""Ringing for runs that wait in the ledger, so that a person who lets them go on need not wait for the sweep."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError
from memcore.ledger.run import Run
from memcore.ledger.skill_cycle import Cycle

if TYPE_CHECKING:
    from workers.bell import BrokerBell


def ring(settings: Settings, runs: Iterable[Run], *, cycles: Iterable[Cycle] = ()) -> None:
    """Send the message of each run and cycle; one that is under way already makes its message do nothing."""

    def rings(bell: "BrokerBell") -> None:
        bell.ring_many(runs)
        bell.ring_cycles(settings.company, cycles)

    _ring(settings, rings)


def ring_reindex(settings: Settings) -> None:
    """Send the message of the company's reindex; while a worker is at it, its message does nothing."""
    _ring(settings, lambda bell: bell.ring_reindex(settings.company))


def ring_finetune(settings: Settings, run_id: str) -> None:
    """Send the message of a fine-tune run's next stage; while a worker is at it, its message does nothing."""
    _ring(settings, lambda bell: bell.ring_finetune(settings.company, run_id))


def _ring(settings: Settings, rings: Callable[["BrokerBell"], None]) -> None:
    # The app of the workers takes a second to import, and few commands ring.
    from workers.app import create_app  # noqa: PLC0415  # see above
    from workers.bell import BrokerBell  # noqa: PLC0415  # see above

    app = create_app(settings)
    try:
        rings(BrokerBell(app))
    except MemoryConnectionError:
        return  # what was to be changed is changed, and the sweep rings when the broker is back
    finally:
        app.close()
