"""The page "Does it work for us?": from its table to its report, every block as it stands."""

import re
import shlex
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from reference.markdown import DOCS, blocks, text_of
from support.command_line import CommandLine

PAGE = DOCS / "how-to" / "evaluate.md"


@pytest.mark.slow(because="each command of the page starts a stack of its own")
@pytest.mark.timeout(600)
def test_the_page_leads_from_a_table_to_a_report(
    memtend: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', text_of(PAGE), re.MULTILINE | re.DOTALL))
    assert files.keys() == {"data.csv", "short.yaml"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    report = tmp_path / "report.html"
    for block in blocks(PAGE, "console"):
        command, *said = block.splitlines()
        report.unlink(missing_ok=True)
        out = memtend.ok(*shlex.split(command.removeprefix("$ memtend "))).out
        assert set(said) <= set(out.splitlines()), out
        page = report.read_text(encoding="utf-8")
        ET.fromstring(page.partition("\n")[2])  # noqa: S314  # our own page
        assert all(line in page for line in said)
    assert "The payment queue pages at 500." in page.partition("went wrong</h2>")[2]
