"""kill -9 of the model and its worker between two questions: each memory gets its notes, each change is seen."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.command_line import CommandLine
from support.running_stack import StackAddress, running_stack, wait_until
from support.stored import payloads
from support.stub_llm_process import StubLLM, stub_llm

from examples.stub_llm.fault import Fault, Scripted
from memcore import MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.jobs import BasePayload, ChangesPayload, SearchNotesPayload
from memcore.ledger.tables import work_items
from memcore.maintenance.search_notes import AT_A_TIME
from memcore.models.memory import MemoryCategory
from memcore.records import SEARCH_NOTES_KEY, SUCCESSION_KEY
from ops.cli.session import ledger_of

pytestmark = pytest.mark.acceptance

AGENT = "ada"

NOTES = {"kind": "car", "who": "driver", "words": ["vehicle", "road", "parking", "garage"]}
NOTE = "car, driver, vehicle, road, parking, garage"

CHANGE = {"question": "What does this one drive?", "then": "a red Volvo", "now": "a blue Fiat"}

#: Who drove something else before.
DRIVERS = ("Ada", "Ben", "Cleo", "Dora", "Emil", "Fritz")

BEFORE, AFTER = {f"{each} drives a red Volvo." for each in DRIVERS}, {f"{each} drives a blue Fiat." for each in DRIVERS}


class Killed:
    """A stack whose model answers some questions well; then model and worker are killed, and both come back.

    Attributes:
        model: what answers.
    """

    def __init__(self, stack: StackAddress, model: StubLLM, answer: dict[str, Any]) -> None:
        self.stack, self.model = stack, model
        self._answers = Scripted(fault=Fault.SAY, text=json.dumps(answer), times=None)

    def kill_after(self, answered: int, *, then_asked: int, work: type[BasePayload]) -> None:
        """Run maintenance until so many questions were answered, and so many more asked."""
        self.model.order(self._answers.model_copy(update={"times": answered}), Scripted(fault=Fault.HANG, times=None))
        now = datetime.now(UTC)
        with MemoryClient.from_settings(self.stack.settings) as client:
            made = [
                ImportRecord(agent_id=AGENT, category=MemoryCategory.SEMANTIC, content=text, created_at=at)
                for texts, at in ((BEFORE, now - timedelta(days=9)), (AFTER, now - timedelta(days=2)))
                for text in sorted(texts)
            ]
            list(client.wait(client.import_many(made).job_ids, timeout_seconds=600))
            client.maintain_now(AGENT)
        wait_until(lambda: len(self.model.log()) == answered + then_asked, what="the next questions")
        worker, restarts = psutil.Process(self.stack.pid("worker-llm")), self.stack.restarts("worker-llm")
        self.model.process.kill()
        worker.kill()
        wait_until(lambda: self.stack.restarts("worker-llm") > restarts, what="the model's worker to be back")
        self.stack.lapse(work_items.c.kind == work.task)

    @contextmanager
    def back(self) -> Generator[StubLLM]:
        """Start the model again, and another scene."""
        with stub_llm("--port", self.model.url.rpartition(":")[2].partition("/")[0]) as model:
            model.order(self._answers)
            with MemoryClient.from_settings(self.stack.settings) as client:
                client.maintain_now(AGENT)
            yield model

    def marked(self, key: str) -> list[Any]:
        """Return what the memories that have it have under a key, in the order of their texts."""
        found = sorted(payloads(self.stack.settings).values(), key=lambda each: str(each["data"]))
        assert {each["data"] for each in found} == BEFORE | AFTER, "no text is changed"
        return [each[key] for each in found if each.get(key)]


@contextmanager
def killed(home: Path, step: str, answer: dict[str, Any]) -> Generator[Killed]:
    home.mkdir()
    enabled = {"llm": {"model": "stub", "attempts": 1}, "consolidation": {step: {"enabled": True}}}
    (home / "policy.yaml").write_text(json.dumps({"memory": {"level": "persistent", **enabled}}), encoding="utf-8")
    with stub_llm() as model, running_stack(home, MEMTEND_LLM_URL=model.url) as stack:
        yield Killed(stack, model, answer)


def test_search_notes_are_written_in_the_end(tmp_path: Path) -> None:
    with killed(tmp_path / "home", "search_notes", NOTES) as scene:
        scene.kill_after(AT_A_TIME, then_asked=AT_A_TIME, work=SearchNotesPayload)
        assert len(scene.marked(SEARCH_NOTES_KEY)) == AT_A_TIME, "what was answered is kept"
        with scene.back() as model:
            wait_until(lambda: len(scene.marked(SEARCH_NOTES_KEY)) == 2 * len(DRIVERS), what="all notes")
            assert len(model.log()) == 2 * len(DRIVERS) - AT_A_TIME, "nobody is asked about twice"
        assert [each["texts"] for each in scene.marked(SEARCH_NOTES_KEY)] == [[NOTE]] * 2 * len(DRIVERS)


def test_changes_are_seen_in_the_end_and_their_undo_is_exact(tmp_path: Path) -> None:
    with killed(tmp_path / "home", "changes", CHANGE) as scene:
        # A pair takes two questions, of which the second is shown it the other way round.
        scene.kill_after(5, then_asked=1, work=ChangesPayload)
        assert len(scene.marked(SUCCESSION_KEY)) == 2, "what was answered is kept"
        with scene.back() as model:
            wait_until(lambda: len(scene.marked(SUCCESSION_KEY)) == len(DRIVERS), what="all changes")
            assert len(model.log()) == 2 * (len(DRIVERS) - 2), "no pair is asked about twice"
        memtend = CommandLine(home=scene.stack.home)
        with ledger_of(scene.stack.settings) as ledger:
            runs = ledger.runs.list(scene.stack.settings.company, agent_id=AGENT, limit=20)
        for run in [each for each in runs if each.kind == "changes"]:
            memtend.ok("runs", "undo", run.run_id)
        wait_until(lambda: scene.marked(SUCCESSION_KEY) == [], what="the undo")
