"""What the policy and the settings say about the embedder, put together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.embedding_server import EmbeddingServer, embedding_server

from memcore.backends.factory import create_configured_embedder, embedder_choice
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.batching import CachedEmbedder
from memcore.embedding.protocol import PromptPrefixes
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import MemoryConfigError


def settings(home: Path, **more: Any) -> Settings:
    return Settings.model_validate(
        {
            "broker_url": "redis://127.0.0.1:1/0",
            "database_url": "postgresql://127.0.0.1/memtend",
            "qdrant_url": "http://127.0.0.1:1",
            "home": home,
            **more,
        }
    )


def policy(**embedder: Any) -> Policy:
    return Policy.model_validate({"memory": {"embedder": embedder or None}})


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def test_the_policy_wins_over_the_setting(tmp_path: Path) -> None:
    found = settings(tmp_path, embedder="minilm")
    assert embedder_choice(found, policy()).provider == "minilm"
    assert embedder_choice(found, policy(provider="static")).provider == "static"
    assert embedder_choice(found, policy(query_prefix="q: ")).provider == "minilm"


def test_a_checkpoint_takes_the_place_of_the_model(tmp_path: Path) -> None:
    checkpoint = {"enabled": True, "checkpoint_path": "/models/7", "base_model": "all-MiniLM-L6-v2"}
    chosen = embedder_choice(settings(tmp_path), policy(provider="onnx", model="m", dims=3, fine_tune=checkpoint))
    assert (chosen.provider, chosen.model, chosen.dims) == ("onnx", "/models/7", None)
    idle = policy(provider="onnx", model="m", dims=3, fine_tune={**checkpoint, "enabled": False})
    assert embedder_choice(settings(tmp_path), idle).model == "m"


def test_white_space_in_a_prefix_is_kept(tmp_path: Path) -> None:
    chosen = embedder_choice(settings(tmp_path), policy(provider="onnx", query_prefix="query: "))
    assert chosen.prompt_prefixes == PromptPrefixes(query_prefix="query: ")


def test_prefixes_that_nobody_names_are_left_to_the_model_and_a_checkpoint_has_none(tmp_path: Path) -> None:
    left = embedder_choice(settings(tmp_path), policy(provider="onnx", model="m", dims=3))
    assert left.prompt_prefixes is None
    none = embedder_choice(settings(tmp_path), policy(provider="onnx", document_prefix=""))
    assert none.prompt_prefixes == PromptPrefixes()
    checkpoint = {"enabled": True, "checkpoint_path": "/models/7", "base_model": "all-MiniLM-L6-v2"}
    assert embedder_choice(settings(tmp_path), policy(fine_tune=checkpoint)).prompt_prefixes == PromptPrefixes()


def test_a_row_of_an_earlier_release_goes_on_without_the_models_prefixes() -> None:
    earlier = {"provider": "onnx", "model": "m", "prompt_prefixes": {"query_prefix": "", "document_prefix": ""}}
    read = EmbedderChoice.model_validate(earlier)
    assert read.prompt_prefixes == PromptPrefixes()
    assert EmbedderChoice.model_validate_json(read.model_dump_json()) == read
    # A release that knows no such choice reads the row as having none.
    assert "prompt_prefixes" not in EmbedderChoice(provider="onnx", model="m").model_dump(mode="json")


def test_a_server_is_reached_with_its_key_and_the_key_is_never_shown(tmp_path: Path, server: EmbeddingServer) -> None:
    found = settings(tmp_path, embedder="vllm", embedder_url=server.url, embedder_api_key="the-key")
    embedder = create_configured_embedder(found, policy(model="stub", dims=16))
    assert isinstance(embedder, CachedEmbedder)
    embedder.embed_query("tea")
    embedder.embed_query("tea")
    assert (server.asked, server.keys) == ([["tea"]], ["Bearer the-key"])
    for shown in (repr(found), str(found), repr(embedder_choice(found, policy()))):
        assert "the-key" not in shown


def test_a_backend_that_embeds_nothing_loads_nothing(tmp_path: Path) -> None:
    in_memory = Policy.model_validate({"memory": {"backend": "inmemory", "embedder": {"provider": "no such"}}})
    assert create_configured_embedder(settings(tmp_path), in_memory) is None


def test_the_embedded_stack_takes_the_embedder_of_the_environment_and_keeps_it(tmp_path: Path) -> None:
    environ = {"MEMTEND_EMBEDDER": "ollama", "MEMTEND_EMBEDDER_API_KEY": "k", "MEMTEND_EMBEDDER_HAS_GPU": "no"}
    environ["MEMTEND_FINE_TUNE_IMAGE"] = "tuner:1"
    written = settings(tmp_path).with_models({**environ, "MEMTEND_COMPANY": "other", "PATH": "/bin"})
    written.save_stack()
    read = Settings.load({}, tmp_path)
    assert (read.embedder, read.embedder_has_gpu, read.company) == ("ollama", False, "default")
    assert read.fine_tune_image == "tuner:1"
    assert read.embedder_api_key is not None
    assert read.embedder_api_key.get_secret_value() == "k"


def test_what_an_operator_says_of_a_gpu_is_yes_or_no(tmp_path: Path) -> None:
    with pytest.raises(MemoryConfigError, match="MEMTEND_EMBEDDER_HAS_GPU"):
        settings(tmp_path).with_models({"MEMTEND_EMBEDDER_HAS_GPU": "perhaps"})
