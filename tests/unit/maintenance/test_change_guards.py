"""Which memories a model's verdict alone may let be superseded, and which may be about the same."""

from datetime import UTC, datetime
from typing import Any

import pytest
from support.memories import NOW, record

from memcore.llm.changes import ChangeAnswer, Verdict, is_of_one_subject
from memcore.maintenance.changes import may_be_replaced
from memcore.models.memory import MemoryEntry


def said(content: str = "Ada drinks tea.", *, day: int = 1, **given: Any) -> MemoryEntry:
    entry = record("ada", content, created_at=datetime(2026, 5, day, tzinfo=UTC)).entry
    metadata = entry.metadata.model_copy(update={name: given.pop(name) for name in list(given) if name in _METADATA})
    return entry.model_copy(update={"metadata": metadata, **given})


_METADATA = ("source", "confidence", "tags")


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ({}, {}, True),
        ({"source": "chat"}, {"source": "chat"}, True),
        ({"source": "chat"}, {"source": "https://page.example"}, False),
        ({"source": "chat"}, {"source": None}, False),
        ({"confidence": 0.9}, {"confidence": 0.5}, False),
        ({"confidence": 0.5}, {"confidence": 0.9}, True),
        ({}, {"tags": ("distillation",)}, False),
        ({"tags": ("distillation",)}, {"tags": ("distillation",)}, True),
        ({}, {"tags": ("self_edited",)}, False),
        ({"tags": ("pinned",)}, {}, False),
        ({"tags": ("core",)}, {}, False),
        ({"tags": ("keyed",)}, {}, False),
        ({"tags": ("vip",)}, {}, False),
        ({}, {"tags": ("pinned",)}, True),
        ({}, {"content": "Ada used to drink coffee."}, False),
        ({}, {"content": "Back in Oslo, Ada drank coffee."}, False),
        ({}, {"content": "When she was a child, Ada drank milk."}, False),
        ({}, {"content": "Ada drank coffee in 2019."}, False),
        ({}, {"content": "Ada's brother drinks coffee."}, False),
        ({"content": "The office of Ada is in Oslo."}, {"content": "Ada's office is in Rome."}, True),
        ({}, {"content": "The twin of Ada drinks coffee."}, False),
        ({}, {"content": "Green tea is what Ada's guests drink."}, False),
        ({}, {"content": "Tea is no longer what Ada drinks."}, True),
        ({"content": "The bar is open."}, {"content": "The bar in the cellar is closed."}, False),
        ({"content": "The bar in the cellar is open."}, {"content": "The bar in the cellar is closed."}, True),
        ({"content": "Die Bar ist offen."}, {"content": "Die Bar im Keller ist geschlossen."}, False),
        ({"content": "El bar abre a las ocho."}, {"content": "El bar del puerto abre a las diez."}, False),
        ({"content": "Le bar ouvre le lundi."}, {"content": "Le bar de Lille ouvre le mardi."}, False),
        ({"content": "Il bar apre alle otto."}, {"content": "Il bar della stazione apre alle dieci."}, False),
        ({"content": "Бар открыт."}, {"content": "Бар на вокзале закрыт."}, False),
        ({"content": "I drink tea."}, {"content": "My drink is coffee."}, True),
        ({"content": "Der Kurs beginnt um acht."}, {"content": "Der Kurs beginnt um zehn."}, True),
        ({"content": "Der Kurs beginnt um acht."}, {"content": "Die Prüfung des Kurses beginnt um zehn."}, False),
        ({}, {"content": "Ada drinks coffee since April 2026."}, True),
        ({}, {"valid_until": datetime(2026, 4, 1, tzinfo=UTC)}, False),
        ({}, {"valid_until": datetime(2027, 4, 1, tzinfo=UTC)}, True),
    ],
)
def test_what_a_verdict_alone_may_do(old: dict[str, Any], new: dict[str, Any], *, may: bool) -> None:
    assert may_be_replaced(said(**old), said(day=9, **new), kept_tags=["vip"]) is may


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        ("Ada lives in Oslo.", "Ada moved to Rome.", True),
        ("Ada's office is in Oslo.", "The office of Ada is in Rome.", True),
        ("Ada's office is in Oslo.", "Ben's office is in Rome.", False),
        ("I live in Oslo.", "My new home is in Rome.", True),
        ("The user smokes.", "User gave up cigarettes.", True),
        ("We deploy with Jenkins.", "Deployments go through another tool.", True),
        ("Since May, Ada works at home.", "Ada takes the train to work.", True),
        ("", "Ada lives in Oslo.", False),
        ("Ich wohne in Oslo.", "Mein Büro ist in Rom.", True),
    ],
)
def test_what_may_be_about_the_same(one: str, other: str, *, may: bool) -> None:
    assert is_of_one_subject(one, other) is may
    assert is_of_one_subject(other, one) is may


@pytest.mark.parametrize(
    ("then", "now", "verdict"),
    [
        ("Oslo", "Rome", Verdict.SUPERSEDES),
        ("Oslo", "nowhere", Verdict.SUPERSEDES),
        ("yes", "no", Verdict.SUPERSEDES),
        ("Oslo", "Oslo.", Verdict.BOTH_HOLD),
        ("Oslo", "OSLO", Verdict.BOTH_HOLD),
        ("Oslo", "Oslo and Rome", Verdict.BOTH_HOLD),
        ("Oslo, Norway", "Oslo", Verdict.BOTH_HOLD),
        ("Oslo", "", Verdict.BOTH_HOLD),
        ("", "Rome", Verdict.BOTH_HOLD),
        ("Oslo", "Paris", Verdict.UNSURE),
        ("Oslo", "<b>", Verdict.UNSURE),
    ],
)
def test_what_an_answer_means(then: str, now: str, verdict: Verdict) -> None:
    answer = ChangeAnswer(question="Where does Ada live?", then=then, now=now)
    assert answer.verdict("Ada lives in Oslo.", "Ada moved to Rome.") is verdict


@pytest.mark.parametrize(
    ("question", "old", "new", "verdict"),
    [
        ("Where does Ada live?", "Ada was born in Oslo.", "Ada lives in Rome.", Verdict.UNSURE),
        ("Where was Ada born?", "Ada was born in Oslo.", "Ada lives in Rome.", Verdict.SUPERSEDES),
        ("Where is Ada's home?", "Ada lives in Oslo.", "Ada moved to Rome.", Verdict.SUPERSEDES),
        ("What do you do?", "I paint in Oslo.", "I sing in Rome.", Verdict.UNSURE),
        ("What does the user do?", "User paints in Oslo.", "User sings in Rome.", Verdict.UNSURE),
        ("Where do you paint?", "I paint in Oslo.", "My studio is in Rome now.", Verdict.SUPERSEDES),
        ("Wo wohnt Ada?", "Ada ist in Oslo geboren.", "Ada wohnt in Rome.", Verdict.UNSURE),
        ("Wo wohnt Ada?", "Ada wohnt in Oslo.", "Ada wohnt jetzt in Rome.", Verdict.SUPERSEDES),
    ],
)
def test_the_earlier_memory_must_answer_the_question(question: str, old: str, new: str, verdict: Verdict) -> None:
    assert ChangeAnswer(question=question, then="Oslo", now="Rome").verdict(old, new) is verdict


def test_the_newest_statement_counts() -> None:
    old = said(stated_at=NOW)
    assert may_be_replaced(old, said(day=9))
