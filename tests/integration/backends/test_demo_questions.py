"""The questions of the fine-tuning demo find their notes, though they are asked in other words."""

import asyncio

from support.memories import StoppedClock, record

from examples.demo.finetuning.corpus import notes, questions
from examples.demo.finetuning.judging import Judge
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.static import StaticEmbedder, StaticTable


def test_most_questions_find_their_note_among_the_first_ten(place: Mem0Config, clock: StoppedClock) -> None:
    noted = notes()
    records = [record(note.agent_id, note.text) for note in noted]
    keys = {stored.entry.id: note.key for stored, note in zip(records, noted, strict=True)}
    embedder = StaticEmbedder(StaticTable.of_wheel())
    backend = Mem0Backend(place, company="c", embedder=embedder, encoder=Bm25Encoder(), clock=clock)
    with asyncio.Runner() as runner:
        runner.run(backend.connect())
        runner.run(backend.store_many(records))
        *_, recall = Judge(backend, backend, runner, questions(), keys).figures().means()
        runner.run(backend.disconnect())
    assert recall > 0.7
