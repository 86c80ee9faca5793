"""Builds an installation's approvals with every effect that it can carry out."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from memcore.approvals.effects import (
    ApprovalEffects,
    EffectRegistry,
    PublicationLog,
    SharedLogProvider,
    SharedPublication,
)
from memcore.approvals.service import ApprovalService
from memcore.approvals.webhook import Webhook
from memcore.backends.protocol import MemoryBackend, MemoryCapabilities, SharedKnowledgeStore
from memcore.clock import Clock, utc_now
from memcore.procedural.skill_files import SkillFolders
from memcore.skills.publication import ORG_PROMOTION, SkillRows, SkillStore

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
    store: object = backend
    effects: Iterable[ApprovalEffects] = ()
    if isinstance(store, SharedKnowledgeStore) and _shares(backend):
        effects = _publications(settings, policy, ledger, store, clock=clock)
    webhook = settings.approvals_webhook
    return ApprovalService(
        ledger.approvals,
        EffectRegistry(effects),
        company=settings.company,
        lasts=policy.memory.approvals.lasts,
        notice=None if webhook is None else Webhook(webhook.get_secret_value()),
    )


def _publications(
    settings: "Settings", policy: "Policy", ledger: "Ledger", store: SharedKnowledgeStore, *, clock: Clock
) -> Iterator[ApprovalEffects]:
    log: PublicationLog = store.shared_log if isinstance(store, SharedLogProvider) else ledger.shared_log
    company, procedural = settings.company, policy.memory.procedural
    skill_store = None
    if procedural.skill_md_directory is not None:
        # One that begins with a slash stands for itself.
        skill_store = SkillStore(
            SkillFolders(settings.home / procedural.skill_md_directory), ledger.skills, company=company
        )
    notes = SkillRows(
        ledger.skills,
        log,
        company=company,
        limit=procedural.evolver.max_org_entries,
        clock=clock,
        skill_store=skill_store,
    )
    yield SharedPublication(store, log, ledger.approvals, company=company, clock=clock)
    yield SharedPublication(
        store, log, ledger.approvals, company=company, clock=clock, action=ORG_PROMOTION, notes=notes
    )


def _shares(backend: object) -> bool:
    return isinstance(backend, MemoryCapabilities) and backend.supports_shared_access
