"""The ledger: what must happen and what has happened, as rows; the broker is only a signal.

:class:`memcore.ledger.ledger.Ledger` holds the repositories: agents and when they are due, runs and who holds them, the
journal of everything that was put in and taken out, the kill switch, dead letters, and more. SQLite in two files for
one machine, PostgreSQL for many.
"""

from memcore.extras import require_extra

require_extra("engine")
