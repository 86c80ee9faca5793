"""A data folder goes on with the embedder that filled it, and memories go to a folder of another one."""

from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.running_stack import running_stack

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

TEXTS = ("The physician treated the child.", "Interest rates went up again.", "The kettle is in the cupboard.")


def test_the_memories_of_one_embedder_go_over_to_another(tmp_path: Path) -> None:
    old, new, file = tmp_path / "old", tmp_path / "new", tmp_path / "memories.jsonl"
    with running_stack(old):
        memtend = CommandLine(home=old)
        for text in TEXTS:
            memtend.ok("store", "keeper", text)
        with pytest.MonkeyPatch.context() as environ:
            environ.setenv("MEMTEND_EMBEDDER", "minilm")
            assert memtend.ok("search", "keeper", "kettle", "--json").value[0]["text"] == TEXTS[2]
            health_checks = {health_check["check"]: health_check for health_check in memtend("doctor", "--json").value}
        assert not health_checks["embedder"]["ok"]
        for part in ("wordllama-256-tempered", "all-MiniLM-L6-v2-int8", "memtend reindex"):
            assert part in health_checks["embedder"]["seen"] + health_checks["embedder"]["mend"]
        memtend.ok("export", str(file))
    with running_stack(new, MEMTEND_EMBEDDER="minilm"):
        memtend = CommandLine(home=new)
        assert memtend.ok("import", str(file), "--json").value == {"lines": 3, "memories": 3}
        found = memtend.ok("search", "keeper", "a doctor helped a kid", "--json").value
        assert found[0]["text"] == TEXTS[0]
        assert memtend.ok("export").out == file.read_text(encoding="utf-8")
