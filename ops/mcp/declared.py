"""Operator tools of the operations that the service declares."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, TypeAdapter, create_model

from memcore.ledger.organization.audit import Confirmation
from memcore.models.approval import Decision
from memcore.models.base import ValidatedModel
from memcore.service.operation import Operation, about, operations_of
from ops.mcp.operator_tools import DestructiveTool, Done, Facts, OperatorTool, PlainTool, VerbName

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)

#: What the guardrail says, by the parameter that takes it.
_WHO: dict[str, Callable[[Confirmation], Any]] = {
    "by": lambda confirmation: confirmation.actor,
    "reason": lambda confirmation: confirmation.reason,
    "confirmation": lambda confirmation: confirmation,
    "decision": lambda confirmation: Decision(by=confirmation.actor, reason=confirmation.reason),
}


def tools_of(part: str, kind: type) -> Iterator[OperatorTool]:
    """Yield the tools of a part of the service."""
    for method, declared in operations_of(kind):
        if declared.tool is not None:
            yield _tool(part, method, declared, declared.tool)


def _tool(part: str, method: Callable[..., Awaitable[Any]], declared: Operation, name: str) -> OperatorTool:
    hints, parameters = get_type_hints(method, include_extras=True), inspect.signature(method).parameters
    own = {each: parameters[each] for each in hints if each not in _WHO and each != "return"}
    who = [each for each in parameters if each in _WHO]
    models = [hints[each] for each in own if inspect.isclass(hints[each]) and issubclass(hints[each], ValidatedModel)]
    is_whole = len(own) == len(models) == 1
    fields: dict[str, Any] = {
        each: (hints[each], ... if own[each].default is inspect.Parameter.empty else own[each].default) for each in own
    }
    arguments = models[0] if is_whole else create_model(name, __base__=ValidatedModel, **fields)

    async def done(service: Any, asked: BaseModel, confirmation: Confirmation | None) -> Any:
        given = {each: asked if is_whole else getattr(asked, each) for each in own}
        if confirmation is not None:
            given |= {each: _WHO[each](confirmation) for each in who}
        return await method(getattr(service, part), **given)

    def facts(found: Any) -> Facts:
        shown: Any = declared.shown(found)
        if not isinstance(shown, BaseModel):
            shown = {"items" if isinstance(shown, tuple) else declared.under: shown}
        return cast("Facts", _ANYTHING.dump_python(shown, mode="json"))

    async def read(service: Any, asked: BaseModel) -> Facts:
        return facts(await done(service, asked, None))

    async def confirmed(service: Any, asked: BaseModel, confirmation: Confirmation) -> Done:
        found = await done(service, asked, confirmation)
        return Done(facts=facts(found), target_id=getattr(asked, next(iter(own))) if own else found)

    told: dict[str, Any] = {
        "name": name,
        "description": about(method),
        "verb": cast("VerbName", str(declared.verb)),
        "arguments": arguments,
    }
    if who:
        return DestructiveTool(**told, run=confirmed, is_idempotent=declared.is_idempotent)
    is_read = declared.http.startswith("GET")
    return PlainTool(**told, run=read, is_read_only=is_read, is_idempotent=is_read)
