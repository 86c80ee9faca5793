"""ONNX folders: pooling and prefixes are those of the model's own files, and what is not understood is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.onnx_models import onnx_folder, place_vectors, token_ids, token_vectors

from memcore.embedding.batching import BatchEmbedder
from memcore.embedding.factory import create_embedder
from memcore.embedding.onnx import TokenPooling, pooled
from memcore.embedding.protocol import PromptPrefixes
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import MemoryConfigError, MemoryEmbeddingError

#: Texts of different lengths in one batch: all but the longest are padded.
TEXTS = ["tea", "garden tea queue full", "payment failed"]

POOLING = "1_Pooling/config.json"
PROMPTS = "config_sentence_transformers.json"

_Rows = NDArray[np.float32]


def loaded(folder: Path, **choice: Any) -> BatchEmbedder:
    embedder = create_embedder(EmbedderChoice(provider="onnx", model=str(folder), dims=8, **choice))
    assert isinstance(embedder, BatchEmbedder)
    return embedder


def by_hand(text: str, pool: Callable[[_Rows], _Rows]) -> _Rows:
    vector = pool(token_vectors()[token_ids(text)])
    unit: _Rows = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def mean(rows: _Rows) -> _Rows:
    found: _Rows = rows.mean(axis=0)
    return found


def first(rows: _Rows) -> _Rows:
    found: _Rows = rows[0]
    return found


def last(rows: _Rows) -> _Rows:
    found: _Rows = rows[-1]
    return found


@pytest.mark.parametrize("pads_left", [False, True])
@pytest.mark.parametrize(
    ("config", "pool"),
    [
        (None, mean),
        ({}, mean),
        ({"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}, mean),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_lasttoken": False}, mean),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, first),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True, "include_prompt": True}, last),
        ({"pooling_mode": "mean"}, mean),
        ({"pooling_mode": "cls", "embedding_dimension": 8}, first),
        ({"pooling_mode": ["lasttoken"]}, last),
    ],
)
def test_the_vector_of_a_text_is_what_the_folder_says_of_its_tokens(
    tmp_path: Path, config: dict[str, Any] | None, pool: Callable[[_Rows], _Rows], *, pads_left: bool
) -> None:
    folder = onnx_folder(tmp_path / "m", files={} if config is None else {POOLING: config}, pads_left=pads_left)
    found = loaded(folder).embed_documents(TEXTS)
    np.testing.assert_allclose(found, [by_hand(text, pool) for text in TEXTS], atol=1e-6)


@pytest.mark.parametrize(
    ("pooling", "pool"), [(TokenPooling.MEAN, mean), (TokenPooling.CLS, first), (TokenPooling.LAST, last)]
)
def test_pooling_passes_over_padding_on_either_side(pooling: TokenPooling, pool: Callable[[_Rows], _Rows]) -> None:
    rows = np.random.default_rng(3).normal(size=(5, 6)).astype(np.float32)
    for mask in ([1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]):
        wanted = pool(rows[np.array(mask, dtype=np.bool_)])
        (found,) = pooled(rows[np.newaxis], np.array([mask]), pooling)
        np.testing.assert_allclose(found / np.linalg.norm(found), wanted / np.linalg.norm(wanted), atol=1e-6)


def test_the_pooling_of_another_folder_is_read_where_the_modules_name_it(tmp_path: Path) -> None:
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "2_Pool", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    files = {"modules.json": modules, "2_Pool/config.json": {"pooling_mode_cls_token": True}}
    found = loaded(onnx_folder(tmp_path / "m", files=files)).embed_query("garden tea")
    np.testing.assert_allclose(found, by_hand("garden tea", first), atol=1e-6)


def test_a_model_that_pools_itself_is_believed_whatever_its_files_say(tmp_path: Path) -> None:
    files = {
        POOLING: {"pooling_mode_max_tokens": True},
        "modules.json": [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}],
    }
    found = loaded(onnx_folder(tmp_path / "m", files=files, is_pooled=True)).embed_query("garden tea")
    np.testing.assert_allclose(found, by_hand("garden tea", mean), atol=1e-6)


def test_places_are_counted_from_a_texts_first_token(tmp_path: Path) -> None:
    embedder = loaded(onnx_folder(tmp_path / "m", has_places=True, files={POOLING: {"pooling_mode_lasttoken": True}}))
    found = embedder.embed_documents(TEXTS)
    for text, row in zip(TEXTS, found, strict=True):
        numbers = token_ids(text)
        wanted = token_vectors()[numbers[-1]] + place_vectors()[len(numbers) - 1]
        np.testing.assert_allclose(row, wanted / np.linalg.norm(wanted), atol=1e-6)


@pytest.mark.parametrize(
    ("config", "asked", "stored"),
    [
        ({"prompts": {"query": "query ", "document": "note "}}, "query ", "note "),
        ({"prompts": {"query": "query ", "passage": "note "}}, "query ", "note "),
        ({"prompts": {"query": "query ", "document": "", "passage": "note "}}, "query ", "note "),
        ({"prompts": {"query": None, "document": "note "}}, "", "note "),
        ({"prompts": {"query": "query "}, "default_prompt_name": None}, "query ", ""),
        ({"prompts": {"query": "query ", "both": "note "}, "default_prompt_name": "both"}, "query ", "note "),
        ({"prompts": {"query": "query ", "document": ""}, "default_prompt_name": "query"}, "query ", ""),
        ({"prompts": {"classification": "note "}}, "", ""),
        ({"prompts": None}, "", ""),
        ({}, "", ""),
    ],
)
def test_prefixes_are_those_of_the_models_own_files(
    tmp_path: Path, config: dict[str, Any], asked: str, stored: str
) -> None:
    embedder = loaded(onnx_folder(tmp_path / "m", files={PROMPTS: config}))
    np.testing.assert_allclose(embedder.embed_query("tea"), by_hand(f"{asked}tea", mean), atol=1e-6)
    np.testing.assert_allclose(embedder.embed_documents(["tea"])[0], by_hand(f"{stored}tea", mean), atol=1e-6)


def test_prefixes_of_the_policy_stand_for_those_of_the_files(tmp_path: Path) -> None:
    folder = onnx_folder(tmp_path / "m", files={PROMPTS: {"prompts": {"query": "query ", "document": "note "}}})
    none = loaded(folder, prompt_prefixes=PromptPrefixes())
    np.testing.assert_allclose(none.embed_query("tea"), by_hand("tea", mean), atol=1e-6)
    other = loaded(folder, prompt_prefixes=PromptPrefixes(document_prefix="queue "))
    np.testing.assert_allclose(other.embed_query("tea"), by_hand("tea", mean), atol=1e-6)
    np.testing.assert_allclose(other.embed_documents(["tea"])[0], by_hand("queue tea", mean), atol=1e-6)


def test_two_embedders_of_one_model_that_pool_or_prefix_otherwise_have_two_names(tmp_path: Path) -> None:
    files: list[dict[str, Any]] = [
        {},
        {POOLING: {"pooling_mode_cls_token": True}},
        {POOLING: {"pooling_mode_lasttoken": True}},
        {PROMPTS: {"prompts": {"query": "query "}}},
        {PROMPTS: {"prompts": {"document": "query "}}},
        {"sentence_bert_config.json": {"max_seq_length": 16}},
    ]
    names = [loaded(onnx_folder(tmp_path / str(place) / "m", files=each)).name for place, each in enumerate(files)]
    assert len(set(names)) == len(files)
    # What is stored already keeps its embedder: a mean without prefixes is named as before.
    assert names[0].startswith("m-")
    assert names[0].count("-") == 1


@pytest.mark.parametrize(
    ("path", "content", "field"),
    [
        (POOLING, {"pooling_mode_max_tokens": True}, "pooling_mode_max_tokens"),
        (POOLING, {"pooling_mode_weightedmean_tokens": True}, "pooling_mode_weightedmean_tokens"),
        (POOLING, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "pooling_mode_mean_tokens"),
        (POOLING, {"pooling_mode_mean_tokens": False}, "pooling_mode"),
        (POOLING, {"pooling_mode": "max"}, "pooling_mode"),
        (POOLING, {"pooling_mode": ["cls", "mean"]}, "pooling_mode"),
        (POOLING, {"pooling_mode": 3}, "pooling_mode"),
        (POOLING, {"pooling_mode": "mean", "include_prompt": False}, "include_prompt"),
        ("modules.json", [{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}], "Dense"),
        ("modules.json", {"0": "Transformer"}, "modules.json"),
        ("modules.json", ["Transformer"], "modules.json"),
        (PROMPTS, {"prompts": ["query: "]}, "prompts"),
        (PROMPTS, {"prompts": {"query": 1}}, "prompts"),
        (PROMPTS, {"prompts": {"query": "q: "}, "default_prompt_name": "document"}, "default_prompt_name"),
        (PROMPTS, {"prompts": {}, "default_prompt_name": ["query"]}, "default_prompt_name"),
        (PROMPTS, {"similarity_fn_name": "dot"}, "similarity_fn_name"),
        (PROMPTS, ["prompts"], "config_sentence_transformers"),
    ],
)
def test_what_is_not_understood_is_refused_by_file_and_field(
    tmp_path: Path, path: str, content: Any, field: str
) -> None:
    folder = onnx_folder(tmp_path / "m", files={path: content})
    with pytest.raises(MemoryConfigError) as refused:
        loaded(folder)
    assert str(folder / path) in str(refused.value)
    assert field in str(refused.value)


def test_a_dot_product_of_unit_vectors_is_a_cosine(tmp_path: Path) -> None:
    files = {
        PROMPTS: {"similarity_fn_name": "dot"},
        "modules.json": [{"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}],
    }
    assert loaded(onnx_folder(tmp_path / "m", files=files)).dims == 8


def test_a_model_that_wants_another_input_is_refused_by_name(tmp_path: Path) -> None:
    folder = onnx_folder(tmp_path / "m", more_inputs=["pixel_values"])
    with pytest.raises(MemoryConfigError, match=r"model\.onnx wants the input pixel_values"):
        loaded(folder)


def test_a_model_whose_vectors_are_as_long_as_their_texts_fails_by_its_name(tmp_path: Path) -> None:
    embedder = create_embedder(EmbedderChoice(provider="onnx", model=str(onnx_folder(tmp_path / "m", is_flat=True))))
    with pytest.raises(MemoryEmbeddingError, match=r"m-[0-9a-f]+ gave no vector of one length"):
        embedder.embed_documents(TEXTS)
