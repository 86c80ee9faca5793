"""What the pages say is true: their links, commands, keys, names and examples are those of the tree."""

import ast
import importlib
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from reference import cli
from reference.markdown import DOCS, README, anchors, blocks, links, pages, prose, text_of, written
from reference.page import Page
from reference.pages import PAGES
from support.repository import PRODUCT_FOLDERS, ROOT, source_files, tree_files

from examples.demo.console_pages import PICTURES
from memcore.config.errors import key_names
from memcore.config.loader import load_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError
from memcore.vectorstore.app import Calls

if TYPE_CHECKING:
    from memcore.vectorstore.store import Store

#: Most words of README, and of all that people wrote in docs.
README_WORDS, DOCS_WORDS = 600, 37_000

#: Most bytes of a picture of the console: larger ones are to be taken anew by `make pictures`, which makes them small.
PICTURE_BYTES = 120_000

#: How blocks of commands are marked.
SHELLS = ("", "bash", "console", "sh", "shell")

EXAMPLES = [path for path in tree_files() if path.parent == ROOT / "examples" and path.suffix == ".py"]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


each_page = pytest.mark.parametrize("page", pages(), ids=named)


def test_the_readme_is_short() -> None:
    assert len(text_of(README).split()) <= README_WORDS


def test_the_docs_can_be_read_in_half_a_morning() -> None:
    words = {named(page): len(written(page).split()) for page in pages() if DOCS in page.parents}
    assert sum(words.values()) <= DOCS_WORDS, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_of_the_reference_says_what_the_code_says(page: Page) -> None:
    assert page.written() == page.generated(), "run: make reference"


def test_every_command_and_option_has_its_sentence() -> None:
    for command in cli.commands():
        assert command.help.endswith("."), command.path
        for name, text in (*command.arguments, *command.options):
            assert text, f"{command.path} {name}"


@each_page
def test_every_memtend_command_on_a_page_exists(page: Path) -> None:
    known = {command.path for command in cli.commands()}
    groups = {path.rpartition(" ")[0] for path in known}
    wrong = set()
    for line in (*re.findall(r"`([^`\n]+)`", prose(page)), *"".join(blocks(page, *SHELLS)).splitlines()):
        for first, second in re.findall(r"(?:^|[$/|] ?)memtend ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", line):
            is_command = f"memtend {first}" in known
            is_in_group = f"memtend {first}" in groups and (not second or f"memtend {first} {second}" in known)
            if not is_command and not is_in_group:
                wrong.add(f"memtend {first} {second}".strip())
    assert wrong == set()


@each_page
def test_every_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    for target, anchor in links(page):
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), target
        # The site holds docs alone.
        assert DOCS not in page.parents or DOCS in place.parents, f"{target} leads out of docs"
        if anchor:
            assert anchor in anchors(place), f"{target}#{anchor}"


def test_pictures_of_the_console_are_those_that_the_demo_takes_and_pages_show() -> None:
    there = {path for path in tree_files() if path.suffix == ".png" and DOCS / "how-to" in path.parents}
    assert {path.name for path in there} == {f"console-{name}.png" for name in PICTURES}
    assert {(page.parent / target).resolve() for page in pages() for target, _ in links(page)} >= there
    assert {path.name: size for path in there if (size := path.stat().st_size) > PICTURE_BYTES} == {}


def test_every_page_that_the_code_names_exists() -> None:
    others = [path for path in tree_files() if path.name in {"Makefile", "compose.yml", "pyproject.toml"}]
    for path in (*source_files(*PRODUCT_FOLDERS, "tests", "examples"), *others):
        if path == Path(__file__):
            continue
        for name, anchor in re.findall(r"\b(docs/[\w/.-]+\.md)(?:#([\w-]+))?", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{named(path)} names {name}"
            assert not anchor or anchor in anchors(ROOT / name), f"{named(path)} names {name}#{anchor}"


def test_the_site_shows_every_page() -> None:
    # Its tags for Python objects are the site's own business.
    config = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    shown = set(re.findall(r"[\w/-]+\.md", yaml.safe_dump(yaml.safe_load(config)["nav"])))
    assert shown == {str(page.relative_to(DOCS)) for page in pages() if DOCS in page.parents}


@each_page
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    folders = "|".join((*PRODUCT_FOLDERS, "tests", "examples", "docker", "docs"))
    for name in re.findall(rf"`(?:\.venv/bin/)?(?:python )?((?:{folders})/[\w/.-]*\w)/?`", prose(page)):
        assert (ROOT / name).exists(), name


@each_page
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    # What is not in this release is tested below; the changelog speaks of what was.
    lines = [] if page.name == "CHANGELOG.md" else written(page).splitlines()
    text = "\n".join(line for line in lines if not line.startswith("- Not in this release: "))
    for name in set(re.findall(rf"\b(?:{'|'.join(PRODUCT_FOLDERS)})(?:\.[A-Za-z_]\w*)+\b(?!/)", text)) - shown_modules(
        page
    ):
        assert name.endswith((".py", ".md")) or is_found(name), name


def shown_modules(page: Path) -> set[str]:
    """Return the modules that a page tells to write; another test runs them."""
    return {
        title.replace("/", ".") for title in re.findall(r'^```python title="([^"]+)\.py"', text_of(page), re.MULTILINE)
    }


def is_found(name: str) -> bool:
    """Tell whether a dotted name is a module, or what a module has, or what a class of a module has."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        try:
            found = importlib.import_module(f"{found.__name__}.{part}")
        except (ImportError, AttributeError):
            return False
    return True


@each_page
def test_every_key_and_event_that_a_page_names_exists(page: Path) -> None:
    known = set(key_names(Policy)) | {"memory", "org_memory"}
    for name in set(re.findall(r"`((?:org_)?memory\.[a-z_.0-9]*[a-z0-9])`", written(page))):
        # What is no key is a queue, a job, an event, or a method of a Memory, and stands somewhere in the code.
        assert name in known or re.search(rf"\b{re.escape(name)}(?!\w)", product_source()), name


@each_page
def test_every_variable_that_a_page_names_exists(page: Path) -> None:
    for name in set(re.findall(r"\bMEMTEND_[A-Z_]*[A-Z]", written(page))):
        setting = name.removeprefix("MEMTEND_").lower()
        assert setting in Settings.model_fields or re.search(rf"\b{name}(?![A-Z])", product_source()), name


@cache
def product_source() -> str:
    """Return all that ships, what starts it and what tests it, as one text."""
    others = [path for path in tree_files() if path.parent == ROOT / "docker" or path.name == "compose.yml"]
    paths = [path for path in source_files(*PRODUCT_FOLDERS, "examples", "tests") if path != Path(__file__)]
    return "\n".join(path.read_text(encoding="utf-8") for path in (*paths, *others))


@each_page
def test_every_policy_on_a_page_loads(page: Path) -> None:
    for block in blocks(page, "yaml"):
        if re.match(r"(#.*\n)*(org_)?memory:", block):
            try:
                load_policy(block)
            except MemoryConfigError as error:
                # A page on extensions names what the reader's own package registers.
                if "the name of an entry point" not in str(error):
                    raise


@each_page
def test_every_name_that_a_page_imports_exists(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PRODUCT_FOLDERS:
                if node.module in shown_modules(page):
                    continue
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    assert hasattr(module, alias.name), f"from {node.module} import {alias.name}"


def test_the_readme_shows_the_example_that_runs() -> None:
    (shown,) = blocks(README, "python")
    example = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    assert shown.strip() in example
    assert len([line for line in shown.splitlines() if line.strip()]) <= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_every_example_says_what_it_shows(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert docstring.split("\n\n")[0].endswith(".")


def test_the_pages_name_every_example() -> None:
    text = "".join(text_of(page) for page in pages())
    assert EXAMPLES, "there is none"
    assert [path.name for path in EXAMPLES if path.name not in text] == []


def missing_parts(readme: str) -> dict[str, list[str]]:
    """What README says is not there: each part with the modules that it would be."""
    said = re.findall(r"^- Not in this release: (.*)\.$", readme, re.MULTILINE)
    return {part: re.findall(r"`([\w.]+)`", part) for line in said for part in re.split(r"(?<=\)), ", line)}


def present_parts(parts: dict[str, list[str]]) -> list[str]:
    """Those of the modules that can be imported, or whose last name a file, a folder or a command bears."""
    # A policy may know the keys of a part before the part is there.
    config = Path("memcore", "config")
    places = [place for path in tree_files() if config not in (place := path.relative_to(ROOT)).parents]
    taken = {part.removesuffix(".py") for place in places if place.parts[0] in PRODUCT_FOLDERS for part in place.parts}
    taken |= {word for command in cli.commands() for word in command.path.split()}
    return [
        name
        for names in parts.values()
        for name in names
        if name.rpartition(".")[2] in taken or importlib.util.find_spec(name) is not None
    ]


def test_what_the_readme_says_is_not_there_cannot_be_imported() -> None:
    parts = missing_parts(text_of(README))
    assert all(parts.values()), f"a part names no module: {parts}"
    assert present_parts(parts) == []


def test_what_has_come_since_is_seen() -> None:
    said = "- Not in this release: skills (`memcore.skills`), lessons (`memcore.procedural`), runs (`ops.runs`).\n"
    assert present_parts(missing_parts(said)) == ["memcore.skills", "memcore.procedural", "ops.runs"]


def test_every_call_of_the_store_server_stands_on_its_page_and_no_other() -> None:
    routes: list[Any] = [*Calls(cast("Store", None)).routes()]
    answered = {(method, route.path) for route in routes for method in route.methods - {"HEAD"}}
    page = text_of(DOCS / "explanation" / "store-server.md")
    assert set(re.findall(r"^\| (GET|PUT|POST|PATCH|DELETE) \| `(/[^`]+)` \|$", page, re.MULTILINE)) == answered
