"""An agent's experience, in a real stack: sent over the queue, compressed after a run, found, and exported."""

from collections.abc import Generator

import pytest
from support.command_line import CommandLine
from support.running_stack import StackAddress, running_stack, wait_until
from support.stub_llm_process import StubLLM, stub_llm

from memcore.client import MemoryClient
from ops.cli.session import ledger_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

AGENT = "oncall"

#: Repeated so many times, so that a lesson is shorter.
PROMPT = "The nightly import failed at row 4711 with ENOSPC on the machine called walrus. " * 20

POLICY = """\
memory:
  level: persistent
  llm:
    model: stub
  consolidation:
    experience_compressor:
      enabled: true
    wiki_export:
      enabled: true
      export_root: wiki
      trigger: on_consolidation
"""


@pytest.fixture(scope="module")
def model() -> Generator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, model: StubLLM) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("experience") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with running_stack(home, MEMTEND_LLM_URL=model.url) as address:
        yield address


def test_what_was_told_is_found_as_a_lesson_after_the_run_and_stands_in_the_wiki(
    stack: StackAddress, model: StubLLM
) -> None:
    memtend, company = CommandLine(home=stack.home), stack.settings.company
    with MemoryClient.from_settings(stack.settings) as client:
        receipts = [
            client.record_experience(AGENT, prompt=PROMPT, output="The disk was full.", task_id=task)
            for task in ("t-1", "t-2", "t-1")
        ]
        done = {each.job_id: each for each in client.wait([each.job_id for each in receipts], timeout_seconds=120)}
        assert sum(done[each.job_id].facts["recorded"] for each in receipts) == 2
    assert memtend.ok("search", AGENT, "walrus", "--json").value == []

    memtend.ok("maintain", AGENT)
    wiki = stack.home / "wiki" / AGENT
    with ledger_of(stack.settings) as ledger:
        wait_until(lambda: ledger.experiences.count(company, AGENT).compressed == 2, what="both to be compressed")
        wait_until(lambda: len(list(wiki.glob("wiki/*.md"))) == 2, what="the wiki to have both")
        assert not ledger.experiences.has_raw(company, AGENT)
    asked = len(model.log())
    assert asked == len(set(model.keys())) == 2

    found = memtend.ok("search", AGENT, "walrus ENOSPC", "--json").value
    assert {each["metadata"]["source"] for each in found} == {receipts[0].experience_id, receipts[1].experience_id}
    assert all(each["metadata"]["tags"] == ["compressed_experience"] for each in found)
    assert {path.name for path in wiki.glob("raw/*.md")} == {f"{each.experience_id}.md" for each in receipts}
    assert f"[{AGENT}]({AGENT}/index.md) | 2 | 2 |" in (stack.home / "wiki" / "index.md").read_text(encoding="utf-8")

    memtend.ok("maintain", AGENT)
    assert len(model.log()) == asked, "the next night asks nothing again"
