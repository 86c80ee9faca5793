"""A question that somebody asks now: nobody else asks it while the model thinks, and a dead asker soon loses it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.answers import Answers
from memcore.llm.events import ModelEvent

#: How long a question belongs to who asks it after the last sign of life.
QUESTION_LEASE = timedelta(seconds=45)

#: How often the lease is renewed while the model thinks.
QUESTION_RENEWAL = timedelta(seconds=10)

_log = logging.getLogger(__name__)


@asynccontextmanager
async def held(
    table: Answers, question_id: str, token: str, *, renewal: timedelta = QUESTION_RENEWAL
) -> AsyncIterator[None]:
    """Renew the lease of a question that was taken, for as long as the block runs."""
    beat = asyncio.create_task(_beat(table, question_id, token, renewal.total_seconds()))
    try:
        yield
    finally:
        beat.cancel()
        with suppress(asyncio.CancelledError):
            await beat


async def _beat(table: Answers, question_id: str, token: str, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            if not table.renew(question_id, token, lease=QUESTION_LEASE):
                return
        except MemoryError as error:
            # The lease outlasts a busy database.
            _log.warning(ModelEvent.LEASE_UNCERTAIN, extra={"error_type": type(error).__name__})
