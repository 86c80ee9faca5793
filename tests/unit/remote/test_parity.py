"""RemoteMemory and AsyncRemoteMemory have every call of Memory, and an engine on them loads none of its libraries."""

import inspect
import json
import subprocess
import sys

import pytest

from memcore import AsyncMemory, AsyncRemoteMemory, Memory, RemoteMemory

#: How each is made.
MAKERS = {"connect", "from_environment", "from_settings"}

#: What AsyncMemory runs its calls in, and the store beneath: neither is a call of an engine.
OWN = {"backend", "blocking"}


def calls_of(kind: type) -> dict[str, inspect.Signature | None]:
    """Return the public calls of a class with their parameters; None for a property."""
    found: dict[str, inspect.Signature | None] = {}
    for name in dir(kind):
        if name.startswith("_") or name in MAKERS | OWN:
            continue
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property):
            found[name] = None
        elif callable(member):
            signature = inspect.signature(member)
            bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
            found[name] = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return found


@pytest.mark.parametrize(("face", "remote"), [(Memory, RemoteMemory), (AsyncMemory, AsyncRemoteMemory)])
def test_the_calls_are_the_same_names_with_the_same_parameters(face: type, remote: type) -> None:
    assert calls_of(remote) == calls_of(face)
    assert len(calls_of(remote)) > 20


def test_every_call_of_the_async_one_is_awaited() -> None:
    for name, signature in calls_of(AsyncRemoteMemory).items():
        member = inspect.getattr_static(AsyncRemoteMemory, name)
        assert signature is None or inspect.iscoroutinefunction(member), name


HEAVY = ("sqlalchemy", "celery", "kombu", "numpy", "qdrant_client", "redis", "yaml", "orjson", "tokenizers", "fastapi")

CODE = """
import json, sys
from memcore import AsyncMemory, Memory
Memory.connect("http://127.0.0.1:1", key="mt_x").close()
AsyncMemory.connect("http://127.0.0.1:1", key="mt_x")
print(json.dumps(sorted(sys.modules)))
"""


def test_an_engine_on_http_imports_no_broker_database_or_embedder() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert {"httpx", "pydantic"} <= loaded
    assert loaded.isdisjoint(HEAVY)
