"""How far a long job is, told as it works."""

from collections.abc import Callable

#: Takes the stage that a job is in, and the share of it that is done, 0 to 1, None while nobody knows it. It may be
#: called as often as one likes, takes no text of a memory, and raises nothing.
Tell = Callable[[str, float | None], None]


def untold(_stage: str, _fraction: float | None) -> None:
    """Tell nobody."""
