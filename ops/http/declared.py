"""Routes of the operations that the service declares: arguments, guardrail and answer follow from each method."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, get_origin

from fastapi import APIRouter, Depends, Query
from pydantic import create_model

from memcore.ledger.runs import Run
from memcore.models.approval import Decision
from memcore.models.base import Frozen
from memcore.models.organization import OrgFactAuthor
from memcore.service.operation import Offered, operations_of
from ops.http.access import Caller, CurrentCaller, agent_for
from ops.http.context import Service
from ops.http.operators import ConfirmBody, PathId, ReasonBody, company_wide, named_agent

#: What a caller's key and the guardrail say, by the parameter that takes it.
_SAID: dict[str, Callable[[Caller, Any], Any]] = {
    "by": lambda caller, _: caller.name,
    "reason": lambda _, body: body.reason,
    "confirmation": lambda caller, body: body.confirmation(caller),
    "decision": lambda caller, body: Decision(by=caller.name, reason=body.reason),
    "author": lambda caller, _: OrgFactAuthor(is_human=True, name=caller.name),
}

#: Returns a dependency that checks what a path names, by the verb.
_Named = Callable[..., Callable[..., Awaitable[Any]]]


def router_of(
    part: str,
    kind: type,
    *,
    tag: str | None = None,
    prefix: str = "/v1",
    confirm: type[ConfirmBody] = ConfirmBody,
    named: Mapping[str, _Named] | None = None,
    types: Mapping[str, Any] | None = None,
) -> APIRouter:
    """Return the routes of a part of the service.

    ``confirm`` is the body that confirms; ``named`` says of names in a path what finds them for a verb;
    ``types`` has those that the service imports for type checkers alone.
    """
    router = APIRouter(prefix=prefix, tags=[tag or part.replace("_", " ")])
    for offered in operations_of(kind, types):
        _add(router, part, offered, confirm, {"agent_id": agent_for, **(named or {})})
    return router


def _add(
    router: APIRouter, part: str, offered: Offered, confirm: type[ConfirmBody], finders: Mapping[str, _Named]
) -> None:
    declared, hints, defaults = offered.declared, offered.hints, offered.defaults
    verb, path = declared.http.split()
    bare = {"list": f"list_{part}", "get": f"get_{part.removesuffix('s')}"}
    name = bare.get(offered.method.__name__, offered.method.__name__)
    title = f"{part}_{name}".title().replace("_", "")
    in_path = re.findall(r"{(\w+)}", path)
    own = [each for each in defaults if each not in {*in_path, "agent_id"}]
    takes: dict[str, Any] = {"caller": CurrentCaller, "service": Service}
    for each in in_path:
        takes[each] = hints[each] if get_origin(hints[each]) is Literal else PathId
        if each in finders:
            takes[each] = Annotated[Any, Depends(finders[each](declared.verb))]
    if "agent_id" in defaults and "agent_id" not in in_path:
        takes["agent_id"] = Annotated[str | None, Depends(named_agent(declared.verb))]
    base: type[Frozen] = ReasonBody if "reason" in offered.said else Frozen
    if declared.confirms or {"confirmation", "decision"} & {*offered.said}:
        base = confirm
    if verb == "GET":
        takes |= {each: Annotated[hints[each], Query()] for each in own}
    elif own or base is not Frozen:
        takes["body"] = offered.model(f"{title}Body", base, own) if own else base
    answer: Any
    (answer, shown), under = offered.shown(), declared.under
    is_empty = answer is type(None)
    if under is not None:
        fields: dict[str, Any] = {under: answer}
        answer = create_model(title, __base__=Frozen, __doc__=offered.about, **fields)

    async def endpoint(*, caller: Caller, service: Any, body: Any = None, **given: Any) -> Any:
        given |= {each: value.run_id for each, value in given.items() if isinstance(value, Run)}
        if body is not None:
            given |= offered.given(body, own)
        given |= {each: _SAID[each](caller, body) for each in offered.said}
        done = shown(await offered.method(getattr(service, part), **given))
        return done if under is None else answer(**{under: done})

    endpoint.__name__ = name
    endpoint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # where FastAPI looks for one
        [
            inspect.Parameter(
                each,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=_EMPTY if each in in_path or defaults.get(each, ...) is ... else defaults[each],
            )
            for each, kind in takes.items()
        ]
    )
    has_agent = any(each in takes for each in finders)
    router.add_api_route(
        path,
        endpoint,
        methods=[verb],
        status_code=204 if is_empty else declared.status,
        response_model=None if is_empty else answer,
        description=offered.about,
        dependencies=None if has_agent else [company_wide(declared.verb)],
    )


_EMPTY = inspect.Parameter.empty
