import json
import subprocess
import sys
from importlib import import_module

import pytest
from support.repository import PRODUCT_FOLDERS, ROOT, source_files

#: What no process of an agent engine loads by importing the client.
HEAVY = ("torch", "mem0", "transformers", "qdrant_client", "tasks", "workers", "scheduler", "ops", "celery", "kombu")


def loaded_by(*modules: str) -> set[str]:
    """Return the top-level modules that these imports load, or try to load, in a fresh interpreter."""
    code = (
        "import json, sys\n"
        "tried = set()\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        tried.add(name.partition('.')[0])\n"
        "sys.meta_path.insert(0, Watch())\n"
        f"import {', '.join(modules)}\n"
        "print(json.dumps(sorted(tried)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


def test_an_engine_that_imports_the_client_loads_nothing_heavy() -> None:
    loaded = loaded_by("memcore.client")
    assert "memcore" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_backends_load_mem0_only_where_it_is_used() -> None:
    loaded = loaded_by("memcore.backends", "memcore.backends.factory", "memcore.backends.mem0.backend")
    assert loaded.isdisjoint({"mem0", "torch", "transformers", "tasks", "workers", "celery", "kombu"})


def test_what_asks_language_models_comes_with_the_first_question_and_not_before() -> None:
    loaded = loaded_by("memcore", "memcore.client", "memcore.llm.accounting", "memcore.llm.structured")
    assert "memcore" in loaded
    # Whether httpx is installed is looked at; what it is made of comes with it.
    assert loaded.isdisjoint({"httpcore", "openai"})


def test_no_process_of_the_embedded_stack_imports_torch_or_the_sdk_of_a_model() -> None:
    loaded = loaded_by("workers.run", "workers.beat", "workers.stack.stack", "ops.flower", "ops.cli.main", "scheduler")
    assert loaded.isdisjoint({"torch", "transformers", "sentence_transformers", "openai"})


@pytest.mark.parametrize("program", ["workers.beat", "ops.flower", "ops.cli.main"])
def test_what_runs_no_job_imports_neither_store_nor_database(program: str) -> None:
    # Each costs a second of processor time whenever a stack starts.
    assert loaded_by(program).isdisjoint({"qdrant_client", "numpy", "sqlalchemy", "tasks", "scheduler", "mem0"})


@pytest.mark.parametrize("command", ["running.status", "running.doctor", "running.processes", "memory.memories"])
def test_a_command_imports_the_store_with_its_first_use_and_no_migrations(command: str) -> None:
    assert loaded_by(f"ops.cli.{command}").isdisjoint({"grpc", "mem0", "alembic"})


@pytest.mark.parametrize("program", ["workers.run", "workers.stack.stack"])
def test_a_worker_imports_its_store_with_its_context_and_not_before(program: str) -> None:
    # Whether the store's client is installed is looked at; grpc comes with it.
    assert loaded_by(program).isdisjoint({"grpc", "httpcore", "mem0"})


def test_the_store_server_needs_neither_torch_nor_mem0_nor_celery() -> None:
    assert loaded_by("memcore.vectorstore.server").isdisjoint({"torch", "mem0", "transformers", "celery", "kombu"})


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


@pytest.mark.parametrize("package", PRODUCT_FOLDERS)
def test_the_packages_have_common_names_and_resolve_inside_this_repository(package: str) -> None:
    assert import_module(package).__file__ == str(ROOT / package / "__init__.py")
