"""Another embedder while agents go on reading and writing, and the worker dies half-way."""

from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.reindex_load import constant_load, filled, kill_run, lost
from support.running_stack import running_stack, wait_until
from support.thorough import sized

from memcore.ledger.ledger import Ledger

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1200)]

#: Memories that are there before: with the embedder of the test some seconds of work.
MEMORIES = sized(500, thorough=800)


def test_a_reindex_under_load_loses_nothing_and_outlives_its_worker(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running_stack(home) as stack:
        memtend = CommandLine(home=home)
        filled(stack, MEMORIES)
        ledger = Ledger.open(stack.settings.ledger_urls)

        def fraction() -> float:
            reindex = ledger.reindexes.get("default")
            return 0.0 if reindex is None else reindex.fraction

        with constant_load(stack) as load:
            with pytest.MonkeyPatch.context() as environ:
                environ.setenv("MEMTEND_EMBEDDER", "minilm")
                memtend.ok("reindex", "--no-wait")
            wait_until(lambda: fraction() >= 0.4, seconds=400, what="half of the reindex")
            kill_run(stack)
            assert fraction() < 0.9
            wait_until(lambda: fraction() == 1.0, seconds=600, what="the reindex")
            seen = len(load.reads)
            wait_until(lambda: len(load.reads) > seen + 60, what="reads behind the switch")
        ledger.close()

        assert load.failed == []
        assert len(load.spaces) == 2
        wait_until(lambda: lost(stack, load) == set(), seconds=120, what="the last memories")
        lines = memtend.ok("export").out.splitlines()
        assert len(lines) == MEMORIES + sum(map(len, load.stored.values()))
        status = memtend.ok("reindex", "--status", "--json").value
        assert (status["serves"]["embedder"], status["stage"]) == ("all-MiniLM-L6-v2-int8", "done")
        assert status["kept"]["embedder"] == "wordllama-256-tempered"
        memtend.ok("reindex", "--drop-old")
        assert memtend.ok("reindex", "--status", "--json").value["kept"] is None
