"""Erasures: an agent, or a person of its conversations, goes for good; a signed receipt says so."""

from memcore.ledger.access.keys import Verb
from memcore.models.memory import Key
from memcore.service.erasures import ErasureOperations, ErasureView
from ops.http.access import Caller, CurrentCaller
from ops.http.context import Service
from ops.http.declared import router_of
from ops.http.operators import AdminAgent, ConfirmBody

router = router_of("erasures", ErasureOperations)


class EraseBody(ConfirmBody):
    """A confirmation of an erasure.

    Attributes:
        retire_checkpoints: whether the embedders that were trained on memories are deleted, too.
    """

    retire_checkpoints: bool = False


class SubjectBody(EraseBody):
    """A confirmation of the erasure of a person.

    Attributes:
        subject: the person: the engine's user_id, or session:NAME.
    """

    subject: Key


@router.post("/agents/{agent_id}/erasures", status_code=202)
async def erase_agent(agent_id: AdminAgent, body: EraseBody, caller: CurrentCaller, service: Service) -> ErasureView:
    """Erase all that is stored of the agent, for good, by a job; its other jobs are dropped meanwhile."""
    _require_all(body, caller)
    return ErasureView.of(
        await service.erasures.request(agent_id, body.confirmation(caller), retire_checkpoints=body.retire_checkpoints)
    )


@router.post("/agents/{agent_id}/conversations/erasures", status_code=202)
async def erase_subject(
    agent_id: AdminAgent, body: SubjectBody, caller: CurrentCaller, service: Service
) -> ErasureView:
    """Erase what the agent has kept of a person, for good, by a job."""
    _require_all(body, caller)
    return ErasureView.of(
        await service.erasures.request(
            agent_id,
            body.confirmation(caller),
            subject=body.subject,
            retire_checkpoints=body.retire_checkpoints,
        )
    )


def _require_all(body: EraseBody, caller: Caller) -> None:
    # Checkpoints are the company's: a key for some agents does not delete what all of them search with.
    if body.retire_checkpoints:
        caller.require(Verb.ADMIN)
