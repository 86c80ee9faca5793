"""``memtend models check``: whether the configured model can be used, and what to do where it cannot."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import yaml
from support.model_servers import MODEL, REASONING, Script, anthropic, chat, model_server, ollama, questions, responses
from support.present import present
from support.recording_server import Answer
from support.repository import ROOT
from typer.testing import CliRunner, Result

from memcore.client.results import JobState, JobStatus
from memcore.config.llm import Api
from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import NewRun
from memcore.llm.dialects import api_of
from memcore.models.memory import MemoryCategory
from ops.cli.main import build
from ops.cli.maintenance.runs import show_ended
from ops.cli.session import JsonCommand


@pytest.fixture
def environ(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return environ | {"MEMTEND_POLICY_PATH": str(tmp_path / "policy.yaml"), "COLUMNS": "200"}


def checked(environ: dict[str, str], url: str, *words: str, policy: str = f"model: {MODEL}", **given: str) -> Result:
    Path(environ["MEMTEND_POLICY_PATH"]).write_text(f"memory: {{llm: {{{policy}}}}}", encoding="utf-8")
    return CliRunner().invoke(
        build("models"), ["models", "check", *words], env=environ | {"MEMTEND_LLM_URL": url} | given
    )


def facts(done: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_model_that_answers_is_shown_with_its_speed_and_what_was_learnt(environ: dict[str, str]) -> None:
    with model_server(chat, Script(refuses=("max_tokens", "response_format"))) as server:
        done = checked(environ, f"{server.url}/v1", "--json")
        assert done.exit_code == 0, done.output
        found = facts(done)
        reported = checked(environ, f"{server.url}/v1").output
    assert (found["api"], found["model"], found["has_form"], found["problem"]) == ("chat", MODEL, True, None)
    assert found["server"] == f"{server.url}/v1"
    assert found["seconds"] > 0
    assert found["tokens_per_second"] > 0
    assert found["learnt"] == [
        "it takes max_completion_tokens for max_tokens",
        "it takes no schema: the schema stands in the prompt",
    ]
    assert "it answers in the form that was asked for" in reported
    assert "waits for the language model since " in reported
    # Asked anew: it is learnt again, and a server that was changed is seen.
    assert len(questions(server)) == 6


@pytest.mark.parametrize(
    ("dialect", "path", "policy", "api"),
    [
        (responses, "/v1", "", "responses"),
        (anthropic, "", ", api: anthropic", "anthropic"),
        (ollama, "/api", "", "ollama"),
    ],
)
def test_the_dialect_is_shown(environ: dict[str, str], dialect: Any, path: str, policy: str, api: str) -> None:
    with model_server(dialect) as server:
        done = checked(environ, f"{server.url}{path}", "--json", policy=f"model: {MODEL}{policy}")
    assert done.exit_code == 0, done.output
    assert facts(done)["api"] == api


@pytest.mark.parametrize(
    ("script", "status", "kind", "step"),
    [
        (Script(key="right"), 401, "invalid_request_error", "MEMTEND_LLM_API_KEY"),
        (Script(status=404, error={"error": "model 'small' not found"}), 404, None, "memory.llm.model"),
        (Script(status=503, error={}), 503, None, "ask again later"),
        (Script(status=200, error={"choices": []}), 200, "unreadable", "memory.llm.api"),
        (
            Script(status=200, error={"choices": [{"message": {"content": "I like tea."}}]}),
            None, "malformed", "larger",
        ),
    ],
)  # fmt: skip
def test_a_model_that_fails_is_shown_with_status_type_and_next_step(
    environ: dict[str, str], script: Script, status: int | None, kind: str | None, step: str
) -> None:
    with model_server(chat, script) as server:
        done = checked(environ, f"{server.url}/v1", "--json", MEMTEND_LLM_API_KEY="wrong-key")
        reported = checked(environ, f"{server.url}/v1", MEMTEND_LLM_API_KEY="wrong-key")
    assert done.exit_code == reported.exit_code == 1
    found = facts(done)
    assert (found["status"], found["kind"], found["has_form"]) == (status, kind, False)
    assert step in found["next_step"]
    assert f"next: {found['next_step']}" in reported.stderr
    assert "wrong-key" not in done.output + reported.output
    if status == 404:
        assert found["offered"] == [MODEL]


def test_a_server_that_is_not_there_is_a_failure(environ: dict[str, str]) -> None:
    done = checked(environ, "http://127.0.0.1:1/v1", "--json")
    assert done.exit_code == 1
    assert (facts(done)["kind"], facts(done)["next_step"]) == (
        "connection",
        "start the server, or check MEMTEND_LLM_URL",
    )


def test_a_budget_of_nothing_keeps_nobody_from_checking(environ: dict[str, str]) -> None:
    with model_server(chat) as server:
        policy = f"model: {MODEL}}}, budgets: {{tokens_per_agent_per_day: 0"
        done = checked(environ, f"{server.url}/v1", policy=policy)
    assert done.exit_code == 0, done.output
    assert REASONING not in done.output


def test_where_no_model_is_named_those_of_the_server_are(environ: dict[str, str]) -> None:
    with model_server(chat) as server:
        found = facts(checked(environ, f"{server.url}/v1", "--json", policy="attempts: 1"))
        done = checked(environ, f"{server.url}/v1", policy="attempts: 1")
        assert questions(server) == []
    assert (found["kind"], found["has_form"], found["offered"]) == ("no_model", False, [MODEL])
    assert found["next_step"] == "name one in memory.llm.model"
    assert done.exit_code == 1
    assert MODEL in done.stderr


def test_without_a_server_the_setting_is_named(environ: dict[str, str]) -> None:
    assert "MEMTEND_LLM_URL" in str(checked(environ, "").exception)


PAGE = ROOT / "docs" / "how-to" / "connect-a-model.md"

#: Of each server on the page: its dialect, and what it refuses and adds.
ON_PAGE: dict[str, tuple[Callable[[Script], Answer], dict[str, Any]]] = {
    "Ollama": (ollama, {}),
    "llama.cpp": (chat, {"context": 8_192}),
    "vLLM": (chat, {"context": 4_096}),
    "LM Studio": (chat, {}),
    "OpenAI": (chat, {"refuses": ("max_tokens", "temperature"), "key": "KEY"}),
    "Anthropic": (anthropic, {"key": "KEY"}),
}


def sections() -> dict[str, str]:
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    return {title: text for title, _, text in (part.partition("\n") for part in parts) if "```bash" in text}


def test_every_server_of_the_page_is_tried() -> None:
    assert sections().keys() == ON_PAGE.keys()


@pytest.mark.parametrize("name", ON_PAGE)
def test_a_block_of_the_page_connects_its_server(environ: dict[str, str], name: str) -> None:
    dialect, options = ON_PAGE[name]
    text = sections()[name]
    ((shell,), (policy,)) = (re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) for language in ("bash", "yaml"))
    given = dict(pair.split("=", 1) for pair in shell.removeprefix("export ").split())
    wanted = yaml.safe_load(policy)
    address = urlsplit(given.pop("MEMTEND_LLM_URL"))
    # The server is another's, and so is what its host says.
    wanted["memory"]["llm"].setdefault("api", api_of(address.geturl(), Api.AUTO).value)
    model = wanted["memory"]["llm"]["model"]
    with model_server(dialect, Script(models=(model,), **options)) as server:
        lines = json.dumps(wanted["memory"]["llm"])[1:-1]
        done = checked(environ, f"{server.url}{address.path}", "--json", policy=lines, **given)
    assert done.exit_code == 0, done.output
    assert facts(done)["model"] == model
    asked = questions(server)[-1].body
    assert asked["model"] == model
    assert wanted["memory"]["llm"].get("extra_body", {}).items() <= asked.items()


class Waiting:
    """A client whose job ends after some looks."""

    def __init__(self, *looks: Callable[[], object]) -> None:
        self.looks = list(looks)

    def wait(self, job_ids: Iterable[str], *, timeout_seconds: float) -> Iterator[JobStatus]:
        del timeout_seconds
        if self.looks:
            self.looks.pop(0)()
            raise TimeoutError("not yet")
        return iter([JobStatus(job_id=each, state=JobState.DONE) for each in job_ids])


def test_a_command_that_waits_for_a_model_says_so_and_since_when(
    environ: dict[str, str],
    sqlite_ledger: LedgerUrls,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with closing(Ledger.open(sqlite_ledger)) as ledger:
        run = present(ledger.runs.create(NewRun(company="default", agent_id="ada", planned_at=datetime.now(UTC))))
        about = {"run_id": run.run_id, "company": "default", "agent_id": "ada", "category": MemoryCategory.EPISODIC}
        parts = [Synthesis.model_validate({**about, "place": place, "source_ids": ("x", "y")}) for place in (0, 1)]
        away = datetime(2026, 3, 1, 4, 30, tzinfo=UTC)

        def fail() -> None:
            held = present(ledger.syntheses.claim("default", parts[0].key, lease=timedelta(minutes=1)))
            ledger.syntheses.wait_together(held, until=away, reason="503", away_since=away)

        looks = (lambda: None, lambda: ledger.syntheses.plan(parts), lambda: None, fail)
        shown = show_ended(JsonCommand(), cast("Any", Waiting(*looks)), run.run_id, wait=True)
    assert shown is not None
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        rf"2 of 2 questions wait for the language model since {datetime.now(UTC):%Y-%m-%d} \d\d:\d\d:\d\d UTC", first
    )
    assert second == "2 of 2 questions wait for the language model since 2026-03-01 04:30:00 UTC: 503"
