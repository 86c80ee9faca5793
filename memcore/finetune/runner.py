"""The stage runner, a process of its own: ``python -m memcore.finetune.runner [CONFIG]``.

It reads its configuration, says ``STAGE_START:<stage>`` on the standard output, then ``PROGRESS:<0 to 1>`` as it goes,
and ``STAGE_COMPLETE:<stage>`` when its files are there. Trouble is one line ``ERROR: ...`` on the standard error and
exit code 1. SIGTERM cancels.
"""

import builtins
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType

from memcore.errors import FineTuneCancelledError, MemoryError  # noqa: A004  # the reference fixes the name
from memcore.finetune.health import health_address, health_endpoint
from memcore.finetune.parent import end_with_parent
from memcore.finetune.perform import perform
from memcore.finetune.runner_config import DEFAULT_CONFIG, RunnerConfig, read_config
from memcore.finetune.watch import Watch

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
    except MemoryError as error:
        return _failed(str(error))
    with _cancelled_by_signal() as cancelled, health_endpoint(address):
        return _run(config, cancelled)


def _run(config: RunnerConfig, cancelled: Event) -> int:
    _say(f"STAGE_START:{config.stage}")
    try:
        perform(config, Watch(lambda fraction: _say(f"PROGRESS:{fraction:.4f}"), cancelled))
    except FineTuneCancelledError:
        return _failed(f"{config.stage} cancelled")
    except (builtins.MemoryError, RecursionError):
        raise
    except MemoryError as error:
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
def _cancelled_by_signal() -> Iterator[Event]:
    cancelled = Event()

    def cancel(_number: int, _frame: FrameType | None) -> None:
        cancelled.set()

    before = signal.signal(signal.SIGTERM, cancel)
    try:
        yield cancelled
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
