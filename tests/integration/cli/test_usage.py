"""What people see of language models: what they used, and whether they can be asked."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.kept_conversations import begin, owner
from support.model_servers import Script, chat, model_server
from support.stub_llm_process import StubLLM
from typer.testing import CliRunner, Result

from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import CallState, Caps, NewCall, Spent, UsageBy
from ops.cli.main import build
from ops.cli.running import health_checks
from ops.cli.running.health_checks import language_model, model_answers, model_budget

Configure = Callable[..., Settings]
NOW = datetime.now(UTC)


@pytest.fixture
def configure(environ: dict[str, str], tmp_path: Path) -> Configure:
    def made(policy: str = "", **given: str) -> Settings:
        path = tmp_path / "policy.yaml"
        path.write_text(policy, encoding="utf-8")
        return Settings.load({**environ, "MEMTEND_POLICY_PATH": str(path), **given})

    return made


def call(ledger: Ledger, *, agent_id: str = "ada", is_refused: bool = False) -> None:
    most = Spent(prompt_tokens=100, completion_tokens=50, cost=1.0)
    new = NewCall(
        company="default", agent_id=agent_id, run_id="run", question_id="q", purpose="merge", model="m", most=most
    )
    reserved = ledger.spending.reserve(new, caps=Caps(tokens=0 if is_refused else None))
    if reserved.call_id is not None:
        spent = Spent(prompt_tokens=80, completion_tokens=20, cost=0.5)
        ledger.spending.settle(reserved.call_id, CallState.ANSWERED, spent=spent, attempts=2)


@pytest.fixture
def ledger(sqlite_ledger: LedgerUrls) -> Iterator[Ledger]:
    opened = Ledger.open(sqlite_ledger)
    yield opened
    opened.close()


def typed(environ: dict[str, str], *words: str) -> Result:
    return CliRunner().invoke(build("usage"), ["usage", *words], env=environ)


def row(environ: dict[str, str], *words: str) -> dict[str, Any]:
    done = typed(environ, *words, "--json")
    assert done.exit_code == 0, done.output
    (only,) = json.loads(done.stdout)
    return dict(only)


def test_usage_says_what_was_used_and_by_whom(environ: dict[str, str], ledger: Ledger) -> None:
    call(ledger)
    call(ledger, is_refused=True)
    used = {
        "calls": 1,
        "refused": 1,
        "failed": 0,
        "asked_again": 0,
        "open": 0,
        "attempts": 2,
        "prompt_tokens": 80,
        "completion_tokens": 20,
        "cost": 0.5,
        "tokens": 100,
    }
    assert row(environ) == {"agent": "ada", **used}
    assert row(environ, "--by", "purpose") == {"purpose": "merge", **used}
    assert row(environ, "--by", "run") == {"run": "run", **used}
    assert row(environ, "--by", "model") == {"model": "m", **used}
    assert row(environ, "--by", "day", "--agent", "ada")["tokens"] == 100
    assert json.loads(typed(environ, "--agent", "bob", "--json").stdout) == []
    table = typed(environ).stdout
    assert "agent" in table
    assert "0.500" in table


def test_usage_keeps_to_its_days(environ: dict[str, str], sqlite_ledger: LedgerUrls) -> None:
    earlier = Ledger.open(sqlite_ledger, clock=lambda: NOW - timedelta(days=3))
    call(earlier)
    earlier.close()
    assert json.loads(typed(environ, "--days", "2", "--json").stdout) == []
    assert row(environ, "--days", "5")["tokens"] == 100


@pytest.mark.parametrize("words", [("--by", "moon"), ("--days", "0"), ("--days", "3661")])
def test_a_wrong_option_is_refused_by_its_name(environ: dict[str, str], words: tuple[str, str]) -> None:
    done = typed(environ, *words)
    assert isinstance(done.exception, MemoryInputError)
    assert str(done.exception).startswith(f"{words[0].removeprefix('--')}: must be")


LLM = "memory: {consolidation: {strategy: llm}, llm: {model: stub-small}}"


def test_without_a_step_that_asks_nothing_is_missing(configure: Configure) -> None:
    (found,) = language_model(configure())
    assert (found.ok, found.seen) == (True, "none needed")
    assert list(model_budget(configure())) == []


def test_a_step_that_asks_and_no_address_is_a_finding(configure: Configure) -> None:
    (found,) = language_model(configure(LLM))
    assert not found.ok
    assert found.seen == "no address, and memory.consolidation.strategy needs one"


def test_turns_that_wait_say_which_model_conversations_need(
    configure: Configure, sqlite_ledger: LedgerUrls, stub: StubLLM
) -> None:
    with closing(Ledger.open(sqlite_ledger)) as ledger:
        begin(ledger, owner(), "s", at=NOW, company=configure().company)
    (found,) = language_model(configure())
    assert not found.ok
    assert found.seen.startswith("no address, and memory.conversation needs one; 1 turns wait since ")
    assert found.mend.startswith("set MEMTEND_LLM_URL and memory.llm.model, or ")
    unnamed, server = language_model(configure(MEMTEND_LLM_URL=stub.url))
    assert (unnamed.check, unnamed.ok, unnamed.mend) == ("model of conversation", False, "name one: memory.llm.model")
    assert (server.ok, server.seen) == (False, "no language model is named")
    assert server.mend.startswith("name one in memory.llm.model (it offers stub-small); ")
    named, server = language_model(configure("memory: {llm: {model: stub-small}}", MEMTEND_LLM_URL=stub.url))
    assert (named.ok, named.seen, server.ok) == (True, "stub-small", True)


@pytest.mark.parametrize(("minutes", "ok"), [(5, True), (20, False)])
def test_turns_that_wait_for_long_beside_a_server_are_a_finding(
    configure: Configure, sqlite_ledger: LedgerUrls, minutes: int, ok: bool
) -> None:
    since = datetime.now(UTC) - timedelta(minutes=minutes)
    with closing(Ledger.open(sqlite_ledger, clock=lambda: since)) as ledger:
        begin(ledger, owner(), "s", at=since, company=configure().company)
    found, _ = model_answers(configure(MEMTEND_LLM_URL="http://127.0.0.1:1"))
    assert (found.check, found.ok) == ("waiting turns", ok)
    assert found.seen == f"1 turns of conversations wait for a model since {since:%Y-%m-%d %H:%M} UTC"


def test_a_step_without_a_model_is_a_finding(configure: Configure, stub: StubLLM) -> None:
    policy = "memory: {consolidation: {strategy: llm, experience_compressor: {enabled: true, model: large}}}"
    unnamed, named, server = language_model(configure(policy, MEMTEND_LLM_URL=stub.url))
    assert (unnamed.check, unnamed.ok) == ("model of consolidation.strategy", False)
    assert (named.check, named.ok, named.seen) == ("model of consolidation.experience_compressor", True, "large")
    assert server.ok
    assert server.seen.startswith("large answers a question in ")


def test_the_doctor_asks_a_real_question_and_says_whose_account_pays(
    configure: Configure, stub: StubLLM, ledger: Ledger
) -> None:
    assert all(found.ok for found in language_model(configure(LLM, MEMTEND_LLM_URL=stub.url)))
    today = datetime.now(UTC).date()
    (used,) = ledger.usage.report("default", UsageBy.PURPOSE, since=today - timedelta(days=1), until=today)
    assert (used.key, used.calls) == ("system:models:check", 1)
    assert stub.billed() == used.prompt_tokens + used.completion_tokens


def test_a_server_that_lists_its_models_and_refuses_every_question_is_a_finding(configure: Configure) -> None:
    with model_server(chat, Script(status=400, error={"error": {"type": "bad_day", "message": "no"}})) as server:
        *_, found = language_model(configure(LLM, MEMTEND_LLM_URL=f"{server.url}/v1"))
    assert not found.ok
    assert "400 (bad_day)" in found.seen
    assert "memtend models check" in found.mend


def test_a_model_that_takes_too_long_for_the_doctor_is_a_finding(
    configure: Configure, stub: StubLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "MODEL_ANSWERS", timedelta(seconds=0.3))
    stub.order(seconds=2.0)
    *_, found = language_model(configure(LLM, MEMTEND_LLM_URL=stub.url))
    assert not found.ok
    assert "no whole answer within 0.3 s" in found.seen
    assert "a model that is just being loaded needs a moment" in found.mend
    assert "timeout_seconds" not in found.mend
    *_, local = language_model(configure(LLM, MEMTEND_LLM_URL=stub.url, MEMTEND_LLM_LOCAL="small"))
    assert local.ok, "it is expected of processors"
    assert "no whole answer within 0.3 s" in local.seen


@pytest.mark.parametrize(
    ("url", "key", "seen"),
    [("http://127.0.0.1:1/v1", "", "127.0.0.1:1 does not answer"), ("", "wrong", "401"), ("", "", "401")],
)
def test_a_server_that_does_not_answer_or_refuses_is_a_finding(
    configure: Configure, stub: StubLLM, url: str, key: str, seen: str
) -> None:
    stub.order(key="right")
    *_, found = language_model(configure(LLM, MEMTEND_LLM_URL=url or stub.url, MEMTEND_LLM_API_KEY=key))
    assert not found.ok
    assert seen in found.seen
    assert "wrong" not in found.seen


def test_nobody_waits_for_a_budget(configure: Configure, ledger: Ledger) -> None:
    call(ledger)
    (found,) = model_budget(configure(LLM))
    assert (found.ok, found.seen) == (True, "nobody waits")


def test_who_waits_for_tomorrow_is_named(configure: Configure, ledger: Ledger) -> None:
    for place in range(7):
        call(ledger, agent_id=f"agent-{place}", is_refused=True)
    (found,) = model_budget(configure(LLM))
    assert not found.ok
    assert found.seen.endswith("agent-0, agent-1, agent-2, agent-3, agent-4 and 2 more")


def test_a_budget_of_zero_is_a_finding(configure: Configure) -> None:
    policy = "memory: {consolidation: {strategy: llm}, budgets: {tokens_per_agent_per_day: 0}}"
    (found,) = model_budget(configure(policy))
    assert (found.ok, found.seen) == (False, "0 tokens: every step that asks a model waits")


def test_a_forecast_says_on_how_many_whole_days_it_rests(environ: dict[str, str], sqlite_ledger: LedgerUrls) -> None:
    for days, calls in ((3, 3), (2, 1), (0, 50)):
        at = NOW - timedelta(days=days)
        earlier = Ledger.open(sqlite_ledger, clock=partial(at.astimezone, UTC))
        for _ in range(calls):
            call(earlier)
        earlier.close()
    forecast = json.loads(typed(environ, "--forecast", "--json").stdout)
    # Four calls of 100 tokens in three days; today is no whole day.
    assert forecast == {
        "days": 3,
        "since": f"{NOW.date() - timedelta(days=3)}",
        "rows": [{"purpose": "merge", "calls": 40, "tokens": 4_000, "cost": 20.0}],
        "pending": None,
    }
    said = typed(environ, "--forecast", "--days", "2").stdout
    assert f"the 2 whole days since {NOW.date() - timedelta(days=2)}" in said
    assert "1500" in said.replace(",", "")
    assert typed(environ, "--forecast", "--days", "1").stdout.startswith(
        "nothing is expected: nothing was asked in the 1"
    )


def test_a_forecast_of_a_first_day_says_that_nothing_is_known(environ: dict[str, str], ledger: Ledger) -> None:
    assert typed(environ, "--forecast").stdout == "nothing is known: the account has no whole day yet\n"
    call(ledger)
    assert typed(environ, "--forecast").stdout == "nothing is known: the account has no whole day yet\n"
    other = typed(environ, "--forecast", "--by", "model")
    assert str(other.exception) == "by: must be purpose: a forecast has a row for each"
