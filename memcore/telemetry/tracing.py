"""Traces over OpenTelemetry, off until ``start``. No other module imports it.

A trace begins with an engine's call, a request, a tool call or a job (``trace``). Steps inside show only as part of
one (``span``). A context is the text of a W3C ``traceparent``; it travels in the header of a message or a request.
While traces are off, each call here costs one comparison. No attribute holds a memory's text, and neither does an
error: its class alone is kept.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from importlib.metadata import version
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from memcore.errors import MissingExtraError
from memcore.extras import naming_extras

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

#: The header of a message or a request that holds its trace.
HEADER: Final = "traceparent"

#: What a context looks like: version, trace, span, and flags of which the last bit says that it is sampled.
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

#: Milliseconds that the last spans may take to reach the collector when a process ends.
_FLUSH_MILLISECONDS = 2_000

Kind = Literal["internal", "client", "server", "producer", "consumer"]
Value = str | int | float | bool


class Attribute(StrEnum):
    """Every attribute that a span may have. Values are ids, names and counts."""

    #: What is done: ``create_memory``, ``search_memory``, ``chat``, ``embeddings``, ...
    OPERATION = "gen_ai.operation.name"
    #: The company whose memories these are.
    STORE = "gen_ai.memory.store.id"
    #: Memories that were sent, written or found.
    MEMORIES = "gen_ai.memory.record.count"
    #: The agent whose memories these are.
    AGENT = "gen_ai.agent.id"
    #: The model that was asked, or that embedded.
    MODEL = "gen_ai.request.model"
    MAX_TOKENS = "gen_ai.request.max_tokens"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    #: The tool that a host called.
    TOOL = "gen_ai.tool.name"
    MCP_METHOD = "mcp.method.name"
    #: The class of the error, or what a job came to.
    ERROR = "error.type"
    DATABASE = "db.system.name"
    DATABASE_OPERATION = "db.operation.name"
    COLLECTION = "db.collection.name"
    HTTP_METHOD = "http.request.method"
    #: The route with its parameters' names in place of their values.
    HTTP_ROUTE = "http.route"
    HTTP_STATUS = "http.response.status_code"
    QUEUE = "messaging.destination.name"
    JOB_ID = "messaging.message.id"
    #: Texts that were embedded.
    TEXTS = "memtend.texts"
    #: Jobs whose memories one batch writes.
    JOBS = "memtend.jobs"
    #: What became of a job: done, skipped, retry, snooze, deferred or dead.
    OUTCOME = "memtend.job.outcome"
    RUN = "memtend.run.id"
    RUN_KIND = "memtend.run.kind"
    #: Why a model is asked, as the usage table names it.
    PURPOSE = "memtend.purpose"
    #: Times that a model was asked, with retries.
    ATTEMPTS = "memtend.attempts"


Attributes = Mapping[Attribute, Value]


class Span:
    """A step that is timed, as a context manager; this one does nothing, because traces are off."""

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""

    def rename(self, name: str) -> None:
        """Give it another name, known only now."""

    def fail(self, reason: str) -> None:
        """Mark the step as failed, by the name of an error or an outcome."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the step; an error is marked, and goes on."""


_OFF: Final = Span()
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()
_NONE: Final[Attributes] = {}


class _Recorded(Span):
    """A span that OpenTelemetry records."""

    def __init__(self, inner: Any, tracing: "_Tracing") -> None:
        self._inner = inner
        self._tracing = tracing
        self._token: Any = None

    def set(self, attributes: Attributes) -> None:
        self._inner.set_attributes({str(name): value for name, value in attributes.items()})

    def rename(self, name: str) -> None:
        self._inner.update_name(name)

    def fail(self, reason: str) -> None:
        self._inner.set_attribute(str(Attribute.ERROR), reason)
        self._inner.set_status(self._tracing.failed)

    def __enter__(self) -> Self:
        api = self._tracing.api
        self._token = self._tracing.context.attach(api.set_span_in_context(self._inner))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not a cancellation, nor the end of a process: those are nobody's fault.
        if kind is not None and issubclass(kind, Exception):
            self.fail(kind.__name__)
        self._tracing.context.detach(self._token)
        self._inner.end()


class _Tracing:
    """OpenTelemetry's parts, imported when traces are on."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415  # see the module's text

        self.api, self.context, self.provider = trace, context, provider
        self.failed = trace.Status(trace.StatusCode.ERROR)
        self._tracer = provider.get_tracer("memtend", version("memtend"))

    def span(
        self, name: str, attributes: Attributes, *, kind: Kind, links: Sequence[str] = (), starts: bool = False
    ) -> Span:
        if not starts and not self.api.get_current_span().get_span_context().is_valid:
            return _OFF
        found = (self._remote(link) for link in links)
        inner = self._tracer.start_span(
            name,
            kind=getattr(self.api.SpanKind, kind.upper()),
            attributes={str(key): value for key, value in attributes.items()},
            links=[self.api.Link(each) for each in found if each is not None],
            # Its text may quote a memory.
            record_exception=False,
            set_status_on_exception=False,
        )
        return _Recorded(inner, self)

    def current(self) -> str | None:
        found = self.api.get_current_span().get_span_context()
        if not found.is_valid or not found.trace_flags.sampled:
            return None
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-01"

    def continued(self, context: str | None) -> AbstractContextManager[None]:
        remote = None if context is None else self._remote(context)
        return _NOTHING if remote is None else _Attached(self, self.api.NonRecordingSpan(remote))

    def _remote(self, context: str) -> Any:
        match = _TRACEPARENT.fullmatch(context)
        if match is None:
            return None
        trace_id, span_id, flags = (int(part, 16) for part in match.groups())
        found = self.api.SpanContext(trace_id, span_id, is_remote=True, trace_flags=self.api.TraceFlags(flags))
        return found if found.is_valid else None


class _Attached(AbstractContextManager[None]):
    """Makes a span the current one, without ending it."""

    def __init__(self, tracing: _Tracing, inner: Any) -> None:
        self._tracing = tracing
        self._inner = inner

    def __enter__(self) -> None:
        self._token = self._tracing.context.attach(self._tracing.api.set_span_in_context(self._inner))

    def __exit__(self, *_error: object) -> None:
        self._tracing.context.detach(self._token)


_active: _Tracing | None = None


def require(traces: Literal["off", "otlp"]) -> None:
    """Return if what these settings ask for is installed; nothing is imported. Raises MissingExtraError."""
    if traces == "off":
        return
    with naming_extras():
        for module in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
            if find_spec(module) is None:
                raise MissingExtraError("otel", module)


def start(traces: Literal["off", "otlp"], *, service: str) -> None:
    """Send this process's spans over OTLP and HTTP, if its settings say ``otlp``; a second call changes nothing.

    The standard variables apply: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER,
    OTEL_RESOURCE_ATTRIBUTES and so on. ``service`` is this process's name where OTEL_SERVICE_NAME names none. Raises
    MissingExtraError when ``memtend[otel]`` is not installed.
    """
    if traces == "off" or _active is not None:
        return
    with naming_extras():
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # only on
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # see above
    begin(BatchSpanProcessor(OTLPSpanExporter()), service=service)


def begin(processor: "SpanProcessor", *, service: str) -> None:
    """Hand this process's spans to a processor of OpenTelemetry's; other libraries' spans are left alone."""
    global _active  # noqa: PLW0603  # the one switch, read by every call
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # see above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # see above

    resource = Resource.create()
    if str(resource.attributes.get("service.name", "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": f"memtend-{service}"}))
    # Not made the provider of the process: other libraries would record into it, and some record texts.
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(processor)
    _active = _Tracing(provider)


def is_on() -> bool:
    """Return whether this process records spans."""
    return _active is not None


def stop() -> None:
    """Send what is left, and switch traces off; a process that ends regularly does so by itself."""
    global _active  # see begin
    tracing, _active = _active, None
    if tracing is not None:
        tracing.provider.shutdown()


def flush() -> None:
    """Send what is left: for a process that ends without its exit handlers, such as a child of a worker."""
    if _active is not None:
        _active.provider.force_flush(_FLUSH_MILLISECONDS)


def trace(name: str, attributes: Attributes = _NONE, *, kind: Kind = "internal") -> Span:
    """Time a step that begins a trace, or continues the current one."""
    if _active is None:
        return _OFF
    return _active.span(name, attributes, kind=kind, starts=True)


def span(name: str, attributes: Attributes = _NONE, *, kind: Kind = "internal", links: Sequence[str] = ()) -> Span:
    """Time a step of the current trace; outside of one nothing is recorded. ``links`` are contexts of other traces."""
    if _active is None:
        return _OFF
    return _active.span(name, attributes, kind=kind, links=links)


def current_context() -> str | None:
    """Return the current trace as a ``traceparent``; None outside of one, and where it is not sampled."""
    if _active is None:
        return None
    return _active.current()


def continued(context: str | None) -> AbstractContextManager[None]:
    """Continue a trace of another thread or process; what is no ``traceparent`` is ignored."""
    if _active is None:
        return _NOTHING
    return _active.continued(context)
