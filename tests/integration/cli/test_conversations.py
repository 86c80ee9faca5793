"""What a person sees, exports and changes of what is kept of conversations."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
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


@pytest.fixture
def environ(sqlite_ledger: LedgerUrls, tmp_path: Path) -> dict[str, str]:
    """An installation of which only the ledger is there."""
    return {
        "MEMTEND_BROKER_URL": "redis://127.0.0.1:1/0",
        "MEMTEND_DATABASE_URL": sqlite_ledger.ledger,
        "MEMTEND_JOURNAL_URL": sqlite_ledger.journal,
        "MEMTEND_QDRANT_URL": "http://127.0.0.1:1",
        "MEMTEND_HOME": str(tmp_path),
    }


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
