"""The deployment of an installation."""

from typing import TYPE_CHECKING

from memcore.backends.factory import followed_row

if TYPE_CHECKING:
    from memcore.backends.mem0.mirror import Mirror
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.finetune.deployment import CheckpointDeployment
    from memcore.ledger.ledger import Ledger


def create_deployment(
    settings: "Settings", policy: "Policy", ledger: "Ledger", mirror: "Mirror"
) -> "CheckpointDeployment":
    """Return what deploys the company's checkpoints; the caller closes the mirror."""
    # The store's client takes a third of a second to import.
    from memcore.finetune.deployment import CheckpointDeployment  # noqa: PLC0415  # see above

    return CheckpointDeployment(
        mirror,
        ledger,
        company=settings.company,
        load=followed_row(settings, policy).load,
        dense_weight=policy.memory.retrieval.dense_weight,
    )
