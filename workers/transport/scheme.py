"""The URL schemes of the transport, and the one call that makes them known to kombu."""

from kombu.transport import TRANSPORT_ALIASES

#: ``memtend-redis://:password@host:port/database``. No plus sign: kombu cuts a scheme there and hands the rest over
#: unparsed.
SCHEME = "memtend-redis"

#: The same over TLS, options as for ``rediss://``.
TLS_SCHEME = "memtend-rediss"

#: Through sentinels, which say where the master is; several of them are divided by semicolons.
SENTINEL_SCHEME = "memtend-sentinel"


def register() -> None:
    """Make the schemes known; call it before the first connection. Calling it again changes nothing."""
    TRANSPORT_ALIASES[SCHEME] = "workers.transport.transport:Transport"
    TRANSPORT_ALIASES[TLS_SCHEME] = "workers.transport.transport:TlsTransport"
    TRANSPORT_ALIASES[SENTINEL_SCHEME] = "workers.transport.sentinel:SentinelTransport"


def reliable_url(url: str) -> str:
    """Turn a URL of Redis, with TLS, over a socket or behind sentinels into ours; any other comes back as it is."""
    if url.startswith("sentinel://"):
        return ";".join(SENTINEL_SCHEME + one.removeprefix("sentinel") for one in url.split(";"))
    for stock, ours in (("redis", SCHEME), ("rediss", TLS_SCHEME)):
        if url.startswith((f"{stock}://", f"{stock}+socket://")):
            return ours + url.removeprefix(stock)
    return url
