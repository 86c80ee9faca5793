"""Ringing for runs that wait in the ledger, so that a person who lets them go on need not wait for the sweep."""

from collections.abc import Iterable

from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError
from memcore.ledger.run import Run


def ring(settings: Settings, runs: Iterable[Run]) -> None:
    """Send the message of each run; one that is under way already makes its message do nothing."""
    # The app of the workers takes a second to import, and few commands ring.
    from workers.app import create_app  # noqa: PLC0415  # see above
    from workers.bell import BrokerBell  # noqa: PLC0415  # see above

    app = create_app(settings)
    try:
        BrokerBell(app).ring_many(runs)
    except MemoryConnectionError:
        return  # what was to be changed is changed, and the sweep rings when the broker is back
    finally:
        app.close()
