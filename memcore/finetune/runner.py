"""The stage runner, a process of its own: ``python -m memcore.finetune.runner [CONFIG]``.

It reads its configuration, writes ``STAGE_START:<stage>`` to the standard output, then ``PROGRESS:<0 to 1>``,
and ``STAGE_COMPLETE:<stage>`` when its files are there. An error is one line ``ERROR: ...`` on the standard error and
exit code 1. SIGTERM cancels.
"""

import builtins
import importlib.util
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, assert_never

from memcore import errors
from memcore.embedding.bm25 import fold
from memcore.errors import FineTuneCancelledError, MemoryInputError
from memcore.finetune.checkpoint import STATIC, load_checkpoint, load_static, read_manifest
from memcore.finetune.documents import Passage, passages_of, read_lines, write_text
from memcore.finetune.encoder import Encoder, load_model, needed
from memcore.finetune.evaluate import REPORT_FILE, evaluate
from memcore.finetune.generate import generate
from memcore.finetune.markers import StageProgress
from memcore.finetune.mine import mine
from memcore.finetune.runner_config import (
    DEFAULT_CONFIG,
    DeployingConfig,
    EvaluatingConfig,
    GeneratingConfig,
    MiningConfig,
    RunnerConfig,
    TrainingConfig,
    read_config,
)
from memcore.finetune.train import train
from memcore.models.finetune import RECIPES
from memcore.telemetry.events import Event


def run_stage(config: RunnerConfig, watch: StageProgress) -> None:
    """Carry out a stage. Raises MemoryError, which says in one sentence why, FineTuneCancelledError, and OSError."""
    match config:
        case GeneratingConfig():
            generate(_passages(config), config, Path(config.output_dir), watch=watch)
            watch.done(1.0)
        case MiningConfig():
            _one_way(config.threads)
            encoder = _base_encoder(config)
            triples, most = Path(config.training_data_path), config.max_pairs or RECIPES[config.kind].max_pairs
            mine(triples, encoder, Path(config.output_dir), top_k=config.top_k, watch=watch, max_pairs=most)
        case TrainingConfig():
            _one_way(config.threads)
            train(Path(config.training_data_path), Path(config.output_dir), config, watch=watch)
        case EvaluatingConfig():
            _one_way(config.threads)
            _evaluate(config, watch)
        case DeployingConfig():
            read_manifest(Path(config.checkpoint_path))
            watch.done(1.0)
        case _:
            assert_never(config)


def _passages(config: GeneratingConfig) -> Iterator[Passage]:
    gathered = () if config.passages_path is None else read_lines(Path(config.passages_path), Passage)
    if config.source_dir is None:
        return iter(gathered)
    documents = passages_of(Path(config.source_dir), chunk_words=config.chunk_words)
    return chain(documents, gathered)


def _evaluate(config: EvaluatingConfig, watch: StageProgress) -> None:
    folder = Path(config.checkpoint_path)
    read_manifest(folder)
    training = None if config.training_data_path is None else Path(config.training_data_path)
    report = evaluate(
        Path(config.validation_data_path),
        training,
        _encoder(config.kind, load_checkpoint(folder)),
        _base_encoder(config),
        seed=config.seed,
        watch=watch,
    )
    output = Path(config.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    write_text(output / REPORT_FILE, report.model_dump_json(indent=1))


def _base_encoder(config: MiningConfig | EvaluatingConfig) -> Encoder:
    load = load_static if config.kind == STATIC else load_model
    return _encoder(config.kind, load(config.base_model))


def _encoder(kind: str, model: Any) -> Encoder:
    return Encoder(model, prepared=fold) if kind == STATIC else Encoder(model)


def _one_way(threads: int) -> None:
    """Limit the arithmetic to so many threads; one gives the same result each time."""
    if importlib.util.find_spec("torch") is not None:
        needed("torch").set_num_threads(threads)


#: The variables of the health endpoint's address; a container sets the host to 0.0.0.0.
PORT = "MEMTEND_FINE_TUNE_HEALTH_PORT"
HOST = "MEMTEND_FINE_TUNE_HEALTH_HOST"
DEFAULT_PORT = 15_002
DEFAULT_HOST = "127.0.0.1"

_MAX_PORT = 65_535

_log = logging.getLogger(__name__)


def health_address(environment: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """Return host and port; MemoryInputError when the port is none."""
    port = environment.get(PORT, str(DEFAULT_PORT))
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= _MAX_PORT):
        raise MemoryInputError(PORT, f"must be a port from 1 to {_MAX_PORT}, and is {port[:64]!r}")
    return environment.get(HOST, DEFAULT_HOST), int(port)


@contextmanager
def health_endpoint(address: tuple[str, int]) -> Iterator[None]:
    """Serve health checks within the block; where the port is taken there is a warning and no answer."""
    try:
        server = ThreadingHTTPServer(address, _handler(time.monotonic()))
    except OSError as error:
        _log.warning(
            Event.FINE_TUNE_HEALTH_SERVER_BIND_FAILED, extra={"port": address[1], "error": type(error).__name__}
        )
        yield
        return
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(begun: float) -> type[BaseHTTPRequestHandler]:
    class Health(BaseHTTPRequestHandler):
        """Answers that the process lives, and for how long."""

        def do_GET(self) -> None:
            if self.path != "/healthz":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = json.dumps({"status": "ok", "uptime_seconds": round(time.monotonic() - begun, 3)}).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_args: object) -> None:  # noqa: A002  # the base class names it so
            """Log nothing: probes come every second."""

    return Health


#: The variable in which an executor passes its own process id, and the seconds between two looks at it.
PARENT = "MEMTEND_FINE_TUNE_PARENT"
_POLL = 1.0


def end_with_parent(environment: Mapping[str, str]) -> None:
    """Watch the process that the environment names, and end this one's group when it is gone; does nothing without."""
    parent = environment.get(PARENT, "")
    # Without a group of its own, ending the group would end its caller too.
    if parent.isdigit() and os.getpgrp() == os.getpid():
        threading.Thread(target=_watch, args=(int(parent),), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    idle = threading.Event()
    while os.getppid() == parent:
        idle.wait(_POLL)
    os.killpg(os.getpgrp(), signal.SIGKILL)


#: The variable that names the configuration when no argument does.
CONFIG = "MEMTEND_FINE_TUNE_CONFIG"


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """Run the stage that the configuration names, and return the exit code."""
    # Models come from this machine alone, whatever a library would like to fetch.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    end_with_parent(environment)
    given = sys.argv[1:] if arguments is None else arguments
    path = Path(given[0] if given else environment.get(CONFIG, str(DEFAULT_CONFIG)))
    try:
        address = health_address(environment)
        config = read_config(path)
    except errors.MemoryError as error:
        return _failed(str(error))
    with _cancelled_by_signal() as cancelled, health_endpoint(address):
        return _run(config, cancelled)


def _run(config: RunnerConfig, cancelled: threading.Event) -> int:
    _say(f"STAGE_START:{config.stage}")
    try:
        run_stage(config, StageProgress(lambda fraction: _say(f"PROGRESS:{fraction:.4f}"), cancelled))
    except FineTuneCancelledError:
        return _failed(f"{config.stage} cancelled")
    except (builtins.MemoryError, RecursionError):
        raise
    except errors.MemoryError as error:
        return _failed(f"{config.stage} failed: {error}")
    except OSError as error:
        return _failed(f"{config.stage} failed: {error.strerror or type(error).__name__}")
    except Exception as error:  # noqa: BLE001  # a library's own; its text may quote what is trained on
        return _failed(f"{config.stage} failed: {type(error).__name__}")
    _say(f"STAGE_COMPLETE:{config.stage}")
    return 0


def _say(marker: str) -> None:
    # Written as a line of its own, whatever a library has left unfinished.
    sys.stdout.flush()
    sys.stdout.write(f"{marker}\n")
    sys.stdout.flush()


def _failed(reason: str) -> int:
    line = " ".join(reason.split())
    sys.stderr.write(f"ERROR: {line}\n")
    sys.stderr.flush()
    return 1


@contextmanager
def _cancelled_by_signal() -> Iterator[threading.Event]:
    cancelled = threading.Event()

    def cancel(_number: int, _frame: FrameType | None) -> None:
        cancelled.set()

    before = signal.signal(signal.SIGTERM, cancel)
    try:
        yield cancelled
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
