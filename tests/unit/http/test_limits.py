"""The rate of a key: a full bucket at once, then so many a second; one key costs another nothing."""

from ops.http.limits import RateLimiter


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_let_through_and_then_the_rate() -> None:
    clock = Time()
    limiter = RateLimiter(rate=10.0, burst=3, clock=clock)
    assert [limiter.take("a") for _ in range(3)] == [0.0] * 3
    assert 0.0 < limiter.take("a") <= 0.1
    assert limiter.take("b") == 0.0
    clock.now += 0.11
    assert limiter.take("a") == 0.0
    assert limiter.take("a") > 0.0


def test_waiting_as_long_as_it_says_is_enough() -> None:
    clock = Time()
    limiter = RateLimiter(rate=3.0, burst=1, clock=clock)
    assert limiter.take("a") == 0.0
    for _ in range(50):
        clock.now += limiter.take("a") + 1e-9
        assert limiter.take("a") == 0.0


def test_a_bucket_holds_no_more_than_the_burst() -> None:
    clock = Time()
    limiter = RateLimiter(rate=1_000.0, burst=2, clock=clock)
    limiter.take("a")
    clock.now += 3_600
    assert [limiter.take("a") == 0.0 for _ in range(3)] == [True, True, False]


def test_many_keys_are_not_all_remembered() -> None:
    clock = Time()
    limiter = RateLimiter(rate=1.0, burst=1, clock=clock)
    for each in range(10_000):
        limiter.take(f"key {each}")
    clock.now += 2.0
    limiter.take("last")
    assert len(limiter._buckets) == 1
