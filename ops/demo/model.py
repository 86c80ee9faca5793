"""The demo's language model: the stub, in a process of its own; the protocol is real, the words are keywords."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from memcore.errors import MemoryConnectionError


@contextmanager
def stub_model() -> Iterator[str]:
    """Yield the address of a running stub.

    Raises:
        MemoryConnectionError: it did not start.
    """
    argv = [sys.executable, "-m", "ops.stub_llm"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip() if process.stdout else ""
            if not address:
                raise MemoryConnectionError("the stub of a language model did not start")
            yield address
        finally:
            process.terminate()
