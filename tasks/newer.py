"""A payload of a newer version: it waits in the queue until a worker that knows it is there."""

from datetime import timedelta

from memcore.jobs.outcomes import Snooze

#: Pause between two looks, while workers are being replaced; below every group's visibility timeout.
NEWER_DELAY = timedelta(seconds=20)


def wait_for_newer_worker() -> Snooze:
    """Return the outcome that puts the job back, as often as it takes: a half-done upgrade must lose nothing."""
    return Snooze(reason="the payload is of a newer version than this worker", delay=NEWER_DELAY)
