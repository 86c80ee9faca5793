"""What each extra installs, and what runs with it: in a process that sees these libraries and no others."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from support.installed_extras import closure, declared, library_folder
from support.repository import PRODUCT_FOLDERS, ROOT, source_files
from support.valkey_servers import valkey_server

import memcore
from memcore.errors import MissingExtraError
from memcore.extras import EXTRAS, naming_extras, require_extra
from memcore.jobs import Queue

#: The most that an engine which only stores may cost.
STORE_ONLY_PACKAGES, STORE_ONLY_MB = 30, 60

#: What an engine that only stores works with.
STORE_ONLY_NAMES = {
    "Memory",
    "AsyncMemory",
    "MemoryClient",
    "AsyncMemoryClient",
    "MemoryStoreRequest",
    "MemoryCategory",
    "MemoryError",
    "Scope",
}


def seen_by(libraries: Path, code: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run code in an interpreter whose only libraries are those of the folder."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MEMTEND_", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-S", "-P", "-c", code, *arguments],
        env={**environ, "PYTHONPATH": str(libraries)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def store_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library_folder(tmp_path_factory.mktemp("store-only") / "lib")


@pytest.fixture(scope="module")
def providers() -> Mapping[str, list[str]]:
    return packages_distributions()


def test_an_engine_that_only_stores_installs_little() -> None:
    libraries = closure()
    files = [Path(str(each.locate_file(path))) for each in libraries.values() for path in each.files or ()]
    files += [path for folder in PRODUCT_FOLDERS for path in (ROOT / folder).rglob("*")]
    size = sum(path.stat().st_size for path in files if path.is_file()) / 1e6
    assert len(libraries) + 1 <= STORE_ONLY_PACKAGES, sorted(libraries)
    assert size < STORE_ONLY_MB
    assert len(libraries) < len(closure("engine")) < len(closure("worker"))


def test_an_engine_that_only_stores_works_with_what_it_installs(store_only: Path, tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from memcore import AsyncMemoryClient, MemoryCategory, MemoryClient, MemoryStoreRequest\n"
        "note = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content='Deploys wait for the night.')\n"
        "with MemoryClient(sys.argv[1], result_url=sys.argv[1]) as client:\n"
        "    print(client.status(client.store('oncall', note).job_ids[0]).state)\n"
        "    client.maintain_now('oncall')\n"
        "async def later():\n"
        "    async with AsyncMemoryClient(sys.argv[1]) as client:\n"
        "        await client.store('oncall', note)\n"
        "asyncio.run(later())\n"
    )
    with valkey_server(tmp_path / "broker") as broker:
        done = seen_by(store_only, code, broker.url)
        assert done.stdout.strip() == "pending", done.stderr
        waiting = {str(queue): len(broker.waiting(str(queue))) for queue in Queue}
    assert sum(count for queue, count in waiting.items() if "store" in queue) == 2
    assert waiting[str(Queue.MAINTENANCE)] == 1


def test_every_public_name_works_or_names_the_extra_that_brings_it(store_only: Path) -> None:
    code = (
        "import json, memcore\n"
        "said = {}\n"
        "for name in memcore.__all__:\n"
        "    try:\n"
        "        getattr(memcore, name)\n"
        "    except memcore.MemoryConfigError as error:\n"
        "        said[name] = str(error)\n"
        "print(json.dumps(said))\n"
    )
    done = seen_by(store_only, code)
    assert done.returncode == 0, done.stderr
    refused = json.loads(done.stdout)
    assert refused.keys() <= set(memcore.__all__) - STORE_ONLY_NAMES
    assert "LedgerOrgMemory" in refused
    for sentence in refused.values():
        assert re.fullmatch(r"\w+ is not installed: pip install 'memtend\[engine\]'", sentence)


def test_an_engine_that_reads_needs_nothing_of_what_runs(tmp_path: Path) -> None:
    # The store server, the migrations, PostgreSQL's driver, and the errors of the library that a model's first question
    # imports; and what is imported beside a framework of its own, as pytest.
    of_others = (
        "memcore.vectorstore.",
        "memcore.ledger.migrat",
        "memcore.ledger.connections.postgresql",
        "memcore.llm.retry",
        "memcore.adapters.",
        "memcore.memory.mem0_",
        "memcore.memory_tests.pytest_plugin",
    )
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in source_files("memcore")]
    wanted = [name for name in modules if not name.endswith("__init__") and not name.startswith(of_others)]
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    done = seen_by(library_folder(tmp_path / "lib", "engine"), code, *wanted)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from memcore.backends.factory import create_engine_backend", "engine"),
        ("from memcore import MemoryClient as C; C('redis://x', result_url='db+sqlite://').status('1')", "engine"),
        ("import sys; from memcore.programs import memtend; sys.argv[1:] = ['up']; memtend()", "worker"),
        ("from memcore.programs import main; main(['workers.run', '--group=store'])", "worker"),
    ],
)
def test_what_needs_more_names_the_command_that_installs_it(code: str, extra: str, store_only: Path) -> None:
    done = seen_by(store_only, code)
    assert done.returncode != 0
    said = done.stderr if "programs" in code else done.stderr.splitlines()[-1]
    assert re.match(rf"(memtend|.*MissingExtraError): \w+ is not installed: pip install 'memtend\[{extra}\]'$", said)


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"finetune", "local-llm"}))
def test_an_extra_is_known_by_the_modules_that_it_installs(extra: str, providers: Mapping[str, list[str]]) -> None:
    names = {canonicalize_name(requirement.name) for requirement in declared()[extra]} - {"memtend", "wordllama"}
    # A requirement and a module belong together when one installs the other; neither is left over.
    installed = {module: set(map(canonicalize_name, of)) & names for module, of in providers.items()}
    assert all(installed.get(module) for module in EXTRAS[extra])
    assert set().union(*(installed[module] for module in EXTRAS[extra])) == names


def test_a_module_of_no_extra_stays_what_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), naming_extras():
        __import__("no_such_module")
    with pytest.raises(MissingExtraError) as raised, naming_extras():
        raise ModuleNotFoundError(name="sqlalchemy.orm")
    assert (raised.value.extra, raised.value.module) == ("engine", "sqlalchemy")
    require_extra("worker")
