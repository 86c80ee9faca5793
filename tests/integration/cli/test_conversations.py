"""What a person sees, exports and changes of what is kept of conversations."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.kept_conversations import arc, begin, fact, hold, keep, owner, rule
from typer.testing import CliRunner, Result

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.models.base import escaped
from memcore.models.conversation import (
    ClassifierPath,
    CrisisLevel,
    CrisisLogRecord,
    FactState,
    FeedbackLabel,
    FeedbackSource,
    SessionFeedbackRecord,
)
from ops.cli.main import build

COMPANY = "default"
NOW = datetime.now(UTC).replace(microsecond=0)
ADA, GRACE = owner(), owner(subject="user:grace")
OF_ADA = ("--agent", "coach", "--user", "ada")


@pytest.fixture(autouse=True)
def ledger(sqlite_ledger: LedgerUrls) -> Iterator[Ledger]:
    """Two people, of one of whom there is something of every kind."""
    opened = Ledger.open(sqlite_ledger)
    keep(
        opened,
        ADA,
        fact("f-old", "I live in Bonn", at=NOW - timedelta(days=2), object="Bonn", predicate="LIVES_IN"),
        rule("r-1", "Be brief.", at=NOW),
        arc("s-1", "They talked about moving.", at=NOW),
        company=COMPANY,
    )
    newer = fact("f-new", "I moved to Rome", at=NOW - timedelta(days=1), object="Rome", predicate="LIVES_IN")
    keep(opened, ADA, newer, superseded={"f-old": "f-new"}, company=COMPANY)
    keep(opened, GRACE, fact("f-grace", "I sail", at=NOW), company=COMPANY)
    begin(opened, ADA, "s-1", at=NOW, text="hello there", company=COMPANY)
    begin(opened, GRACE, "s-9", at=NOW, text="of grace", company=COMPANY)
    for whose in (ADA, GRACE):
        named = {"agent_id": whose.agent_id, "subject": whose.subject, "session_id": "s-1", "at": NOW}
        opened.crises.record(
            COMPANY,
            CrisisLogRecord(
                record_id=f"c-{whose.subject}",
                level=CrisisLevel.HIGH,
                path=ClassifierPath.KEYWORD,
                action="showed a hotline",
                **named,
            ),
        )
        opened.feedback.record(
            COMPANY,
            SessionFeedbackRecord(
                record_id=f"n-{whose.subject}",
                label=FeedbackLabel.HELPFUL,
                source=FeedbackSource.PERSON,
                comment=f"thanks from {whose.subject}",
                **named,
            ),
        )
    yield opened
    opened.close()


def typed(environ: dict[str, str], *words: str) -> Result:
    return CliRunner().invoke(build(words[0]), list(words), env=environ)


def shown(environ: dict[str, str], *words: str) -> Any:
    answer = typed(environ, *words, "--json")
    assert answer.exit_code == 0, answer
    return json.loads(answer.stdout)


def test_status_counts_the_layers_and_says_whether_they_are_shown(environ: dict[str, str]) -> None:
    value = shown(environ, "conversation", "status", *OF_ADA)
    named = ("subject", "semantic", "episodic", "procedural", "superseded", "open_sessions", "waiting_turns", "recall")
    assert [value[name] for name in named] == ["user:ada", 1, 1, 1, 1, 1, 1, True]
    empty = shown(environ, "conversation", "status", "--agent", "coach", "--session", "ada")
    assert (empty["subject"], empty["semantic"], empty["recall"]) == ("session:ada", 0, True)


def test_subjects_are_those_who_talked_to_the_agent(environ: dict[str, str]) -> None:
    assert shown(environ, "conversation", "subjects", "--agent", "coach") == [
        {"subject": "user:ada"},
        {"subject": "user:grace"},
    ]
    assert shown(environ, "conversation", "subjects", "--agent", "another") == []


def test_facts_are_listed_by_state_the_newest_first(environ: dict[str, str]) -> None:
    found = shown(environ, "conversation", "facts", *OF_ADA)
    assert [(each["fact_id"], each["state"], each["superseded_by"]) for each in found] == [
        ("f-new", "active", None),
        ("f-old", "superseded", "f-new"),
    ]
    only = shown(environ, "conversation", "facts", *OF_ADA, "--state", "superseded")
    assert [each["fact_id"] for each in only] == ["f-old"]
    assert '[work] User LIVES_IN Rome — "I moved to Rome"' in typed(environ, "conversation", "facts", *OF_ADA).stdout


def test_rules_and_sessions_are_listed(environ: dict[str, str]) -> None:
    (found,) = shown(environ, "conversation", "rules", *OF_ADA)
    assert (found["rule_id"], found["text"]) == ("r-1", "[rule] Be brief.")
    (session,) = shown(environ, "conversation", "sessions", *OF_ADA)
    assert (session["session_id"], session["turns"], session["ended_at"]) == ("s-1", 1, None)
    assert session["arc"] == "They talked about moving. (active)"
    assert "token" not in session


def test_an_export_has_all_of_one_person_and_nothing_of_another(environ: dict[str, str], ledger: Ledger) -> None:
    ledger.conversation.change_state(COMPANY, ADA, ["r-1"], to=FactState.FORGOTTEN, sources=[FactState.ACTIVE])
    held = hold(ledger, ADA, "s-2", "I feel low today", at=NOW - timedelta(hours=1), company=COMPANY)
    answer = typed(environ, "conversation", "export", *OF_ADA)
    value = json.loads(answer.stdout)
    assert [each["fact_id"] for each in value["facts"]] == ["f-new", "f-old"]
    assert [(each["rule_id"], each["state"]) for each in value["rules"]] == [("r-1", "forgotten")]
    assert [each["summary"] for each in value["arcs"]] == ["They talked about moving."]
    assert [each["session_id"] for each in value["sessions"]] == ["s-1", "s-2"]
    assert [each["user_text"] for each in value["turns"]] == ["hello there", "I feel low today"]
    assert [(each["candidate_id"], each["candidate"]["object"]) for each in value["held"]] == [
        (held.candidate_id, "low")
    ]
    assert [each["action"] for each in value["crises"]] == ["showed a hotline"]
    assert [each["comment"] for each in value["feedback"]] == ["thanks from user:ada"]
    assert "grace" not in answer.stdout


def test_recall_is_turned_off_and_on(environ: dict[str, str], ledger: Ledger) -> None:
    assert shown(environ, "conversation", "recall", "off", *OF_ADA)["recall"] is False
    assert not ledger.conversation.state(COMPANY, ADA).recall
    assert ledger.conversation.state(COMPANY, GRACE).recall
    assert shown(environ, "conversation", "recall", "on", *OF_ADA)["recall"] is True
    answer = typed(environ, "conversation", "recall", "maybe", *OF_ADA)
    assert isinstance(answer.exception, MemoryInputError)


def test_what_is_forgotten_can_be_restored_and_only_by_its_own_person(environ: dict[str, str], ledger: Ledger) -> None:
    assert shown(environ, "conversation", "forget", "f-new", "r-1", "s-1", "f-grace", *OF_ADA)["changed"] == 3
    assert ledger.conversation.facts(COMPANY, ADA) == ()
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, GRACE)] == ["f-grace"]
    assert shown(environ, "conversation", "restore", "f-new", "r-1", "s-1", *OF_ADA)["changed"] == 3
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["f-new"]
    answer = typed(environ, "conversation", "forget", "f-grace", *OF_ADA)
    assert isinstance(answer.exception, MemoryNotFoundError)


@pytest.fixture
def unsure(ledger: Ledger) -> None:
    """Ada has a fact of which a model was not sure, with two others; Grace has one with one."""
    dog = fact("f-dog", "We have a dog", at=NOW, object="dog").model_copy(
        update={"unsure_with": ("f-new", "f-late", "f-old")}
    )
    keep(ledger, ADA, fact("f-late", "The cat is gone", at=NOW + timedelta(days=1)), dog, company=COMPANY)
    rows = fact("g-2", "I row", at=NOW - timedelta(days=3)).model_copy(update={"unsure_with": ("f-grace", "f-new")})
    keep(ledger, GRACE, rows, company=COMPANY)


def listed(environ: dict[str, str], *words: str) -> list[tuple[str, str]]:
    found = shown(environ, "conversation", "conflicts", *(words or OF_ADA))
    return [(each["older"]["fact_id"], each["newer"]["fact_id"]) for each in found]


@pytest.mark.usefixtures("unsure")
def test_facts_of_which_a_model_is_not_sure_wait_for_a_person(environ: dict[str, str]) -> None:
    assert listed(environ) == [("f-dog", "f-late"), ("f-new", "f-dog")]
    # What was replaced before waits for nobody, and of another person nobody is shown.
    assert listed(environ, "--agent", "coach") == [("f-dog", "f-late"), ("g-2", "f-grace"), ("f-new", "f-dog")]
    assert listed(environ, "--agent", "coach", "--limit", "1") == [("f-dog", "f-late")]
    assert listed(environ, "--agent", "another") == []
    line = next(
        each for each in typed(environ, "conversation", "conflicts", *OF_ADA).stdout.splitlines() if "Rome" in each
    )
    assert all(part in line for part in ("user:ada", "f-new", "f-dog", "unsure", "I moved to Rome", "We have a dog"))


@pytest.mark.usefixtures("unsure")
def test_a_person_says_which_fact_replaced_which_and_takes_it_back(environ: dict[str, str], ledger: Ledger) -> None:
    version = ledger.conversation.state(COMPANY, ADA).version
    words = ("conversation", "supersede", "f-new", "f-dog", *OF_ADA, "--by", "mia")
    assert shown(environ, *words) == {"superseded": "f-new", "by": "f-dog"}
    assert shown(environ, *words) == {"superseded": "f-new", "by": "f-dog"}, "a second time changes nothing"
    assert listed(environ) == [("f-dog", "f-late")]
    old = ledger.conversation.fact(COMPANY, ADA, "f-new")
    assert old is not None
    assert (old.state, old.superseded_by) == (FactState.SUPERSEDED, "f-dog")
    assert ledger.conversation.state(COMPANY, ADA).version > version
    assert shown(environ, "conversation", "restore", "f-new", *OF_ADA, "--by", "mia")["changed"] == 1
    assert listed(environ) == [("f-dog", "f-late"), ("f-new", "f-dog")]
    noted = [(each.action, each.subject, each.reason) for each in ledger.audit.page(COMPANY)][::-1]
    assert noted == [*[("conversation.supersede", "f-new", "by f-dog")] * 2, ("conversation.restore", "f-new", None)]


@pytest.mark.usefixtures("unsure")
def test_a_person_says_that_both_facts_hold(environ: dict[str, str], ledger: Ledger) -> None:
    words = ("conversation", "both-hold", "f-new", "f-dog", *OF_ADA)
    before = ledger.conversation.fact(COMPANY, ADA, "f-dog")
    assert shown(environ, *words) == {"holds": "f-new", "beside": "f-dog"}
    assert listed(environ) == [("f-dog", "f-late")]
    dog = ledger.conversation.fact(COMPANY, ADA, "f-dog")
    assert before is not None
    assert dog == before.model_copy(update={"unsure_with": ("f-late", "f-old")})
    shown(environ, "conversation", "supersede", "f-new", "f-dog", *OF_ADA)
    shown(environ, *words)
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["f-dog", "f-late", "f-new"]


@pytest.mark.usefixtures("unsure")
@pytest.mark.parametrize("command", ["supersede", "both-hold"])
@pytest.mark.parametrize("pair", [("f-grace", "f-dog"), ("f-dog", "f-grace"), ("f-old", "f-dog"), ("f-dog", "f-dog")])
def test_a_person_decides_about_facts_that_hold(environ: dict[str, str], command: str, pair: tuple[str, str]) -> None:
    """Those of another person, what was replaced by another one, and one fact alone are refused."""
    answer = typed(environ, "conversation", command, *pair, *OF_ADA)
    assert isinstance(answer.exception, MemoryInputError)
    assert len(listed(environ)) == 2


def test_crises_and_feedback_are_of_the_agent_or_of_one_person(environ: dict[str, str]) -> None:
    for name, key, expected in (("crises", "action", "showed a hotline"), ("feedback", "label", "helpful")):
        both = shown(environ, "conversation", name, "--agent", "coach")
        assert {each["subject"] for each in both} == {"user:ada", "user:grace"}
        (one,) = shown(environ, "conversation", name, *OF_ADA)
        assert (one["subject"], one[key]) == ("user:ada", expected)


@pytest.mark.parametrize(
    "words", [("conversation", "facts", *OF_ADA), ("why", "f-bad", "--text")], ids=["facts", "why"]
)
def test_nothing_that_a_person_said_acts_on_a_terminal(
    environ: dict[str, str], ledger: Ledger, words: tuple[str, ...]
) -> None:
    keep(ledger, ADA, fact("f-bad", "x\x1b[2J\u202eevil\x9b31m", at=NOW), company=COMPANY)
    out = typed(environ, *words).stdout
    assert "evil" in out
    assert escaped(out, keep="\n") == out


@pytest.mark.parametrize("name", ["status", "facts", "export"])
def test_a_person_must_be_named(environ: dict[str, str], name: str) -> None:
    answer = typed(environ, "conversation", name, "--agent", "coach")
    assert isinstance(answer.exception, MemoryInputError)


def test_why_explains_a_fact_without_its_words_unless_they_are_asked_for(environ: dict[str, str]) -> None:
    tree = typed(environ, "why", "f-old").stdout
    assert "f-old  replaced by f-new since" in tree
    assert "of user:ada, for agent coach" in tree
    assert "Bonn" not in tree
    assert '"I live in Bonn"' in typed(environ, "why", "f-old", "--text").stdout
    (found,) = shown(environ, "why", "f-old")["kept"]
    assert (found["state"], found["superseded_by"], found["session_id"], found["text"]) == (
        "superseded",
        "f-new",
        "s",
        None,
    )


def test_why_explains_rules_and_sessions_of_each_state(environ: dict[str, str], ledger: Ledger) -> None:
    assert "r-1  active since" in typed(environ, "why", "r-1").stdout
    change = ledger.conversation.change_state
    change(COMPANY, ADA, ["r-1"], to=FactState.FORGOTTEN, sources=[FactState.ACTIVE])
    change(COMPANY, ADA, ["s-1"], to=FactState.ARCHIVED, sources=[FactState.ACTIVE])
    assert "r-1  forgotten since" in typed(environ, "why", "r-1").stdout
    assert "s-1  archived since" in typed(environ, "why", "s-1").stdout
    # A session of that name of another person's stands beside it.
    keep(ledger, GRACE, arc("s-1", "They sailed.", at=NOW), company=COMPANY)
    assert [each["subject"] for each in shown(environ, "why", "s-1")["kept"]] == ["user:ada", "user:grace"]
