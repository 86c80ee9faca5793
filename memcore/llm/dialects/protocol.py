"""What a dialect does: a request's body, and what an answer of its server says."""

from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from memcore.config.llm import Api
from memcore.llm.protocol import CompletionRequest

Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a server wants its questions, as far as it differs from the rule.

    Attributes:
        completion_tokens: ``max_tokens`` is called ``max_completion_tokens``.
        temperature: whether it is sent.
        context_tokens: the size of the context, where a request says it.
    """

    completion_tokens: bool = False
    temperature: bool = True
    context_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model said, without its reasoning.

    Attributes:
        is_cut: it stopped at the longest length.
        is_filtered: the server's filter, or the model's, took the answer away.
    """

    text: str
    is_cut: bool = False
    is_filtered: bool = False


class Dialect(Protocol):
    """One API of servers of language models; it keeps nothing of a request."""

    @property
    def api(self) -> Api:
        """Which one."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """The context that a request asks for where none is set; None where servers have one of their own."""
        ...

    def path(self, url: str) -> str:
        """Return the address for questions, from the server's base address."""
        ...

    def models_path(self, url: str) -> str:
        """Return the address of the list of models."""
        ...

    def headers(self, key: SecretStr | None) -> dict[str, str]:
        """Return the headers of every request, their names in lower case."""
        ...

    def body(self, request: CompletionRequest, style: Style) -> dict[str, Any]:
        """Return the body of a question; the request names its model."""
        ...

    def usage(self, content: bytes) -> tuple[int, int] | None:
        """Return the tokens read and written that an answer reports; None where it reports none."""
        ...

    def answer(self, content: bytes) -> Answer | None:
        """Return what the model said; None where nobody can read it."""
        ...

    def models(self, content: bytes) -> tuple[str, ...] | None:
        """Return the names on the list of models; None where nobody can read it."""
        ...


Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class Read(BaseModel):
    """Base of what is read of an answer: servers send fields of their own, and no error quotes the answer."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Part(Read):
    """A block of an answer; the kinds that are not read are reasoning, or of tools."""

    type: str = ""
    text: str | None = None


class _Model(Read):
    id: str


class _Models(Read):
    data: list[_Model]


def listed_ids(content: bytes) -> tuple[str, ...] | None:
    """Return the names on a list of models as OpenAI and Anthropic write it."""
    listed = parsed(_Models, content)
    return None if listed is None else tuple(model.id for model in listed.data)


def parsed(form: type[Form], content: bytes) -> Form | None:
    """Return an answer in a form, or None where it has another."""
    try:
        return form.model_validate_json(content)
    except ValidationError:
        return None


def bearer(key: SecretStr | None) -> dict[str, str]:
    """Return the header of a bearer token."""
    return {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
