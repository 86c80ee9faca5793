"""The webhook: notifies an operator's address that a proposal waits, without its content."""

import logging
from datetime import timedelta
from http import HTTPStatus

from memcore.approvals.service import ApprovalEvent
from memcore.models.approval import Approval

#: How long the other side may take: the caller that files a proposal waits for it.
TIMEOUT = timedelta(seconds=5)

_log = logging.getLogger(__name__)


class Webhook:
    """Posts id, action, title and risk of a proposal as JSON; a failure is logged and never raised.

    The address may hold a secret, so it is in no log. A redirect is not followed.
    """

    def __init__(self, url: str, *, timeout: timedelta = TIMEOUT) -> None:
        self._url = url
        self._timeout = timeout

    async def notify(self, approval: Approval) -> None:
        """Send it, once; what is lost is lost, and `memtend approvals list` still shows the proposal."""
        # Few processes file proposals.
        import orjson  # noqa: PLC0415  # see above

        from memcore.bounded_http import AnswerTooSlowError, ask, open_client  # noqa: PLC0415  # see above

        proposal = approval.proposal
        body = {
            "id": approval.approval_id,
            "action": proposal.action,
            "title": proposal.title,
            "risk": str(proposal.risk),
        }
        problem = ""
        try:
            async with open_client() as client:
                content = orjson.dumps(body)
                answer = await ask(client, "POST", self._url, content=content, max_bytes=None, within=self._timeout)
            if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
                problem = f"status {answer.status}"
        except AnswerTooSlowError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # whatever an address or its server does, the proposal is filed
            # Its class alone: some messages name the address.
            problem = type(error).__name__
        if problem:
            _log.warning(ApprovalEvent.WEBHOOK_FAILED, extra={"approval_id": approval.approval_id, "problem": problem})
