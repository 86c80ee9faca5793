"""Search lab: what a search of an agent shows, and why; what another policy would show. Nothing is written.

It asks the service as the page of memories does, which counts no use and records no question.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, NamedTuple

import yaml
from fastapi import APIRouter, Request
from pydantic import Field, field_validator
from starlette.responses import Response

from memcore.config.policy import Policy
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.ledger.access.keys import Verb
from memcore.models.answers import Shown, Standing
from memcore.models.base import Frozen, NotBlankStr, naming_fields
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.models.origin import Authority
from ops.http.access import CurrentCaller
from ops.http.context import CompanyService, Service
from ops.web.agents import NamedAgent
from ops.web.forms import Form
from ops.web.pages import page
from ops.web.routes.memories import MAX_TEXT_CHARS

router = APIRouter(prefix="/memories/lab")

#: Most results of a search here, and most of the memories that it finds and does not show.
MOST_RESULTS, MOST_OTHERS = 50, 20

#: Keys of the policy that decide what a search shows; the form begins with what is in force.
SEARCH_KEYS = ("standing", "min_evidence", "dense_weight", "sparse", "fusion_strategy", "time_zone", "hemisphere")

#: Why a memory is not even among those that a search finds and does not show.
NOT_FOUND = "Not found: it stands behind the first ones, or has too little authority."

_Search = Callable[[MemoryQuery], Awaitable[tuple[MemoryEntry, ...]]]


class Asked(Frozen):
    """The fields of the form; a time without a zone is one of UTC."""

    q: NotBlankStr = Field(max_length=MAX_TEXT_CHARS)
    limit: int = Field(default=10, ge=1, le=MOST_RESULTS)
    standing: Shown | None = None
    as_of: datetime | None = None
    min_authority: Authority | None = None

    @field_validator("as_of")
    @classmethod
    def _in_utc(cls, given: datetime | None) -> datetime | None:
        return given if given is None or given.tzinfo else given.replace(tzinfo=UTC)

    def query(self, **more: Any) -> MemoryQuery:
        """Return the query that it asks. Raises MemoryInputError."""
        named = self.model_dump(exclude={"q"}) | {"text": self.q, "explain": True} | more
        with naming_fields():
            return MemoryQuery.model_validate(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What a search shows under a policy, best first, and the first memories that it finds and does not show."""

    shown: tuple[MemoryEntry, ...]
    others: tuple[MemoryEntry, ...]
    standing: Shown

    @property
    def places(self) -> dict[str, int]:
        """The place of each memory that is shown, from 1."""
        return {each.id: place for place, each in enumerate(self.shown, start=1)}

    def reason(self, entry: MemoryEntry) -> str:
        """Return why a memory is shown, or is not, in a sentence."""
        why, standing = entry.why, entry.standing
        if why is None or standing is None:
            return "No reason is known."
        is_shown, is_answered = entry.id in self.places, why.evidence >= why.needed_evidence
        shown = "Shown" if is_shown else "Not shown"
        if standing is Standing.STRONG:
            if why.share >= why.needed:
                because = f"it scores {why.share:.2f} of the best, and {why.needed:.2f} is needed"
            elif why.is_of_time:
                because = "it is of the time that the question names"
            else:
                because = "no other memory answers its part of the question"
            return f"{shown}: {because}." if is_shown else f"{shown}, since the limit is reached: {because}."
        because = f"it scores {why.share:.2f} of the best, and a strong one needs {why.needed:.2f}"
        if not is_answered:
            because = (
                f"nothing answers the question, the best evidence is {why.evidence:.2f} of {why.needed_evidence:.2f}"
            )
        if standing is Standing.ABSENT:
            nearest = "" if is_answered else ", and it is none of the nearest"
            return f"{shown}{', since all were asked for' if is_shown else ''}: {because}{nearest}."
        if is_shown:
            return f"{shown}: {because}, and it is one of the nearest."
        if self.standing is Shown.STRONG:
            return f"{shown}, since only strong ones are: {because}."
        return f"{shown} {'beside a strong one' if is_answered else 'since the limit is reached'}: {because}."


class Move(NamedTuple):
    """A memory under two policies: its place in each, None where it is not shown, and why it is not."""

    entry: MemoryEntry
    now: int | None
    then: int | None
    reason: str | None

    @property
    def change(self) -> str:
        """What becomes of it, a sign and a word."""
        if self.now is None:
            return "+ new"
        if self.then is None:
            return "\N{MINUS SIGN} gone"
        if self.now == self.then:
            return "= same"
        apart = self.now - self.then
        return f"\N{UPWARDS ARROW} up {apart}" if apart > 0 else f"\N{DOWNWARDS ARROW} down {-apart}"


def moves(now: Ranking, then: Ranking) -> list[Move]:
    """Return what is shown under either policy: in the order of the second one, and behind it what is gone."""
    first, second = now.places, then.places
    entries = {each.id: each for each in (*then.shown, *now.shown)}
    left_out = dict.fromkeys(entries, NOT_FOUND) | {each.id: then.reason(each) for each in then.others}
    left_out |= {each.id: now.reason(each) for each in now.others}
    return [
        Move(each, first.get(key), second.get(key), None if key in first and key in second else left_out[key])
        for key, each in entries.items()
    ]


@router.get("")
async def lab(request: Request, service: Service, agent: NamedAgent) -> Response:
    """Search an agent's memories, and say of each result why it is shown."""
    return await _page(request, service, agent, dict(request.query_params))


@router.post("")
async def compare(request: Request, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Search under the policy in force and under another one, side by side."""
    agent_id = form.agent(caller, Verb.READ)
    form.text("q")
    wrong, other = dict[str, str](), None
    try:
        other = await form.policy(service.policy)
    except MemoryConfigError as error:
        wrong = {"policy": str(error)}
    return await _page(request, service, agent_id, form.fields, other=other, wrong=wrong)


async def _page(
    request: Request,
    service: CompanyService,
    agent: str,
    fields: Mapping[str, str],
    *,
    other: Policy | None = None,
    wrong: Mapping[str, str] | None = None,
) -> Response:
    wrong = dict(wrong or {})
    given = {name: value for name, value in fields.items() if name in Asked.model_fields and value.strip()}
    asked = now = then = None
    if given:
        try:
            with naming_fields():
                asked = Asked.model_validate(given)
        except MemoryInputError as error:
            wrong[error.field] = str(error)
    if asked is not None:
        now = await _ranking(lambda query: service.memories.search(agent, query), asked, service.policy)
        if other is not None:
            tried = other
            then = await _ranking(lambda query: service.memories.search_as(agent, query, tried), asked, tried)
    return page(
        request,
        "lab",
        status=HTTPStatus.OK if not wrong else HTTPStatus.UNPROCESSABLE_ENTITY,
        agent=agent,
        asked=asked,
        given=given,
        ranking=now,
        read_as=None if now is None else _read_as((*now.shown, *now.others)),
        moves=None if now is None or then is None else moves(now, then),
        differs=[] if other is None else list(_differing(service.policy, other)),
        warnings=() if other is None else other.warnings,
        policy=fields["policy"] if "policy" in fields else _in_force(service.policy),
        wrong=wrong,
        standings=list(Shown),
        authorities=list(Authority),
        most=MOST_RESULTS,
        most_chars=MAX_TEXT_CHARS,
    )


async def _ranking(search: _Search, asked: Asked, policy: Policy) -> Ranking:
    shown = await search(asked.query())
    every = await search(asked.query(standing=Shown.ANY, limit=asked.limit + MOST_OTHERS))
    known = {each.id for each in shown}
    others = tuple(each for each in every if each.id not in known)[:MOST_OTHERS]
    return Ranking(shown=shown, others=others, standing=asked.standing or policy.memory.retrieval.standing)


def _read_as(entries: Sequence[MemoryEntry]) -> str | None:
    return next((each.why.read_as for each in entries if each.why is not None), None)


def _differing(now: Policy, then: Policy) -> Iterator[str]:
    """Yield the keys of what a search reads that differ, without their values."""
    for name in SEARCH_KEYS:
        if getattr(now.memory.retrieval, name) != getattr(then.memory.retrieval, name):
            yield f"memory.retrieval.{name}"
    if now.memory.origins.authority != then.memory.origins.authority:
        yield "memory.origins.authority"


def _in_force(policy: Policy) -> str:
    """Return what is in force of the keys that a search reads, as a policy file writes it."""
    retrieval = policy.memory.retrieval.model_dump(mode="json", include=set(SEARCH_KEYS), exclude_none=True)
    shown = {"memory": {"retrieval": {name: retrieval[name] for name in SEARCH_KEYS if name in retrieval}}}
    if "origins" in policy.memory.model_fields_set:
        shown["memory"]["origins"] = policy.memory.origins.model_dump(mode="json")
    return yaml.safe_dump(shown, sort_keys=False)
