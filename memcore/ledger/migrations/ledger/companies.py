"""The companies of an installation; their state takes the place of the switches."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_11"
down_revision = "ledger_10"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_MOMENT = sa.DateTime(timezone=True)

#: Tables whose rows tell that a company lives here. Not the dead letters: a refused job may name any company.
_KNOWN_BY = ("agents", "runs", "ticks", "serving", "switches")


def upgrade() -> None:
    """Create the table with every company that has rows, paused where its switch says so.

    The switches go on as a view: workers of the last release read it, and must obey a pause. Their writes fail.
    """
    op.create_table(
        "companies",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("policy", _JSON),
        sa.Column("interval", sa.String),
        sa.Column("created_at", _MOMENT, nullable=False),
        sa.Column("changed_at", _MOMENT, nullable=False),
    )
    known = " UNION ".join(f"SELECT company FROM {table}" for table in _KNOWN_BY)  # noqa: S608  # our own names
    backfill = sa.text(
        "INSERT INTO companies (company, state, created_at, changed_at) "  # noqa: S608  # see above
        "SELECT known.company, CASE WHEN switches.paused THEN 'paused' ELSE 'active' END, :now, :now "
        f"FROM ({known}) AS known LEFT JOIN switches ON switches.company = known.company"
    )
    op.execute(backfill.bindparams(sa.bindparam("now", datetime.now(UTC), _MOMENT)))
    op.drop_table("switches")
    op.execute("CREATE VIEW switches AS SELECT company, state <> 'active' AS paused, changed_at FROM companies")
