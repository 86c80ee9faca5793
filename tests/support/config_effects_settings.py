"""The effect of each environment variable on a process.

A new variable needs one line in the table: ``"field": Change(scene, value)``; see tests/support/config_effects.py.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from memcore.backends.factory import create_configured_embedder, create_engine_backend
from memcore.client.client import MemoryClient
from memcore.config.llm import LLMConfig
from memcore.config.loader import effective_policy
from memcore.config.memory import MemoryStorageConfig
from memcore.config.policy import Policy
from memcore.config.settings import PREFIX, Settings
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.finetune.execution.factory import create_executor, execution_of
from memcore.ledger.ledger import Ledger
from memcore.llm.accounting import create_provider
from memcore.skills.publication import SkillApprovals
from memcore.webhooks.destination import Destination
from memcore.webhooks.sender import WebhookSender
from support.embedding_server import embedding_server
from support.hashing_embedder import HashingEmbedder
from support.proposals import proposal
from support.recording_server import chat, recorder
from workers.beat import schedule
from workers.broker import broker_app

#: Returns what happens under an environment, in a folder whose ledger is migrated and empty.
Scene = Callable[[Path, Mapping[str, str]], object]


@dataclass(frozen=True)
class Change:
    """How the effect of a variable is observed.

    Attributes:
        see: the scene.
        value: what the variable is set to; ``{folder}`` stands for the folder.
        given: other variables that both environments have.
    """

    see: Scene
    value: str
    given: Mapping[str, str] = field(default_factory=dict)

    def environ(self, folder: Path, name: str | None = None) -> dict[str, str]:
        """Return an environment; with the field's name the one in which its variable is set."""
        base = {
            "broker_url": "redis://127.0.0.1:1/0",
            "database_url": "sqlite:///{folder}/ledger.db",
            "journal_url": "sqlite:///{folder}/journal.db",
            "qdrant_url": "http://127.0.0.1:1",
            "home": "{folder}",
            **self.given,
            **({} if name is None else {name: self.value}),
        }
        return {PREFIX + each.upper(): value.replace("{folder}", str(folder)) for each, value in base.items()}


def broker(_folder: Path, environ: Mapping[str, str]) -> object:
    """Where a worker's app would connect, what it would tell Flower, and how often beat sends what."""
    settings = Settings.load(environ)
    app = broker_app(settings)
    every = {name: str(entry["schedule"]) for name, entry in schedule(settings).items()}
    return app.connection_for_write().as_uri(), app.backend.as_uri(), app.conf.worker_send_task_events, every


def unsafe_brokers(_folder: Path, environ: Mapping[str, str]) -> object:
    """Whether a client sends to a broker that may lose its jobs."""
    with MemoryClient.from_settings(Settings.load(environ)) as client:
        return client._sender._may_lose


def ledger(_folder: Path, environ: Mapping[str, str]) -> object:
    """Whether the tables of ledger and journal are where the variables say."""
    opened = Ledger.open(Settings.load(environ).ledger_urls)
    try:
        found = []
        for health_check in (lambda: opened.agents.count("acme"), lambda: list(opened.journal.journal_entries("run"))):
            try:
                found.append(str(health_check()))
            except MemoryError as error:
                found.append(type(error).__name__)
    finally:
        opened.close()
    return found


def history(_folder: Path, environ: Mapping[str, str]) -> object:
    """Whether an engine takes the history's database where the policy wants PostgreSQL."""
    storage = MemoryStorageConfig(history_store="postgresql")
    policy = Policy(memory=Policy().memory.model_copy(update={"storage": storage}))
    try:
        return create_engine_backend(Settings.load(environ), policy, embedder=HashingEmbedder()).backend_name
    except MemoryError as error:
        return str(error)


def store(folder: Path, environ: Mapping[str, str]) -> object:
    """What a vector store is asked when an engine connects, and with which key."""
    with recorder(lambda _request: (404, {"status": {"error": "gone"}})) as server:
        here = {**environ, "MEMTEND_HISTORY_URL": f"sqlite:///{folder}/history.db"}
        if "another" not in environ["MEMTEND_QDRANT_URL"]:
            here["MEMTEND_QDRANT_URL"] = server.url
        backend = create_engine_backend(Settings.load(here), Policy(), embedder=HashingEmbedder())

        async def connect() -> str:
            try:
                await backend.connect()
            except MemoryError as error:
                return type(error).__name__
            await backend.disconnect()
            return "connected"

        result = asyncio.run(connect())
        return result, sorted({(each.path, each.headers.get("api-key")) for each in server.requests})


def embedder(_folder: Path, environ: Mapping[str, str]) -> object:
    """Which embedder there is, and what a server of such was sent."""
    with embedding_server() as server:
        server.models = ["Qwen3-Embedding-4B", "EmbeddingGemma-300M"]
        here = {name: value.replace("{server}", server.url) for name, value in environ.items()}
        try:
            made = create_configured_embedder(Settings.load(here), Policy())
            assert made is not None
            made.embed_documents(["a memory"])
        except MemoryError as error:
            return type(error).__name__
        return made.name, server.keys


def model(_folder: Path, environ: Mapping[str, str]) -> object:
    """What a server of language models is asked."""
    with recorder(chat(seconds=0)) as server:
        here = {name: value.replace("{server}", f"{server.url}/v1") for name, value in environ.items()}
        provider = create_provider(Settings.load(here), Policy())
        if provider is None:
            return None

        async def ask() -> None:
            with suppress(MemoryError):  # what was sent is what counts
                await provider.models()
            await provider.close()

        asyncio.run(ask())
        return [(each.path, each.headers.get("authorization")) for each in server.requests]


def local_model(_folder: Path, environ: Mapping[str, str]) -> object:
    """How a model is asked of which the policy says nothing."""
    return Settings.load(environ).llm(LLMConfig())


def webhook(_folder: Path, environ: Mapping[str, str]) -> object:
    """The webhook calls for a proposal."""
    with recorder(lambda _request: (200, {})) as server:
        settings = Settings.load({name: value.replace("{server}", server.url) for name, value in environ.items()})
        opened = Ledger.open(settings.ledger_urls)
        try:
            asyncio.run(SkillApprovals.configured(settings, Policy(), opened).propose("one", proposal()))
        finally:
            opened.close()
        return [each.path for each in server.requests]


def private_hosts(_folder: Path, environ: Mapping[str, str]) -> object:
    """Whether a person may add a webhook on this machine, and a worker would send to it."""
    settings = Settings.load(environ)
    sender = WebhookSender(settings.webhook_private_hosts)
    try:
        return Destination.of("http://127.0.0.1:9/hook", private_hosts=sender.private_hosts).host
    except MemoryError as error:
        return str(error)


def company(_folder: Path, environ: Mapping[str, str]) -> object:
    """Whose proposals there are, after one was made for a company."""
    settings = Settings.load(environ)
    opened = Ledger.open(settings.ledger_urls)
    try:
        asyncio.run(SkillApprovals.configured(settings, Policy(), opened).propose("one", proposal()))
        return [len(opened.approvals.page(each)) for each in ("default", "other")]
    finally:
        opened.close()


def policy(folder: Path, environ: Mapping[str, str]) -> object:
    """How long memories live, as a worker understands it."""
    (folder / "named.yaml").write_text("memory: {level: project}")
    return effective_policy(Settings.load(environ).policy_path).memory.level


def stages(folder: Path, environ: Mapping[str, str]) -> object:
    """What carries out the stages of a fine-tune."""
    execution = execution_of(Settings.load(environ), Policy())
    return type(create_executor(execution, folder)).__name__


def home(folder: Path, environ: Mapping[str, str]) -> object:
    """Where a stack's file is written."""
    return str(Settings.load(environ).save_stack().relative_to(folder))


def logs(_folder: Path, environ: Mapping[str, str]) -> object:
    """What a process writes that logs a warning and something of interest to nobody."""
    code = (
        "import os, logging; from memcore.config.settings import Settings; from workers.logs import set_up_logs;"
        "set_up_logs(Settings.load(os.environ)); log = logging.getLogger('x'); log.warning('a'); log.debug('b')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    return [sorted(json.loads(line)) if line.startswith("{") else line.split(" ", 1)[1] for line in lines]


def traces(_folder: Path, environ: Mapping[str, str]) -> object:
    """Whether a process records spans."""
    code = (
        "import os; from memcore.config.settings import Settings; from memcore.telemetry import tracing;"
        "tracing.start(Settings.load(os.environ).traces, service='test'); print(tracing.is_on())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    return done.stdout


_SERVED = {"embedder": "lm-studio", "embedder_url": "{server}"}
CHANGES = {
    "broker_url": Change(broker, "redis://127.0.0.1:2/0"),
    "broker_may_lose": Change(unsafe_brokers, "true"),
    "result_url": Change(broker, "redis://127.0.0.1:3/0"),
    "flower_url": Change(broker, "http://127.0.0.1:4"),
    "tick_seconds": Change(broker, "3"),
    "sweep_seconds": Change(broker, "3"),
    "database_url": Change(ledger, "sqlite:///{folder}/other.db"),
    "journal_url": Change(ledger, "sqlite:///{folder}/other.db"),
    "history_url": Change(history, "postgresql://me@127.0.0.1/history"),
    "qdrant_url": Change(store, "http://another.invalid"),
    "qdrant_api_key": Change(store, "a key"),
    "company": Change(company, "other"),
    "embedder": Change(embedder, "static-mean"),
    "embedder_url": Change(embedder, "{server}", {"embedder": "openai-compatible"}),
    "embedder_api_key": Change(embedder, "a key", _SERVED),
    "embedder_has_gpu": Change(embedder, "false", _SERVED),
    "llm_url": Change(model, "{server}"),
    "llm_api_key": Change(model, "a key", {"llm_url": "{server}"}),
    "llm_local": Change(local_model, "small", {"llm_url": "http://127.0.0.1:9/v1"}),
    "approvals_webhook": Change(webhook, "{server}/hook"),
    "webhook_private_hosts": Change(private_hosts, "hooks.internal, 127.0.0.1"),
    "fine_tune_image": Change(stages, "tuner"),
    "policy_path": Change(policy, "{folder}/named.yaml"),
    "home": Change(home, "{folder}/elsewhere"),
    "log_format": Change(logs, "json"),
    "log_level": Change(logs, "DEBUG"),
    "traces": Change(traces, "otlp"),
}
