"""The spans that this process records, in memory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memcore.telemetry import tracing


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded so far; spans that have not ended are missing."""

    exporter: InMemorySpanExporter

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in the order of their ends."""
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans whose name begins with this one."""
        return [span for span in self.spans if span.name.startswith(name)]

    def path(self, span: ReadableSpan) -> list[str]:
        """Return the names from the root of a span's trace to it; collections and models are left out."""
        by_id = {each.context.span_id: each for each in self.spans if each.context is not None}
        names: list[str] = []
        at: ReadableSpan | None = span
        while at is not None:
            names.append(at.name)
            at = by_id.get(at.parent.span_id) if at.parent is not None else None
        return names[::-1]

    def texts(self) -> str:
        """Return everything that any span says, as JSON."""
        return "\n".join(span.to_json() for span in self.spans)


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    """Return a span's attributes."""
    return dict(span.attributes or {})


@contextmanager
def recorded() -> Iterator[Recorded]:
    """Record the spans of this process while the context is open."""
    exporter = InMemorySpanExporter()
    tracing.begin(SimpleSpanProcessor(exporter), service="tests")
    try:
        yield Recorded(exporter)
    finally:
        tracing.stop()
