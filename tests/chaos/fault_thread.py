"""A thread that works until the chaos run is over and reports its own failure."""

import threading
from abc import ABC, abstractmethod


class FaultThread(ABC):
    """A thread beside the chaos run; ``work`` returns soon after ``is_over`` is set."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wait(self) -> None:
        """Let it finish by itself; raises what it died of."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Tell it to finish, and wait; raises what it died of."""
        self.is_over.set()
        self.wait()

    @abstractmethod
    def work(self) -> None:
        """Do the work."""

    def _guarded(self) -> None:
        try:
            self.work()
        except BaseException as failure:  # noqa: BLE001  # raised again by wait, in the thread that reports
            self._failure = failure
