"""Looking whether a part does its work: by its own protocol, never by its mere existence."""

import http.client
import socket
import time
from collections.abc import Callable
from pathlib import Path

#: How long one look may take, in seconds.
_LOOK_SECONDS = 1.0

#: Longest answer to both commands that is read, in bytes.
_LONGEST_ANSWER = 4_096

#: The HTTP status that says all is well.
_OK = 200


def broker_answers(port: int, password: str) -> Callable[[], bool]:
    """Return a look that is True once the broker answers PING to its password."""

    def look() -> bool:
        question = f"AUTH {password}\r\nPING\r\n".encode()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=_LOOK_SECONDS) as line:
                line.sendall(question)
                answer, ends = b"", time.monotonic() + _LOOK_SECONDS
                while answer.count(b"\r\n") < 2:  # noqa: PLR2004  # one line for AUTH, one for PING
                    got = line.recv(256)
                    answer += got
                    # Whatever else has the port may talk for ever.
                    if not got or len(answer) > _LONGEST_ANSWER or time.monotonic() > ends:
                        return False
        except OSError:
            return False
        return b"+PONG" in answer

    return look


def http_answers(port: int, path: str) -> Callable[[], bool]:
    """Return a look that is True once the path answers 200."""

    def look() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LOOK_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == _OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return look


def file_appears(path: Path) -> Callable[[], bool]:
    """Return a look that is True once the part has written this file; the supervisor removes it before each start."""
    return path.exists
