"""What the client takes and refuses before anything is sent; the broker is one that writes down what it is given."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from support.memories import NOW

from memcore import AsyncMemoryClient, MemoryClient, Scope
from memcore.client.envelopes import LevelChecker, OutgoingJob
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.errors import FineTuneRunActiveError, MemoryInputError
from memcore.ledger.ledger import Ledger
from memcore.models.finetune import FineTunePlan
from memcore.models.memory import MemoryStoreRequest

FIELDS = {"category": "semantic", "content": "x", "metadata": {"tags": ["tea"]}, "expires_at": "2999-01-01T00:00:00Z"}


class Broker:
    """Takes the place of the client's connection."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send_many(self, _name: str, outgoing_jobs: Iterable[OutgoingJob], **_how: object) -> None:
        self.sent.extend(json.loads(outgoing_job.payload) for outgoing_job in outgoing_jobs)

    def close(self) -> None:
        pass


@pytest.fixture
def broker() -> Broker:
    return Broker()


def client_of(broker: Broker, *, levels: LevelChecker | None = None) -> MemoryClient:
    client = MemoryClient("redis://127.0.0.1:1/0", company="acme", clock=lambda: NOW, levels=levels)
    client._opened = broker  # type: ignore[assignment]  # it has what these calls need
    return client


def test_a_mapping_is_the_memory_that_its_fields_say(broker: Broker) -> None:
    client, request = client_of(broker), MemoryStoreRequest.model_validate(FIELDS)
    receipts = [
        client.store("ada", {**FIELDS}, scope={"session_id": "s"}),
        client.store("ada", request, scope=Scope(session_id="s")),
        client.store_many("ada", [FIELDS]),
        client.store_many("ada", [request]),
        client.import_many([{"agent_id": "ada", "channel": "agent", **FIELDS}]),
    ]
    assert len({each.memory_ids for each in receipts}) == 1
    assert broker.sent[0] == broker.sent[1]
    assert broker.sent[2] == broker.sent[3]
    assert broker.sent[0]["items"][0]["request"]["metadata"]["tags"] == ["tea"]


async def test_the_async_client_takes_a_mapping_too(broker: Broker) -> None:
    client = AsyncMemoryClient("redis://127.0.0.1:1/0", company="acme", clock=lambda: NOW)
    client.blocking._opened = broker  # type: ignore[assignment]  # as above
    one = await client.store("ada", {**FIELDS})
    many = await client.store_many("ada", [{**FIELDS}])
    assert one.memory_ids == many.memory_ids
    with pytest.raises(MemoryInputError, match=r"^content: is missing$"):
        await client.store("ada", {"category": "semantic"})
    await client.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"category": "semantic"}, "content: is missing"),
        ({**FIELDS, "colour": "red"}, "colour: is not a known field"),
        ({**FIELDS, "metadata": {"confidence": 2}}, "metadata.confidence: must be less than or equal to 1"),
        ({**FIELDS, "expires_at": "9999-12-31T23:59:59-12:00"}, "expires_at: must lie from the year 1000 to the year"),
        ({1: 2}, ": "),
        ("tea", "must be a MemoryStoreRequest or a mapping of its fields, and is of type str"),
        (None, "must be a MemoryStoreRequest or a mapping of its fields, and is of type NoneType"),
    ],
)
def test_what_is_no_memory_is_refused_by_its_field(broker: Broker, given: Any, said: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        client_of(broker).store("ada", given)
    assert said in str(refused.value)
    with pytest.raises(MemoryInputError) as refused:
        client_of(broker).store_many("ada", [FIELDS, given])
    assert str(refused.value).startswith("requests.1")
    assert said in str(refused.value)
    assert broker.sent == []


def test_a_mapping_where_many_belong_and_a_scope_that_is_none_are_refused_by_name(broker: Broker) -> None:
    with pytest.raises(MemoryInputError, match=r"^requests\.0: must be a MemoryStoreRequest or a mapping"):
        client_of(broker).store_many("ada", FIELDS)  # type: ignore[arg-type]  # the mistake
    for given, said in (("s", r"^scope: must be a Scope or"), ({"room": "s"}, r"^scope\.room: is not")):
        scope: Any = given
        with pytest.raises(MemoryInputError, match=said):
            client_of(broker).store("ada", FIELDS, scope=scope)
    with pytest.raises(MemoryInputError, match=r"^records\.0\.agent_id: is missing$"):
        client_of(broker).import_many([FIELDS])
    assert broker.sent == []


def test_a_fine_tune_run_is_refused_while_another_has_not_ended(
    broker: Broker, sqlite_ledger: LedgerUrls, tmp_path: Any
) -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0",
        qdrant_url="http://127.0.0.1:1",
        database_url=sqlite_ledger.ledger,
        journal_url=sqlite_ledger.journal,
        home=tmp_path,
        company="acme",
    )
    client, plan = client_of(broker, levels=LevelChecker(settings)), FineTunePlan()
    first = client.finetune(plan, request_id="one")
    ledger = Ledger.open(sqlite_ledger)
    ledger.finetune_runs.start("acme", plan.model_dump(mode="json"), run_id=first.job_id)

    with pytest.raises(FineTuneRunActiveError, match="a run has not ended: see `memtend finetune status`"):
        client.finetune(plan)
    assert len(broker.sent) == 1
    assert client.finetune(plan, request_id="one") == first, "the same request starts no second run"

    ledger.finetune_runs.cancel("acme")
    assert client.finetune(plan).job_id != first.job_id
    ledger.close()


def test_a_client_that_cannot_see_the_ledger_leaves_it_to_the_worker(broker: Broker) -> None:
    assert client_of(broker).finetune(FineTunePlan()).job_id == broker.sent[0]["run_id"]


def test_what_a_plan_leaves_open_is_not_sent_to_a_worker_that_may_not_know_it(broker: Broker) -> None:
    client_of(broker).finetune(FineTunePlan(epochs=2, minutes=10.0))
    assert broker.sent[0]["plan"] == {"epochs": 2, "minutes": 10.0}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.undo("ada", None), "run_id: must be text, and is of type NoneType"),
        (lambda client: client.restore("ada", 5), "entry_id: must be text, and is of type int"),
        (lambda client: client.end_session("ada", None), "session_id: must be text"),
        (lambda client: client.end_project("ada", b"p"), "project_id: must be text"),
        (lambda client: client.end_task("ada", None), "task_id: must be text"),
        (lambda client: client.status(None), "job_id: must be text"),
        (lambda client: client.finetune(5), "plan: must be a FineTunePlan or a mapping of its fields"),
        (lambda client: client.finetune({}, request_id=5), "request_id: must be text"),
        (lambda client: client.record_experience("ada", output="o"), "prompt: is missing"),
        (lambda client: client.record_experience("ada", prompt="p", output="o", foo=1), "foo: is not a known field"),
        (lambda client: client.record_experience("ada", prompt="p", output="o", metadata=5), "metadata: must be a"),
        (lambda client: client.record_experience("ada", prompt="p", output="o", reasoning_trace=5), "reasoning_trace"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_sent(broker: Broker, call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        call(client_of(broker))
    assert str(refused.value).startswith(said)
    assert broker.sent == []
