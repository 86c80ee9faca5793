"""Ringing for runs that wait in the ledger, so that a person who lets them go on need not wait for the sweep."""

from collections.abc import Iterable

from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError
from memcore.ledger.run import Run
from memcore.ledger.skill_cycle import Cycle


def ring(settings: Settings, runs: Iterable[Run], *, cycles: Iterable[Cycle] = ()) -> None:
    """Send the message of each run and cycle; one that is under way already makes its message do nothing."""
    # The app of the workers takes a second to import, and few commands ring.
    from workers.app import create_app  # noqa: PLC0415  # see above
    from workers.bell import BrokerBell  # noqa: PLC0415  # see above

    app = create_app(settings)
    try:
        bell = BrokerBell(app)
        bell.ring_many(runs)
        bell.ring_cycles(settings.company, cycles)
    except MemoryConnectionError:
        return  # what was to be changed is changed, and the sweep rings when the broker is back
    finally:
        app.close()
