"""The page about adding a job: its lines are run as they stand."""

import json
import re
import subprocess
import sys
from pathlib import Path

from reference.markdown import DOCS, text_of
from support.repository import ROOT
from support.valkey_servers import valkey_server

from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls

PAGE = DOCS / "how-to" / "add-a-job.md"

#: Files that a person writes for a new job.
MOST_FILES = 4


def test_the_job_that_the_page_adds_in_four_files_runs_in_a_worker(tmp_path: Path, sqlite_ledger: LedgerUrls) -> None:
    files = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', text_of(PAGE), re.MULTILINE | re.DOTALL))
    assert 3 <= len(files) <= MOST_FILES
    for name, text in files.items():
        path = tmp_path / name.removeprefix("tests/fixtures/payloads/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with valkey_server(tmp_path / "broker") as broker:
        settings = Settings(
            broker_url=broker.url, database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal, home=tmp_path,
            qdrant_url="http://127.0.0.1:9", company="acme",
        )  # fmt: skip
        (tmp_path / "settings.json").write_text(settings.model_dump_json(), encoding="utf-8")
        script = [sys.executable, str(ROOT / "tests" / "added_job.py"), str(tmp_path)]
        answer = subprocess.run(
            script, capture_output=True, text=True, check=False, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}
        )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == {"state": "done", "facts": {"memories": 2}, "reason": None}
