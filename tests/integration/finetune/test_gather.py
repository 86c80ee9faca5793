"""Gathering a fleet's memories as passages."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.execution_traces import trajectory
from support.fake_teacher import FakeTeacher
from support.finetune_fixture import FineTuneFleet
from support.ledger_records import COMPANY
from support.memories import DAWN, record, records

from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.protocol import ORGANISATION
from memcore.finetune import dataset as gather
from memcore.finetune.dataset import Gathering
from memcore.finetune.documents import Passage, read_lines
from memcore.finetune.questions import QuestionWriter
from memcore.models.finetune import FineTunePlan
from memcore.models.memory import ConsolidationInterval
from memcore.records import Lineage, MemoryRecord


class Checked:
    """A store, and how often whoever reads it says that it lives."""

    def __init__(self, fleet: FineTuneFleet) -> None:
        self.backend = InMemoryBackend(company=COMPANY, clock=fleet.clock)
        self.alive = 0
        self.gathering = Gathering(self.backend, fleet.ledger, company=COMPANY, alive=self._live)
        fleet.ledger.agents.register(COMPANY, ["ada", "bob"], interval=ConsolidationInterval.DAILY)

    async def passages(self, chunk_words: int = 512) -> list[Passage]:
        return [each.passage async for each in self.gathering.passages(chunk_words=chunk_words)]

    def _live(self) -> None:
        self.alive += 1


async def test_every_agents_memories_are_passages_and_a_tasks_title_asks_for_its_own(fleet: FineTuneFleet) -> None:
    looked = Checked(fleet)
    await looked.backend.connect()
    memory, other = record("ada", "the import failed at\n night"), record("bob", "tea is at four")
    await looked.backend.store_many([memory, other])
    fleet.ledger.trajectories.append(COMPANY, trajectory(memory.entry.id))
    assert await looked.passages() == [
        Passage(text="the import failed at night", source="task", questions=("Mend the nightly import",)),
        Passage(text="tea is at four", source="memory"),
    ]
    assert [each.text for each in await looked.passages(chunk_words=3)][:2] == ["the import failed", "at night"]
    assert looked.alive >= 4
    assert await looked.gathering.count(enough=50) == 2
    assert await looked.gathering.count(enough=1) == 1


def test_what_was_asked_right_before_a_memory_in_the_same_talk_asks_for_it(fleet: FineTuneFleet) -> None:
    def remark(content: str, minutes: int, session: str) -> MemoryRecord:
        at = DAWN + timedelta(minutes=minutes)
        return record("ada", content, created_at=at, lineage=Lineage(session_id=session))

    answer = "Ada: it lies behind the old boiler, where my aunt has left it"
    talks = [
        remark("Boris: Ada, where did you put the key?", 0, "one"),
        remark(answer, 2, "one"),
        remark("Boris: And where did you put the lamp?", 4, "one"),
        remark(f"{answer} as well", 90, "one"),
        remark("Boris: And where is your blue ladder?", 91, "one"),
        remark(f"{answer} too", 92, "two"),
    ]

    async def run() -> dict[str, tuple[str, ...]]:
        looked = Checked(fleet)
        await looked.backend.connect()
        await looked.backend.store_many(talks)
        return {each.text: each.questions for each in await looked.passages() if each.questions}

    assert asyncio.run(run()) == {answer: ("Ada, where did Ada put the key?",)}


def test_documents_and_memories_that_a_model_asked_about_come_with_its_questions(
    fleet: FineTuneFleet, tmp_path: Path
) -> None:
    documents = tmp_path / "docs"
    documents.mkdir()
    (documents / "tea.md").write_text("Tea is at four.", "utf-8")
    model, path = FakeTeacher(always='{"questions": ["When?", "Where?"]}'), tmp_path / "passages.jsonl"

    async def run(**options: Any) -> list[Passage]:
        looked = Checked(fleet)
        await looked.backend.connect()
        await looked.backend.store_many([record("ada", "the import failed"), record("bob", "the gate is shut")])
        plan = FineTunePlan(source_dir=str(documents), **options)
        writer = QuestionWriter(
            model,
            fleet.ledger,
            company=COMPANY,
            run_id="run-1",
            model_name=None,
            count=plan.queries_per_passage,
            alive=lambda: None,
            clock=fleet.clock,
        )
        await gather.gather(
            looked.backend, fleet.ledger, path, company=COMPANY, plan=plan, writer=writer, alive=lambda: None
        )
        return list(read_lines(path, Passage))

    def asked(passages: list[Passage]) -> dict[str, tuple[str, ...]]:
        return {each.text: each.questions for each in passages if each.questions}

    found = asyncio.run(run())
    assert (len(found), asked(found), model.asked) == (2, {}, [])
    found = asyncio.run(run(llm_questions=9))
    assert asked(found) == dict.fromkeys(
        ["Tea is at four.", "the import failed", "the gate is shut"], ("When?", "Where?")
    )
    assert {by.agent_id for by in model.for_whom} == {"ada", "bob", ORGANISATION}
    assert len(asked(asyncio.run(run(llm_questions=2)))) == 2
    assert [each.source for each in asyncio.run(run(llm_questions=9, uses_memories=False))] == ["document"]
    assert len(model.asked) == 3


async def test_of_many_memories_the_newest_are_taken(fleet: FineTuneFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MEMORIES_OF_AGENT", 3)

    looked = Checked(fleet)
    await looked.backend.connect()
    many = records("ada", 300, apart=timedelta(seconds=1))
    await looked.backend.store_many(many)
    assert [each.text for each in await looked.passages()] == [each.entry.content for each in many[-3:]]
