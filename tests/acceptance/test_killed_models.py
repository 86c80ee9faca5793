"""kill -9 of the model's worker and of the model while search notes are written: each memory gets its own."""

import json
from pathlib import Path

import psutil
import pytest
from support.running_stack import StackAddress, running_stack, wait_until
from support.stored import payloads
from support.stub_llm_process import stub_llm

from examples.stub_llm.fault import Fault, Scripted
from memcore import MemoryClient
from memcore.jobs import SearchNotesPayload
from memcore.ledger.tables import work_items
from memcore.maintenance.search_notes import AT_A_TIME
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.records import SEARCH_NOTES_KEY

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

AGENT = "ada"

TEXTS = frozenset(f"The boiler in house {number} was serviced." for number in range(3 * AT_A_TIME))

POLICY = """\
memory:
  level: persistent
  llm:
    model: stub
    attempts: 1
  consolidation:
    search_notes:
      enabled: true
"""

ANSWER = {"kind": "heating", "who": "landlord", "words": ["furnace", "repair", "warm water", "plumber"]}
NOTE = "heating, landlord, furnace, repair, warm water, plumber"


def test_search_notes_are_written_in_the_end_whoever_is_killed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    answers = Scripted(fault=Fault.SAY, text=json.dumps(ANSWER), times=None)
    with stub_llm() as model, running_stack(home, MEMTEND_LLM_URL=model.url) as stack:
        with MemoryClient.from_settings(stack.settings) as client:
            model.order(answers.model_copy(update={"times": AT_A_TIME}), Scripted(fault=Fault.HANG, times=None))
            requests = [MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=text) for text in sorted(TEXTS)]
            client.wait(client.store_many(AGENT, requests).job_ids, timeout_seconds=600)
            client.maintain_now(AGENT)
            wait_until(lambda: len(model.log()) == 2 * AT_A_TIME, what="the second page to be asked about")
            worker, restarts = psutil.Process(stack.pid("worker-llm")), stack.restarts("worker-llm")
            model.process.kill()
            worker.kill()
            wait_until(lambda: stack.restarts("worker-llm") > restarts, what="the model's worker to be back")
            assert noted(stack) == AT_A_TIME, "what was answered is kept"

            stack.lapse(work_items.c.kind == SearchNotesPayload.task)
            wait_until(lambda: "search_notes.failed" in stack.log("worker-llm"), what="the model to be asked in vain")
            port = model.url.rpartition(":")[2].partition("/")[0]
            with stub_llm("--port", port) as back:
                back.order(answers)
                client.maintain_now(AGENT)
                wait_until(lambda: noted(stack) == len(TEXTS), what="all notes")
                assert len(back.log()) == len(TEXTS) - AT_A_TIME, "nobody is asked about twice"
        assert {each["data"] for each in payloads(stack.settings).values()} == TEXTS


def noted(stack: StackAddress) -> int:
    """Count the memories that have their notes."""
    notes = [each[SEARCH_NOTES_KEY]["texts"] for each in payloads(stack.settings).values() if SEARCH_NOTES_KEY in each]
    assert notes == [[NOTE]] * len(notes)
    return len(notes)
