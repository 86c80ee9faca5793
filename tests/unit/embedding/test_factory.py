import sys
from pathlib import Path

import pytest
from support.checkpoint_files import static_checkpoint
from support.onnx_models import onnx_folder
from support.repository import ROOT

from memcore.embedding.factory import PROVIDERS, choice_named, create_embedder
from memcore.embedding.onnx import OnnxFolder, minilm_folder
from memcore.embedding.protocol import PromptPrefixes
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import MemoryConfigError, MemoryInputError


def test_the_default_is_the_tempered_table() -> None:
    assert create_embedder().name == "wordllama-256-tempered"
    assert create_embedder("static-mean").name == "wordllama-256-mean"


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        MemoryConfigError, match="'word2vec' is unknown, choose one of static, static-mean, minilm, onnx"
    ):
        create_embedder("word2vec")


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"provider": "static", "dims": 300}, r"dims: 300 is configured, and wordllama-256-tempered makes 256"),
        (
            {"provider": "minilm", "model": "other", "dims": 384},
            r"'minilm' is a model already: leave model and dims out",
        ),
        (
            {"provider": "static", "prompt_prefixes": PromptPrefixes(query_prefix="q: ")},
            r"'static' reads no instructions",
        ),
        ({"provider": "onnx"}, r"model: 'onnx' needs one, and its dims"),
        ({"provider": "openai-compatible"}, r"'openai-compatible' needs an address: set MEMTEND_EMBEDDER_URL"),
        ({"provider": "sentence-transformers"}, r"'sentence-transformers' needs one"),
    ],
)
def test_what_does_not_fit_together_is_said_in_a_sentence(wanted: dict[str, object], sentence: str) -> None:
    with pytest.raises(MemoryConfigError, match=sentence):
        create_embedder(EmbedderChoice.model_validate(wanted))


def test_without_its_extra_sentence_transformers_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MemoryConfigError, match=r"pip install 'memtend\[finetune\]'"):
        create_embedder(EmbedderChoice(provider="sentence-transformers", model="some/model", dims=8))


def test_every_provider_of_the_documentation_is_one_and_no_other() -> None:
    page = (ROOT / "docs" / "explanation" / "embedders.md").read_text(encoding="utf-8")
    named = [
        name for line in page.splitlines() if line.startswith("| `") for name in line.split("|")[1].split("`")[1::2]
    ]
    assert sorted(named) == sorted(PROVIDERS)


def test_a_folder_says_how_its_model_is_read(tmp_path: Path) -> None:
    files = minilm_folder()
    (tmp_path / "model.onnx").symlink_to(files.model)
    with pytest.raises(MemoryConfigError, match=r"must hold model\.onnx and tokenizer\.json"):
        OnnxFolder.read(tmp_path)

    (tmp_path / "tokenizer.json").symlink_to(files.tokenizer)
    found = OnnxFolder.read(tmp_path)
    assert found.name == f"{tmp_path.name}-8199be6f699a"
    assert found.max_tokens == 256

    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1000000000000000019884624838656}')
    assert OnnxFolder.read(tmp_path).max_tokens == 256
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 8192}')
    assert OnnxFolder.read(tmp_path).max_tokens == 2_048
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    assert OnnxFolder.read(tmp_path).max_tokens == 128

    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": false}')
    assert OnnxFolder.read(tmp_path).refusal is not None
    (tmp_path / "1_Pooling" / "config.json").write_text("{")
    with pytest.raises(MemoryConfigError, match="cannot be read"):
        OnnxFolder.read(tmp_path)


def test_a_folder_or_a_name_says_which_embedder_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx_folder(tmp_path / "model")
    static_checkpoint(tmp_path / "table")
    monkeypatch.chdir(tmp_path)
    assert create_embedder(choice_named("model")).dims == 8
    assert create_embedder(choice_named("table")).dims == 32
    assert create_embedder(choice_named("static-mean")).name == "wordllama-256-mean"
    # Another process may stand elsewhere.
    assert choice_named("model").model == str(tmp_path / "model")
    with pytest.raises(MemoryInputError, match=r"'modle' is no folder, and none of static, static-mean, minilm"):
        choice_named("modle")
