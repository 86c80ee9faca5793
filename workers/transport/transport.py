"""The transport classes for ``memtend-redis://``, over TLS and behind sentinels, and their registration with kombu."""

import ssl
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis
from kombu.utils.url import url_to_parts
from redis import Redis
from redis.sentinel import Sentinel

from workers.transport.channel import Channel
from workers.transport.polling import Poller

#: Transport options where memtend differs from kombu. ``unacked_restore_interval``: seconds between sweeps; with
#: kombu's 10 s and one sweep in ten, a dead worker's messages came back 100 s after their visibility timeout
#: (measured: 91.9 s).
DEFAULT_OPTIONS = {"unacked_restore_interval": 5}

#: Renewals in one visibility timeout: two may fail or come late before a living worker's message is redelivered.
RENEWALS_PER_TIMEOUT = 3


class Transport(redis.Transport):  # type: ignore[misc]  # kombu is untyped
    """Kombu's Redis transport without its message losses."""

    Channel = Channel

    def __init__(self, client: Any, **kwargs: Any) -> None:
        """Follow kombu's signature: ``client`` is the ``kombu.Connection``."""
        client.transport_options = {**DEFAULT_OPTIONS, **client.transport_options}
        super().__init__(client, **kwargs)
        self.cycle = Poller()
        #: Whether Celery's event loop drives this transport's channels.
        self.in_event_loop = False
        #: Whether a socket of this transport broke: closing then leaves messages to the jobs that still run.
        self.is_lost = False

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Let the event loop read the sockets, sweep for overdue messages and renew held ones."""
        self.in_event_loop = True
        super().register_with_event_loop(connection, loop)
        self.cycle.enter_event_loop()
        options = connection.client.transport_options
        if options.get("renew_visibility", Channel.renew_visibility):
            timeout_seconds = options.get("visibility_timeout", Channel.visibility_timeout)
            loop.call_repeatedly(timeout_seconds / RENEWALS_PER_TIMEOUT, self.cycle.renew)


class TlsTransport(Transport):
    """The same over TLS; the server's certificate is checked unless the URL or ``broker_use_ssl`` says otherwise."""

    def __init__(self, client: Any, **kwargs: Any) -> None:
        """Follow kombu's signature: ``client`` is the ``kombu.Connection``."""
        client.ssl = client.ssl or {"ssl_cert_reqs": ssl.CERT_REQUIRED}
        super().__init__(client, **kwargs)


#: ``memtend-redis://:password@host:port/database``. No plus sign: kombu cuts a scheme there and hands the rest over
#: unparsed.
SCHEME = "memtend-redis"

#: The same over TLS, options as for ``rediss://``.
TLS_SCHEME = "memtend-rediss"

#: Through sentinels, which say where the master is; several of them are divided by semicolons.
SENTINEL_SCHEME = "memtend-sentinel"


def register() -> None:
    """Register the schemes; call it before the first connection. Calling it again changes nothing."""
    TRANSPORT_ALIASES[SCHEME] = "workers.transport.transport:Transport"
    TRANSPORT_ALIASES[TLS_SCHEME] = "workers.transport.transport:TlsTransport"
    TRANSPORT_ALIASES[SENTINEL_SCHEME] = "workers.transport.transport:SentinelTransport"


def reliable_url(url: str) -> str:
    """Return our form of a Redis URL, with TLS, over a socket or behind sentinels; any other URL is unchanged."""
    if url.startswith("sentinel://"):
        return ";".join(SENTINEL_SCHEME + one.removeprefix("sentinel") for one in url.split(";"))
    for stock, ours in (("redis", SCHEME), ("rediss", TLS_SCHEME)):
        if url.startswith((f"{stock}://", f"{stock}+socket://")):
            return ours + url.removeprefix(stock)
    return url


#: Where a sentinel listens when its URL names no port.
SENTINEL_PORT = 26_379


class SentinelChannel(Channel, redis.SentinelChannel):  # type: ignore[misc]  # kombu is untyped
    """Our channel on whatever server the sentinels call master."""

    #: Transport option: what the sentinels call it.
    master_name = ""

    from_transport_options = (
        *Channel.from_transport_options,
        *(name for name in redis.SentinelChannel.from_transport_options if name not in Channel.from_transport_options),
    )

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        """Return a pool whose connections lead to the master; kombu's own knows sentinels by its own scheme only."""
        params = self._connparams(asynchronous)
        host, port = params.pop("host"), params.pop("port")
        urls = [url_to_parts(url) for url in self.connection.client.alt]
        manager: Any = Sentinel(  # type: ignore[no-untyped-call]  # redis is half typed
            [(url.hostname, url.port or SENTINEL_PORT) for url in urls] or [(host, port)],
            min_other_sentinels=getattr(self, "min_other_sentinels", 0),
            sentinel_kwargs=getattr(self, "sentinel_kwargs", None),
            **params,
        )
        # Kept where kombu's channel closes them.
        if asynchronous:
            self._async_sentinel_manager = manager
        else:
            self._sentinel_manager = manager
        return manager.master_for(self.master_name, Redis).connection_pool


class SentinelTransport(Transport):
    """Our transport for ``memtend-sentinel://``; the option ``master_name`` says which master."""

    default_port = SENTINEL_PORT
    Channel = SentinelChannel
