"""The transport class that kombu makes for every connection to ``memtend-redis://`` and ``memtend-rediss://``."""

import ssl
from typing import Any

from kombu.transport import redis

from workers.transport.channel import Channel
from workers.transport.poller import Poller

#: Transport options where memtend differs from kombu. ``unacked_restore_interval``: seconds between sweeps; with
#: kombu's 10 s and one sweep in ten, a dead worker's messages came back 100 s after their visibility timeout
#: (measured: 91.9 s).
DEFAULT_OPTIONS = {"unacked_restore_interval": 5}

#: Renewals in one visibility timeout: two may fail or come late before a living worker's message is redelivered.
RENEWALS_PER_TIMEOUT = 3


class Transport(redis.Transport):  # type: ignore[misc]  # kombu is untyped
    """Kombu's Redis transport with the losses taken out."""

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
        """Let the event loop read the sockets, sweep for overdue messages and renew those in hand."""
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
