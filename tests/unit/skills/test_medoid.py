"""The medoid of several lessons."""

from hypothesis import given
from hypothesis import strategies as st
from support.lessons import lesson
from support.memories import DAWN

from memcore.ledger.learning.lessons import Lesson
from memcore.skills.supersession import medoids


def drawn(name: str, condition: str, action: str = "delete exports", confidence: float = 0.8) -> Lesson:
    text = lesson(condition=condition, action=action, confidence=confidence, discovery=name)
    return Lesson(lesson_id=name, agent_id=name, confidence=confidence, text=text.model_dump_json(), created_at=DAWN)


def chosen(*lessons: Lesson) -> str | None:
    return next((text.discovery for text in medoids(lessons, most=1)), None)


def test_the_lesson_in_the_middle_is_taken() -> None:
    assert chosen(
        drawn("far", "the moon shines"),
        drawn("middle", "the disk is full at night"),
        drawn("left", "the disk is full"),
        drawn("right", "the disk at night"),
    ) == "middle"  # fmt: skip


def test_one_that_is_sure_of_itself_goes_before_one_that_agrees_a_little_more() -> None:
    sure, unsure = drawn("sure", "the disk is full", confidence=0.9), drawn("unsure", "disk full now", confidence=0.3)
    assert chosen(sure, unsure, drawn("other", "disk full now here", confidence=0.3)) == "sure"


def test_of_equals_the_least_id_is_taken() -> None:
    assert chosen(drawn("b", "disk full"), drawn("a", "disk full")) == "a"


def test_actions_count_as_conditions_do() -> None:
    assert chosen(
        drawn("a", "disk full", "wait"), drawn("b", "disk full", "delete exports"), drawn("c", "disk full")
    ) == "b"  # fmt: skip


def test_scripts_without_spaces_are_compared_by_what_they_say() -> None:
    # As whole runs of characters all three would differ, and the least id would win.
    assert chosen(drawn("a", "月が出ている"), drawn("b", "夜ディスクが満杯"), drawn("c", "ディスクが満杯")) == "c"


def test_what_cannot_be_read_does_not_speak_for_anybody() -> None:
    odd = Lesson(lesson_id="0", agent_id="0", confidence=1.0, text='{"form": 2}', created_at=DAWN)
    empty = odd.model_copy(update={"text": None})
    assert chosen() is chosen(odd, empty) is None
    assert chosen(odd, drawn("a", "disk full")) == "a"


WORDS = st.lists(st.sampled_from(["disk", "full", "night", "import", "stops"]), min_size=1, max_size=4).map(" ".join)
SURE = st.sampled_from([0.3, 0.5, 0.9])


@given(made=st.lists(st.tuples(WORDS, WORDS, SURE), min_size=1, max_size=8), data=st.data())
def test_the_order_does_not_matter(made: list[tuple[str, str, float]], data: st.DataObject) -> None:
    lessons = [drawn(str(number), *each) for number, each in enumerate(made)]
    assert chosen(*data.draw(st.permutations(lessons))) == chosen(*lessons)
