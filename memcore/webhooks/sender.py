"""One try of a delivery: a signed request to an address that was checked, of whose answer the status alone is kept."""

import asyncio
import hmac
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from http import HTTPStatus

import httpx

from memcore.bounded_http import AnswerError, HttpResponse, ask, open_client
from memcore.clock import Clock, utc_now
from memcore.errors import MemoryInputError
from memcore.ledger.webhooks.deliveries import Delivery
from memcore.ledger.webhooks.endpoints import SECRET_PREFIX, SigningEndpoint
from memcore.webhooks.destination import Destination, RefusedAddressError, Resolver, resolved

#: How long a try may take as a whole, from looking the host up to the answer.
TIMEOUT = timedelta(seconds=10)

#: Longest pause that a receiver may ask for.
_LONGEST_PAUSE = timedelta(days=1)

_USER_AGENT = "memtend"


class TryError(StrEnum):
    """What was wrong with a try."""

    #: The URL breaks a rule that came after it was added.
    URL = "url refused"
    ADDRESS = "address refused"
    LOOKUP = "host not found"
    TIMEOUT = "no answer in time"
    CONNECTION = "no connection"
    #: It was answered, but not with a status of success; a redirect is not followed.
    STATUS = "refused by the receiver"


#: What an address or its server may cause, the first that fits; a timeout is an error of the system too.
_PROBLEMS: tuple[tuple[tuple[type[Exception], ...], TryError], ...] = (
    ((MemoryInputError,), TryError.URL),
    ((RefusedAddressError,), TryError.ADDRESS),
    ((TimeoutError, AnswerError), TryError.TIMEOUT),
    ((httpx.HTTPError, httpx.InvalidURL), TryError.CONNECTION),
    ((OSError, UnicodeError), TryError.LOOKUP),
)
_RAISED = tuple(kind for kinds, _ in _PROBLEMS for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of a try.

    Attributes:
        status: what was answered; None without an answer.
        error: None of a try that was accepted.
        pause: how long the receiver asks to be left alone.
    """

    status: int | None = None
    error: TryError | None = None
    pause: timedelta = timedelta(0)


@dataclass(frozen=True, eq=False)
class WebhookSender:
    """Sends deliveries.

    ``private_hosts`` are hosts that may have private addresses; ``resolve`` looks a host up.
    """

    private_hosts: Collection[str]
    _: KW_ONLY
    clock: Clock = utc_now
    timeout: timedelta = TIMEOUT
    resolve: Resolver = resolved

    async def send(self, delivery: Delivery, endpoint: SigningEndpoint) -> Tried:
        """Try once, and return what became of it; nothing is raised for what a receiver or an address does."""
        try:
            destination = Destination.of(endpoint.url, private_hosts=self.private_hosts)
            async with asyncio.timeout(self.timeout.total_seconds()):
                answer = await self._answer(destination, delivery, endpoint)
        except _RAISED as error:
            return Tried(error=next(problem for kinds, problem in _PROBLEMS if isinstance(error, kinds)))
        if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return Tried(status=answer.status)
        asked = timedelta(seconds=min(answer.asked_pause(now=self.clock()) or 0.0, _LONGEST_PAUSE.total_seconds()))
        return Tried(status=answer.status, error=TryError.STATUS, pause=asked)

    async def _answer(self, destination: Destination, delivery: Delivery, endpoint: SigningEndpoint) -> HttpResponse:
        addresses = await destination.addresses(self.resolve)
        now, body = self.clock(), delivery.body.encode()
        headers = signed_headers(
            endpoint.secrets(now), message_id=delivery.event_id, timestamp=int(now.timestamp()), body=body
        )
        async with open_client(endpoint.url, is_direct=True) as client:
            for address in addresses:
                try:
                    return await ask(
                        client,
                        "POST",
                        # The very address that was checked: looked up again, the name might lead elsewhere.
                        destination.at(address),
                        content=body,
                        headers={**headers, "Host": destination.authority, "User-Agent": _USER_AGENT},
                        max_bytes=None,
                        within=self.timeout,
                        server_name=destination.host,
                    )
                except httpx.ConnectError:
                    # Nothing was sent yet.
                    if address is addresses[-1]:
                        raise
        raise RefusedAddressError("the host has no address")


def signed_headers(secrets: Iterable[str], *, message_id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
    """Return the headers that let a receiver verify a body: its id, its time and a signature for each secret.

    They are those of the Standard Webhooks specification (standardwebhooks.com), version 1. The timestamp is in seconds
    since 1970. A receiver accepts the message when one signature fits.
    """
    signatures = (signature(each, message_id=message_id, timestamp=timestamp, body=body) for each in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def signature(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return ``v1,`` and the HMAC-SHA256 of id, timestamp and body in Base64."""
    key = b64decode(secret.removeprefix(SECRET_PREFIX))
    content = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return "v1," + b64encode(hmac.new(key, content, sha256).digest()).decode()
