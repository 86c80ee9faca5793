"""The limit: one process that embeds and upserts in batches, straight to the same store server, without a queue."""

from uuid import uuid4

from benchmarks.meter import Measurement, measured
from benchmarks.stack import BenchStack
from benchmarks.texts import Texts, by_agent
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, Modifier, PointStruct, SparseVector, SparseVectorParams, VectorParams

from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder

#: Points in one upsert: what the store server takes in one step.
BATCH = 256


class RawLimit:
    """Dense and sparse vectors and a small payload, written with qdrant-client as its manual shows it."""

    def __init__(
        self, stack: BenchStack, qdrant: QdrantClient, embedder: Embedder, encoder: Bm25Encoder, texts: Texts
    ) -> None:
        self._stack = stack
        self._qdrant = qdrant
        self._embedder = embedder
        self._encoder = encoder
        self._texts = texts
        self._turn = 0
        self.collection = "raw-limit"
        qdrant.create_collection(
            self.collection,
            vectors_config=VectorParams(size=embedder.dims, distance=Distance.COSINE),
            sparse_vectors_config={"bm25": SparseVectorParams(modifier=Modifier.IDF)},
        )

    def run(self, count: int) -> Measurement:
        """Write that many fresh memories."""
        self._turn += 1
        memories = [
            (agent_id, request)
            for agent_id, dealt in by_agent(self._texts.requests(count, mark=f"raw {self._turn}"))
            for request in dealt
        ]
        before = self._qdrant.count(self.collection, exact=True).count
        with measured(self._stack.pids) as measurement:
            for start in range(0, count, BATCH):
                batch = memories[start : start + BATCH]
                texts = [request.content for _, request in batch]
                dense, sparse = self._embedder.embed_documents(texts), self._encoder.encode_documents(texts)
                points = [
                    PointStruct(
                        id=str(uuid4()),
                        vector={
                            "": dense[row].tolist(),
                            "bm25": SparseVector(indices=list(sparse[row].indices), values=list(sparse[row].values)),
                        },
                        payload={"data": request.content, "agent_id": agent_id, "category": request.category.value},
                    )
                    for row, (agent_id, request) in enumerate(batch)
                ]
                self._qdrant.upsert(self.collection, points, wait=True)
        found = self._qdrant.count(self.collection, exact=True).count - before
        if found != count:
            raise AssertionError(f"the raw limit wrote {found} of {count}")
        return measurement
