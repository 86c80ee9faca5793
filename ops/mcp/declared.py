"""Operator tools of the operations that the service declares."""

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from pydantic import BaseModel, TypeAdapter

from memcore.ledger.organization.audit import Confirmation
from memcore.models.approval import Decision
from memcore.models.base import ValidatedModel
from memcore.service.operation import Offered, operations_of
from ops.mcp.operator_tools import DestructiveTool, Done, Facts, OperatorTool, PlainTool, VerbName

#: Plans, which no tool answers with: what they are made with takes a fifth of a second to import.
_LATER: Final[dict[str, Any]] = dict.fromkeys(("HeldPlan", "MaintenancePlan", "ShownGroup", "UndoPlan"), Any)

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)

#: What the guardrail says, by the parameter that takes it.
_SAID: dict[str, Callable[[Confirmation], Any]] = {
    "by": lambda confirmation: confirmation.actor,
    "reason": lambda confirmation: confirmation.reason,
    "confirmation": lambda confirmation: confirmation,
    "decision": lambda confirmation: Decision(by=confirmation.actor, reason=confirmation.reason),
}


def tools_of(part: str, kind: type) -> Iterator[OperatorTool]:
    """Yield the tools of a part of the service."""
    for offered in operations_of(kind, _LATER):
        if offered.declared.tool is not None:
            yield _tool(part, offered, offered.declared.tool)


def _tool(part: str, offered: Offered, name: str) -> OperatorTool:
    declared, own, said = offered.declared, list(offered.defaults), offered.said
    _, show = offered.shown()

    async def facts(service: Any, asked: BaseModel, confirmation: Confirmation | None = None) -> Facts:
        given = offered.given(asked, own)
        if confirmation is not None:
            given |= {each: _SAID[each](confirmation) for each in said}
        shown = show(await offered.method(getattr(service, part), **given))
        if not isinstance(shown, BaseModel):
            shown = {"items" if isinstance(shown, tuple) else declared.under: shown}
        return cast("Facts", _ANYTHING.dump_python(shown, mode="json"))

    async def confirmed(service: Any, asked: BaseModel, confirmation: Confirmation) -> Done:
        return Done(facts=await facts(service, asked, confirmation), target_id=getattr(asked, own[0], part))

    fields: dict[str, Any] = {
        "name": name,
        "description": offered.about,
        "verb": cast("VerbName", str(declared.verb)),
        "arguments": offered.model(name, ValidatedModel, own),
    }
    if said:
        return DestructiveTool(**fields, run=confirmed)
    return PlainTool(**fields, run=facts, is_read_only=True)
