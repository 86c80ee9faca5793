"""How the words of two texts are compared, in any language."""
# ruff: noqa: RUF001  # letters of other scripts are meant

import pytest

from memcore.conversation.words import Words, plain


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("my boss is terrible", "the boss was terrible again", 2),
        ("she adopted a dog", "adopting the dogs", 2),
        ("it is what it is", "that is what it was", 0),
        ("please tell me", "please, thanks", 0),
        ("Mein Chef ist schrecklich", "der schreckliche Chef und ich", 2),
        ("mi jefe es terrible", "los jefes de mi hermana", 1),
        ("мой начальник ужасный", "ужасного начальника я не видел", 2),
        ("مديري سيئ", "المدير سيئ جدا", 2),
        ("上司がひどい", "また上司の話です", 1),
        ("エンジニアです", "エンジニアになりたい", 1),
        ("我的老板很糟糕", "老板又骂人", 1),
        ("我们的老板", "我们的猫", 0),
        ("직장에서 상사가", "상사는 나쁘다", 1),
        ("", "anything", 0),
        ("!?", "!?", 0),
    ],
)
def test_words_meet_in_other_forms_and_function_words_do_not_count(one: str, other: str, shared: int) -> None:
    assert Words(one).shared_with(Words(other)) == shared
    assert Words(other).shared_with(Words(one)) == shared


@pytest.mark.parametrize(
    ("text", "term", "stands"),
    [
        ("my boss is terrible", "boss", True),
        ("both bosses are terrible", "Boss", True),
        ("the embossed card", "boss", False),
        ("New York is large", "new york", True),
        ("York is new", "New York", False),
        ("it is what it is", "it", False),
        ("Ich rede über Chefs", "Chef", True),
        ("говорил о начальнике", "начальник", True),
        ("تحدثت عن المدير", "مدير", True),
        ("上司がひどい", "上司", True),
        ("司令の上", "上司", False),
        ("我老板很糟糕", "老板", True),
        ("we won 🎉", "🎉", True),
        ("we won", "🎉", False),
        ("", "boss", False),
        ("anything", "", False),
    ],
)
def test_a_term_stands_in_a_text_as_words_in_a_row(text: str, term: str, stands: bool) -> None:
    assert Words(text).has_term(Words(term)) is stands


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("boss", "my boss", True),
        ("boss", "bosses", True),
        ("boss", "bossy sister", False),
        ("it", "that", False),
        ("it", "It", True),
        ("上司", "上司", True),
        ("C++", "C", False),
        ("C", "c", True),
        ("🎉", "🎉", True),
        ("🎉", "🎂", False),
    ],
)
def test_two_terms_are_one_where_what_they_name_is(one: str, other: str, same: bool) -> None:
    assert Words(one).is_same_term(Words(other)) is same


def test_the_share_of_words_counts_those_of_both() -> None:
    assert Words("red apples").jaccard(Words("red pears")) == pytest.approx(1 / 3)
    assert Words("apple, pear").jaccard(Words("pears and apples")) == 1.0
    assert Words("it").jaccard(Words("it")) == 0.0


def test_plain_text_has_one_form() -> None:
    assert plain("  DON’T\n Für ＡＢＣ  ") == "don't fur abc"
    assert plain("أَنَا") == "انا"
    # Of Spanish verbs the accent alone says whether something was done or is asked for.
    assert plain("No guardé, más fácil") == "no guardé, mas facil"
