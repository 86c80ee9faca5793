import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from cli_reference import MARK, PAGE, commands, reference
from repository import ROOMS, ROOT, tree_files

from memcore.jobs.queues import Queue
from memcore.vectorstore.collection_calls import CollectionCalls
from memcore.vectorstore.read_calls import ReadCalls
from memcore.vectorstore.write_calls import WriteCalls
from workers.app import all_jobs
from workers.groups import GROUPS

if TYPE_CHECKING:
    from memcore.vectorstore.store import Store

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [path for path in tree_files() if path.suffix == ".md"]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_every_command_stands_in_the_readme_and_no_other() -> None:
    listed: list[str] = []
    for row in re.findall(r"^\| (`memtend [^|]+) \|", README, re.MULTILINE):
        # Commands of one group may share a row: `memtend agents pause` `resume`.
        first, *more = re.findall(r"`([a-z ]+)`", row)
        listed += [first, *(f"{first.rpartition(' ')[0]} {name}" for name in more)]
    assert listed == [command.path for command in commands()]


def missing_parts(readme: str) -> dict[str, list[str]]:
    """What README says is not there: each part with the modules that it would be."""
    (said,) = re.findall(r"^- Not in this release: (.*)\.$", readme, re.MULTILINE)
    return {part: re.findall(r"`([\w.]+)`", part) for part in re.split(r"(?<=\)), ", said)}


def present_parts(parts: dict[str, list[str]]) -> list[str]:
    """Those of the modules that can be imported, or whose last name a file, a folder or a command bears."""
    # A policy may know the keys of a part before the part is there.
    config = Path("memcore", "config")
    places = [place for path in tree_files() if config not in (place := path.relative_to(ROOT)).parents]
    taken = {part.removesuffix(".py") for place in places if place.parts[0] in ROOMS for part in place.parts}
    taken |= {word for command in commands() for word in command.path.split()}
    return [
        name
        for names in parts.values()
        for name in names
        if name.rpartition(".")[2] in taken or importlib.util.find_spec(name) is not None
    ]


def test_what_the_readme_says_is_not_there_cannot_be_imported() -> None:
    parts = missing_parts(README)
    assert all(parts.values()), f"a part names no module: {parts}"
    assert present_parts(parts) == []


def test_what_has_come_since_is_seen() -> None:
    said = "- Not in this release: skills (`memcore.skills`), lessons (`memcore.procedural`), runs (`ops.runs`).\n"
    assert present_parts(missing_parts(said)) == ["memcore.skills", "memcore.procedural", "ops.runs"]


def test_the_page_of_the_command_line_says_what_the_code_says() -> None:
    expected = PAGE.read_text(encoding="utf-8").partition(MARK)[2]
    assert reference().strip() == expected.strip(), "run: PYTHONPATH=tests .venv/bin/python tests/cli_reference.py"


def test_every_command_and_option_has_its_sentence() -> None:
    for command in commands():
        assert command.help.endswith("."), command.path
        for name, text in (*command.arguments, *command.options):
            assert text, f"{command.path} {name}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_memtend_command_on_a_page_exists(path: Path) -> None:
    known = {command.path.split(" ")[1] for command in commands()}
    text = path.read_text(encoding="utf-8")
    assert {word for word in re.findall(r"[`$/] ?(?:bin/)?memtend ([a-z]+)", text) if word not in known} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert "://" in target or (path.parent / target).exists(), target


def test_the_readme_shows_the_example_that_runs() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert shown == (ROOT / "docs" / "examples" / "store_and_search.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_says_what_it_shows(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith('"""')


def test_the_map_names_every_folder_of_the_rooms() -> None:
    tree = page("tree.md")
    for path in {path.relative_to(ROOT).parent for path in tree_files() if path.name == "__init__.py"}:
        if path.parts[0] in ROOMS and len(path.parts) == 2:
            room = path.parts[0]
            assert f"{path.name}/" in tree, f"{room}/{path.name}"


def test_every_place_on_the_map_exists() -> None:
    for place in re.findall(r"`([a-z_]+/[\w/.]*)`", page("tree.md")):
        assert (ROOT / place).exists() or (ROOT / "memcore" / place).exists(), place


def test_every_queue_and_every_job_stands_on_its_page_with_its_limits() -> None:
    text = page("queues-and-jobs.md")
    takers = {queue: group.name for group in GROUPS.values() for queue in group.queues}
    for queue in Queue:
        assert f"| `{queue}` | {takers[queue]} worker |" in text
    for group in GROUPS.values():
        row = f"| `{group.name}` | {group.pool} | {group.concurrency} | {group.visibility.total_seconds():.0f} |"
        assert row in text, row
    for job in all_jobs():
        soft, hard = (limit.total_seconds() for limit in (job.limits.soft, job.limits.hard))
        row = f"| `{job.name}` | `{job.queue}` | {soft:.0f} | {hard:.0f} | {job.limits.attempts} |"
        assert row in text, row


def test_every_call_of_the_store_server_stands_on_its_page_and_no_other() -> None:
    store = cast("Store", None)
    routes: list[Any] = [route for calls in (CollectionCalls, ReadCalls, WriteCalls) for route in calls(store).routes()]
    answered = {(method, route.path) for route in routes for method in route.methods - {"HEAD"}}
    told = set(re.findall(r"^\| (GET|PUT|POST|PATCH|DELETE) \| `(/[^`]+)` \|$", page("store-server.md"), re.MULTILINE))
    assert told == answered
