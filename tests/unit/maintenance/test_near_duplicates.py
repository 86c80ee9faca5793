"""Near duplicates: memories that a newer one repeats."""

from collections.abc import Sequence

from support.maintenance_fixture import memory, uid

from memcore.maintenance.enforcement import NearDuplicates
from memcore.records import MemoryRecord

PLACES = ("kitchen", "cellar", "attic", "garage", "study", "nursery", "hallway", "pantry", "library", "workshop")


def memories(*texts: str) -> list[MemoryRecord]:
    return [memory(n, content=text) for n, text in enumerate(texts)]


def repeated(records: Sequence[MemoryRecord]) -> frozenset[str]:
    repeats = NearDuplicates()
    repeats.add(records)
    return repeats.found()


def test_of_texts_that_say_the_same_all_but_the_newest_are_repeated() -> None:
    text = "The deploy of the billing service to production failed on Tuesday because the migration timed out"
    records = memories(
        text, "Somebody painted the fence behind the old barn bright green last summer", f"{text}.", text
    )
    assert repeated(records) == {uid(0), uid(2)}


def test_a_text_with_a_word_changed_is_a_repetition_and_one_of_the_same_form_is_not() -> None:
    long = " ".join(
        f"In the {place} there is a window that looks at garden number {n}." for n, place in enumerate(PLACES)
    )
    other = " ".join(
        f"Nobody paints the {place} before guest {n} has left for the station." for n, place in enumerate(PLACES)
    )
    assert repeated(memories(long, long.replace("looks", "stares", 1), other)) == {uid(0)}


def test_short_remarks_repeat_nothing() -> None:
    assert repeated(memories("Thanks, bye!", "Thanks, bye!", "")) == frozenset()


def test_texts_without_spaces_are_compared_too() -> None:
    text = "本番環境への請求サービスの展開は移行がタイムアウトしたため火曜日に失敗しました"
    assert repeated(memories(text, text)) == {uid(0)}


def test_no_memories_have_no_repetitions() -> None:
    assert repeated([]) == frozenset()


def test_pages_make_no_difference() -> None:
    records = memories(
        *[f"The {place} is cleaned by the robot on the first Monday of the month" for place in PLACES * 3]
    )

    def paged(size: int) -> frozenset[str]:
        repeats = NearDuplicates()
        for start in range(0, len(records), size):
            repeats.add(records[start : start + size])
        return repeats.found()

    whole = repeated(records)
    assert {uid(n) for n in range(20)} <= whole
    assert paged(1) == paged(7) == whole
