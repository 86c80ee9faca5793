"""Delivers events to webhooks: each delivery is a work item, tried again for a day and a half, then left to a person.

A receiver that is slow, or away, holds up no other: few deliveries of one endpoint are under way at once, few of one
process, and whoever finds no place waits in its row, not in a worker.
"""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Self

from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.jobs import Dead, Deferred, Done, Outcome, Skipped
from memcore.ledger.attempt import LEASE_RENEWAL, Attempt, RetryPolicy
from memcore.ledger.ledger import Ledger
from memcore.ledger.webhooks.deliveries import Delivery
from memcore.ledger.webhooks.endpoints import EndpointState, SigningEndpoint
from memcore.telemetry.events import Event
from memcore.webhooks.sender import Tried, TryError, WebhookSender

#: The pause after each try that failed; after the last one a delivery has failed. Thirty-one hours in all: a receiver
#: that was down for a day gets everything.
BACK_OFF = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(hours=24),
)

#: The share by which a pause is drawn out at most, so that what failed together does not come back together.
JITTER = 0.2

#: How long an endpoint may fail without one success before it is disabled.
FAILS_FOR = timedelta(days=5)

#: Deliveries of one endpoint that are under way at once, in all processes together.
AT_ONCE = 2

#: Deliveries of one process that are under way at once: half of the threads that may take a message of their queue, so
#: that traces of finished tasks find one free.
_IN_A_PROCESS = 4

#: Wait of a delivery that finds no place. For each of those that wait it is longer, so that the many of a slow endpoint
#: do not ask in vain again and again; but never longer than the second.
BUSY_DELAY, _LONGEST_BUSY_DELAY = timedelta(seconds=5), timedelta(minutes=10)

#: How often a delivery is claimed: more often than it is tried, since a worker may die with it.
_RETRY = RetryPolicy(attempts=30)

_SLOTS = threading.BoundedSemaphore(_IN_A_PROCESS)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class WebhookService:
    """Delivers for one company.

    Attributes:
        slots: the places of this process.
        draw: returns a number from 0 to 1.
    """

    ledger: Ledger
    sender: WebhookSender
    _: KW_ONLY
    company: str
    clock: Clock = utc_now
    slots: threading.BoundedSemaphore = field(default=_SLOTS)
    draw: Callable[[], float] = random.random  # noqa: S311  # no secret
    renewal: timedelta = LEASE_RENEWAL

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        sender = WebhookSender(context.settings.webhook_private_hosts, clock=context.clock)
        return cls(context.ledger, sender, company=context.company, clock=context.clock)

    async def run(self, delivery_id: str) -> Outcome:
        """Try a delivery once.

        Returns:
            Done: it was accepted.
            Deferred: it was not, and is tried again later; or the endpoint, or this process, is busy.
            Skipped: the endpoint is disabled, the delivery has ended, or another worker has it.
            Dead: it was tried for the last time; a person may send it again.
        """
        deliveries = self.ledger.deliveries
        with Attempt(deliveries, self.company, delivery_id, retry=_RETRY, renewal=self.renewal) as attempt:
            delivery = attempt.claim()
            if not self.slots.acquire(blocking=False):
                attempt.outcome = attempt.wait("this process is busy", self._drawn_out(BUSY_DELAY))
            else:
                try:
                    attempt.outcome = await self._try(attempt, delivery)
                finally:
                    self.slots.release()
        return attempt.outcome

    async def _try(self, attempt: Attempt[Delivery], delivery: Delivery) -> Outcome:
        endpoint = self.ledger.webhooks.signing(self.company, delivery.endpoint)
        if endpoint is None or endpoint.state is EndpointState.DISABLED:
            reason = "the webhook is disabled"
            self.ledger.deliveries.fail(self.company, delivery.delivery_id, attempt.token, reason)
            return Skipped(reason=reason)
        load = self.ledger.deliveries.load(self.company, delivery.endpoint)
        # This one is among the leased.
        if load.leased > AT_ONCE:
            delay = min(BUSY_DELAY * (1 + load.waiting // AT_ONCE), _LONGEST_BUSY_DELAY)
            return attempt.wait("the endpoint is busy", self._drawn_out(delay))
        attempt.lease.check()
        tried = await self.sender.send(delivery, endpoint)
        return self._settled(attempt, delivery, endpoint, tried)

    def _settled(
        self, attempt: Attempt[Delivery], delivery: Delivery, endpoint: SigningEndpoint, tried: Tried
    ) -> Outcome:
        deliveries, key, token = self.ledger.deliveries, delivery.delivery_id, attempt.token
        if tried.error is None:
            deliveries.succeed(self.company, key, token, status=tried.status or HTTPStatus.NO_CONTENT)
            return Done(facts={"delivered": 1})
        disable = _why_disabled(endpoint, tried, self.clock())
        pause = self._pause(delivery.failures, tried)
        if disable is None and pause is not None:
            deliveries.postpone(self.company, key, token, status=tried.status, error=tried.error.value, after=pause)
            return Deferred(reason=tried.error.value)
        deliveries.give_up(self.company, key, token, status=tried.status, error=tried.error.value, disable=disable)
        about = {"company": self.company, "endpoint": endpoint.name, "webhook_event": delivery.event.value}
        _log.warning(
            Event.WEBHOOK_DELIVERY_FAILED, extra={**about, "status": tried.status, "problem": tried.error.value}
        )
        if disable is not None:
            _log.warning(Event.WEBHOOK_ENDPOINT_DISABLED, extra={**about, "reason": disable})
        return Dead(reason=tried.error.value)

    def _pause(self, failures: int, tried: Tried) -> timedelta | None:
        """Return the pause behind a try that failed after so many failures before; None behind the last one."""
        if failures >= len(BACK_OFF):
            return None
        return max(self._drawn_out(BACK_OFF[failures]), tried.pause)

    def _drawn_out(self, pause: timedelta) -> timedelta:
        return pause * (1 + JITTER * self.draw())


def _why_disabled(endpoint: SigningEndpoint, tried: Tried, now: datetime) -> str | None:
    if tried.error is TryError.STATUS and tried.status == HTTPStatus.GONE:
        return "the receiver answered 410: it is gone"
    if endpoint.failing_since is not None and now - endpoint.failing_since >= FAILS_FOR:
        return f"every delivery failed for {FAILS_FOR.days} days"
    return None
