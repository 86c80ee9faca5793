"""Probes: one memory every half second, followed until durable: they show how long an engine waits."""

import time
from dataclasses import dataclass

from chaos.fault_thread import FaultThread
from chaos.receipt import Receipt

from memcore import MemoryClient
from memcore.client.results import JobState
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

#: Seconds between two probes.
_PAUSE_SECONDS = 0.5

#: Seconds between two looks at the probes under way.
_POLL_INTERVAL_SECONDS = 0.1

#: Seconds after the chaos run in which the last probes must be done.
_HOME_SECONDS = 180.0


@dataclass(slots=True, kw_only=True)
class Probe:
    """One memory on its way.

    Attributes:
        begun: when the engine first tried to send it, in seconds of the wall clock.
        ended: when its job was seen done; None so far.
    """

    job_id: str
    begun: float
    ended: float | None = None


class Prober(FaultThread):
    """Send probes and follow them."""

    def __init__(self, settings: Settings, *, agent_id: str) -> None:
        super().__init__()
        self.probes: list[Probe] = []
        self.receipts: list[Receipt] = []
        self._settings = settings
        self._agent_id = agent_id

    @property
    def moments(self) -> list[tuple[float, float]]:
        """Begin and end of each probe that was done."""
        return [(probe.begun, probe.ended) for probe in self.probes if probe.ended is not None]

    @property
    def lost(self) -> int:
        """Probes that were never seen done."""
        return sum(probe.ended is None for probe in self.probes)

    def work(self) -> None:
        """Send and look until the chaos run is over, then wait for those under way."""
        with MemoryClient.from_settings(self._settings) as client:
            due = time.monotonic()
            while not self.is_over.wait(_POLL_INTERVAL_SECONDS):
                if time.monotonic() >= due:
                    due = max(due + _PAUSE_SECONDS, time.monotonic())
                    self._send(client)
                self._check_once(client)
            until = time.monotonic() + _HOME_SECONDS
            while self.lost and time.monotonic() < until:
                time.sleep(_POLL_INTERVAL_SECONDS)
                self._check_once(client)

    def _send(self, client: MemoryClient) -> None:
        begun, sends = time.time(), 0
        request = MemoryStoreRequest(category=MemoryCategory.SOCIAL, content=f"Probe number {len(self.probes)}.")
        while True:
            sends += 1
            try:
                receipt = client.store(self._agent_id, request)
            except MemoryConnectionError:
                time.sleep(_POLL_INTERVAL_SECONDS)
                continue
            break
        self.probes.append(Probe(job_id=receipt.job_ids[0], begun=begun))
        memories = [(self._agent_id, receipt.memory_ids[0])]
        self.receipts.append(Receipt(call="probe", jobs=1, sends=sends, at=time.time(), memories=memories))

    def _check_once(self, client: MemoryClient) -> None:
        for probe in self.probes:
            if probe.ended is None:
                try:
                    status = client.status(probe.job_id)
                except MemoryConnectionError:
                    return
                if status.state is JobState.DONE:
                    probe.ended = time.time()
