"""The page of queues: what is not known is shown as such, and every group of workers is there."""

import re
from pathlib import Path

import pytest
from support.console import console_settings, signed_in
from support.http_api import http_api

from memcore.config.urls import LedgerUrls
from ops.metrics import families
from ops.metrics.exposition import Samples
from workers.groups import GROUPS

#: An en dash, which stands for what is not known.
UNKNOWN = "\u2013"

_WORKERS = re.compile(r'<th scope="row">([a-z]+)</th><td class="number">(.*?)</td></tr>')


def _workers(page: str) -> dict[str, str]:
    """Return what the page says of each group, without its marks."""
    return {name: re.sub("<[^>]+>", "", shown) for name, shown in _WORKERS.findall(page)}


async def test_without_a_broker_nothing_is_said_of_jobs_and_workers(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with (
        http_api(console_settings(sqlite_ledger, tmp_path)) as opened,
        signed_in(opened.app, opened.key()) as one,
    ):
        page = await one.get("queues")
    assert "The broker does not answer." in page
    assert _workers(page) == dict.fromkeys(GROUPS, UNKNOWN)
    assert set(re.findall(r'<td class="number">(.*?)</td><td class="number">', page)) == {UNKNOWN}


async def test_every_group_is_shown_with_the_workers_that_answer(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = Samples()
    samples.set(families.PART_UP, 1, part="broker")
    samples.set(families.WORKERS, 2, group="store")
    samples.set(families.WORKERS, 0, group="night")
    async with (
        http_api(console_settings(sqlite_ledger, tmp_path)) as opened,
        signed_in(opened.app, opened.key()) as one,
    ):
        monkeypatch.setattr(opened.context.collector, "gather", lambda _company: samples)
        page = await one.get("queues")
    assert _workers(page) == {"store": "2", "night": "none", "llm": "on demand", "finetune": "on demand"}
