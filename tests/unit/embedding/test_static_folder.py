import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support.checkpoint_files import WORDS, static_checkpoint
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from memcore.embedding.factory import create_embedder
from memcore.embedding.protocol import PromptPrefixes
from memcore.embedding.selection import EmbedderChoice
from memcore.embedding.static import StaticEmbedder, StaticTable
from memcore.errors import MemoryConfigError
from memcore.ledger.collections import EmbedderIdentity, ServedCollection


def choice_of(folder: Path, dims: int = 32) -> EmbedderChoice:
    return EmbedderChoice(provider="static", model=str(folder), dims=dims)


def test_a_folder_of_the_default_table_is_the_default_embedder(tmp_path: Path) -> None:
    # As training begins: weighted once, and never again when it is loaded.
    model = StaticTable.of_wheel()
    save_file({"embedding.weight": model.table}, tmp_path / "table.safetensors")
    model.tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = [
        "HOW often do the backups run?",
        "東京で会議があります",
        "Straße, naïve café",
        "retry_count = 3\n\tsecond line",
        "",
    ]
    np.testing.assert_array_equal(
        create_embedder(choice_of(tmp_path, 256)).embed_documents(texts), StaticEmbedder(model).embed_documents(texts)
    )


def test_the_words_vectors_are_added_up_as_they_stand(tmp_path: Path) -> None:
    folder = static_checkpoint(tmp_path / "tuned")
    table = load_file(folder / "table.safetensors")["embedding.weight"]
    expected = sum(table[WORDS.index(word)] for word in ("the", "queue", "is", "full"))
    found = create_embedder(choice_of(folder)).embed_query("The QUEUE is full")
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-6)


def test_its_name_is_its_folder_and_what_is_in_it(tmp_path: Path) -> None:
    first = create_embedder(choice_of(static_checkpoint(tmp_path / "a" / "tuned")))
    same = create_embedder(choice_of(static_checkpoint(tmp_path / "b" / "tuned")))
    other = create_embedder(choice_of(static_checkpoint(tmp_path / "c" / "tuned", seed=1)))
    assert first.name.startswith("tuned-")
    assert first.name == same.name != other.name
    (tmp_path / "b" / "tuned" / "tokenizer.json").write_bytes(
        (tmp_path / "b" / "tuned" / "tokenizer.json").read_bytes() + b"\n"
    )
    assert create_embedder(choice_of(tmp_path / "b" / "tuned")).name != first.name


def test_what_serves_can_be_written_down_and_loaded_again(tmp_path: Path) -> None:
    choice = choice_of(static_checkpoint(tmp_path / "tuned"))
    pointer = ServedCollection(
        name="fleet.2",
        identity=EmbedderIdentity.of(create_embedder(choice), text_form="{content}"),
        choice=choice.without_server,
        text_template="{content}",
        term_weighting="counts",
    )
    row = ServedCollection.model_validate_json(pointer.model_dump_json())
    assert EmbedderIdentity.of(create_embedder(row.choice), text_form="{content}") == pointer.identity


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("table.safetensors", None, "must hold table.safetensors and tokenizer.json"),
        ("tokenizer.json", None, "must hold table.safetensors and tokenizer.json"),
        ("table.safetensors", b"no table", "holds no table that can be read"),
        ("tokenizer.json", b"{", "holds no table that can be read"),
    ],
)
def test_what_is_missing_or_broken_is_said(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    folder = static_checkpoint(tmp_path / "tuned")
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    with pytest.raises(MemoryConfigError, match=reason):
        create_embedder(choice_of(folder))


def test_a_table_of_too_few_vectors_is_refused(tmp_path: Path) -> None:
    folder = static_checkpoint(tmp_path / "tuned")
    save_file({"embedding.weight": np.zeros((3, 8), dtype=np.float32)}, folder / "table.safetensors")
    with pytest.raises(MemoryConfigError, match=f"has 3 vectors for {len(WORDS)} tokens"):
        create_embedder(choice_of(folder, 8))


def test_tokens_that_reach_across_words_are_refused(tmp_path: Path) -> None:
    folder = static_checkpoint(tmp_path / "tuned")
    # Without anything that parts words, the whole text is one token.
    Tokenizer(WordLevel({"[UNK]": 0, "tea": 1}, unk_token="[UNK]")).save(str(folder / "tokenizer.json"))
    with pytest.raises(MemoryConfigError, match="reach from one word into the next"):
        create_embedder(choice_of(folder))


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    folder = static_checkpoint(tmp_path / "tuned")
    with pytest.raises(MemoryConfigError, match=r"dims: 16 is configured, and tuned-\w+ makes 32"):
        create_embedder(choice_of(folder, 16))
    with pytest.raises(MemoryConfigError, match="reads no instructions"):
        create_embedder(choice_of(folder).model_copy(update={"prompt_prefixes": PromptPrefixes(query_prefix="q: ")}))
    with pytest.raises(MemoryConfigError, match="'static-mean' is a model already"):
        create_embedder(choice_of(folder).model_copy(update={"provider": "static-mean"}))


def test_it_needs_neither_torch_nor_the_default_tables_wheel(tmp_path: Path) -> None:
    folder = static_checkpoint(tmp_path / "tuned")
    code = (
        "import sys; sys.modules['torch'] = sys.modules['sentence_transformers'] = sys.modules['wordllama'] = None\n"
        "from memcore.embedding.selection import EmbedderChoice\n"
        "from memcore.embedding.factory import create_embedder\n"
        "made = create_embedder(EmbedderChoice(provider='static', model=sys.argv[1], dims=32))\n"
        "assert made.embed_documents(['tea', 'garden']).any()"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
