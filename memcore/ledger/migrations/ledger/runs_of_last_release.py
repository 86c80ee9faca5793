"""Runs that processes of the last release insert become work items, so that a rolling upgrade loses none.

An engine's undo, or an end, is only a message until a worker inserts its run; meanwhile that may be a worker of the
last release. It writes columns that moved to the items: they come back here for these workers alone, and a trigger
makes the item. To them each run looks like one that another worker holds. The next release drops all of this.
"""

import sqlalchemy as sa
from alembic import op

from memcore.ledger.migrations.ledger.runs import MOVED, insert_of_runs
from memcore.ledger.migrations.ledger.work_items import is_sqlite

revision = "ledger_22"
down_revision = "ledger_17"

#: What that release inserts.
_COLUMNS = (
    *("run_id", "company", "agent_id", "kind", "origin", "planned_at", "undo_of", "allow_large", "scope_id"),
    *("created_at", *MOVED),
)

#: Its agent has another open run: that release expects no row then.
_IS_REFUSED = (
    "NOT EXISTS (SELECT 1 FROM work_items WHERE company = NEW.company"
    " AND kind = 'memory.maintenance.run' AND key = NEW.run_id)"
)


def upgrade() -> None:
    """Add the columns, and what makes an item of a row that has them."""
    # Running, under a lease that never ends: that release neither claims such a run nor gives up its job.
    op.add_column("runs", sa.Column("state", sa.String, nullable=False, server_default="running"))
    op.add_column("runs", sa.Column("attempt", sa.Integer, nullable=False, server_default="0"))
    for name in ("token", "reason"):
        op.add_column("runs", sa.Column(name, sa.String))
    for name in ("lease_until", "rung_at", "wake_at", "started_at", "finished_at"):
        op.add_column("runs", sa.Column(name, sa.DateTime(timezone=True)))
    new = f"(SELECT {', '.join(f'NEW.{name} AS {name}' for name in _COLUMNS)}) AS new_run"
    add_item = f"{insert_of_runs(new)} WHERE true ON CONFLICT DO NOTHING"
    for statement in _on_sqlite(add_item) if is_sqlite() else _on_postgresql(add_item):
        op.execute(statement)


def _on_sqlite(add_item: str) -> tuple[str, ...]:
    return (
        (
            "CREATE TRIGGER runs_of_last_release BEFORE INSERT ON runs WHEN NEW.state <> 'running' BEGIN "
            f"{add_item}; SELECT RAISE(IGNORE) WHERE {_IS_REFUSED}; END"
        ),
        (
            "CREATE TRIGGER runs_of_last_release_hidden AFTER INSERT ON runs WHEN NEW.state = 'queued' BEGIN "
            "UPDATE runs SET state = 'running' WHERE run_id = NEW.run_id; END"
        ),
    )


def _on_postgresql(add_item: str) -> tuple[str, ...]:
    return (
        (
            f"CREATE FUNCTION runs_of_last_release() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {add_item}; "
            f"IF {_IS_REFUSED} THEN RETURN NULL; END IF; "
            "IF NEW.state = 'queued' THEN NEW.state := 'running'; END IF; RETURN NEW; END $$"
        ),
        (
            "CREATE TRIGGER runs_of_last_release BEFORE INSERT ON runs FOR EACH ROW WHEN (NEW.state <> 'running') "
            "EXECUTE FUNCTION runs_of_last_release()"
        ),
    )
