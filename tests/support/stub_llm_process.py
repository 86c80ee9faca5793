"""The stub language model as a process, and its control from tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from examples.stub_llm.fault import Fault, Scripted, StubOrders
from memcore.programs import program_argv
from support.repository import ROOT


@dataclass(frozen=True, kw_only=True)
class StubLLM:
    """A running stub.

    Attributes:
        url: its base address, as MEMTEND_LLM_URL wants it.
        process: where it runs.
    """

    url: str
    process: subprocess.Popen[str]

    def order(self, *faults: Scripted | Fault, **orders: Any) -> None:
        """Tell it how to behave from now on; a bare fault is done once."""
        scripted = tuple(each if isinstance(each, Scripted) else Scripted(fault=each) for each in faults)
        self._post("/stub/orders", StubOrders(faults=scripted, **orders).model_dump_json())

    def forget(self) -> None:
        """Let it forget every request, every answer and every order."""
        self._post("/stub/forget", "")

    def log(self) -> list[dict[str, Any]]:
        """Return every request: key, headers, body, fault, is_repeated, billed_tokens."""
        found: list[dict[str, Any]] = (
            httpx.get(f"{self.url.removesuffix('/v1')}/stub/log", timeout=600).raise_for_status().json()
        )
        return found

    def keys(self) -> list[str | None]:
        """Return the Idempotency-Key of every request, in order."""
        return [each["key"] for each in self.log()]

    def billed(self) -> int:
        """Return all tokens that were billed."""
        return sum(each["billed_tokens"] for each in self.log())

    def _post(self, path: str, content: str) -> None:
        httpx.post(f"{self.url.removesuffix('/v1')}{path}", content=content, timeout=600).raise_for_status()


@contextmanager
def stub_llm(*options: str) -> Iterator[StubLLM]:
    """Yield a stub that answers; it ends with the block."""
    with subprocess.Popen(
        [*program_argv("examples.stub_llm"), *options], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, "the stub did not start"
            yield StubLLM(url=url, process=process)
        finally:
            process.kill()
