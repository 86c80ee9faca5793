"""Whether a prompt answers as well with origins as without: 300 questions, facts of every channel."""

import tempfile
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

from benchmarks.nights.facts import facts
from pydantic import SecretStr
from support.ledger_records import sqlite_urls
from support.store_servers import store_server

from memcore.backends.factory import create_worker_backend
from memcore.client.envelopes import build_payload
from memcore.clock import utc_now
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.ingest import Ingestor
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate, migrate_history
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.models.origin import Authority, Channel, Writer
from memcore.retrieval.context import ContextInjectionStrategy

#: Questions, and by which channels the facts came in turn.
QUESTIONS = 300
CHANNELS = (Channel.PERSON, Channel.AGENT, Channel.TOOL, Channel.DOCUMENT)

_COMPANY, _AGENT = "bench", "ada"


async def evidence(authorities: Mapping[Channel, Authority], *, tokens: Sequence[int]) -> list[float]:
    """Return the share of the questions whose answer a prompt of so many tokens holds, 0 to 1."""
    known = facts()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        urls, history = sqlite_urls(home), f"sqlite:///{home / 'history.db'}"
        migrate(urls)
        migrate_history(history)
        policy = Policy.model_validate({"memory": {"origins": {"authority": dict(authorities)}}})
        with store_server(home / "vectors") as store:
            settings = Settings(
                company=_COMPANY,
                home=home,
                broker_url="redis://127.0.0.1:1/0",
                database_url=urls.ledger,
                journal_url=urls.journal,
                history_url=history,
                qdrant_url=store.url,
                qdrant_api_key=SecretStr(store.api_key),
            )
            backend, ledger = create_worker_backend(settings, policy), Ledger.open(urls)
            await backend.connect()
            try:
                items = [
                    build_payload(
                        _AGENT,
                        MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=fact.text),
                        company=_COMPANY,
                        sent_at=utc_now(),
                        origin=Writer(principal="key").origin(channel),
                    )
                    for fact, channel in zip(known, cycle(CHANNELS), strict=False)
                ]
                await Ingestor.by_policy(backend, ledger, company=_COMPANY, policy=policy).write(items)
                strategy = ContextInjectionStrategy(
                    backend=backend,
                    config=policy.memory.retrieval,
                    authorities=policy.memory.origins.authority,
                )
                shares: list[float] = []
                for most in tokens:
                    found = 0
                    for fact in known[:QUESTIONS]:
                        messages = await strategy.prepare_messages(_AGENT, fact.question, most)
                        found += any(fact.value in each.content for each in messages)
                    shares.append(found / QUESTIONS)
                return shares
            finally:
                await backend.disconnect()
                ledger.close()
