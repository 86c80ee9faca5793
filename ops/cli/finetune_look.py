"""What ``memtend doctor`` says of a fine-tune run, and of the place where its stages run."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from memcore.config.settings import Settings
from memcore.finetune.execution.docker_engine import docker_engine
from memcore.finetune.execution.factory import execution_of, require_executor
from ops.cli.finding import Finding
from ops.cli.session import ledger_of, policy_of

#: How long nobody may have had a run in hand that has not ended: a dead worker's lease, and the sweep's patience.
_STUCK = timedelta(minutes=10)


def finetune(settings: Settings) -> Iterator[Finding]:
    """Say how far the active run is, and whether a worker has it in hand."""
    with ledger_of(settings) as ledger:
        run = ledger.finetune_runs.active(settings.company)
    if run is not None:
        is_stuck = datetime.now(UTC) - max(run.updated_at, run.lease_until or run.updated_at) > _STUCK
        yield Finding(
            check="fine-tune",
            ok=not is_stuck,
            seen=f"{run.stage}, {run.fraction:.0%} done" + (", and nobody has it in hand" if is_stuck else ""),
            mend="start a worker: `memtend worker --group finetune`; or `memtend finetune cancel --by YOU`",
        )


def stage_containers(settings: Settings) -> Iterator[Finding]:
    """Say whether an engine answers, where the policy wants stages in containers."""
    execution = execution_of(settings, policy_of(settings))
    if execution.backend == "docker":
        require_executor(execution)
        with docker_engine(os.environ):
            yield Finding(
                check="stage containers", ok=True, seen=f"an engine answers; stages run in {execution.image}", mend=""
            )
