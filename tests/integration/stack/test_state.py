import os
import socket
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
from support.hostile_server import babble, hostile_server
from support.valkey_servers import free_port, valkey_server

from workers.groups import LLM
from workers.stack.home import ServiceState, StackState, read_state, same_process, state_path, write_state
from workers.stack.services import broker_answers, broker_holds, http_answers


def a_state(*, pid: int, born: float) -> StackState:
    now = datetime.now(UTC)
    part = ServiceState(name="broker", pid=pid, born=born, ready=True, restarts=2, resident_bytes=7)
    return StackState(
        supervisor_pid=pid, supervisor_born=born, started_at=now, seen_at=now, peak_resident_bytes=9, parts=(part,)
    )


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    state = a_state(pid=os.getpid(), born=psutil.Process().create_time())
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert state.is_alive
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["state.json"]


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", "\xff"])
def test_a_state_that_cannot_be_read_is_none(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "run").mkdir()
    if content is not None:
        state_path(tmp_path).write_text(content, encoding="latin-1")
    assert read_state(tmp_path) is None


def test_another_process_with_the_same_pid_is_another_process() -> None:
    born = psutil.Process().create_time()
    assert same_process(os.getpid(), born)
    assert not same_process(os.getpid(), born - 60)
    assert not same_process(2**22 - 3, born)
    assert not a_state(pid=os.getpid(), born=born + 60).is_alive


def test_the_broker_is_ready_when_it_answers_to_its_password(tmp_path: Path) -> None:
    with valkey_server(tmp_path) as broker:
        assert broker_answers(broker.port, broker.password)()
        assert not broker_answers(broker.port, "guess")()
    assert not broker_answers(broker.port, broker.password)()


def test_a_group_is_called_by_a_job_that_waits_and_by_one_that_a_dead_worker_held(tmp_path: Path) -> None:
    keys = (*LLM.waiting_keys, LLM.unacked_key)
    with valkey_server(tmp_path) as broker, broker.client() as client:
        is_called = broker_holds(broker.port, broker.password, keys)
        assert not is_called()
        client.lpush("memory.store", "another group's")
        assert not is_called()
        for key in keys:
            client.lpush(key, "a message")
            assert is_called()
            client.delete(key)
        client.lpush(keys[0], "a message")
        assert not broker_holds(broker.port, "guess", keys)()
    assert not is_called()


def test_a_port_that_listens_and_says_nothing_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        assert not broker_answers(port, "x")()
        assert not http_answers(port, "/")()
    assert not http_answers(free_port(), "/")()


def test_a_server_is_ready_when_the_path_answers_200() -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/well" else 503)
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:  # noqa: ARG002  # not to stderr
            return

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            assert http_answers(server.server_port, "/well")()
            assert not http_answers(server.server_port, "/ill")()
        finally:
            server.shutdown()
            thread.join()


def test_a_outsider_on_the_brokers_port_who_talks_for_ever_is_no_broker() -> None:
    with hostile_server(babble) as url:
        assert not broker_answers(int(url.rpartition(":")[2]), "x")()
