"""The running embedded stack: start it on a data folder, watch it, stop it."""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from memcore.config.loader import load_policy
from memcore.config.memory import EmbedderOverrideConfig
from memcore.config.policy import Policy
from memcore.config.settings import PREFIX, SWEEP_SECONDS, TICK_SECONDS, Settings, stack_path
from memcore.free_space import FOR_WRITES, refuse_when_low
from memcore.telemetry import tracing
from workers.stack.home import create_folders, reserve_addresses
from workers.stack.local_llm import local_llm
from workers.stack.migration import migrate_apart
from workers.stack.services import flower, infrastructure, serve, with_external_stores, worker_parts
from workers.stack.supervisor import Supervisor, take_over


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A started stack: its settings for clients, the HTTP API's address, its supervisor to watch and stop it.

    ``weights`` is the file that it serves as the language model, if any.
    """

    settings: Settings
    serve_url: str
    supervisor: Supervisor
    lock: int
    weights: Path | None

    def stop(self) -> None:
        """Stop every part and release the data folder."""
        self.supervisor.stop()
        stack_path(self.settings.home).unlink(missing_ok=True)
        os.close(self.lock)


def start_stack(
    home: Path,
    environ: Mapping[str, str],
    *,
    prepare: Callable[[Supervisor], None] = lambda _: None,
    tick_seconds: float = TICK_SECONDS,
    sweep_seconds: float = SWEEP_SECONDS,
    also: Collection[str] = (),
    weights: Path | None = None,
) -> Stack:
    """Start every part on a data folder, which is created when missing, and return once all are ready.

    The parts inherit ``environ`` without memtend's own variables, but for MEMTEND_TRACES: the folder's file tells them
    all else. ``prepare`` is called with the supervisor before anything starts, to install signal handlers; ``also``
    names worker groups that are started on demand, and wanted; ``weights`` a file that ``checked_weights`` returned,
    which is served where the environment names no server of models.

    Raises:
        MemoryConfigError: the policy is invalid, or a stack runs there already.
        MemoryConnectionError: a part did not become ready.
        MemoryDiskFullError: the folder's disk has too little room to start.
    """
    refuse_when_low(next(folder for folder in (home, *home.parents) if folder.exists()), least=FOR_WRITES)
    create_folders(home)
    policy = load_policy(home / "policy.yaml")
    storage = policy.memory.storage
    lock = take_over(home)
    addresses = reserve_addresses(home)
    settings = addresses.settings(home, tick_seconds=tick_seconds, sweep_seconds=sweep_seconds).with_models(environ)
    settings = with_external_stores(settings, storage, environ)
    served = weights if settings.llm_url is None else None
    if served is not None:
        settings = settings.moved(addresses.of_local_llm(served.stem))
    model = () if served is None else (local_llm(home, addresses, served, settings.llm(policy.memory.llm)),)
    tracing.require(settings.traces)
    first = infrastructure(home, addresses, with_store=storage.vector_store == "qdrant")
    workers = worker_parts(home, addresses, has_model=settings.llm_url is not None, also=also)
    parts = (*first, *model, *workers, flower(addresses), serve(addresses))
    env = _parts_env(home, environ, traces=settings.traces)
    supervisor = Supervisor(home, parts, env, embedder=_shared_table(policy, settings))
    prepare(supervisor)
    serve_url = f"http://127.0.0.1:{addresses.serve_port}"
    stack = Stack(settings=settings, serve_url=serve_url, supervisor=supervisor, lock=lock, weights=served)
    try:
        supervisor.preload()
        migrate_apart(settings, env)
        settings.save_stack()
        supervisor.start()
    except BaseException:
        stack.stop()
        raise
    return stack


def _shared_table(policy: Policy, settings: Settings) -> str | None:
    """Return the embedder that is a table of the wheel and that the parts read, None where they have another."""
    chosen = policy.memory.embedder or EmbedderOverrideConfig()
    provider = chosen.provider or settings.embedder
    return provider if provider in {"static", "static-mean"} and chosen.asked_model is None else None


def _parts_env(home: Path, environ: Mapping[str, str], *, traces: str) -> dict[str, str]:
    inherited = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
    return {
        **inherited,
        "MEMTEND_HOME": str(home),
        "MEMTEND_TRACES": traces,
        # One thread a process: on two cores more threads in the numeric libraries only get in each other's way.
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        # glibc gives each of a worker's 64 threads an arena that it never gives back; two are enough behind one lock.
        "MALLOC_ARENA_MAX": "2",
        "PYTHONUNBUFFERED": "1",
    }
