"""The command that changes the embedder, as a person types it."""

from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.running_stack import running_stack

pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow(because="a stack of its own, whose memories are embedded twice")
def test_there_and_back_again(tmp_path: Path) -> None:
    with running_stack(tmp_path / "home"):
        memtend = CommandLine(home=tmp_path / "home")
        assert memtend.ok("reindex", "--status", "--json").value["fills"] is None
        memtend.ok("store", "keeper", "The kettle is in the cupboard.")
        assert "serves already" in memtend("reindex").err
        assert "--cancel and --rollback are two things" in memtend("reindex", "--cancel", "--rollback").err
        assert "no old collection" in memtend("reindex", "--rollback").err

        with pytest.MonkeyPatch.context() as environ:
            environ.setenv("MEMTEND_EMBEDDER", "static-mean")
            there = memtend.ok("reindex", "--dense-weight", "0.5", "--json").value
        assert (there["serves"]["embedder"], there["serves"]["dense_weight"]) == ("wordllama-256-mean", 0.5)
        assert (there["kept"]["embedder"], there["fraction"]) == ("wordllama-256-tempered", 1.0)
        memtend.ok("store", "keeper", "The ladder is behind the door.")

        back = memtend.ok("reindex", "--rollback", "--json").value
        assert (back["serves"]["embedder"], back["kind"]) == ("wordllama-256-tempered", "back")
        found = memtend.ok("search", "keeper", "ladder", "--json").value
        assert found[0]["text"] == "The ladder is behind the door."
        assert "kept" in memtend.ok("reindex", "--drop-old").out
        assert "no old collection" in memtend("reindex", "--drop-old").err
