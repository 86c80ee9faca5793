import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.installed_extras import declared
from support.thorough import examples

from memcore.embedding import static as wordllama_files
from memcore.embedding.protocol import EmbedderKind
from memcore.embedding.static import Pooling, StaticEmbedder, StaticTable
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.ledger.collections import EmbedderIdentity

TEXTS = [
    "The payment service retries three times before it gives up.",
    "retry_count = 3  # raised after the outage\n\tsecond line",
    "Straße, naïve café, ÅNGSTRÖM",
    "東京で会議があります \N{SMILING FACE WITH SUNGLASSES}",
    "a",
    "!!!",
    "long " * 3_000,
]

#: Run in a process of its own: importing wordllama sets up logging for the whole process.
WORDLLAMA = """
import json, pathlib, sys
import numpy as np
import wordllama
model = wordllama.WordLlama.load(cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True)
np.save(sys.argv[2], model.embed(json.loads(sys.argv[1]), norm=True))
"""

#: What the embedding room must never bring in: each costs seconds or hundreds of megabytes in every process.
IMPORTS = """
import sys
from memcore.embedding import protocol
assert "numpy" not in sys.modules, "the protocol alone must stay light"
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.factory import create_embedder
create_embedder().embed_documents(["one text"]), Bm25Encoder().encode_document("one text")
print(*sorted({"torch", "transformers", "wordllama", "mem0", "qdrant_client", "requests"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def tempered() -> StaticEmbedder:
    return StaticEmbedder(StaticTable.of_wheel())


@pytest.fixture(scope="module")
def mean() -> StaticEmbedder:
    return StaticEmbedder(StaticTable.of_wheel(Pooling.MEAN))


def test_the_mean_agrees_with_wordllama_itself(mean: StaticEmbedder, tmp_path: Path) -> None:
    target = tmp_path / "theirs.npy"
    subprocess.run([sys.executable, "-c", WORDLLAMA, json.dumps(TEXTS), str(target)], check=True, capture_output=True)
    np.testing.assert_allclose(mean.embed_documents(TEXTS), np.load(target), atol=2e-6)


def test_vectors_have_unit_length(tempered: StaticEmbedder) -> None:
    vectors = tempered.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), 256)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


def test_a_batch_is_its_texts_one_by_one_to_the_last_bit(tempered: StaticEmbedder) -> None:
    texts = [f"{text[:200]} {number}" for number in range(60) for text in TEXTS]
    np.testing.assert_array_equal(tempered.embed_documents(texts), np.stack([tempered.embed_query(t) for t in texts]))


def test_the_empty_text_is_near_nothing(tempered: StaticEmbedder) -> None:
    assert not tempered.embed_query("").any()
    assert not tempered.embed_documents(["", "word"])[0].any()


def test_no_texts_have_no_rows(tempered: StaticEmbedder) -> None:
    assert tempered.embed_documents([]).shape == (0, 256)


def test_one_text_where_many_belong_is_refused(tempered: StaticEmbedder) -> None:
    with pytest.raises(MemoryInputError, match="texts"):
        tempered.embed_documents("one text")


def test_tempering_hears_the_topic_over_case_and_filler(tempered: StaticEmbedder, mean: StaticEmbedder) -> None:
    question, answer, decoy = (
        "HOW OFTEN DO THE BACKUPS RUN?",
        "backups start every night",
        "HOW OFTEN DO THE BUSES LEAVE?",
    )
    for embedder, is_right in ((tempered, True), (mean, False)):
        asked = embedder.embed_query(question)
        right, wrong = embedder.embed_documents([answer, decoy]) @ asked
        assert bool(right > wrong) is is_right


def test_case_and_compatibility_forms_do_not_matter_when_tempered(tempered: StaticEmbedder) -> None:
    np.testing.assert_array_equal(
        tempered.embed_query("Release PLAN \N{LATIN SMALL LIGATURE FI}x"), tempered.embed_query("release plan fix")
    )


def test_the_name_stands_for_these_exact_vectors(tempered: StaticEmbedder) -> None:
    # Collections record the name. When this fails, the vectors have changed: give the pooling a new name first.
    assert tempered.name == "wordllama-256-tempered"
    first = tempered.embed_query("Backups of the billing database run at night.")[:4]
    np.testing.assert_allclose(first, [0.0151421, -0.0674112, 0.0153546, 0.0295575], atol=1e-5)


@settings(max_examples=examples(25), deadline=None)
@given(text=st.text(alphabet=st.characters(exclude_categories=())))
def test_no_text_is_refused(tempered: StaticEmbedder, text: str) -> None:
    vector = tempered.embed_query(text)
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0 if text else 0.0, abs=1e-5)


def test_threads_share_one_embedder(tempered: StaticEmbedder) -> None:
    texts = [f"worker {number} answered ticket {number * 7}" for number in range(400)]
    expected = tempered.embed_documents(texts)
    with ThreadPoolExecutor(8) as pool:
        np.testing.assert_array_equal(np.stack(list(pool.map(tempered.embed_query, texts))), expected)


def test_the_identity_says_what_made_the_vectors(mean: StaticEmbedder) -> None:
    assert EmbedderIdentity.of(mean, text_form="dated-speaker-1") == EmbedderIdentity(
        name="wordllama-256-mean", kind=EmbedderKind.STATIC, dims=256, text_form="dated-speaker-1"
    )


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama_files, "find_spec", lambda _name: None)
    with pytest.raises(MemoryConfigError, match=r"wheel wordllama: pip install "):
        StaticEmbedder(StaticTable.of_wheel())


def test_where_the_wheel_has_no_python_its_files_are_taken_from_the_last_that_it_has() -> None:
    assert wordllama_files.installs((3, 13, 9)) == "pip install 'memtend[engine]'"
    reported = wordllama_files.installs((3, 14, 0))
    assert "--only-binary=:all: --python-version 3.13 " in reported
    assert reported.endswith(f" {wordllama_files.WHEEL}")
    pinned = next(each for each in declared()["engine"] if each.name == "wordllama")
    assert f"wordllama{pinned.specifier}" == wordllama_files.WHEEL
    assert pinned.marker
    assert [pinned.marker.evaluate({"python_version": version}) for version in ("3.13", "3.14")] == [True, False]


def test_a_wheel_without_its_files_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordllama_files, "_WEIGHTS", Path("weights", "gone.safetensors"))
    with pytest.raises(MemoryConfigError, match="wordllama"):
        StaticEmbedder(StaticTable.of_wheel())


def test_embedding_imports_no_heavy_library() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == ""
