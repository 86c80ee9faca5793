"""Loading and weighing a registered checkpoint; the rest is in integration/reindex/test_deployment.py."""

import pytest
from support.checkpoint_rows import checkpoint_row
from support.finetune_fixture import report
from support.ledger_records import COMPANY, StoppedClock

from memcore.embedding.protocol import PromptPrefixes
from memcore.errors import CheckpointCorruptError
from memcore.finetune.checkpoint import choice_of, fusion_weight_of, require_whole

ROW = checkpoint_row("one", company=COMPANY, at=StoppedClock().now)


@pytest.mark.parametrize(("kind", "provider"), [("static", "static"), ("transformer", "onnx")])
def test_both_kinds_are_loaded_without_torch(kind: str, provider: str) -> None:
    choice = choice_of(ROW.model_copy(update={"kind": kind}))
    assert (choice.provider, choice.model, choice.dims) == (provider, ROW.model_path, ROW.dims)
    # As it was trained, whatever the files of its base model say.
    assert choice.prompt_prefixes == PromptPrefixes()


def test_the_weight_is_what_the_evaluation_found() -> None:
    found = report().model_copy(update={"fusion_weight": 0.85}).model_dump(mode="json")
    row = ROW.model_copy(update={"report": found})
    assert fusion_weight_of(row, at_least=0.4) == 0.85
    assert fusion_weight_of(row, at_least=0.9) == 0.9
    with pytest.raises(CheckpointCorruptError, match=f"report of checkpoint {ROW.checkpoint_id}"):
        fusion_weight_of(ROW, at_least=0.4)


def test_a_folder_that_is_not_there_is_told_by_its_place() -> None:
    with pytest.raises(CheckpointCorruptError, match=ROW.model_path):
        require_whole(ROW)
