"""What search notes do to a search and a prompt: a memory is found in other words, and its notes are never shown."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import closing

import pytest
from qdrant_client.models import PointIdsList
from support.fake_teacher import FakeTeacher
from support.memories import StoppedClock, new_agent, record

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.collection import open_client
from memcore.backends.mem0.config import Mem0Config
from memcore.backends.mem0.writer import Indexing
from memcore.config.maintenance import ConsolidationConfig
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.factory import create_embedder
from memcore.jobs import Done
from memcore.ledger.ledger import Ledger
from memcore.maintenance.search_notes import SearchNotesService
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.records import SearchNotes, Vectors, Where
from memcore.retrieval.context import ContextInjectionStrategy

TEXT, QUESTION = "Pettigrew came on 3 March, 96 pounds.", "Who repaired our furnace?"


@pytest.fixture
async def backend(place: Mem0Config, clock: StoppedClock) -> AsyncIterator[Mem0Backend]:
    backend = Mem0Backend(place, company="acme", embedder=create_embedder(), encoder=Bm25Encoder(), clock=clock)
    await backend.connect()
    yield backend
    await backend.disconnect()


async def test_a_memory_is_found_by_its_notes_and_they_are_never_shown(
    backend: Mem0Backend, clock: StoppedClock
) -> None:
    agent = new_agent()
    one = record(agent, TEXT)
    await backend.store_many([one, *(record(agent, f"Tray {at} was repaired.") for at in range(9))])
    before = await backend.retrieve(agent, MemoryQuery(text=QUESTION))
    assert before[0].content != TEXT

    await backend.set_search_notes(agent, {one.entry.id: SearchNotes(by="m", texts=("furnace, heating, repaired",))})

    found, *_ = await backend.retrieve(agent, MemoryQuery(text=QUESTION, explain=True))
    assert found.content == TEXT
    assert found.why is not None
    assert found.why.words == (), "what a model wrote is no evidence that the memory answers"
    prompts = ContextInjectionStrategy(backend=backend, config=MemoryRetrievalConfig(), clock=clock)
    shown = "\n".join(each.content for each in await prompts.prepare_messages(agent, QUESTION, 600))
    assert TEXT in shown
    assert "heating" not in shown
    assert [each.content for each in await backend.retrieve(agent, MemoryQuery(text="Pettigrew"))] == [TEXT]


async def test_other_memories_are_indexed_as_before(backend: Mem0Backend) -> None:
    agent = new_agent()
    noted, plain = record(agent, TEXT), record(agent, "Tray 7 is in the oven.")
    await backend.store_many([noted, plain])
    before = await backend.get_many(agent, [plain.entry.id], with_vectors=True)
    await backend.set_search_notes(agent, {noted.entry.id: SearchNotes(by="m", texts=("furnace",))})
    assert str(await backend.get_many(agent, [plain.entry.id], with_vectors=True)) == str(before)
    (kept,) = await backend.document_vectors([plain.entry])
    (both, _) = await backend.document_vectors(
        [plain.entry, (await backend.get_many(agent, [noted.entry.id]))[0].entry]
    )
    assert both.dense.tobytes() == kept.dense.tobytes()


async def test_a_memory_that_is_removed_meanwhile_stays_away(
    backend: Mem0Backend, place: Mem0Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = new_agent()
    gone, stays = record(agent, TEXT), record(agent, "Tray 7 is in the oven.")
    await backend.store_many([gone, stays])
    made = Indexing.vectors

    def removed_meanwhile(self: Indexing, entries: Sequence[MemoryEntry]) -> list[Vectors]:
        with closing(open_client(place)) as client:
            client.delete(place.collection, points_selector=PointIdsList(points=[gone.entry.id]), wait=True)
        return made(self, entries)

    monkeypatch.setattr(Indexing, "vectors", removed_meanwhile)
    notes = SearchNotes(by="m", texts=("furnace",))
    assert await backend.set_search_notes(agent, {gone.entry.id: notes, stays.entry.id: notes}) == 1
    assert await backend.count(agent) == 1


@pytest.mark.parametrize(
    ("words", "became"),
    [
        (["furnace", "heating", "repair", "plumber", "maintenance"], "noted"),
        (["bicycle", "honeymoon", "chess", "kitten", "suitcase"], "refused"),
    ],
)
async def test_notes_about_something_else_are_refused(
    backend: Mem0Backend, clock: StoppedClock, sqlite_ledger: LedgerUrls, words: list[str], became: str
) -> None:
    agent, ledger = new_agent(), Ledger.open(sqlite_ledger, clock=clock)
    await backend.store_many([record(agent, "The boiler was serviced by Pettigrew Heating.")])
    ledger.note_writing.request_for("acme", agent)
    writing = SearchNotesService(
        backend,
        ledger,
        ConsolidationConfig.model_validate({"search_notes": {"enabled": True}}),
        company="acme",
        model=FakeTeacher(always=json.dumps({"kind": words[0], "who": None, "words": words})),
        default_model="m",
    )
    assert (await writing.run(agent)).outcome == Done(facts={became: 1})
    (kept,) = (await backend.scan(Where(agent_id=agent))).records
    assert bool(kept.entry.search_notes) is (became == "noted")
    ledger.close()
