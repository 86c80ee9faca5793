"""Webhook job: one try of a delivery."""

from memcore.jobs import DeliverPayload, Outcome
from memcore.webhooks.service import WebhookService
from tasks.context import JobContext
from tasks.job import WRITE_LIMITS, job


@job(DeliverPayload, WRITE_LIMITS, needs=WebhookService, is_repeated=True)
def deliver(payload: DeliverPayload, service: WebhookService, job_context: JobContext) -> Outcome:
    """Try the delivery, unless its row says that it has ended; the row decides, the message only triggers."""
    return job_context.run(service.run(payload.delivery_id))
