"""Traces of a real stack: one over all its processes, received by a collector; no text in spans or logs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.running_stack import running_stack, wait_until

from memcore import Memory
from memcore.config.loader import effective_policy
from memcore.telemetry import tracing

pytestmark = pytest.mark.acceptance

#: A word of the memory, and of the question.
WORD = "quartzlantern"


class Collector:
    """What a collector received."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def spans(self) -> list[tuple[str, str, str]]:
        """Return service, name and trace of every span."""
        found = []
        for body in list(self.bodies):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                values = {each.key: each.value.string_value for each in resource.resource.attributes}
                found += [
                    (values["service.name"], span.name, span.trace_id.hex())
                    for scope in resource.scope_spans
                    for span in scope.spans
                ]
        return found


@contextmanager
def collecting() -> Iterator[tuple[Collector, str]]:
    """Receive spans over OTLP and HTTP, and yield the address too."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's name
            collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name in the library
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield collector, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_memory_is_one_trace_over_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting() as (collector, url):
        environ = {
            "MEMTEND_TRACES": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        with running_stack(tmp_path / "home", **environ) as stack:
            settings = stack.settings.moved({"traces": "otlp"})
            try:
                with Memory.from_settings(settings, effective_policy(settings.policy_path)) as memory:
                    memory.store("ada", f"the {WORD} is in the cellar", wait=True)
                    assert memory.search("ada", f"where is the {WORD}?")
            finally:
                tracing.stop()

            whole = {
                ("memtend-engine", "create_memory"),
                ("memtend-worker-store", "process"),
                ("memtend-worker-store", "write"),
                ("memtend-worker-store", "embeddings"),
                ("memtend-worker-store", "upsert"),
            }

            def way() -> set[tuple[str, str]]:
                spans = collector.spans()
                of_engine = [
                    trace for service, name, trace in spans if (service, name) == ("memtend-engine", "create_memory")
                ]
                assert len(of_engine) <= 1
                return {(service, name.partition(" ")[0]) for service, name, of in spans if of in of_engine}

            # A span is sent behind its end, and outer ones end later than inner ones.
            wait_until(lambda: way() >= whole, what="the write's spans, in one trace")
            assert "search_memory" in {name for _, name, _ in collector.spans()}
        logs = b"".join(path.read_bytes() for path in (tmp_path / "home" / "logs").iterdir())
        assert WORD.encode() not in b"".join(collector.bodies) + logs
