"""Events that webhooks deliver, and one that happened: ids, names and counts, never the text of a memory."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field

from memcore.models.base import Frozen, NotBlankStr


class WebhookEventType(StrEnum):
    """What a webhook tells of."""

    #: A run stopped, and a person releases or dismisses it.
    RUN_HELD = "run.held"
    #: A worker ended a run: it is done, or there was nothing to do.
    RUN_FINISHED = "run.finished"
    RUN_FAILED = "run.failed"
    #: A job was given up, and kept as a dead letter.
    JOB_DEAD = "job.dead"
    #: A proposal waits for a person.
    APPROVAL_FILED = "approval.filed"
    #: For five minutes no memory that was stored could be found.
    CANARY_LATE = "canary.late"
    #: A model call was refused, since the agent's budget of the day has no room for it.
    BUDGET_SPENT = "budget.spent"
    #: After a run a registered memory test failed that had not failed before.
    MEMORY_TEST_FAILED = "memory_test.failed"
    #: Somebody tries whether a receiver answers; every endpoint gets it when asked to.
    PING = "ping"


#: The events that an endpoint may subscribe to.
SUBSCRIBABLE: tuple[WebhookEventType, ...] = tuple(
    event for event in WebhookEventType if event is not WebhookEventType.PING
)


class EventNotice(Frozen):
    """Something that happened.

    Attributes:
        agent_id: whose run, proposal or budget it is.
        data: ids, names and counts that the body tells beside the agent.
        cause: what the event stands for, where its writer may come again: the same cause is announced once.
    """

    event: WebhookEventType
    agent_id: NotBlankStr | None = None
    data: Mapping[str, Any] = Field(default_factory=dict)
    cause: NotBlankStr | None = None
