"""MemtendRetriever in a chain of LangChain's own parts."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from pydantic import ValidationError
from support.fake_memory import FakeMemory

from memcore.adapters.langchain import MemtendRetriever
from memcore.errors import MemoryInputError

AGENT = "oncall"


@pytest.fixture(autouse=True)
def kept(fake: FakeMemory) -> None:
    for text, fields in (
        ("The payment queue pages at 500 messages.", {"attributes": {"team": "payments"}, "key": "paging"}),
        ("Refunds need a second person.", {"namespace": "refunds", "source": "wiki", "tags": ["rule"]}),
        ("Lunch is at noon.", {}),
    ):
        fake.put(AGENT, text, **fields)
    fake.put("another", "The payment queue of another agent.")


def test_the_documents_are_the_agents_memories_best_first(fake: FakeMemory) -> None:
    found = MemtendRetriever(memory=fake, agent_id=AGENT, k=2).invoke("when does the payment queue page?")
    assert [type(each) for each in found] == [Document, Document]
    best = found[0]
    assert best.page_content == "The payment queue pages at 500 messages."
    assert best.id == best.metadata["id"]
    assert best.metadata["key"] == "paging"
    assert best.metadata["attributes"] == {"team": "payments"}
    assert best.metadata["score"] > found[1].metadata["score"] >= 0
    assert all(each.metadata["agent_id"] == AGENT for each in found)


async def test_the_awaited_call_finds_the_same(fake: FakeMemory) -> None:
    retriever = MemtendRetriever(memory=fake, agent_id=AGENT)
    assert await retriever.ainvoke("lunch") == retriever.invoke("lunch")


@pytest.mark.parametrize(
    ("filters", "texts"),
    [
        ({"namespaces": ["refunds"]}, ["Refunds need a second person."]),
        ({"attributes": {"team": "payments"}}, ["The payment queue pages at 500 messages."]),
    ],
)
def test_the_filters_are_those_of_a_search(fake: FakeMemory, filters: dict[str, Any], texts: list[str]) -> None:
    retriever = MemtendRetriever(memory=fake, agent_id=AGENT, filters=filters)
    assert [each.page_content for each in retriever.invoke("anything")] == texts


def test_metadata_says_where_a_memory_comes_from(fake: FakeMemory) -> None:
    retriever = MemtendRetriever(memory=fake, agent_id=AGENT, filters={"namespaces": ["refunds"]})
    metadata = retriever.invoke("refunds")[0].metadata
    assert (metadata["source"], metadata["tags"], metadata["category"]) == ("wiki", ["rule"], "semantic")
    assert metadata["created_at"].startswith("2026-11-26T")


def test_it_is_a_part_of_a_chain(fake: FakeMemory) -> None:
    def texts(documents: list[Document]) -> list[str]:
        return [each.page_content for each in documents]

    chain = MemtendRetriever(memory=fake, agent_id=AGENT, k=1) | RunnableLambda(texts)
    assert chain.invoke("lunch at noon") == ["Lunch is at noon."]


@pytest.mark.parametrize("k", [0, 1_001])
def test_a_wrong_number_of_documents_is_refused(fake: FakeMemory, k: int) -> None:
    with pytest.raises(ValidationError):
        MemtendRetriever(memory=fake, agent_id=AGENT, k=k)


def test_an_error_of_the_memory_reaches_the_caller(fake: FakeMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_given: object, **_named: object) -> None:
        raise MemoryInputError("text", "is too long")

    monkeypatch.setattr(fake, "search", search)
    with pytest.raises(MemoryInputError):
        MemtendRetriever(memory=fake, agent_id=AGENT).invoke("x")
