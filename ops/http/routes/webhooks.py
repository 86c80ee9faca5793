"""Webhooks: who is told of a company's events, and what became of each delivery."""

from memcore.service.webhooks import WebhookOperations
from ops.http.declared import router_of

router = router_of("webhooks", WebhookOperations)
