"""A stack with a language model, a server of it, and mem0's client, for all tests of this folder."""

import uuid
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from support.memories import new_agent
from support.running_stack import StackAddress, running_stack
from support.serve_process import ServeProcess, serve_process
from support.stub_llm_process import StubLLM, stub_llm

from memcore.ledger.access.keys import Verb
from memcore.ledger.ledger import Ledger
from memcore.memory.stock_mem0 import import_mem0

#: Every verb.
ALL = tuple(Verb)


@pytest.fixture(scope="package")
def model() -> Iterator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture(scope="package")
def inferring(model: StubLLM, tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    """A stack with a language model."""
    home = tmp_path_factory.mktemp("mem0") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text("memory:\n  llm:\n    model: stub\n", encoding="utf-8")
    with running_stack(home, MEMTEND_LLM_URL=model.url) as address:
        yield address


@pytest.fixture(scope="package")
def server(inferring: StackAddress) -> Iterator[ServeProcess]:
    with serve_process(inferring.home) as running:
        yield running


@pytest.fixture(scope="package")
def key(inferring: StackAddress) -> Callable[..., str]:
    """Return a function that makes a key."""

    def made(*, agents: list[str] | None = None, verbs: tuple[Verb, ...] = ALL) -> str:
        ledger = Ledger.open(inferring.settings.ledger_urls)
        try:
            company = inferring.settings.company
            return ledger.api_keys.create(company, name=new_agent("test"), verbs=verbs, agents=agents).token
        finally:
            ledger.close()

    return made


@pytest.fixture(scope="package")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """mem0's module, without its telemetry."""
    import_mem0(tmp_path_factory.mktemp("mem0-home"))
    import mem0  # noqa: PLC0415  # after the environment was set

    return mem0


@pytest.fixture
def agent() -> str:
    return f"agent-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(sdk: Any, server: ServeProcess, key: Callable[..., str], agent: str) -> Iterator[Any]:
    """A client whose key is for one agent, which its calls need not name."""
    made = sdk.MemoryClient(api_key=key(agents=[agent]), host=server.url)
    yield made
    made.client.close()
