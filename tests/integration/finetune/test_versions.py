"""All stages in this process, a few steps of training, on the libraries that are installed: `make test-finetune`.

Whatever they call deprecated fails here, before a release takes it away.
"""

import logging
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from memcore.finetune.checkpoint import CHECKPOINT, read_manifest
from memcore.finetune.documents import Passage, Triple, read_lines, write_lines
from memcore.finetune.encoder import needed
from memcore.finetune.evaluate import REPORT_FILE, EvalReport
from memcore.finetune.generate import TRAINING_FILE, VALIDATION_FILE
from memcore.finetune.markers import StageProgress
from memcore.finetune.mine import TRIPLES_FILE
from memcore.finetune.runner import run_stage
from memcore.finetune.runner_config import checked_config

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(os.environ.get("MEMTEND_TEST_TORCH") != "1", reason="MEMTEND_TEST_TORCH is not 1"),
    # What the libraries do to each other is not ours to mend; what is deprecated is.
    # One mark: of its filters the last that fits counts. The export is torch's, which is pinned to one release; its
    # other way of exporting takes another library.
    pytest.mark.filterwarnings(
        "ignore",
        "error::DeprecationWarning:memcore",
        "error::FutureWarning",
        "ignore:You are using the legacy TorchScript-based ONNX export:DeprecationWarning",
    ),
]

THINGS = ("pump", "valve", "lift", "crane", "bell", "boiler")
PLACES = ("hall", "yard", "gate", "dock")


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[list[logging.LogRecord]]:
    """What the libraries log, which by itself goes past the test."""
    logs = needed("transformers").utils.logging
    logs.enable_propagation()
    yield caplog.records
    logs.disable_propagation()


def stage(folder: Path, name: str, **fields: object) -> None:
    run_stage(
        checked_config({"stage": name, "seed": 7, "threads": 1, "output_dir": str(folder), **fields}), StageProgress()
    )


def trained(folder: Path, triples: Path, kind: str) -> str:
    fields = {"training_data_path": str(triples), "epochs": 1, "batch_size": 8, "learning_rate": 1e-4}
    stage(folder, "training", kind=kind, **fields)
    return read_manifest(folder / CHECKPOINT).sha256


@pytest.mark.parametrize("kind", ["static", "transformer"])
def test_the_stages_run_on_these_libraries_and_the_same_seed_gives_the_same_checkpoint(
    tmp_path: Path, said: list[logging.LogRecord], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    passages, generated, mined = (tmp_path / name for name in ("passages.jsonl", "generated", "mined"))
    mined.mkdir()
    texts = [f"The {thing} of the {place} failed, and Ada mended it." for thing in THINGS for place in PLACES]
    write_lines(passages, [Passage(text=text, source="memory") for text in texts])
    stage(generated, "generating_data", passages_path=str(passages))
    training, validation = str(generated / TRAINING_FILE), str(generated / VALIDATION_FILE)
    stage(mined, "mining_negatives", kind=kind, training_data_path=training, top_k=2)
    assert any(triple.negatives for triple in read_lines(mined / TRIPLES_FILE, Triple))
    hashes = [trained(tmp_path / name, mined / TRIPLES_FILE, kind) for name in ("first", "second")]
    assert hashes[0] == hashes[1]
    fields = {"checkpoint_path": str(tmp_path / "first" / CHECKPOINT), "validation_data_path": validation}
    stage(tmp_path / "judged", "evaluating", kind=kind, training_data_path=training, **fields)
    report = EvalReport.model_validate_json((tmp_path / "judged" / REPORT_FILE).read_bytes())
    assert report.questions > 0
    assert [each.getMessage() for each in said if "deprecat" in each.getMessage().lower()] == []
    with capsys.disabled():
        print(f" sentence-transformers {metadata.version('sentence-transformers')}: {hashes[0][:16]} twice")  # noqa: T201  # for whoever asked
