"""The demo's language model: the one at MEMTEND_LLM_URL, or else the stub, in a process of its own."""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from pydantic import SecretStr

from examples.stub_llm.server import MODEL
from memcore.errors import MemoryConfigError, MemoryConnectionError
from memcore.llm.provider import ServerProvider
from memcore.models.base import Frozen, NotBlankStr
from memcore.programs import program_argv

#: How long a server may take to list its models.
_PATIENCE = timedelta(seconds=30)


class DemoModel(Frozen):
    """A language model that answers.

    Attributes:
        address: as MEMTEND_LLM_URL wants it.
        name: which of its models is asked.
        about: what it is, for people.
    """

    address: NotBlankStr
    name: NotBlankStr
    about: NotBlankStr


@contextmanager
def demo_model(environ: Mapping[str, str], *, name: str | None = None) -> Iterator[DemoModel]:
    """Yield the model that the environment names, or the stub.

    Args:
        environ: the process's environment.
        name: which model is asked where the environment has an address; None takes the first that the server lists.

    Raises:
        MemoryConfigError: the server lists no model.
        MemoryConnectionError: the stub did not start.
        ProviderError: the server does not answer, or lets nobody in.
    """
    address = environ.get("MEMTEND_LLM_URL")
    if address:
        chosen = name or _first(address, environ.get("MEMTEND_LLM_API_KEY"))
        yield DemoModel(address=address, name=chosen, about=f"{chosen} at MEMTEND_LLM_URL")
        return
    with _stub() as started:
        yield DemoModel(address=started, name=MODEL, about="a stub that knows no language")


@contextmanager
def _stub() -> Iterator[str]:
    argv = program_argv("examples.stub_llm")
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip() if process.stdout else ""
            if not address:
                raise MemoryConnectionError("the stub of a language model did not start")
            yield address
        finally:
            process.terminate()


def _first(address: str, key: str | None) -> str:
    offered = asyncio.run(_offered(address, key))
    if not offered:
        raise MemoryConfigError("MEMTEND_LLM_URL: its server lists no model; name one with --model")
    return offered[0]


async def _offered(address: str, key: str | None) -> tuple[str, ...]:
    secret = SecretStr(key) if key else None
    provider = ServerProvider(address, key=secret, model=None, timeout=_PATIENCE)
    try:
        return await provider.models()
    finally:
        await provider.close()
