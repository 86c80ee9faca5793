"""Checkpoints deployed, gone back from and deleted, as a person types it, in a stack whose worker carries it out."""

from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.registered_checkpoints import DIMS, WEIGHT, registered
from support.running_stack import running_stack

from memcore.finetune.run_folder import RUNS
from memcore.ledger import Ledger
from ops.cli.maintenance.finetune import TYPED

pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow(because="a stack of its own, whose memories are embedded twice")
def test_a_checkpoint_serves_is_gone_back_from_and_deleted(tmp_path: Path) -> None:
    with running_stack(tmp_path / "home") as stack:
        memtend = CommandLine(home=stack.home)
        ledger = Ledger.open(stack.settings.ledger_urls)
        checkpoint = registered(ledger, stack.settings.company, stack.home / RUNS)
        ledger.close()
        wanted = checkpoint.checkpoint_id
        memtend.ok("store", "keeper", "a tidy garden with tea")
        assert memtend.ok("finetune", "checkpoints", "--json").value[0]["use"] is None
        assert memtend("finetune", "deploy", wanted).code == 2, "nobody said so"
        unknown = memtend("finetune", "deploy", "another", "--by", "ada")
        assert (unknown.code, "names no checkpoint" in unknown.err) == (1, True)

        there = memtend.ok("finetune", "deploy", wanted, "--by", "ada", "--reason", "it leads", "--json").value
        assert (there["serves"]["checkpoint_id"], there["serves"]["dims"]) == (wanted, DIMS)
        assert (there["serves"]["dense_weight"], there["stage"]) == (WEIGHT, "done")
        assert there["kept"]["checkpoint_id"] is None
        assert memtend.ok("search", "keeper", "tea", "--json").value[0]["text"] == "a tidy garden with tea"
        assert memtend.ok("finetune", "checkpoints", "--json").value[0]["use"] == "serves"
        assert "serves" in memtend.ok("finetune", "checkpoints").out
        health_checks = {health_check["check"]: health_check for health_check in memtend("doctor", "--json").value}
        assert health_checks["embedder"]["ok"]
        assert f"checkpoint {wanted} serves" in health_checks["embedder"]["seen"]
        in_use = memtend("finetune", "delete", wanted, "--by", "ada", "--yes")
        assert (in_use.code, "memtend finetune rollback" in in_use.err) == (1, True)

        back = memtend.ok("finetune", "rollback", "--by", "ada", "--json").value
        assert (back["serves"]["checkpoint_id"], back["kept"]["checkpoint_id"]) == (None, wanted)
        assert memtend("finetune", "deploy", wanted, "--by", "ada").code == 1
        memtend.ok("reindex", "--drop-old")
        unsure = memtend("finetune", "delete", wanted, "--by", "ada")
        assert (unsure.code, "say --yes" in unsure.err) == (2, True)
        assert Path(checkpoint.model_path).is_dir()
        memtend.ok("finetune", "delete", wanted, "--by", "ada", "--yes")
        assert not Path(checkpoint.model_path).exists()
        assert memtend.ok("finetune", "checkpoints", "--json").value == []
        lines = memtend.ok("audit", "--actor", "ada", "--json").value
        assert [line["action"] for line in lines] == ["finetune.delete", "finetune.rollback", "finetune.deploy"]
        assert [line["reason"] for line in lines] == [TYPED, TYPED, "it leads"]
