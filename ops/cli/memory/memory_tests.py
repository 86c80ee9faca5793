"""``memtend test``: ask agents' memories the questions of memory tests, record such tests, and register them."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.recorded_queries import MOST_QUERIES
from memcore.memory.memory import Memory
from memcore.memory_tests.files import read_memory_tests, recorded_tests
from memcore.memory_tests.report import MemoryTestReport
from memcore.memory_tests.running import AskedMemory, run_memory_tests
from memcore.models.answers import Shown
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.models.memory_test import Outcome
from memcore.operational import EXIT_FAILED, EXIT_INPUT
from memcore.service.memory_tests import RegisteredTestInfo
from ops.cli.console import say, show_json
from ops.cli.progress import progress_bar
from ops.cli.session import Commands, JsonCommand

if TYPE_CHECKING:
    from memcore.service import MemoryService

app = Commands("test", "Memory tests: run, record, register, list, remove.")

#: Where tests are looked for, and where recorded questions are written.
FOLDER, RECORDED = Path("memory_tests"), Path("memory_tests/recorded.yaml")

#: The variable that holds the key for ``--url``: a command line is seen by others.
KEY = "MEMTEND_KEY"

By = Annotated[str | None, typer.Option(help="Your name; it is kept in the audit.")]
Why = Annotated[str | None, typer.Option("--reason", help="Why; the audit keeps it.")]

#: Most memories of one recorded question that its test asks for.
_MOST_FOUND = 3


@app.command("run")
def run(
    command: JsonCommand,
    files: Annotated[list[Path] | None, typer.Argument(help=f"Files or folders; {FOLDER}/ if left out.")] = None,
    url: Annotated[
        str | None, typer.Option(help=f"Ask the server at this address, with the key in {KEY}; else the stack itself.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the results as JUnit XML to this file, too.")] = None,
) -> None:
    """Ask the questions of memory tests. Exit code 1: some failed; 2: some had no answer, or a file is wrong."""
    tests = read_memory_tests(files or [FOLDER])
    with (
        _memory(command, url) as memory,
        progress_bar("asking", total=len(tests), is_silent=command.as_json) as bar,
    ):
        report = run_memory_tests(memory, tests, on_result=lambda _: bar.advance())
    # First: what came of minutes of asking is seen where the file cannot be written.
    _show(command, report)
    if junit is not None:
        _write(junit, report.junit(), mode="wb")
    if report.failed or report.errors:
        raise typer.Exit(EXIT_FAILED if report.failed else EXIT_INPUT)


def _memory(command: JsonCommand, url: str | None) -> AbstractContextManager[AskedMemory]:
    if url is None:
        return Memory.from_settings(command.settings, command.policy)
    return Memory.connect(url, key=os.environ.get(KEY))


def _show(command: JsonCommand, report: MemoryTestReport) -> None:
    counts = {"passed": report.passed, "failed": report.failed, "errors": report.errors}
    if command.as_json:
        show_json({**counts, "seconds": report.seconds, "results": list(report.results)})
        return
    others = [each for each in report.results if each.outcome is not Outcome.PASSED]
    if others:
        rows = ({**each.model_dump(), "reasons": "; ".join(each.reasons)} for each in others)
        command.show_rows(rows, "outcome", "agent", "name", "reasons")
    say(f"{report.passed} passed, {report.failed} failed, {report.errors} without an answer, {report.seconds:.1f} s")


@app.command("record")
def record(
    command: JsonCommand,
    agent: Annotated[str, typer.Option(help="Whose questions.")],
    file: Annotated[Path, typer.Argument(help="The file to write; one that is there is left as it is.")] = RECORDED,
    limit: Annotated[
        int, typer.Option(help=f"Most questions, the newest; 1 to {MOST_QUERIES}.", min=1, max=MOST_QUERIES)
    ] = 20,
) -> None:
    """Write tests of recorded questions and what they find today; read them, and keep what is right."""
    if file.exists():
        raise MemoryInputError("file", f"{file} is there: name another")
    with command.service() as (service, runner):
        asked = runner.run(service.agents.questions(agent))[:limit]
        if not asked:
            raise MemoryNotFoundError(f"no question of agent {agent} is recorded: see memory.retrieval.record_queries")
        found = [(each.question, runner.run(_strong(service, agent, each.question))) for each in asked]
    kept = [(question, entries) for question, entries in found if entries]
    if not kept:
        raise MemoryNotFoundError(f"none of the {len(asked)} recorded questions of agent {agent} finds anything")
    # Not over one that came meanwhile.
    _write(file, recorded_tests(agent, kept).encode(), mode="xb")
    command.show_facts({"file": str(file), "tests": len(kept), "found_nothing": len(found) - len(kept)})


async def _strong(service: "MemoryService", agent: str, question: str) -> tuple[MemoryEntry, ...]:
    query = MemoryQuery(text=question, standing=Shown.STRONG, limit=_MOST_FOUND)
    return await service.memories.search(agent, query)


@app.command("register")
def register(
    command: JsonCommand,
    files: Annotated[list[Path] | None, typer.Argument(help=f"Files or folders; {FOLDER}/ if left out.")] = None,
    by: By = None,
    reason: Why = None,
) -> None:
    """Register tests: maintenance breaks none that passes, and asks them after each run. Names are replaced."""
    tests = read_memory_tests(files or [FOLDER])
    command.show_facts(command.run(lambda service: service.memory_tests.register(tests, by=by, reason=reason)))


@app.command("list")
def list_tests(
    command: JsonCommand, agent: Annotated[str | None, typer.Option(help="Of this agent alone.")] = None
) -> None:
    """Show the registered tests with what came of each last."""
    found = command.run(lambda service: service.memory_tests.list(agent_id=agent))
    shown = [RegisteredTestInfo.of(each) for each in found]
    if command.as_json:
        show_json([each.model_dump(mode="json") for each in shown])
        return
    rows = [{**each.model_dump(), "reasons": "; ".join(each.reasons)} for each in shown]
    command.show_rows(rows, "agent_id", "name", "outcome", "asked_at", "run_id", "reasons")


@app.command("remove")
def remove(
    command: JsonCommand,
    agent: Annotated[str, typer.Option(help="Whose.")],
    names: Annotated[list[str] | None, typer.Argument(help="Names of tests, as `test list` shows them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of the agent's.")] = False,
    by: By = None,
    reason: Why = None,
) -> None:
    """Remove registered tests: nothing is held up for them any more."""
    if bool(names) == every:
        raise MemoryInputError("names", "name tests, or say --all")
    wanted = tuple(names) if names else None
    gone = command.run(lambda service: service.memory_tests.remove(agent, names=wanted, by=by, reason=reason))
    if wanted and (missing := sorted({*wanted}.difference(gone))):
        raise MemoryNotFoundError(f"names: {missing[0]!r} is no test of {agent}; {len(gone)} were removed")
    command.show_facts({"removed": len(gone)})


def _write(file: Path, content: bytes, *, mode: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open(mode) as target:
            target.write(content)
    except OSError as error:
        raise MemoryInputError("file", f"{file} cannot be written ({error.strerror or type(error).__name__})") from None
