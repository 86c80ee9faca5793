"""Tables of fine-tune runs and of the checkpoints that came of them."""

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table

from memcore.ledger.columns import Moment, document
from memcore.ledger.ledger_tables import metadata

#: A row for each run: what it is to do, where it is, who holds it.
finetune_runs = Table(
    "finetune_runs",
    metadata,
    Column("company", String, primary_key=True),
    Column("run_id", String, primary_key=True),
    Column("plan", document(), nullable=False),
    # The stage that is next, or in work; of a run that has ended, how.
    Column("stage", String, nullable=False),
    Column("progress", Float),
    Column("error", String),
    # Of each stage that is done, its files by their place in the run's folder, with their hashes.
    Column("finished", document(), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("token", String),
    Column("lease_until", Moment),
    # What names the running stage, and the machine that it runs on; kept until it is known to be gone.
    Column("holder", String),
    Column("host", String),
    Column("cancel_requested_at", Moment),
    Column("rung_at", Moment, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("completed_at", Moment),
    Index("finetune_runs_newest", "company", "started_at"),
)

#: A run that has not ended.
UNENDED = finetune_runs.c.completed_at.is_(None)

Index(
    "finetune_runs_active_once",
    finetune_runs.c.company,
    unique=True,
    sqlite_where=UNENDED,
    postgresql_where=UNENDED,
)

#: What runs left: a folder each, what it was measured to be, and the gate's word on it.
finetune_checkpoints = Table(
    "finetune_checkpoints",
    metadata,
    Column("company", String, primary_key=True),
    Column("checkpoint_id", String, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("model_path", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("base_model", String, nullable=False),
    Column("dims", Integer, nullable=False),
    Column("sha256", String, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("doc_count", Integer, nullable=False),
    Column("report", document(), nullable=False),
    Column("verdict", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("created_at", Moment, nullable=False),
    Index("finetune_checkpoints_newest", "company", "created_at"),
)
