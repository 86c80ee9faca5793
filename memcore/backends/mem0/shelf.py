"""One collection and all that belongs to it: whoever asks it can only ask with the embedder that filled it."""

from collections.abc import Callable
from dataclasses import dataclass

from qdrant_client import QdrantClient

from memcore.backends.mem0.history import History
from memcore.backends.mem0.indexed_text import IndexedText
from memcore.backends.mem0.reader import Reader
from memcore.backends.mem0.search import Search, SearchPlan
from memcore.backends.mem0.shared_points import SharedPoints
from memcore.backends.mem0.writer import Writer
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder, EmbedderIdentity, EmbedderKind

#: From an embedder's kind, and the fusion weight that came with its collection, to how text queries are answered.
PlanOf = Callable[[EmbedderKind, float | None], SearchPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A collection with its embedder, and what reads and writes it; it is made whole, and never changed.

    Attributes:
        collection: its name in the store.
        plan: how text queries are answered.
        shared: the shared knowledge that lies in it.
    """

    collection: str
    embedder: Embedder
    encoder: Bm25Encoder
    text: IndexedText
    identity: EmbedderIdentity
    plan: SearchPlan
    reader: Reader
    search: Search
    writer: Writer
    shared: SharedPoints


def build_shelf(
    client: QdrantClient,
    collection: str,
    *,
    history: History,
    embedder: Embedder,
    encoder: Bm25Encoder,
    text: IndexedText,
    plan: SearchPlan,
    takes_untold: bool,
) -> Shelf:
    """Put a collection and its embedder together."""
    identity = EmbedderIdentity.of(embedder, text_form=text.form(encoder.weighting))
    writer = Writer(
        client,
        collection,
        history=history,
        embedder=embedder,
        encoder=encoder,
        text=text,
        space=identity.label,
        takes_untold=takes_untold,
    )
    return Shelf(
        collection=collection,
        embedder=embedder,
        encoder=encoder,
        text=text,
        identity=identity,
        plan=plan,
        reader=Reader(client, collection, space=identity.label),
        search=Search(client, collection, embedder=embedder, encoder=encoder, plan=plan),
        writer=writer,
        shared=SharedPoints(client, collection, writer=writer, dims=embedder.dims),
    )
