"""CPU per text of the embedders that need no server: ``python tests/benchmarks/embedders.py``."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.texts import Texts, questions  # noqa: E402

from memcore.embedding.batching import CachedEmbedder  # noqa: E402
from memcore.embedding.factory import create_embedder  # noqa: E402
from memcore.embedding.onnx import OnnxEmbedder, minilm_folder  # noqa: E402
from memcore.embedding.protocol import Embedder  # noqa: E402

#: Memories that are measured; MiniLM takes about two seconds for them.
MEMORIES = 400

#: Times that each figure is taken; the median counts.
ROUNDS = 3


def main() -> None:
    """Print one line a figure: what, and milliseconds of CPU a text."""
    memories = [request.content for request in Texts().requests(MEMORIES, mark="bench")]
    asked = questions()
    print(f"{sum(map(len, memories)) / len(memories):.0f} characters a memory")  # noqa: T201  # it prints its figures
    show("static: load", cpu(lambda: create_embedder("static"), texts=1))
    static, minilm = create_embedder("static"), plain_minilm()
    show("minilm: load", cpu(plain_minilm, texts=1))
    both: tuple[tuple[str, Embedder], ...] = (("static", static), ("minilm", minilm))
    for name, embedder in both:
        show(f"{name}: memories in a batch", cpu(partial(embedder.embed_documents, memories), texts=len(memories)))
        show(f"{name}: questions one by one", cpu(partial(one_by_one, embedder, asked), texts=len(asked)))
    cached = CachedEmbedder(minilm)
    cached.embed_documents(memories)
    show("minilm: found in the cache", cpu(lambda: cached.embed_documents(memories), texts=len(memories)))


def plain_minilm() -> OnnxEmbedder:
    """Return MiniLM without the cache that the factory puts before it."""
    return OnnxEmbedder(minilm_folder())


def one_by_one(embedder: Embedder, texts: list[str]) -> None:
    """Embed each text as a question of its own."""
    for text in texts:
        embedder.embed_query(text)


def cpu(work: Callable[[], object], *, texts: int) -> float:
    """Return the median CPU time of the process, in milliseconds a text, after one round to warm up."""

    def once() -> float:
        start = process_time()
        work()
        return (process_time() - start) * 1_000 / texts

    once()
    return median(once() for _ in range(ROUNDS))


def show(what: str, milliseconds: float) -> None:
    """Print one figure."""
    print(f"{what:<40} {milliseconds:10.4f} ms CPU a text")  # noqa: T201  # see above


if __name__ == "__main__":
    main()
