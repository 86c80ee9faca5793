"""What was learnt of a server and model: kept in the ledger, so that no process learns it anew."""

import hashlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from memcore.config.llm import Api
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.llm.refusals import About
from memcore.models.base import Frozen
from memcore.telemetry.events import Event

if TYPE_CHECKING:
    from memcore.ledger.monitoring.model_servers import ModelServers

_log = logging.getLogger(__name__)


#: Most tokens that are believed to be counted for one that is estimated, which is one a byte.
MOST_DENSITY = 4.0


class Learnt(Frozen):
    """How a server wants to be asked; the defaults are what is tried first.

    Attributes:
        api: another API than the address suggests.
        completion_tokens: it wants ``max_completion_tokens``, not ``max_tokens``.
        no_temperature: it refuses a temperature.
        no_schema: it refuses a schema, which stands in the prompt then.
        context_tokens: the size of the model's context.
        answer_tokens: the longest answer that it allows.
        density: how many tokens it counts for one that is estimated; only a refused text says it.
    """

    api: Api | None = None
    completion_tokens: bool = False
    no_temperature: bool = False
    no_schema: bool = False
    context_tokens: int | None = Field(default=None, ge=1)
    answer_tokens: int | None = Field(default=None, ge=1)
    density: float = Field(default=1.0, ge=1.0, le=MOST_DENSITY)

    def without(self, about: About) -> "Learnt":
        """Return what to try next where a parameter, a schema or an API is refused; the same where it was tried."""
        match about:
            case About.MAX_TOKENS:
                return self.model_copy(update={"completion_tokens": True})
            case About.TEMPERATURE:
                return self.model_copy(update={"no_temperature": True})
            case About.SCHEMA:
                return self.model_copy(update={"no_schema": True})
            case About.API:
                return self.model_copy(update={"api": Api.RESPONSES})
            case About.CONTEXT | About.ANSWER_LENGTH:
                return self

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was learnt, for people."""
        return tuple(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.api is not None:
            yield f"the model is asked over {self.api}"
        if self.completion_tokens:
            yield "it takes max_completion_tokens for max_tokens"
        if self.no_temperature:
            yield "it takes no temperature"
        if self.no_schema:
            yield "it takes no schema: the schema stands in the prompt"
        if self.context_tokens is not None:
            yield f"its context has {self.context_tokens} tokens"
        if self.answer_tokens is not None:
            yield f"its answers have at most {self.answer_tokens} tokens"


class ServerKnowledge:
    """Keeps what was learnt of the models of one server: in the ledger, or without one as long as it lives."""

    def __init__(self, url: str, *, company: str = "", servers: "ModelServers | None" = None) -> None:
        self._company = company
        # The address may hold a password, and nobody reads it here.
        self._server = hashlib.sha256(url.encode()).hexdigest()
        self._servers = servers
        self._kept: dict[str, Learnt] = {}

    def of(self, model: str) -> Learnt:
        """Return what is known of a model; a ledger that does not answer knows no more than this process."""
        if self._servers is not None:
            try:
                known = self._servers.learnt(self._company, model, server=self._server)
                return Learnt() if known is None else Learnt.model_validate(known)
            except ValidationError:
                # A newer release wrote it: what it says is learnt again.
                return self._kept.get(model, Learnt())
            except MemoryError:
                pass
        return self._kept.get(model, Learnt())

    def keep(self, model: str, learnt: Learnt) -> None:
        """Keep what was learnt of a model, in the place of what was."""
        self._kept[model] = learnt
        _log.info(Event.LLM_SERVER_LEARNT, extra={"model": model, "learnt": list(learnt.sentences)})
        if self._servers is not None:
            body = learnt.model_dump(mode="json", exclude_defaults=True)
            try:
                self._servers.keep(self._company, model, server=self._server, body=body)
            except MemoryError as error:
                # The answer must not be lost over it; the next process learns it again.
                _log.info(Event.LLM_SERVER_UNKEPT, extra={"model": model, "error": type(error).__name__})

    def forget(self, model: str) -> None:
        """Forget what was learnt of a model: it is asked as one that nobody has asked. Raises MemoryConnectionError."""
        self._kept.pop(model, None)
        if self._servers is not None:
            self._servers.forget(self._company, model)
