"""A TCP proxy whose server can stop answering without a word, as a frozen process or a cut cable does."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class FreezingProxy:
    """Passes bytes between its port and a server's; while it is frozen, it takes connections and passes nothing."""

    def __init__(self, target: tuple[str, int] | str) -> None:
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze it for as long as the block lasts."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def close(self) -> None:
        self._flows.set()
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = _connected(self._target)
                self._sockets += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._flows.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def _connected(target: tuple[str, int] | str) -> socket.socket:
    if not isinstance(target, str):
        return socket.create_connection(target)
    connected = socket.socket(socket.AF_UNIX)
    connected.connect(target)
    return connected


@contextmanager
def freezing_proxy(target: tuple[str, int] | str) -> Iterator[FreezingProxy]:
    """Yield a proxy of a server: host and port, or the path of its socket."""
    proxy = FreezingProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
