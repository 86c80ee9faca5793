"""The proposer: a model of its own that is told of an execution and proposes a lesson; the agent writes none itself."""

import logging
from dataclasses import dataclass
from enum import StrEnum

from memcore import ids
from memcore.config.procedural import ProceduralMemoryConfig
from memcore.errors import MalformedAnswerError, ProviderError
from memcore.llm.attribution import Attribution
from memcore.llm.completion import CompletionRequest
from memcore.llm.protocol import Model
from memcore.llm.structured import ask_structured
from memcore.procedural.draft import ProposalDraft
from memcore.procedural.events import ProceduralEvent
from memcore.procedural.payloads import FailureAnalysisPayload, SuccessPayload
from memcore.procedural.prompt import messages_of
from memcore.procedural.proposal import ProceduralMemoryProposal

#: What is paid for.
PURPOSE_FAILURE = "system:memory:propose:failure"
PURPOSE_SUCCESS = "system:memory:propose:success"

#: Raise it with any change of the prompt: the same execution is then another question.
VERSION = "proposer-v1"

_log = logging.getLogger(__name__)


class Silence(StrEnum):
    """Why there is no proposal."""

    #: Two answers, and neither has the form.
    MALFORMED = "malformed"
    #: Passing trouble in every attempt.
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """What the proposer says.

    Attributes:
        proposal: the lesson; None when there is none.
        silence: why there is none.
        refused: names of the fields that the model tried to set and may not; they were dropped.
    """

    proposal: ProceduralMemoryProposal | None = None
    silence: Silence | None = None
    refused: tuple[str, ...] = ()


class ProceduralProposer:
    """Ask a model for the lesson of an execution.

    Args:
        model: who is asked; give one that keeps its answers, so that a crash pays for none twice.
        config: which model, how warm, how long.
        company: whose agents.
    """

    def __init__(self, model: Model, config: ProceduralMemoryConfig, *, company: str) -> None:
        self._model = model
        self._config = config
        self._company = company

    async def propose(self, agent_id: str, payload: FailureAnalysisPayload | SuccessPayload) -> Proposed:
        """Return the proposal, or why there is none; an answer in another form is asked for once more.

        Raises:
            ProviderError: the server refuses, and will again; passing trouble gives no proposal instead.
            BudgetExceededError, AnswerMissingError: nothing was asked; come back later.
        """
        purpose = PURPOSE_SUCCESS if isinstance(payload, SuccessPayload) else PURPOSE_FAILURE
        request = CompletionRequest(
            messages=messages_of(payload),
            model=self._config.asked_model,
            temperature=self._config.temperature,
            max_tokens=self._config.max_tokens,
        )
        key = ids.question_id(
            company=self._company,
            agent_id=agent_id,
            purpose=purpose,
            model=self._config.asked_model or "",
            about=(payload.model_dump_json(), VERSION),
        )
        by = Attribution(company=self._company, agent_id=agent_id, run_id=None, purpose=purpose)
        try:
            draft = await ask_structured(self._model, request, ProposalDraft, by=by, key=key)
        except MalformedAnswerError:
            return _silent(Silence.MALFORMED, agent_id)
        except ProviderError as error:
            if not error.is_retryable:
                raise
            return _silent(Silence.UNAVAILABLE, agent_id)
        if draft.refused:
            # Names of ours, and none of the model's making.
            _log.warning(ProceduralEvent.FIELDS_REFUSED, extra={"agent_id": agent_id, "fields": draft.refused})
        _log.info(ProceduralEvent.PROPOSED, extra={"agent_id": agent_id, "refused": len(draft.refused)})
        return Proposed(proposal=draft.proposal(), refused=draft.refused)


def _silent(silence: Silence, agent_id: str) -> Proposed:
    _log.warning(ProceduralEvent.SKIPPED, extra={"agent_id": agent_id, "reason": silence.value})
    return Proposed(silence=silence)
