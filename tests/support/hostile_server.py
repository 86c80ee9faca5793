"""A server on loopback whose answers are endless, slow or compressed."""

import gzip
import socket
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

#: Seconds between two bytes of a slow answer; shorter than any time-out of one read.
SLOW = 0.05

_MEBIBYTE = bytes(1_048_576)

#: Sends one answer; asks whether the test is over.
Answer = Callable[[socket.socket, Event], None]


def endless(peer: socket.socket, over: Event) -> None:
    """Send a body of spaces for as long as anybody reads."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
    while not over.is_set():
        peer.sendall(b" " * 65_536)


def endless_refusal(peer: socket.socket, over: Event) -> None:
    """The same under a status that says no."""
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    while not over.is_set():
        peer.sendall(b" " * 65_536)


def announced(peer: socket.socket, over: Event) -> None:
    """Announce a terabyte, and send none of it."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
    over.wait()


def slow_body(peer: socket.socket, over: Event) -> None:
    """Send a body a byte at a time."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not over.wait(SLOW):
        peer.sendall(b" ")


def slow_head(peer: socket.socket, over: Event) -> None:
    """Send the head a byte at a time."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not over.wait(SLOW):
        peer.sendall(b"x")


def gzip_bomb(peer: socket.socket, over: Event) -> None:
    """Send a gigabyte of zeros as a megabyte of gzip."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
    packer = zlib.compressobj(wbits=31)
    for _ in range(1_024):
        if over.is_set():
            return
        peer.sendall(packer.compress(_MEBIBYTE))
    peer.sendall(packer.flush())


def small_gzip(peer: socket.socket, _over: Event) -> None:
    """Send a small answer as gzip, which nobody asked for."""
    body = gzip.compress(b"{}")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    peer.sendall(head.encode() + body)


def babble(peer: socket.socket, over: Event) -> None:
    """Send letters without the end of a line."""
    while not over.is_set():
        peer.sendall(b"x" * 65_536)


@contextmanager
def hostile_server(answer: Answer) -> Iterator[str]:
    """Yield the address of a server that answers every request so."""
    over = Event()

    def serve(peer: socket.socket) -> None:
        # A connection that is cut in the middle is what the test wants.
        with peer, suppress(OSError):
            peer.recv(65_536)
            answer(peer, over)

    def accept() -> None:
        with suppress(OSError):
            while True:
                Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            # Closing alone leaves the thread in accept.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
