import pytest
from support.proposals import proposal

from memcore.errors import ApprovalClosedError, MemoryInputError
from memcore.models.approval import MAX_FIGURES, MAX_SUPERSEDED, Decision, Superseded


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"title": " "}, "title: must not be blank"),
        ({"title": "t" * 201}, "title: must have at most 200 characters"),
        ({"content": "\n"}, "content: must not be blank"),
        ({"proposed_by": "n" * 129}, "proposed_by: must have at most 128 characters"),
        ({"action": "a\0b"}, "action: must not contain the character NUL"),
        ({"risk": "none"}, "risk: must be 'low', 'medium' or 'high'"),
        ({"mood": "good"}, "mood: is not a known field"),
        ({"figures": {str(n): n for n in range(MAX_FIGURES + 1)}}, "figures: "),
        ({"supersedes": [Superseded(id="x", content="y")] * (MAX_SUPERSEDED + 1)}, "supersedes: has 33 items"),
    ],
)
def test_a_proposal_that_breaks_a_limit_is_refused_by_its_field(given: dict[str, object], said: str) -> None:
    with pytest.raises(MemoryInputError) as no:
        proposal(**given)  # type: ignore[arg-type]
    assert str(no.value).startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": "  "}, "by: must not be blank"),
        ({"by": "n" * 129}, "by: must have at most 128 characters"),
        ({"by": "a\udc80"}, "by: must be valid Unicode text"),
        ({"by": "ada", "reason": ""}, "reason: must not be blank"),
        ({"by": "ada", "reason": "r" * 2001}, "reason: must have at most 2000 characters"),
        ({}, "by: is missing"),
    ],
)
def test_a_word_needs_a_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(MemoryInputError) as no:
        Decision(**given)
    assert str(no.value).startswith(said)


def test_no_repr_shows_what_is_proposed() -> None:
    shown = repr(proposal("hunter2", supersedes=(Superseded(id="x", content="hunter2"),), details={"a": "hunter2"}))
    assert "hunter2" not in shown
    assert "A text for all" in shown


def test_a_refusal_names_no_one_where_nobody_decided() -> None:
    assert str(ApprovalClosedError("one", "pending")) == "approval one is pending"
