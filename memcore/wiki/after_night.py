"""The export at the end of a night, for policies that want one."""

import logging
from pathlib import Path

from memcore.backends.protocol import BatchBackend
from memcore.clock import Clock, utc_now
from memcore.config.wiki import WikiExportConfig
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.ledger import Ledger
from memcore.wiki.events import WikiEvent
from memcore.wiki.exporter import WikiExporter
from memcore.wiki.wiki_export import WikiExport

_log = logging.getLogger(__name__)


async def export_after_night(
    backend: BatchBackend,
    ledger: Ledger,
    config: WikiExportConfig,
    agent_id: str,
    *,
    home: Path,
    company: str,
    clock: Clock = utc_now,
) -> WikiExport | None:
    """Export the agent whose night has just ended, if the policy says ``trigger: on_consolidation``; None otherwise.

    It raises no memory error: the night is over and done, and a wiki that is late must not make it look undone.
    """
    if not config.enabled or config.trigger != "on_consolidation":
        return None
    try:
        exporter = WikiExporter(backend, ledger, config, home=home, company=company, clock=clock)
        (export,) = await exporter.export([agent_id])
    except MemoryError as error:
        _log.warning(WikiEvent.FAILED, extra={"agent_id": agent_id, "error": type(error).__name__})
        return WikiExport(agent_id=agent_id, reason=str(error))
    return export
