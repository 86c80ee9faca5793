"""What a form of the console sends: its fields, the reason of a decision, and the agent that it is about."""

from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from pydantic import TypeAdapter

from memcore.config.loader import build_policy, read_document
from memcore.config.policy import Policy
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.ledger.access.keys import Verb
from memcore.ledger.organization.audit import Confirmation
from memcore.models.base import naming_fields
from memcore.models.memory import require_agent_id
from ops.http.access import Caller
from ops.http.operators import ConfirmBody

#: Where the middleware leaves the fields of a request's form.
FORM = "memtend.console.form"

#: Longest policy that is tried, in characters: this takes a second to read, and a server has other things to do.
MOST_POLICY_CHARS = 65_536

#: Most fields of a form.
_MOST_FIELDS = 1_000

_PLACES: TypeAdapter[tuple[int, ...]] = TypeAdapter(tuple[int, ...])


class Decider(TypedDict):
    """Who decides, and why, as the operations of the service take it."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The fields of a form; a field that is missing or blank counts as not given."""

    fields: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a field. Raises MemoryInputError where it is not given."""
        found = self.optional(name)
        if found is None:
            raise MemoryInputError(name, "must be given")
        return found

    def optional(self, name: str) -> str | None:
        """Return a field, None where it is not given."""
        return self.fields.get(name, "").strip() or None

    def confirmed(self) -> ConfirmBody:
        """Return the confirmation with its reason. Raises MemoryInputError."""
        with naming_fields():
            return ConfirmBody.model_validate(
                {"confirm": self.fields.get("confirm") == "yes", "reason": self.fields.get("reason", "")}
            )

    def decision(self, caller: Caller) -> Decider:
        """Return who decides, and why; who is the name of the key. Raises MemoryInputError."""
        return {"by": caller.name, "reason": self.confirmed().reason}

    def confirmation(self, caller: Caller) -> Confirmation:
        """Return the same as a confirmation. Raises MemoryInputError."""
        return self.confirmed().confirmation(caller)

    def agent(self, caller: Caller, verb: Verb) -> str:
        """Return the agent that the form is about, once the caller may do this with it.

        Raises MemoryInputError, MemoryForbiddenError.
        """
        agent_id = self.text("agent")
        caller.require(verb, agent_id=agent_id)
        return require_agent_id(agent_id)

    async def policy(self, in_force: Policy) -> Policy:
        """Return the policy that is tried; what it leaves out stays as in force.

        Raises MemoryInputError where none is given, MemoryConfigError where it cannot be one.
        """
        self.text("policy")
        # As it was written: its indentation counts.
        text = self.fields["policy"]
        if len(text) > MOST_POLICY_CHARS:
            raise MemoryConfigError(f"policy: has more than {MOST_POLICY_CHARS} characters")
        # In a thread: a large text takes a second to read.
        return await to_thread(lambda: build_policy(read_document(text), base=in_force))

    def places(self) -> tuple[int, ...] | None:
        """Return the numbers of groups, None for all. Raises MemoryInputError."""
        named = self.optional("groups")
        if named is None:
            return None
        with naming_fields(name="groups"):
            return _PLACES.validate_python(named.split(","))


def parsed(body: bytes) -> Given:
    """Return the fields of a form's body. Raises MemoryInputError."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise MemoryInputError("form", "cannot be read") from None
    return Given(fields=dict(pairs))


async def given(request: Request) -> Given:
    """Return the form of a request; a dependency. The middleware has checked its token."""
    found: Any = request.scope[FORM]
    assert isinstance(found, Given)  # noqa: S101  # the middleware leaves nothing else
    return found


#: The form of a route.
Form = Annotated[Given, Depends(given)]
