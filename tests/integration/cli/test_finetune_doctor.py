"""What the doctor sees of a fine-tune run."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from ledgers import COMPANY

from memcore.config.settings import Settings
from memcore.ledger import Ledger, LedgerUrls
from ops.cli.finetune_look import finetune


def _before(past: timedelta) -> datetime:
    return datetime.now(UTC) - past


def test_a_run_that_nobody_takes_is_told(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal,
        qdrant_url="http://127.0.0.1:2", company=COMPANY, home=tmp_path,
    )  # fmt: skip
    assert list(finetune(settings)) == []
    for minutes, is_well in ((1, True), (11, False)):
        ledger = Ledger.open(sqlite_ledger, clock=partial(_before, timedelta(minutes=minutes)))
        ledger.finetune_runs.start(COMPANY, {})
        (found,) = finetune(settings)
        assert (found.check, found.ok) == ("fine-tune", is_well)
        assert ("nobody has it in hand" in found.seen) is not is_well
        ledger.finetune_runs.cancel(COMPANY)
        ledger.close()
