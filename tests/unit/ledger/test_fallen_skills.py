"""Which skills fall back where something is distrusted, and to which: the newest trusted ones that they replaced."""

from typing import Any

import pytest
from support.memories import NOW

from memcore.ledger.erasure.hidden import distrusted_skills, fallen_skills
from memcore.ledger.learning.skills import Skill, SkillSource, SkillState
from memcore.models.distrust import DistrustRule
from memcore.models.origin import Channel, Origin

BAD = DistrustRule(principal="bad")


def skill(name: str, *keys: str, by: str | None = None, state: SkillState | None = None) -> Skill:
    """Return a skill of lessons that agents with these keys have reported; ``by`` replaced it."""
    state = state or (SkillState.ACTIVE if by is None else SkillState.SUPERSEDED)
    sources = tuple(
        SkillSource(
            agent_id="ada",
            lesson_id=f"l-{name}",
            memory_id=f"m-{name}",
            origin=Origin(principals=(key,)),
            created_at=NOW,
        )
        for key in keys
    )
    return Skill(
        skill_id=name,
        approval_id=name,
        pattern_id="p",
        state=state,
        superseded_by=by,
        confidence=0.9,
        text="",
        published_at=NOW,
        changed_at=NOW,
        sources=sources,
    )


def fallen_of(versions: list[Skill], rules: list[DistrustRule], distrusted: dict[str, Any]) -> dict[str, Any]:
    return fallen_skills(versions, distrusted_skills(versions, rules, distrusted))


def test_versions_that_stand_no_more_are_distrusted_too() -> None:
    retired = skill("c", "bad", state=SkillState.RETIRED)
    versions = [skill("a", "good"), skill("b", "bad", by="a"), retired]
    assert distrusted_skills(versions, [BAD], {}) == {"b", "c"}
    assert fallen_of(versions, [BAD], {}) == {}


@pytest.mark.parametrize(
    ("versions", "fallen"),
    [
        ([skill("a", "good")], {}),
        ([skill("a")], {}),
        ([skill("a", "bad")], {"a": ()}),
        # One of many is enough.
        ([skill("a", "good", "bad")], {"a": ()}),
        ([skill("a", "bad"), skill("b", "good", by="a")], {"a": ("b",)}),
        ([skill("a", "bad"), skill("b", by="a")], {"a": ("b",)}),
        ([skill("a", "bad"), skill("b", "bad", by="a"), skill("c", "good", by="b")], {"a": ("c",)}),
        ([skill("a", "bad"), skill("b", "good", by="a"), skill("c", "good", by="b")], {"a": ("b",)}),
        ([skill("a", "good"), skill("b", "bad", by="a"), skill("c", "good", by="b")], {}),
        ([skill("a", "bad"), skill("b", "good", by="a"), skill("c", "good", by="a")], {"a": ("b", "c")}),
        ([skill("a", "bad", state=SkillState.RETIRED), skill("b", "good", by="a")], {}),
        # What a broken row says is followed once.
        (
            [skill("a", "bad"), skill("b", "bad", by="a"), skill("c", "bad", by="b"), skill("b", "bad", by="c")],
            {"a": ()},
        ),
    ],
)
def test_the_newest_trusted_version_takes_its_place(versions: list[Skill], fallen: dict[str, Any]) -> None:
    assert fallen_of(versions, [BAD], {}) == fallen


@pytest.mark.parametrize("known_by", ["l-a", "m-a"])
def test_what_rules_on_sessions_reached_counts_by_the_task_and_by_the_lesson(known_by: str) -> None:
    versions = [skill("a", "good"), skill("b", "good", by="a")]
    rules = [DistrustRule(agent_id="ada", session_id="s-9")]
    assert fallen_of(versions, rules, {"ada": frozenset({known_by})}) == {"a": ("b",)}
    assert fallen_of(versions, rules, {"bob": frozenset({known_by})}) == {}


@pytest.mark.parametrize(
    ("rule", "is_of_it"),
    [
        (DistrustRule(principal="bad", agent_id="bob"), False),
        (DistrustRule(principal="bad", since=NOW), True),
        (DistrustRule(principal="bad", until=NOW), False),
        (DistrustRule(principal="bad", source="s"), False),
        (DistrustRule(channel=Channel.AGENT), True),
        (DistrustRule(channel=Channel.TOOL), False),
    ],
)
def test_a_rule_concerns_what_its_every_condition_does(rule: DistrustRule, is_of_it: bool) -> None:
    assert (fallen_of([skill("a", "bad")], [rule], {}) == {"a": ()}) is is_of_it
