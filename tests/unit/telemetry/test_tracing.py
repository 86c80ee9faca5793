"""Spans, contexts and links; and that nothing is recorded, imported or sent while traces are off."""

import subprocess
import sys
import threading

import pytest
from opentelemetry.trace import StatusCode
from support.present import present
from support.repository import PRODUCT_FOLDERS, ROOT, source_files
from support.traces import attributes, recorded

from memcore.errors import MissingExtraError
from memcore.telemetry import tracing
from memcore.telemetry.tracing import Attribute

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def test_nothing_is_recorded_while_traces_are_off() -> None:
    with tracing.trace("store") as outer, tracing.span("write", {Attribute.MEMORIES: 1}) as inner:
        inner.set({Attribute.MEMORIES: 2})
        inner.fail("dead")
        inner.rename("other")
        assert tracing.current_context() is None
    assert inner is outer
    assert not tracing.is_on()
    tracing.start("off", service="engine")
    assert not tracing.is_on()
    tracing.flush()
    tracing.stop()


def test_a_step_is_part_of_the_trace_in_which_it_begins() -> None:
    with recorded() as found:
        with tracing.trace("store", kind="client"), tracing.span("write", {Attribute.MEMORIES: 3}) as step:
            step.set({Attribute.JOBS: 2})
        with tracing.trace("another"):
            pass
    write, store, another = found.spans
    assert found.path(write) == ["store", "write"]
    assert attributes(write) == {"gen_ai.memory.record.count": 3, "memtend.jobs": 2}
    assert present(another.context).trace_id != present(store.context).trace_id
    assert not tracing.is_on()


def test_a_step_outside_of_a_trace_is_not_recorded() -> None:
    with recorded() as found, tracing.span("write"):
        assert tracing.current_context() is None
    assert found.spans == ()


def test_a_context_continues_in_another_thread() -> None:
    with recorded() as found:
        contexts: list[str | None] = []

        def elsewhere() -> None:
            with tracing.continued(contexts[0]), tracing.span("write"):
                pass

        with tracing.trace("store"):
            contexts.append(tracing.current_context())
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    (write,) = found.named("write")
    assert found.path(write) == ["store", "write"]


def test_a_callers_trace_is_continued_and_others_are_linked() -> None:
    other = f"00-{'c' * 32}-{'d' * 16}-01"
    with recorded() as found, tracing.continued(PARENT), tracing.span("write", links=[other, "no context"]):
        own = tracing.current_context()
    assert own is not None
    assert own.startswith(f"00-{'a' * 32}-")
    (write,) = found.spans
    assert format(present(write.parent).span_id, "016x") == "b" * 16
    assert [format(link.context.trace_id, "032x") for link in write.links] == ["c" * 32]


@pytest.mark.parametrize("context", [None, "", "hello", f"00-{'0' * 32}-{'b' * 16}-01", f"01-{'a' * 32}-{'b' * 16}-01"])
def test_what_is_no_context_is_ignored(context: str | None) -> None:
    with recorded() as found, tracing.continued(context), tracing.span("write"):
        pass
    assert found.spans == ()


def test_a_trace_that_is_not_sampled_has_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with recorded() as found, tracing.trace("store"), tracing.span("write"):
        assert tracing.current_context() is None
    assert found.spans == ()


def test_an_error_is_told_by_its_class_alone() -> None:
    def fail() -> None:
        with tracing.trace("store"):
            raise ValueError("Mara's secret")

    with recorded() as found:
        with pytest.raises(ValueError, match="Mara"):
            fail()
        with pytest.raises(KeyboardInterrupt), tracing.trace("search"):
            raise KeyboardInterrupt
    store, search = found.spans
    assert (store.status.status_code, attributes(store)) == (StatusCode.ERROR, {"error.type": "ValueError"})
    assert store.status.description is None
    assert (store.events, search.status.status_code) == ((), StatusCode.UNSET)
    assert "Mara" not in found.texts()


def test_a_service_has_the_name_of_its_process_or_the_one_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with recorded() as found, tracing.trace("store"):
        pass
    assert found.spans[0].resource.attributes["service.name"] == "memtend-tests"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our memory")
    with recorded() as found, tracing.trace("store"):
        pass
    assert found.spans[0].resource.attributes["service.name"] == "our memory"


def test_switched_on_without_its_libraries_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter"]:
        if name.startswith("opentelemetry.exporter"):
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'memtend\[otel\]'"):
        tracing.start("otlp", service="engine")
    assert not tracing.is_on()


def test_a_stack_asks_for_the_libraries_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing.require("otlp")
    monkeypatch.setattr(tracing, "find_spec", lambda _: None)
    tracing.require("off")
    with pytest.raises(MissingExtraError, match=r"opentelemetry\.sdk is not installed"):
        tracing.require("otlp")


def test_nothing_of_it_is_imported_while_traces_are_off() -> None:
    code = (
        "import sys, memcore.telemetry.tracing as tracing\n"
        "tracing.start('off', service='engine')\n"
        "with tracing.trace('store'): pass\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_other_module_imports_opentelemetry() -> None:
    named = [path for path in source_files(*PRODUCT_FOLDERS) if "opentelemetry" in path.read_text(encoding="utf-8")]
    assert {str(path.relative_to(ROOT)) for path in named} == {"memcore/telemetry/tracing.py", "memcore/extras.py"}
