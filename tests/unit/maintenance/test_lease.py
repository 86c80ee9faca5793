"""A lease that is renewed in the background and never outlives what the database knows."""

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import pytest

from memcore.errors import LeaseLostError, MemoryConnectionError
from memcore.ledger.attempt import LEASE_LENGTH, Lease

if TYPE_CHECKING:
    from memcore.ledger.runs import Runs

#: Longest that a test waits for the background thread, in seconds; it needs milliseconds.
PATIENCE = 60


class Register:
    """Renewals, counted; the error to come is raised."""

    def __init__(self) -> None:
        self.leases: list[timedelta] = []
        self.error: Exception | None = None
        self.third = threading.Event()
        #: How long an answer takes on this clock.
        self.seconds, self.steady = 0.0, Steady()

    def renew(self, company: str, key: str, token: str, *, lease: timedelta) -> None:
        assert (company, key, token) == ("acme", "run", "token")
        self.steady.now += self.seconds
        self.leases.append(lease)
        if len(self.leases) >= 3:
            self.third.set()
        if self.error is not None:
            raise self.error


class Steady:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make(register: Register, steady: Steady, *, renewal: timedelta = timedelta(hours=1)) -> Lease:
    return Lease(cast("Runs", register), "acme", "run", "token", since=steady.now, renewal=renewal, monotonic=steady)


def test_it_holds_for_its_length_and_not_a_moment_longer() -> None:
    steady = Steady()
    lease = make(Register(), steady)
    steady.now = LEASE_LENGTH.total_seconds() - 0.001
    lease.check()

    steady.now = LEASE_LENGTH.total_seconds()
    with pytest.raises(LeaseLostError):
        lease.check()


def test_a_confirmed_lease_counts_from_when_it_was_asked_for() -> None:
    register, steady = Register(), Steady()
    lease = make(register, steady)
    steady.now = 40.0
    lease.confirm()
    assert register.leases == [LEASE_LENGTH]

    steady.now = 40.0 + LEASE_LENGTH.total_seconds() - 0.001
    lease.check()


def test_the_time_that_a_renewal_took_is_not_added_to_the_lease() -> None:
    register, steady = Register(), Steady()
    lease = make(register, steady)
    register.seconds, register.steady = 30.0, steady
    lease.confirm()
    assert steady.now == 30.0

    # The database counts from when it heard of it, which may be when it was asked.
    steady.now = LEASE_LENGTH.total_seconds()
    with pytest.raises(LeaseLostError):
        lease.check()


def test_an_ended_lease_is_not_taken_up_again() -> None:
    register, steady = Register(), Steady()
    lease = make(register, steady)
    steady.now = 1000.0

    with pytest.raises(LeaseLostError):
        lease.confirm()
    assert register.leases == []


def test_a_lease_that_the_database_gave_to_another_is_lost_at_once() -> None:
    register = Register()
    lease = make(register, Steady())
    register.error = LeaseLostError("another")

    with pytest.raises(LeaseLostError):
        lease.confirm()
    with pytest.raises(LeaseLostError):
        lease.check()


def test_it_renews_itself_in_the_background_and_stops_with_the_block() -> None:
    register = Register()
    with make(register, Steady(), renewal=timedelta(milliseconds=1)) as lease:
        assert register.third.wait(PATIENCE)
        thread = lease._thread
    assert not thread.is_alive()


def test_a_database_that_cannot_be_reached_for_a_moment_does_not_end_the_renewals() -> None:
    register = Register()
    register.error = MemoryConnectionError("busy")
    with make(register, Steady(), renewal=timedelta(milliseconds=1)) as lease:
        assert register.third.wait(PATIENCE)
        lease.check()


def test_a_lost_lease_ends_the_renewals() -> None:
    register = Register()
    register.error = LeaseLostError("another")
    with make(register, Steady(), renewal=timedelta(milliseconds=1)) as lease:
        lease._thread.join(PATIENCE)
        assert not lease._thread.is_alive()
        assert len(register.leases) == 1
        with pytest.raises(LeaseLostError):
            lease.check()
