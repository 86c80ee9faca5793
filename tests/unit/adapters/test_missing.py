"""A framework that is not installed is named in one sentence; nothing else of memtend needs one."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from memcore import adapters
from memcore.errors import MemoryConfigError

FOLDER = Path(adapters.__file__).parent


@pytest.mark.parametrize(
    ("name", "missing", "package"),
    [
        ("langgraph", "langgraph.store.base", "langgraph"),
        ("langchain", "langchain_core.documents", "langchain-core"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai-slim"),
        ("anthropic_memory", "anthropic.lib.tools", "anthropic"),
    ],
)
def test_a_missing_framework_is_named(monkeypatch: pytest.MonkeyPatch, name: str, missing: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    spec = importlib.util.spec_from_file_location(f"fresh_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(MemoryConfigError, match=f"pip install '{package}'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_the_package_itself_imports_no_framework() -> None:
    frameworks = ("langgraph", "langchain_core", "agents", "pydantic_ai", "anthropic")
    loaded = f"[name for name in {frameworks} if name in sys.modules]"
    asked = f"import sys, memcore.adapters.protocol, memcore.adapters.values; print({loaded})"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
