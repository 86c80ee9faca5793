"""What is remembered of a person before a reply, beside one bare query of the store."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

from benchmarks.figure import Figure
from benchmarks.searching import asked
from benchmarks.stack import BenchStack
from benchmarks.texts import Texts
from qdrant_client import QdrantClient
from support.kept_conversations import arc, fact, keep, rule

from memcore.backends.base import fresh_record
from memcore.backends.protocol import MemoryBackend
from memcore.clock import utc_now
from memcore.config.conversation import ConversationConfig
from memcore.conversation.entries import searched_text
from memcore.conversation.loading import TurnLoader
from memcore.embedding.protocol import Embedder
from memcore.ledger.conversation.memory import Embedded
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import Owner

_COMPANY = "bench-load"
_OWNER = Owner(agent_id="agent-0", subject="user:ada")

#: Memories written in one call, and results asked for, as in a search.
_FILL, _RESULTS = 1_024, 10


def turn_loads(
    stack: BenchStack, qdrant: QdrantClient, embedder: Embedder, texts: Texts, *, size: int, rounds: int
) -> list[Figure]:
    """Give a person so many facts, and an agent as many memories, and ask both every question that many times."""
    memories = texts.requests(size, mark="load")
    with (
        stack.backend(_COMPANY) as (backend, runner),
        closing(Ledger.open(stack.settings.ledger_urls)) as ledger,
    ):
        for start in range(0, size, _FILL):
            part = memories[start : start + _FILL]
            records = [fresh_record(_OWNER.agent_id, each, company=_COMPANY, now=utc_now()) for each in part]
            runner.run(backend.store_many(records))
        _fill(ledger, backend.vector_space or "", embedder, [each.content for each in memories])

        async def open_backend() -> MemoryBackend:
            return backend

        def loading(*, cached: bool) -> Callable[[str], int]:
            most = 10 * size if cached else 0
            loader = TurnLoader(ledger, company=_COMPANY, config=ConversationConfig(), max_cached_entries=most)
            return lambda text: len(
                runner.run(loader.load_turn(_OWNER, text, session_id="s", open_backend=open_backend)).entries()
            )

        def bare(text: str) -> int:
            answer = qdrant.query_points(
                f"memtend_{_COMPANY}", query=embedder.embed_query(text).tolist(), limit=_RESULTS, with_payload=True
            )
            return len(answer.points)

        contenders = {
            "load_turn": loading(cached=True),
            "load_turn after a write: all is read again": loading(cached=False),
            "raw: embed + one dense query of the store": bare,
        }
        return asked(contenders, f"before a reply, {size:,} facts", rounds)


def _fill(ledger: Ledger, space: str, embedder: Embedder, texts: list[str]) -> None:
    now = datetime.now(UTC)
    facts = [fact(f"f-{number}", text[:500], at=now) for number, text in enumerate(texts)]
    vectors = embedder.embed_documents([searched_text(each) for each in facts])
    embedded = {each.fact_id: Embedded(space, row) for each, row in zip(facts, vectors, strict=True)}
    arcs = [arc(f"s-{number}", text, at=now) for number, text in enumerate(texts[:20])]
    keep(ledger, _OWNER, *facts, *arcs, rule("r", "Answer briefly.", at=now), vectors=embedded, company=_COMPANY)
