"""A Celery app that its caller alone configures.

For Celery the environment wins over the program: ``CELERY_BROKER_URL``, ``CELERY_CONFIG_MODULE``,
``DJANGO_SETTINGS_MODULE``, for its command line even ``APP`` and ``BROKER_URL``. An engine or a shell that works on a
Celery project of its own has them set, and our jobs would go to its broker.
"""

from collections.abc import Sequence

from celery import Celery
from celery.app.utils import Settings
from celery.loaders.app import AppLoader


class _Loader(AppLoader):  # type: ignore[misc]  # Celery ships no types
    def read_configuration(self, env: str = "") -> None:
        """Read no configuration, whatever module a variable names."""


class _Conf(Settings):  # type: ignore[misc]  # see above
    """Celery's settings without the four that the environment overrides."""

    @property
    def broker_url(self) -> str | None:
        found: str | None = self.first("broker_url")
        return found

    @property
    def broker_read_url(self) -> str | None:
        return self.get("broker_read_url") or self.broker_url

    @property
    def broker_write_url(self) -> str | None:
        return self.get("broker_write_url") or self.broker_url

    @property
    def result_backend(self) -> str | None:
        found: str | None = self.first("result_backend")
        return found


class OwnCelery(Celery):  # type: ignore[misc]  # see above
    """Celery without the environment: addresses, configuration modules and Django's settings there have no effect.

    Args:
        name: of the app.
        broker: its address; it may be set later, as ``conf.broker_url``.
        backend: where results are kept; it may be set later, as ``conf.result_backend``.
    """

    def __init__(self, name: str | None = None, *, broker: str | None = None, backend: str | None = None) -> None:
        super().__init__(name, loader=_Loader, broker=broker, backend=backend, fixups=(), set_as_current=False)
        # Celery makes the object itself, and a plain assignment to it would be a setting.
        object.__setattr__(self._conf, "__class__", _Conf)

    def start(self, argv: Sequence[str] | None = None) -> int | None:
        """Run a command of Celery's with this app; return its exit code, or None for success."""
        from celery.bin.celery import celery  # noqa: PLC0415  # every command of Celery's, which an engine never needs

        for option in celery.params:
            option.envvar = None
        code: int | None = super().start(argv=argv)
        return code
