"""The program ``workers.stack.local_llm``: serves the weights of a small language model on loopback (llama.cpp)."""

import argparse
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from memcore.config.llm import LOCAL_CONTEXT_TOKENS, LLMConfig
from memcore.config.settings import opened_regular, write_private
from memcore.errors import MemoryConfigError, MemoryInputError, MissingExtraError
from memcore.extras import require_extra
from memcore.programs import program_argv
from workers.stack.home import ListenAddresses
from workers.stack.services import ServiceSpec, http_answers
from workers.stack.supervisor import EXIT_CONFIG

#: The option of ``memtend up`` that names the file.
OPTION = "local-llm"

#: What every file of weights in llama.cpp's format begins with.
_MAGIC = b"GGUF"

#: Memory for the beginnings of earlier prompts, in MiB: the instructions of each kind of question, which are the same
#: each time.
_PROMPT_CACHE_MIB = 256

#: Stores and searches go first on busy processors.
_NICENESS = 10


def checked_weights(path: Path) -> Path:
    """Return the whole path of a file of weights that can be served here; else MemoryInputError says what to do."""
    try:
        require_extra(OPTION)
        with opened_regular(path) as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise MemoryInputError(OPTION, f"{path} is no GGUF file: name the weights of a model in that format")
    except MissingExtraError as error:
        raise MemoryInputError(OPTION, str(error)) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise MemoryInputError(OPTION, f"{path} cannot be read ({why}): name a GGUF file") from None
    except MemoryConfigError as error:
        raise MemoryInputError(OPTION, f"{error}: name a GGUF file") from None
    return path.absolute()


def local_llm(home: Path, addresses: ListenAddresses, weights: Path, config: LLMConfig) -> ServiceSpec:
    """Return the part that serves a file of weights; the stack does not wait until they are loaded."""
    key_file = home / "run" / "llm.key"
    write_private(key_file, addresses.llm_key)
    return ServiceSpec(
        name=OPTION,
        argv=(
            *program_argv("workers.stack.local_llm"),
            f"--weights={weights}",
            f"--port={addresses.llm_port}",
            f"--api-key-file={key_file}",
            f"--context={config.context_tokens or LOCAL_CONTEXT_TOKENS}",
        ),
        is_ready=http_answers(addresses.llm_port, "/health"),
        is_beside=True,
        is_awaited=False,
    )


def main() -> int:
    """Load the weights, serve them until a signal ends the process, and return the exit code where they cannot be."""
    parser = argparse.ArgumentParser(prog="workers.stack.local_llm", description=__doc__)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--api-key-file", type=Path, required=True)
    parser.add_argument("--context", type=int, required=True)
    options = parser.parse_args()
    os.nice(_NICENESS)
    engine = import_module("xllamacpp")
    params = engine.CommonParams()
    params.model.path = options.weights
    params.hostnames, params.port = ["127.0.0.1"], options.port
    params.api_keys = [options.api_key_file.read_text(encoding="utf-8")]
    # It shows the prompts, which hold memories, and the pages that ask for them.
    params.endpoint_slots = params.ui = False
    params.n_ctx, params.n_parallel, params.cache_ram_mib = options.context, 1, _PROMPT_CACHE_MIB
    params.warmup, params.use_jinja = False, True
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    for each in (params.cpuparams, params.cpuparams_batch):
        # One is for the workers: threads that wait for each other and for a processor take many times as long.
        each.n_threads, each.poll = max(1, processors - 1), 0
    try:
        server = engine.Server(params)
    except RuntimeError as error:
        sys.stderr.write(f"{options.weights}: {error}\n")
        return EXIT_CONFIG
    while server:
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
