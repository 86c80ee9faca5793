"""What the stub remembers: its orders, every request, and what was answered and billed under which key."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from examples.stub_llm.answer import StubResponse, answered, prompt_of
from examples.stub_llm.fault import Fault, Scripted, StubOrders

#: Requests that no server bills.
_UNBILLED = frozenset({Fault.STATUS, Fault.DROP, Fault.MALFORMED})

#: Answers that can be had again for their key; a spoiled one cannot: asked again, the model may do better.
_KEPT = frozenset({None, Fault.LOSE, Fault.HANG})


class ScriptedAnswers:
    """Safe in several threads."""

    def __init__(self, orders: StubOrders) -> None:
        self._lock = Lock()
        self._start = orders
        self._answers: dict[str, StubResponse] = {}
        self._log: list[dict[str, Any]] = []
        self.set(orders)

    @property
    def orders(self) -> StubOrders:
        """How it is to behave now."""
        return self._orders

    def set(self, orders: StubOrders) -> None:
        """Take new orders; what is remembered stays."""
        with self._lock:
            self._orders = orders
            self._faults = list(orders.faults)

    def forget(self) -> None:
        """Forget every request and every answer, and take the orders of the start."""
        self.set(self._start)
        with self._lock:
            self._answers.clear()
            self._log.clear()

    def take(
        self, headers: Mapping[str, str], body: dict[str, Any], *, may_enter: bool
    ) -> "tuple[StubResponse, Scripted | None]":
        """Note a request and return its answer, with the order to spoil it, if there is one.

        A key that is known gets the answer of then, whole and without another bill.

        Args:
            headers: of the request, their names in lower case.
            body: what is asked.
            may_enter: whether it comes with the right bearer token.
        """
        key = headers.get("idempotency-key")
        with self._lock:
            before = None if key is None else self._answers.get(key)
            scripted = self._scripted(body) if before is None and may_enter else None
            fault = None if scripted is None else scripted.fault
            answer = before or answered(body, obedient=self._orders.obedient, scripted=scripted)
            is_billed = before is None and may_enter and fault not in _UNBILLED
            if is_billed and key is not None and fault in _KEPT:
                self._answers[key] = answer
            tokens = answer.prompt_tokens + answer.completion_tokens if is_billed else 0
            repeated = before is not None
            self._log.append(
                {
                    "key": key,
                    "headers": dict(headers),
                    "body": body,
                    "fault": fault,
                    "is_repeated": repeated,
                    "billed_tokens": tokens,
                }
            )
        return answer, scripted

    def log(self) -> list[dict[str, Any]]:
        """Return every request since the start, in order."""
        with self._lock:
            return list(self._log)

    def _scripted(self, body: dict[str, Any]) -> Scripted | None:
        text = prompt_of(body)
        for place, scripted in enumerate(self._faults):
            if scripted.contains is not None and scripted.contains not in text:
                continue
            if scripted.times is not None:
                left = scripted.model_copy(update={"times": scripted.times - 1})
                self._faults[place : place + 1] = [left] if left.times else []
            return scripted
        return None
