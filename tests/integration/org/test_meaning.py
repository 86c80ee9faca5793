"""Facts found by meaning and by words, with the embedder that is there without being asked for."""

import logging
from pathlib import Path

import pytest
from pydantic import SecretStr
from support.hashing_embedder import HashingEmbedder
from support.organization_facts import GRACE, request
from support.store_servers import store_server

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.organization import OrgMemoryConfig
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.embedding.static import StaticEmbedder, StaticTable
from memcore.ledger.ledger import Ledger
from memcore.models.answers import Shown
from memcore.models.organization import OrgFactCategory, OrgMemoryQuery
from memcore.org.service import LedgerOrgMemory

POLICY = OrgFactCategory.CORE_POLICY


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return StaticEmbedder(StaticTable.of_wheel())


async def found(memory: LedgerOrgMemory, context: str, **more: object) -> list[str]:
    query = OrgMemoryQuery.model_validate({"context": context, "standing": "any", **more})
    return [fact.content for fact in await memory.query(query)]


async def written(memory: LedgerOrgMemory) -> None:
    for text in (
        "Physicians must wash their hands before surgery",
        "The car park closes at midnight",
        "Invoices are paid within thirty days",
        "Release 4711 is frozen",
    ):
        await memory.write(request(text), author=GRACE)


async def test_a_fact_that_shares_no_word_with_the_question_is_found_by_meaning(
    memory: LedgerOrgMemory, ledger: Ledger, company: str
) -> None:
    await written(memory)
    by_words = LedgerOrgMemory(ledger.org, OrgMemoryConfig(), company=company)
    await by_words.connect()
    for question, fact in (
        ("doctor hygiene in hospital", "Physicians must wash their hands before surgery"),
        ("vehicle garage", "The car park closes at midnight"),
        ("billing payment deadline", "Invoices are paid within thirty days"),
    ):
        assert await found(by_words, question) == []
        assert (await found(memory, question))[0] == fact


async def test_a_fact_about_something_else_is_no_answer_unless_the_nearest_is_asked_for(
    memory: LedgerOrgMemory,
) -> None:
    await memory.write(request("Deployments happen on Tuesdays"), author=GRACE)
    assert await memory.query(OrgMemoryQuery(context="which database do we use")) == ()
    assert len(await memory.query(OrgMemoryQuery(context="which database do we use", standing=Shown.ANY))) == 1
    assert len(await memory.query(OrgMemoryQuery(context="when do deployments happen"))) == 1


async def test_words_still_count(memory: LedgerOrgMemory) -> None:
    await written(memory)
    # A number says nothing to the embedder that it does not say of other numbers.
    await memory.write(request("Release 4712 is out", category=POLICY), author=GRACE)
    assert (await found(memory, "4711"))[0] == "Release 4711 is frozen"
    assert (await found(memory, "4712"))[0] == "Release 4712 is out"
    assert await found(memory, "doctor release 4711", categories={POLICY}) == ["Release 4712 is out"]
    assert await found(memory, "doctor", categories=frozenset()) == []


async def test_an_old_text_and_a_retracted_one_are_never_found_by_meaning(
    memory: LedgerOrgMemory, ledger: Ledger, company: str
) -> None:
    fact_id = await memory.write(request("Physicians must wash their hands before surgery"), author=GRACE)
    other = await memory.write(request("Doctors wear a white coat"), author=GRACE)
    await memory.write(request("The canteen sells soup"), author=GRACE, fact_id=fact_id)
    await memory.retract(other, author=GRACE)
    assert await found(memory, "medical hygiene") == ["The canteen sells soup"]
    assert len(ledger.org.pending(company)) == 0


async def test_what_the_store_does_not_show_yet_is_found_by_words_and_only_as_it_stands(
    memory: LedgerOrgMemory, ledger: Ledger, company: str
) -> None:
    fact_id = await memory.write(request("Physicians must wash their hands before surgery"), author=GRACE)
    other = await memory.write(request("Doctors wear a white coat"), author=GRACE)
    ledger.org.publish(company, fact_id, request("The canteen sells soup"), author=GRACE)
    ledger.org.retract(company, other, author=GRACE)
    assert len(ledger.org.pending(company)) == 2
    assert await found(memory, "physicians and doctors") == []
    assert await found(memory, "canteen") == ["The canteen sells soup"]


async def test_without_the_store_words_answer_and_one_event_says_so(
    ledger: Ledger, company: str, place: Mem0Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with store_server(tmp_path / "store") as address:
        there = place.model_copy(update={"url": address.url, "api_key": SecretStr(address.api_key)})
        backend = Mem0Backend(there, company=company, embedder=HashingEmbedder(), encoder=Bm25Encoder())
        await backend.connect()
        memory = LedgerOrgMemory(ledger.org, OrgMemoryConfig(), company=company, backend=backend)
        await memory.connect()
        await written(memory)
    caplog.clear()
    assert await found(memory, "release garage") == ["Release 4711 is frozen"]
    fact_id = await memory.write(request("Tea is served in the garage"), author=GRACE)
    assert await found(memory, "tea") == ["Tea is served in the garage"]
    events = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert events == ["org_memory.query.degraded", "org_memory.show.deferred", "org_memory.query.degraded"]
    assert "garage" not in caplog.text
    assert [line.fact_id for line in ledger.org.pending(company)] == [fact_id]
    await backend.disconnect()
