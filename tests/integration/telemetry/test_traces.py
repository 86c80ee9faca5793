"""One trace from the engine's call over the broker to the write, in one process; and no text of a memory anywhere."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from celery.contrib.testing.worker import start_worker
from celery.events.dispatcher import EventDispatcher
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from support.http_api import http_api
from support.ledger_records import copied_urls
from support.store_servers import StoreAddress
from support.traces import Recorded, attributes, recorded
from support.valkey_servers import valkey_server

from memcore import Memory
from memcore.config.loader import effective_policy
from memcore.config.settings import Settings
from memcore.errors import MemoryInputError
from memcore.ingest import Ingestor
from memcore.telemetry import tracing
from workers import app as assembling
from workers.app import create_app
from workers.context import WorkerContexts
from workers.groups import STORE

# Celery's own call; a worker in this process is all that meets it under our filter
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")

#: The trace of a caller that has one.
CALLER = f"00-{'a' * 32}-{'b' * 16}-01"

#: Stands in every text, and nowhere else.
MARK = "quartzlantern"


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, ledger_template: Path, history_template: Path, shared_store: StoreAddress
) -> Iterator[Settings]:

    folder = tmp_path_factory.mktemp("traces")
    urls = copied_urls(ledger_template, folder)
    history = folder / "history.db"
    history.write_bytes(history_template.read_bytes())
    # No reader runs out of time on a busy machine.
    (folder / "policy.yaml").write_text("memory:\n  retrieval:\n    deadline_seconds: 60\n", encoding="utf-8")
    with valkey_server(folder / "broker") as broker:
        yield Settings(
            broker_url=broker.url, database_url=urls.ledger, journal_url=urls.journal, home=folder,
            history_url=f"sqlite:///{history}", qdrant_url=shared_store.url,
            qdrant_api_key=SecretStr(shared_store.api_key),
            flower_url="http://u:p@127.0.0.1:9", company="traced",
        )  # fmt: skip


@pytest.fixture(scope="module")
def flower_fields() -> Iterator[list[str]]:
    """Everything that workers and clients tell monitoring, as text."""
    fields: list[str] = []
    patch = pytest.MonkeyPatch()
    send = EventDispatcher.send

    def noting(self: Any, kind: str, *values: Any, **given: Any) -> Any:
        fields.append(json.dumps([kind, given], default=str, ensure_ascii=False))
        return send(self, kind, *values, **given)

    patch.setattr(EventDispatcher, "send", noting)
    yield fields
    patch.undo()


@contextmanager
def working(settings: Settings) -> Iterator[None]:
    """Run the store worker in this process, with contexts of its own."""
    patch, opened = pytest.MonkeyPatch(), list[WorkerContexts]()

    def contexts(*args: Any, **options: Any) -> WorkerContexts:
        opened.append(WorkerContexts(*args, **options))
        return opened[-1]

    with ExitStack() as closing:
        closing.callback(patch.undo)
        patch.setattr(assembling, "WorkerContexts", contexts)
        patch.setattr(assembling, "watch_pool", lambda *_, **__: None)
        app = create_app(settings, group=STORE)
        for queue in [name for name in app.amqp.queues if name not in set(map(str, STORE.queues))]:
            app.amqp.queues.deselect(queue)
        worker: Any = start_worker(app, perform_ping_check=False, pool="threads", concurrency=4, shutdown_timeout=60)
        closing.enter_context(worker)

        def close() -> None:
            for each in opened:
                each.close()

        closing.callback(close)
        yield


@pytest.fixture(scope="module")
def memory(installation: Settings, flower_fields: list[str]) -> Iterator[Memory]:  # noqa: ARG001  # listens first
    with working(installation), Memory.from_settings(installation, effective_policy(installation.policy_path)) as found:
        yield found


@pytest.fixture
def found(memory: Memory) -> Iterator[Recorded]:
    memory.store("ada", "What is opened once is open.", wait=True)
    with recorded() as spans:
        yield spans


def names(found: Recorded, last: str) -> list[str]:
    (span,) = found.named(last)
    return [name.partition(" ")[0] if name.startswith(("upsert", "embeddings")) else name for name in found.path(span)]


def test_a_stored_memory_is_one_trace_from_the_call_to_the_write(memory: Memory, found: Recorded) -> None:
    memory.store("ada", "Payments page at 500 messages.", wait=True)
    way = ["create_memory", "process memory.store.write", "write batch"]
    assert names(found, "upsert ") == [*way, "upsert"]
    assert names(found, "embeddings ") == [*way, "embeddings"]
    (call,), (job,), (upsert,) = found.named("create_memory"), found.named("process"), found.named("upsert ")
    assert attributes(call)["gen_ai.operation.name"] == "create_memory"
    assert attributes(call)["gen_ai.memory.store.id"] == "traced"
    assert attributes(job)["memtend.job.outcome"] == "done"
    assert attributes(upsert) == {
        "db.system.name": "qdrant",
        "db.operation.name": "upsert",
        "db.collection.name": "memtend_traced",
        "gen_ai.memory.record.count": 1,
    }


def test_a_batch_of_many_jobs_is_linked_to_each(memory: Memory, found: Recorded) -> None:
    memory.store_many("ada", [f"Fact {number} of the fleet." for number in range(200)], wait=True)
    jobs, batches = found.named("process"), found.named("write batch")
    (call,) = found.named("create_memory")
    assert attributes(call)["gen_ai.memory.record.count"] == 200
    assert sum(int(attributes(each)["gen_ai.memory.record.count"]) for each in batches) == 200
    parents = {each.parent.span_id for each in batches if each.parent is not None}
    linked = {link.context.span_id for each in batches for link in each.links}
    assert parents | linked == {each.context.span_id for each in jobs if each.context is not None}


def test_a_search_shows_its_embedding_and_its_query(memory: Memory, found: Recorded) -> None:
    hits = memory.search("ada", "what is open?")
    (search,) = found.named("search_memory")
    assert attributes(search)["gen_ai.memory.record.count"] == len(hits) > 0
    assert {found.path(each)[-2] for each in found.named("embeddings ")} == {"search_memory"}
    assert {found.path(each)[-2] for each in found.named("query ")} == {"search_memory"}


def test_what_is_not_sampled_goes_without_a_header(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with recorded() as found:
        memory.store("ada", "Nobody samples this.", wait=True)
    assert found.spans == ()


async def test_a_request_continues_its_callers_trace(installation: Settings, found: Recorded) -> None:
    async with http_api(installation) as api, api.client(api.key()) as client:
        body = {"content": "Sent over HTTP."}
        sent = await client.post("/v1/agents/ada/memories", json=body, headers={tracing.HEADER: CALLER})
        assert sent.is_success, sent.text
        assert (await client.get("/health")).is_success
    (request,) = found.named("POST")
    assert request.name == "POST /v1/agents/{agent_id}/memories"
    assert request.parent is not None
    assert format(request.parent.span_id, "016x") == "b" * 16
    (call,) = found.named("create_memory")
    assert found.path(call) == [request.name, "create_memory"]
    assert attributes(request)["http.response.status_code"] == sent.status_code
    assert found.named("GET") == []


def test_an_error_of_the_write_tells_its_class_alone(
    memory: Memory, found: Recorded, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_self: Ingestor, items: Any) -> None:
        raise ValueError(items[0].request.content)

    monkeypatch.setattr(Ingestor, "write", fail)
    job = memory.store("ada", f"the {MARK} is in the cellar").job_ids
    (status,) = memory.wait(job)
    assert status.reason == "failed with ValueError; another try would too"
    (batch,), (process,) = found.named("write batch"), found.named("process")
    assert (attributes(batch)["error.type"], attributes(process)["error.type"]) == ("ValueError", "dead")
    assert MARK not in found.texts() + caplog.text


def forms(text: str) -> set[str]:
    """Return a text as it would stand in an output: raw, and as JSON, Python and URLs write it."""
    return {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1], quote(text)}


#: Unusual texts: any character, also those that terminals, JSON and URLs write in another way.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=8, max_size=80)


@settings(
    max_examples=2,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(texts, texts, texts), min_size=8, max_size=8))
async def test_no_text_of_a_memory_or_question_is_told(
    memory: Memory,
    installation: Settings,
    flower_fields: list[str],
    caplog: pytest.LogCaptureFixture,
    triples: list[tuple[str, str, str]],
) -> None:
    stored = 0
    with (
        caplog.at_level(logging.DEBUG, logger="memcore"),
        caplog.at_level(logging.DEBUG, logger="memtend"),
        recorded() as found,
    ):
        async with http_api(installation) as api, api.client(api.key()) as client:
            for before, after, asked in triples:
                try:
                    memory.store("ada", f"{before}{MARK}{after}", wait=True)
                    stored += 1
                except MemoryInputError as error:
                    assert MARK not in str(error)  # noqa: PT017  # a text that no memory can have
                memory.search("ada", f"{asked}{MARK}")
                memory.prepare("ada", f"{asked}{MARK}", token_budget=200)
                asking = await client.post("/v1/agents/ada/search", json={"text": f"{asked}{MARK}"})
                assert asking.is_success, asking.text
            metrics = await client.get("/metrics")
    assert "memtend_" in metrics.text
    assert len(found.named("upsert ")) == stored > 0
    said = [found.texts(), metrics.text, *flower_fields]
    said += [f"{each.getMessage()} {vars(each)}" for each in caplog.records]
    flower_fields.clear()
    caplog.clear()
    written = "\n".join(said)
    assert MARK not in written
    # A text of digits or blanks alone may stand there by chance, and a word of the product's, as Hypothesis picks them.
    shown = [part for triple in triples for part in triple if re.fullmatch(r"[\w ,:./\t\n-]*", part, re.ASCII) is None]
    assert [part for part in shown if any(form in written for form in forms(part))] == []
