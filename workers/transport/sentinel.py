"""The same transport behind Redis Sentinel: the master is asked for at every connect, so a fail-over is a reconnect."""

from typing import Any

from kombu.transport import redis
from kombu.utils.url import url_to_parts
from redis import Redis
from redis.sentinel import Sentinel

from workers.transport.channel import Channel
from workers.transport.transport import Transport

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
