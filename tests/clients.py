"""A client process of its own: ``python tests/clients.py HOME NAME (singly | in-bulk) START STOP``.

It stores that range of numbered memories and prints each memory's id once the broker has taken it; in the middle it
waits until its input ends.
"""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from memcore.client import MemoryClient
from memcore.config.settings import Settings
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

#: Most memories of one call in bulk.
MOST = 60


def main(home: str, name: str, way: str, start: str, stop: str) -> None:
    middle = (int(start) + int(stop)) // 2
    send = _singly if way == "singly" else _in_bulk
    with MemoryClient.from_settings(Settings.load({}, Path(home))) as client:
        for numbers in (range(int(start), middle), range(middle, int(stop))):
            for memory_ids in send(client, name, numbers):
                sys.stdout.write("".join(f"{memory_id}\n" for memory_id in memory_ids))
                sys.stdout.flush()
            sys.stdin.read()


def _request(name: str, number: int) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"{name}: fact number {number} of the day")


def _singly(client: MemoryClient, name: str, numbers: range) -> Iterator[tuple[str, ...]]:
    for number in numbers:
        yield client.store(f"agent-{number % 7}", _request(name, number), track=False).memory_ids


def _in_bulk(client: MemoryClient, name: str, numbers: range) -> Iterator[tuple[str, ...]]:
    sizes = random.Random(name)
    at = numbers.start
    while at < numbers.stop:
        end = min(numbers.stop, at + sizes.randint(1, MOST))
        batch = [_request(name, number) for number in range(at, end)]
        yield client.store_many(f"agent-{at % 7}", batch, track=False).memory_ids
        at = end


class ClientProcess:
    """One such process, started; what it was promised is in its file.

    Args:
        path: the file that its promises are written to.
        home: the data folder of the stack.
        name: what its memories begin with.
        way: ``singly`` or ``in-bulk``.
        numbers: which memories.
        environ: the environment of the process.
    """

    def __init__(self, path: Path, home: Path, name: str, way: str, numbers: range, environ: dict[str, str]) -> None:
        self._path = path
        words = (str(home), name, way, str(numbers.start), str(numbers.stop))
        with path.open("wb") as promises:
            self._process = subprocess.Popen(
                [sys.executable, __file__, *words], stdin=subprocess.PIPE, stdout=promises, env=environ
            )

    def acknowledged(self) -> list[str]:
        """The ids that it has printed so far; a line that is not whole yet is left out."""
        return self._path.read_text().rpartition("\n")[0].split()

    def go_on(self) -> None:
        """Let it send its second half."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def end(self, *, seconds: float) -> int:
        """Wait for its end and return its exit code; it is killed when it takes longer."""
        self.go_on()
        try:
            return self._process.wait(seconds)
        finally:
            self._process.kill()
            self._process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
