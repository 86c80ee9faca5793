"""The commands that change the embedder, and those that deploy a checkpoint, as a person types them.

They have a stack of their own: the others are asked what they say where no memory was ever embedded anew.
"""

from collections.abc import Generator
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.registered_checkpoints import DIMS, WEIGHT, registered
from support.running_stack import StackAddress, running_stack

from memcore.finetune.run_folder import RUNS
from memcore.ledger.ledger import Ledger
from ops.cli.maintenance.finetune import TYPED

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("embedders") / "home") as address:
        yield address


@pytest.fixture(scope="module")
def memtend(stack: StackAddress) -> CommandLine:
    return CommandLine(home=stack.home)


@pytest.mark.slow(because="a stack of its own, whose memories are embedded twice")
def test_there_and_back_again(memtend: CommandLine) -> None:
    assert memtend.ok("reindex", "--status", "--json").value["fills"] is None
    memtend.ok("store", "embedder-keeper", "The kettle is in the cupboard.")
    assert "serves already" in memtend("reindex").err
    assert "--cancel and --rollback are two things" in memtend("reindex", "--cancel", "--rollback").err
    assert "no old collection" in memtend("reindex", "--rollback").err

    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("MEMTEND_EMBEDDER", "static-mean")
        there = memtend.ok("reindex", "--dense-weight", "0.5", "--json").value
    assert (there["serves"]["embedder"], there["serves"]["dense_weight"]) == ("wordllama-256-mean", 0.5)
    assert (there["kept"]["embedder"], there["fraction"]) == ("wordllama-256-tempered", 1.0)
    memtend.ok("store", "embedder-keeper", "The ladder is behind the door.")

    back = memtend.ok("reindex", "--rollback", "--json").value
    assert (back["serves"]["embedder"], back["kind"]) == ("wordllama-256-tempered", "back")
    found = memtend.ok("search", "embedder-keeper", "ladder", "--json").value
    assert found[0]["text"] == "The ladder is behind the door."
    assert "kept" in memtend.ok("reindex", "--drop-old").out
    assert "no old collection" in memtend("reindex", "--drop-old").err


@pytest.mark.slow(because="a stack of its own, whose memories are embedded twice")
def test_a_checkpoint_serves_is_gone_back_from_and_deleted(stack: StackAddress, memtend: CommandLine) -> None:
    def uses() -> dict[str, str | None]:
        return {each["checkpoint_id"]: each["use"] for each in memtend.ok("finetune", "checkpoints", "--json").value}

    ledger = Ledger.open(stack.settings.ledger_urls)
    checkpoint = registered(ledger, stack.settings.company, stack.home / RUNS)
    ledger.close()
    wanted = checkpoint.checkpoint_id
    memtend.ok("store", "checkpoint-keeper", "a tidy garden with tea")
    assert uses()[wanted] is None
    assert memtend("finetune", "deploy", wanted).code == 2, "nobody said so"
    unknown = memtend("finetune", "deploy", "another", "--by", "ada")
    assert (unknown.code, "names no checkpoint" in unknown.err) == (1, True)

    there = memtend.ok("finetune", "deploy", wanted, "--by", "ada", "--reason", "it leads", "--json").value
    assert (there["serves"]["checkpoint_id"], there["serves"]["dims"]) == (wanted, DIMS)
    assert (there["serves"]["dense_weight"], there["stage"]) == (WEIGHT, "done")
    assert there["kept"]["checkpoint_id"] is None
    assert memtend.ok("search", "checkpoint-keeper", "tea", "--json").value[0]["text"] == "a tidy garden with tea"
    assert uses()[wanted] == "serves"
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
    assert wanted not in uses()
    lines = memtend.ok("audit", "--actor", "ada", "--json").value
    assert [line["action"] for line in lines] == ["finetune.delete", "finetune.rollback", "finetune.deploy"]
    assert [line["reason"] for line in lines] == [TYPED, TYPED, "it leads"]
