"""A TCP proxy that cuts its connections, or falls silent, after the server's answer and before the client reads it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CuttingProxy:
    """Passes bytes through until the server says ``marker``; then that answer is dropped and every connection cut."""

    def __init__(self, target_port: int) -> None:
        self.marker: bytes | None = None
        self.has_cut = threading.Event()
        self.is_cut_silently = False
        self._target_port = target_port
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, marker: bytes) -> None:
        self.marker, self.is_cut_silently = marker, False

    def silence_at(self, marker: bytes) -> None:
        """Let the connection that carries this answer stay open, and pass nothing more from the server."""
        self.marker, self.is_cut_silently = marker, True

    def cut_now(self) -> None:
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the other side was faster

    def close(self) -> None:
        self._listener.close()
        self.cut_now()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target_port))
            self._sockets += [client, server]
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            if is_answer and self.marker is not None and self.marker in data:
                self.marker = None
                if self.is_cut_silently:
                    self.has_cut.set()
                    with suppress(OSError):
                        while source.recv(65536):
                            pass
                else:
                    self.cut_now()
                    self.has_cut.set()
                break
            if not data:
                break
            try:
                target.sendall(data)
            except OSError:
                break
        source.close()
        try:
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


@contextmanager
def cutting_proxy(target_port: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(target_port)
    try:
        yield proxy
    finally:
        proxy.close()
