"""The approvals of an installation, with every effect that it can carry out."""

from typing import TYPE_CHECKING

from memcore.approvals.effects import ApprovalEffects, EffectRegistry
from memcore.approvals.service import ApprovalService
from memcore.approvals.shared_publication import SharedPublication
from memcore.approvals.webhook import Webhook
from memcore.backends.protocol import MemoryBackend, MemoryCapabilities
from memcore.backends.shared import SharedKnowledgeStore
from memcore.clock import Clock, utc_now

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.ledger.ledger import Ledger


def create_approvals(
    settings: "Settings",
    policy: "Policy",
    ledger: "Ledger",
    *,
    backend: MemoryBackend | None = None,
    clock: Clock = utc_now,
) -> ApprovalService:
    """Return the approvals of the company.

    Args:
        settings: the company, and the webhook.
        policy: how long a proposal waits.
        ledger: where approvals lie.
        backend: where effects go; without one, proposals can be filed and rejected, and not approved.
        clock: the time.
    """
    effects: list[ApprovalEffects] = []
    store: object = backend
    if isinstance(store, SharedKnowledgeStore) and _shares(backend):
        effects.append(
            SharedPublication(store, ledger.shared_log, ledger.approvals, company=settings.company, clock=clock)
        )
    webhook = settings.approvals_webhook
    return ApprovalService(
        ledger.approvals,
        EffectRegistry(effects),
        company=settings.company,
        lasts=policy.memory.approvals.lasts,
        notice=None if webhook is None else Webhook(webhook.get_secret_value()),
    )


def _shares(backend: object) -> bool:
    return isinstance(backend, MemoryCapabilities) and backend.supports_shared_access
