"""An at-least-once Redis transport for kombu: no message is lost between the queue and ``unacked``.

Call ``register()`` once, then use ``reliable_url(url)`` as ``broker_url``. The result backend keeps ``redis://``.
"""

from workers.transport.transport import SCHEME, SENTINEL_SCHEME, TLS_SCHEME, register, reliable_url

__all__ = ["SCHEME", "SENTINEL_SCHEME", "TLS_SCHEME", "register", "reliable_url"]
