"""Where a delivery may go: the addresses of the public internet over TLS, and hosts that the operator names.

Whoever may add a webhook must not reach what only this machine reaches: the metadata of a cloud, a database, a printer.
A name may lead elsewhere each time it is looked up, so the check is made of the addresses that are connected to.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

import httpx

from memcore.errors import MemoryInputError

#: Longest URL, in characters; most servers take 2,000.
MAX_URL_CHARS = 2_000

#: A name of a host as DNS knows it, or an address.
_HOST = re.compile(r"[a-z0-9._:-]{1,253}")

#: Hosts that are this machine by their names: those alone may be reached without TLS, where the operator names them.
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

#: Where clouds keep the credentials of their machines: refused also to hosts that the operator names.
_NEVER = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "169.254.0.0/16",
            "100.100.100.200/32",
            "168.63.129.16/32",
            "fe80::/10",
            "fd00:ec2::254/128",
            # Of a network's own translation to IPv4, where nobody outside knows what an address stands for.
            "64:ff9b:1::/48",
        ),
    )
)

#: IPv6 addresses that carry one of IPv4 in their last 32 bits: compatible, mapped, and translated by NAT64.
_CARRIERS = tuple(map(ipaddress.ip_network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96")))

#: Looks a name up: the addresses of a host.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

_IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class RefusedAddressError(Exception):
    """The host leads to an address that must not be reached; the text names neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A URL that was checked, before its host is looked up.

    Attributes:
        authority: what the header Host says.
        is_named: whether the operator allows private addresses to its host.
    """

    url: httpx.URL
    host: str
    port: int
    authority: str
    is_named: bool

    @classmethod
    def of(cls, url: str, *, private_hosts: Collection[str]) -> "Destination":
        """Check a URL: https, or http to this machine where the operator names it; no user, no fragment.

        Raises MemoryInputError, which names no part of the URL: it may hold a key.
        """
        if len(url) > MAX_URL_CHARS:
            raise MemoryInputError("url", f"has {len(url)} characters; the limit is {MAX_URL_CHARS}")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            raise MemoryInputError("url", "must be a URL, such as https://example.com/hook") from None
        # As it is sent: a name in other letters, in the form that DNS knows.
        host = parsed.raw_host.decode("ascii").strip("[]").lower().rstrip(".")
        is_named = host in {name.lower() for name in private_hosts}
        if not _HOST.fullmatch(host) or parsed.scheme not in {"http", "https"}:
            raise MemoryInputError("url", "must be a URL, such as https://example.com/hook")
        if parsed.scheme == "http" and not (is_named and host in _LOOPBACK_NAMES):
            raise MemoryInputError(
                "url",
                "must begin with https://; http is for this machine, where MEMTEND_WEBHOOK_PRIVATE_HOSTS names it",
            )
        if parsed.userinfo or parsed.fragment:
            raise MemoryInputError("url", "must have no user, password or fragment")
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        authority = parsed.netloc.decode("ascii")
        destination = cls(url=parsed, host=host, port=port, authority=authority, is_named=is_named)
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return destination  # a name is looked up with each delivery
        if not is_allowed(address, is_named=is_named):
            raise MemoryInputError("url", "leads to an address that webhooks must not reach")
        return destination

    async def addresses(self, resolve: Resolver) -> tuple[str, ...]:
        """Return what to connect to, in the order to try: the first address of each family.

        Raises RefusedAddressError when one of the host's addresses must not be reached; OSError when it has none.
        """
        found = tuple(dict.fromkeys(await resolve(self.host, self.port)))
        # A scope, as in fe80::1%eth0, belongs to link-local addresses alone.
        if not found or not all(is_allowed(_parsed(each), is_named=self.is_named) for each in found):
            raise RefusedAddressError("the host leads to an address that webhooks must not reach")
        # One of each family: where the first does not answer, another of the same machine would not either.
        first: dict[int, str] = {}
        for each in found:
            first.setdefault(_parsed(each).version, each)
        return tuple(first.values())

    def at(self, address: str) -> str:
        """Return the URL with an address in the place of its host."""
        return str(self.url.copy_with(host=address))


def is_allowed(address: _IpAddress, *, is_named: bool) -> bool:
    """Return whether a delivery may go to an address, to a host that the operator names or to any other."""
    carried = _carried(address)
    if carried is not None:
        return is_allowed(carried, is_named=is_named)
    if address.is_loopback:
        return is_named
    if any(address in network for network in _NEVER if network.version == address.version):
        return False
    if address.is_multicast or address.is_unspecified or address.is_reserved:
        return False
    return address.is_global or is_named


def _carried(address: _IpAddress) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that one of IPv6 stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if int(address) > 1 and any(address in network for network in _CARRIERS):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def _parsed(address: str) -> _IpAddress:
    return ipaddress.ip_address(address.partition("%")[0])


async def resolved(host: str, port: int) -> tuple[str, ...]:
    """Look a host up as any program of this machine does. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(str(address[0]) for *_, address in found)
