"""Routes of the operations that the service declares: arguments, guardrail and answer follow from each method."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from types import GenericAlias
from typing import Annotated, Any, get_origin, get_type_hints

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, create_model

from memcore.ledger.runs import Run
from memcore.models.approval import Decision
from memcore.models.base import Frozen
from memcore.models.organization import OrgFactAuthor
from memcore.service.operation import Operation, about, operations_of
from ops.http.access import Caller, CurrentCaller, agent_for
from ops.http.context import Service
from ops.http.operators import ConfirmBody, PathId, ReasonBody, company_wide, named_agent

#: What a caller's key and the guardrail say, by the parameter that takes it.
_WHO: dict[str, Callable[[Caller, Any], Any]] = {
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
) -> APIRouter:
    """Return the routes of a part of the service.

    ``confirm`` is the body that confirms; ``named`` says of names in a path what finds them for a verb.
    """
    router = APIRouter(prefix=prefix, tags=[tag or part.replace("_", " ")])
    finders = {"agent_id": agent_for, **(named or {})}
    for method, declared in operations_of(kind):
        _add(router, part, method, declared, confirm, finders)
    return router


def _add(
    router: APIRouter,
    part: str,
    method: Callable[..., Awaitable[Any]],
    declared: Operation,
    confirm: type[ConfirmBody],
    finders: Mapping[str, _Named],
) -> None:
    (verb, path), hints = declared.http.split(), get_type_hints(method, include_extras=True)
    name = method.__name__ if "_" in method.__name__ else f"{method.__name__}_{part}"
    in_path = re.findall(r"{(\w+)}", path)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    who = [each.name for each in parameters if each.name in _WHO]
    own = {each.name: each for each in parameters if each.name not in {*in_path, *who}}
    takes: dict[str, Any] = {"caller": CurrentCaller, "service": Service}
    takes |= {
        each: Annotated[Any, Depends(finders[each](declared.verb))] if each in finders else PathId for each in in_path
    }
    is_narrowed = "agent_id" in own
    if is_narrowed:
        takes["agent_id"] = Annotated[str | None, Depends(named_agent(declared.verb))]
        del own["agent_id"]
    defaults = {each.name: each.default for each in own.values()}
    if verb == "GET":
        takes |= {each: Annotated[hints[each], Query()] for each in own}
    else:
        base = _base(who, declared, confirm)
        models = [hints[each] for each in own if inspect.isclass(hints[each]) and issubclass(hints[each], BaseModel)]
        if len(own) == len(models) == 1:
            (takes["body"],) = models
        elif own:
            fields: dict[str, Any] = {
                each.name: (hints[each.name], ... if each.default is each.empty else each.default)
                for each in own.values()
            }
            takes["body"] = create_model(f"{_title(name)}Body", __base__=base, __doc__=about(method), **fields)
        elif base is not Frozen:
            takes["body"] = base
    answer, shown = _answer(name, method, declared, hints["return"])

    async def endpoint(*, caller: Caller, service: Any, body: Any = None, **given: Any) -> Any:
        given |= {each: value.run_id for each, value in given.items() if isinstance(value, Run)}
        if body is not None:
            given |= {each: body if type(body) is hints[each] else getattr(body, each) for each in own}
        given |= {each: _WHO[each](caller, body) for each in who}
        return shown(await method(getattr(service, part), **given))

    endpoint.__name__ = name
    endpoint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # where FastAPI looks for one
        [
            inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=defaults.get(each, _EMPTY))
            for each, kind in takes.items()
        ],
        return_annotation=answer,
    )
    is_company_wide = not is_narrowed and not any(each in finders for each in in_path)
    router.add_api_route(
        path,
        endpoint,
        methods=[verb],
        status_code=204 if answer is None else declared.status,
        description=about(method),
        dependencies=[company_wide(declared.verb)] if is_company_wide else None,
    )


_EMPTY = inspect.Parameter.empty


def _base(who: list[str], declared: Operation, confirm: type[ConfirmBody]) -> type[Frozen]:
    if declared.confirms or {"confirmation", "decision"} & set(who):
        return confirm
    return ReasonBody if "reason" in who else Frozen


def _answer(
    name: str, method: Callable[..., Any], declared: Operation, result: Any
) -> tuple[Any, Callable[[Any], Any]]:
    """Return the type of what is answered, and what makes it of a result."""
    shows, under = declared.shows, declared.under
    kind: Any = result if shows is None else shows
    if shows is not None and get_origin(result) is tuple:
        kind = GenericAlias(tuple, (shows, ...))
    if under is None:
        return None if kind is type(None) else kind, declared.shown
    fields: dict[str, Any] = {under: kind}
    page = create_model(_title(name), __base__=Frozen, __doc__=about(method), **fields)
    return page, lambda done: page(**{under: declared.shown(done)})


def _title(name: str) -> str:
    return name.title().replace("_", "")
