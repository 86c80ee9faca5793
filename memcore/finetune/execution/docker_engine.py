"""The Docker engine that DOCKER_HOST names, or this machine's: asked for with patience, told of in a sentence."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from memcore.errors import FineTuneDependencyError, FineTuneStageError
from memcore.finetune.events import FineTuneEvent

#: How long the engine may take for an answer, in seconds.
API_TIMEOUT = 30

#: How often it is asked whether it is there, and the first pause, which then doubles.
ATTEMPTS = 3
_FIRST_PAUSE = 0.5

#: Longest that is repeated of what it answers, in characters.
_MAX_CHARS = 300

_log = logging.getLogger(__name__)


def docker_library() -> Any:
    """Return the library; raises FineTuneDependencyError when it is not installed."""
    try:
        return import_module("docker")
    except ImportError as error:
        raise FineTuneDependencyError("the Docker library is missing: pip install 'memtend[docker]'") from error


def engine_troubles() -> tuple[type[Exception], ...]:
    """Return what the library raises when the engine, or the way to it, refuses."""
    return docker_library().errors.DockerException, import_module("requests").exceptions.RequestException


@contextmanager
def docker_engine(environment: Mapping[str, str], *, pause: Callable[[float], None] = time.sleep) -> Iterator[Any]:
    """Connect within the block; what the engine or the way to it does there is told as FineTuneStageError.

    Args:
        environment: names the engine as Docker's own commands read it (DOCKER_HOST, DOCKER_TLS_VERIFY, ...).
        pause: waits so many seconds.

    Raises:
        FineTuneDependencyError: the library is not installed.
        FineTuneStageError: no engine answers, or it refuses something; the message is one sentence.
    """
    library = docker_library()
    troubles = engine_troubles()
    client = _connected(library, troubles, environment, pause)
    try:
        yield client
    except troubles as error:
        raise FineTuneStageError(_told(error)) from error
    finally:
        client.close()


def _connected(
    library: Any, troubles: tuple[type[Exception], ...], environment: Mapping[str, str], pause: Callable[[float], None]
) -> Any:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # Asking for the version is what finds out whether anybody is there.
            return library.from_env(environment=dict(environment), timeout=API_TIMEOUT, version="auto")
        except troubles as error:
            if attempt == ATTEMPTS:
                raise FineTuneStageError(f"no Docker engine answers, asked {ATTEMPTS} times") from error
            _log.warning(FineTuneEvent.ENGINE_RETRIED, extra={"attempt": attempt, "error": type(error).__name__})
            pause(_FIRST_PAUSE * 2 ** (attempt - 1))
    raise AssertionError


def _told(error: Exception) -> str:
    if isinstance(error, import_module("requests").exceptions.RequestException):
        # Also the engine's own answers are of this kind; those explain themselves.
        said = getattr(error, "explanation", None)
        if not said:
            return f"the Docker engine was lost: {type(error).__name__}"
    else:
        said = error
    return f"the Docker engine refused: {' '.join(str(said).split())[:_MAX_CHARS]}"
