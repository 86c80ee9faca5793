"""Questions that ask for a number, and texts that say one."""

import pytest

from memcore.backends.neighbours import Remark, among_neighbours, asks_number, says_number


@pytest.mark.parametrize(
    "question",
    [
        "How many tickets were sold?",
        "how LONG is the warranty",
        "Wie viel kostet das?",
        "Wieviele kommen?",
        "Hoe vaak komt hij?",
        "Combien ont coûté les volets ?",
        "¿Cuánto pagamos por las bicicletas?",
        "Quantos bilhetes foram vendidos?",
        "What time does the bakery shut?",
        "Hoe laat begint de les?",
        "À quelle heure ferme-t-on ?",
        "¿A qué hora abre el taller?",
        "A che ora chiude la cucina?",
        "新しい窓はいくらでしたか",
        "论文一共多少页?",
        "夜班车几点出发?",
    ],
)
def test_it_asks_for_a_number(question: str) -> None:
    assert asks_number(question)


@pytest.mark.parametrize(
    "question", ["How is Ada?", "What is so long?", "What time of year is best?", "Wie geht es?", "何を食べますか"]
)
def test_it_asks_for_something_else(question: str) -> None:
    assert not asks_number(question)


@pytest.mark.parametrize("text", ["They cost 640.", "Zwei Ziegen.", "a three-year guarantee", "四十八万円"])
def test_it_says_a_number(text: str) -> None:
    assert says_number(text)


@pytest.mark.parametrize("text", ["One comes.", "Ein Pony.", "une chèvre", "oftentimes", "窓は内側に開きます"])
def test_it_says_none(text: str) -> None:
    assert not says_number(text)


def test_of_two_that_answer_alike_the_one_with_a_number_comes_first_where_one_is_asked_for() -> None:
    remarks = {"none": Remark(text="The bikes are in the yard."), "some": Remark(text="The bikes were 640 euros.")}
    scores = {"none": 1.0, "some": 0.9}
    asked = among_neighbours("How much were the bikes?", scores, remarks)
    assert asked["some"] > asked["none"]
    assert among_neighbours("Where are the bikes?", scores, remarks)["none"] == 1.0
