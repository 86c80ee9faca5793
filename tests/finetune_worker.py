"""A worker as a process of its own, to be killed: ``python tests/finetune_worker.py LEDGER RUNS PYTHON RUN``."""

import sys
from pathlib import Path

from support.ledger_records import COMPANY, sqlite_urls

from memcore.clock import utc_now
from memcore.finetune.execution.process import ProcessExecutor, end_by_name
from memcore.finetune.service import FineTuneService, hostname
from memcore.ledger.ledger import Ledger


def main(ledger: str, runs: str, python: str, run_id: str) -> None:
    FineTuneService(
        Ledger.open(sqlite_urls(Path(ledger))),
        ProcessExecutor(Path(runs) / "scratch", python=python),
        gather=lambda _plan, _path, _renew_interval: None,
        reap=end_by_name,
        company=COMPANY,
        folder=Path(runs),
        host=hostname(),
        timeout_seconds=600.0,
        clock=utc_now,
    ).run(run_id)


if __name__ == "__main__":
    main(*sys.argv[1:])
