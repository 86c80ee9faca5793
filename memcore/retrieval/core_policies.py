"""The policies of an organisation, which lead every prepared context."""

import logging
from collections.abc import Sequence

from memcore.chat_message import ChatMessage, MessageRole
from memcore.retrieval.events import RetrievalEvent
from memcore.retrieval.formatter import fit
from memcore.retrieval.token_estimator import TokenEstimator

#: Operators wrote them in the policy file: they are instructions, so no fence stands around them.
_HEADING = "Policies of this organisation; they always apply:"

_log = logging.getLogger(__name__)


def format_core_policies(
    policies: Sequence[str], *, estimator: TokenEstimator, token_budget: int
) -> tuple[ChatMessage, ...]:
    """Return the message with the policies, in their order, or nothing when there is none.

    They take tokens before any memory does. One that the budget cannot hold is left out, and an event says so.
    """
    if not policies:
        return ()
    texts = [_HEADING, *(f"- {policy}" for policy in policies)]
    places = fit(texts, estimator=estimator, token_budget=token_budget)
    fitting = [place for place in places if place > 0] if 0 in places else []
    if len(fitting) < len(policies):
        left_out = len(policies) - len(fitting)
        _log.warning(RetrievalEvent.BUDGET_EXCEEDED, extra={"left_out": left_out, "token_budget": token_budget})
    if not fitting:
        return ()
    return (ChatMessage(role=MessageRole.SYSTEM, content="\n".join([_HEADING, *(texts[place] for place in fitting)])),)
