"""What the doctor says when things are down, damaged or waiting: one line each, at once, and nothing of a traceback."""

import socket
import socketserver
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest
from support.command_line import Answer, CommandLine
from support.ledger_records import COMPANY, copied_urls
from support.memories import StoppedClock
from support.present import present
from support.running_stack import StackAddress, wait_until
from support.valkey_servers import valkey_server

from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.jobs import Queue
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.migrate import migrate_history
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.llm import MERGE_PURPOSE, SHORTEN_PURPOSE
from memcore.models.memory import MemoryCategory
from ops.cli.console import CheckResult, HealthCheck, take_all
from ops.cli.running.doctor import CHECKS
from ops.cli.running.health_checks import broker, databases, what_a_model_adds, workers

#: Seconds that the doctor may take here: tests share their machine, and a look that hangs would take ten.
SOON = 9.0

#: What the doctor says of a look that takes ten seconds: on a busy machine that is told from a slow one by no clock.
HANGS = "no answer within"


@pytest.fixture
def urls(ledger_template: Path, tmp_path: Path) -> LedgerUrls:
    urls = copied_urls(ledger_template, tmp_path)
    migrate_history(urls.ledger)
    return urls


@pytest.fixture
def settings(urls: LedgerUrls, tmp_path: Path) -> Settings:
    """An installation with a ledger, of which nothing else runs."""
    made = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url=urls.ledger, journal_url=urls.journal,
        qdrant_url="http://127.0.0.1:1", company=COMPANY, home=tmp_path,
    )  # fmt: skip
    made.save_stack()
    return made


@pytest.fixture
def memtend(settings: Settings) -> CommandLine:  # the package's own talks to the running stack
    return CommandLine(home=settings.home)


def checks(findings: list[CheckResult]) -> dict[str, CheckResult]:
    return {each.check: each for each in findings}


def lines_of(answer: Answer) -> list[str]:
    """The lines that a person reads, none of them too long and none of a traceback."""
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert all(len(line) <= 80 for line in lines), max(lines, key=len)
    assert "Traceback" not in answer.out
    return lines


def test_with_everything_down_each_part_is_one_finding_and_what_follows_from_it_is_not_looked_at(
    memtend: CommandLine,
) -> None:
    answer = memtend("doctor")
    assert answer.code == 1
    assert HANGS not in answer.out
    lines = lines_of(answer)
    assert any(line.startswith("broker       WRONG") for line in lines)
    assert any(line.startswith("store        WRONG") for line in lines)
    assert any(line.startswith("ledger       ok") for line in lines)
    assert "waiting" not in "".join(line for line in lines if line.startswith("queues"))
    found = checks([CheckResult(**each) for each in memtend("doctor", "--json").value])
    assert "does not answer" in found["broker"].seen
    assert "does not answer" in found["store"].seen
    assert found["workers"].seen == "not looked at, for broker is not well"
    assert not [check for check in found if check.startswith("queue ")]


@pytest.mark.parametrize("url", ["amqp://guest@127.0.0.1:1//", "rediss://127.0.0.1:1/0", "redis://nowhere.invalid/0"])
def test_a_broker_of_any_kind_that_is_away_is_one_finding(settings: Settings, url: str) -> None:
    began = time.monotonic()
    (found,) = broker(settings.model_copy(update={"broker_url": url}))
    assert time.monotonic() - began < SOON
    assert not found.ok
    assert found.seen.startswith("does not answer (")


def test_a_broker_that_refuses_the_password_is_told_from_one_that_is_away(settings: Settings, tmp_path: Path) -> None:
    with valkey_server(tmp_path) as server:
        for url in (server.url.replace(server.password, "wrong-secret"), f"redis://127.0.0.1:{server.port}/0"):
            (found,) = broker(settings.model_copy(update={"broker_url": url}))
            assert found.seen == "refuses the user or the password in its address"
            assert found.mend == "correct the user and the password in MEMTEND_BROKER_URL"


@contextmanager
def refusing_postgresql() -> Iterator[int]:
    """A port on which a server of PostgreSQL's protocol accepts no password."""
    fields = b'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "mt"\0\0'

    class Refusing(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                (code,) = struct.unpack("!i", self.rfile.read(int.from_bytes(size) - 4)[:4])
                if code == _PROTOCOL_3:
                    self.wfile.write(b"E" + struct.pack("!i", len(fields) + 4) + fields)
                    return
                self.wfile.write(b"N")  # no encryption

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


#: What a client of PostgreSQL asks for, once it has asked whether lines are encrypted.
_PROTOCOL_3 = 3 << 16


def test_a_database_that_refuses_the_password_says_which_variable_has_it(settings: Settings) -> None:
    with refusing_postgresql() as port:
        url = f"postgresql://mt:wrong-secret@127.0.0.1:{port}/mt"
        ledger, journal, _ = databases(settings.model_copy(update={"database_url": url, "journal_url": url}))
    for found, variable in ((ledger, "MEMTEND_DATABASE_URL"), (journal, "MEMTEND_JOURNAL_URL")):
        assert "password authentication failed" in found.seen
        assert "wrong-secret" not in found.seen
        assert found.mend == f"correct the user and the password in {variable}"


def test_of_a_stack_that_does_not_run_the_folder_is_looked_at_and_the_start_is_named(tmp_path: Path) -> None:
    for home, checks_of_it in ((tmp_path, ["stack", "data folder", "disk"]), (tmp_path / "none", ["stack"])):
        doctor = CommandLine(home=home)
        answer = doctor("doctor", "--json")
        found = [CheckResult(**each) for each in answer.value]
        assert (answer.code, [each.check for each in found]) == (1, checks_of_it)
        assert (found[0].ok, found[0].seen) == (False, f"nothing runs at {home}")
        assert found[0].mend.startswith("start it with `memtend up`, or set MEMTEND_BROKER_URL")
        assert found[0].mend.endswith("; broker, workers, store, ledger, maintenance, models are looked at then")
        assert lines_of(doctor("doctor"))[0].startswith("parts        WRONG")


def test_a_data_folder_on_another_machine_is_no_finding(settings: Settings, tmp_path: Path) -> None:
    elsewhere = settings.model_copy(update={"home": tmp_path / "none"})
    (found,) = next(each for each in CHECKS if each.name == "data folder").take(elsewhere)
    assert (found.ok, "is not on this machine" in found.seen) == (True, True)


@contextmanager
def hung_server() -> Iterator[int]:
    """A port that accepts connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


def test_servers_that_accept_and_never_answer_are_told_within_seconds(settings: Settings) -> None:
    with hung_server() as port:
        hung = settings.model_copy(
            update={"broker_url": f"redis://127.0.0.1:{port}/0", "qdrant_url": f"http://127.0.0.1:{port}"}
        )
        found = checks(take_all(CHECKS, hung))
    assert not [each for each in found.values() if HANGS in each.seen]
    assert "does not answer" in found["broker"].seen
    assert "does not answer" in found["store"].seen


def test_a_look_that_hangs_is_given_up_and_one_that_falls_over_is_one_line(settings: Settings) -> None:
    end = Event()

    def hangs(_: Settings) -> list[CheckResult]:
        end.wait()
        return []

    def outages(_: Settings) -> list[CheckResult]:
        raise KeyError("first line\nsecond line")

    def is_well(_: Settings) -> list[CheckResult]:
        return [CheckResult(check="third", ok=True, seen="well")]

    health_checks = [
        HealthCheck(name="hung", group="store", take=hangs),
        HealthCheck(name="fallen", group="store", take=outages),
        HealthCheck(name="third", group="models", take=is_well),
        HealthCheck(name="after", group="models", take=is_well, needs=("fallen",)),
    ]
    try:
        found = take_all(health_checks, settings, limit_seconds=0.5)
    finally:
        end.set()
    assert [(each.check, each.ok, each.group) for each in found] == [
        ("hung", False, "store"), ("fallen", False, "store"), ("third", True, "models"), ("after", False, "models"),
    ]  # fmt: skip
    assert found[0].seen == "no answer within 0.5 s"
    assert found[1].seen.startswith("KeyError: ")
    assert "\n" not in found[1].seen
    assert "report it" in found[1].mend


@pytest.mark.parametrize(
    ("content", "said"), [(b"rubbish " * 1_000, "ledger is damaged|damaged"), (None, "is not there")]
)
def test_a_ledger_that_is_damaged_or_gone_is_one_finding_and_is_not_made_anew(
    memtend: CommandLine, settings: Settings, content: bytes | None, said: str
) -> None:
    file = Path(settings.database_url.removeprefix("sqlite:///"))
    file.unlink()
    if content:
        file.write_bytes(content)
    answer = memtend("doctor", "--json")
    found = checks([CheckResult(**each) for each in answer.value])
    assert (answer.code, answer.err) == (1, "")
    assert not found["ledger"].ok
    assert any(word in found["ledger"].seen for word in said.split("|"))
    assert found["journal"].ok
    assert found["runs"].seen == "not looked at, for ledger is not well"
    assert file.exists() is (content is not None)


def test_what_failed_waits_or_was_given_up_is_a_finding(settings: Settings, urls: LedgerUrls) -> None:
    runs = next(health_check for health_check in CHECKS if health_check.name == "runs")
    assert all(each.ok for each in runs.take(settings))
    then = datetime.now(UTC) - timedelta(hours=1)
    ledger = Ledger.open(urls, clock=lambda: then)
    states = {"failing": WorkState.FAILED, "holding": WorkState.HELD, "waiting": None}
    for agent_id, state in states.items():
        run = present(ledger.runs.create(NewRun(company=COMPANY, agent_id=agent_id, planned_at=then)))
        taken = present(ledger.runs.claim(run.company, run.run_id, lease=timedelta(minutes=1)))
        assert taken.token is not None
        if state is None:
            ledger.runs.wait(
                run.company, run.run_id, taken.token, until=then + timedelta(hours=2), reason="no model is there"
            )
        else:
            ledger.runs.finish(run.company, run.run_id, taken.token, state=state, counts={}, reason="for a reason")
    for job_id, payload in (("readable", "{}"), ("unreadable", "\x00not json")):
        letter = NewDeadLetter(
            job_id=job_id, company=COMPANY, job="memory.store.write", queue="memory.store", payload=payload,
            reason="no", attempts=1,
        )  # fmt: skip
        ledger.dead_letters.put(letter)
    found = checks(list(runs.take(settings)))
    assert [name for name, each in found.items() if each.ok] == ["stuck work"]
    assert found["failed runs"].seen == "1 agents whose last run failed: for a reason"
    assert found["held runs"].seen == "1 wait for a person to decide"
    assert found["waiting runs"].seen == f"1 wait, since {then:%Y-%m-%d %H:%M} UTC: no model is there"
    assert found["dead letters"].seen == "2 jobs were given up"
    ledger.close()


@pytest.mark.parametrize("days", [-31, 400])
def test_a_clock_that_jumped_is_a_finding(days: int, settings: Settings, urls: LedgerUrls) -> None:
    with closing(Ledger.open(urls)) as ledger:
        ledger.ticks.note(COMPANY, sent=0)
    (schedule,) = (each for each in CHECKS if each.name == "last tick")
    assert checks(list(schedule.take(settings)))["clock"].ok
    then = datetime.now(UTC) + timedelta(days=days)
    with closing(Ledger.open(urls, clock=lambda: then)) as ledger:
        ledger.ticks.note(COMPANY, sent=0)
    found = checks(list(schedule.take(settings)))["clock"]
    assert not found.ok
    assert found.seen.startswith(f"jumped from {then:%Y-%m-%d %H:%M}")


def test_an_erasure_that_does_not_end_is_named_with_the_reason(settings: Settings, urls: LedgerUrls) -> None:
    check = next(health_check for health_check in CHECKS if health_check.name == "erasures")
    word = Confirmation(actor="grace", confirm=True, reason="she has left")
    for age, seen in ((timedelta(minutes=50), None), (timedelta(minutes=70), "waiting, 1 jobs of the agent")):
        then = datetime.now(UTC) - age
        with closing(Ledger.open(urls, clock=StoppedClock(then))) as ledger:
            asked = ledger.erasures.request(COMPANY, f"ada {age}", confirmation=word)
            taken = present(ledger.erasures.claim(COMPANY, asked.erasure_id, lease=timedelta(minutes=1)))
            reason = "1 jobs of the agent are still on the broker"
            ledger.erasures.wait(COMPANY, asked.erasure_id, present(taken.token), until=timedelta(0), reason=reason)
        (found,) = check.take(settings)
        assert found.ok == (seen is None)
        assert seen is None or (asked.erasure_id in found.seen and seen in found.seen), found


@pytest.mark.parametrize(
    ("agent", "subject", "is_done"), [("ada", None, True), ("ada", "eve", False), ("eve", None, False)]
)
def test_one_that_failed_is_well_once_a_later_one_of_as_much_is_done(
    settings: Settings, urls: LedgerUrls, agent: str, subject: str | None, is_done: bool
) -> None:
    check = next(health_check for health_check in CHECKS if health_check.name == "erasures")
    word = Confirmation(actor="grace", confirm=True, reason="she has left")
    for age, owner, person in ((2, "ada", None), (1, agent, subject)):
        then = datetime.now(UTC) - timedelta(minutes=age)
        with closing(Ledger.open(urls, clock=StoppedClock(then))) as ledger:
            asked = ledger.erasures.request(COMPANY, owner, subject=person, confirmation=word)
            taken = present(ledger.erasures.claim(COMPANY, asked.erasure_id, lease=timedelta(minutes=1)))
            token = str(taken.token)
            if age == 1:
                ledger.erasures.finish(COMPANY, asked.erasure_id, token, receipt="{}", at=then, late_writes=0)
            else:
                ledger.erasures.fail(COMPANY, asked.erasure_id, token, "a defect")
    (found,) = check.take(settings)
    assert found.ok == is_done


def test_a_worker_that_asks_models_is_missed_only_where_it_is_needed(settings: Settings, tmp_path: Path) -> None:
    with valkey_server(tmp_path / "valkey") as server:
        asked = settings.moved({"broker_url": server.url, "result_url": server.url})
        assert set(checks(list(workers(asked)))) == {"worker store", "worker night"}
        with_model = asked.moved({"llm_url": "http://127.0.0.1:1"})
        assert not checks(list(workers(with_model)))["worker llm"].ok
        with server.client() as client:
            client.lpush(str(Queue.EXTRACT), "a message")
        assert not checks(list(workers(asked)))["worker llm"].ok


def test_what_asks_nobody_is_given_no_time(memtend: CommandLine) -> None:
    assert "limits" not in {each.name for each in CHECKS}
    limits = [each for each in memtend("doctor", "--json").value if each["check"].startswith("limits")]
    assert limits
    assert all(each["ok"] for each in limits)


def test_one_that_failed_is_named_too(settings: Settings, urls: LedgerUrls) -> None:
    check = next(health_check for health_check in CHECKS if health_check.name == "erasures")
    with closing(Ledger.open(urls)) as ledger:
        word = Confirmation(actor="grace", confirm=True, reason="she has left")
        asked = ledger.erasures.request(COMPANY, "ada", confirmation=word)
        taken = present(ledger.erasures.claim(COMPANY, asked.erasure_id, lease=timedelta(minutes=1)))
        ledger.erasures.fail(COMPANY, asked.erasure_id, str(taken.token), "a defect")
    (found,) = check.take(settings)
    assert not found.ok
    assert "failed, a defect" in found.seen


def test_runs_that_wait_for_a_model_that_is_away_are_told_with_the_time(memtend: CommandLine, urls: LedgerUrls) -> None:
    found = checks([CheckResult(**each) for each in memtend("doctor", "--json").value])
    assert found["model answers"].ok
    now = datetime.now(UTC)
    since = now - timedelta(hours=3)
    with closing(Ledger.open(urls)) as ledger:
        for agent_id in ("a", "b"):
            run = present(ledger.runs.create(NewRun(company=COMPANY, agent_id=agent_id, planned_at=since)))
            part = Synthesis(
                run_id=run.run_id,
                place=0,
                company=COMPANY,
                agent_id=agent_id,
                category=MemoryCategory.EPISODIC,
                source_ids=("x", "y"),
            )
            ledger.syntheses.plan([part])
            held = present(ledger.syntheses.claim(COMPANY, part.key, lease=timedelta(minutes=1)))
            ledger.syntheses.wait_together(held, until=now, reason="away", away_since=since)
            since += timedelta(hours=1)
    since = now - timedelta(hours=3)
    said = f"2 runs wait for a model that is away since {since:%Y-%m-%d %H:%M} UTC"

    found = checks([CheckResult(**each) for each in memtend("doctor", "--json").value])
    lines = lines_of(memtend("doctor"))

    assert (found["model answers"].ok, found["model answers"].seen) == (False, said)
    assert said in " ".join(line.strip() for line in lines)


def test_questions_without_an_answer_are_told_with_the_first_time(memtend: CommandLine, urls: LedgerUrls) -> None:
    assert "unanswered questions" not in memtend("doctor").out
    with closing(Ledger.open(urls)) as ledger:
        for agent_id, purpose in (("a", f"{MERGE_PURPOSE}episodic"), ("b", f"{SHORTEN_PURPOSE}social"), ("c", "other")):
            asked = present(
                ledger.answers.claim_question(
                    COMPANY, agent_id, agent_id=agent_id, run_id="run", purpose=purpose, lease=timedelta(minutes=1)
                )
            )
            ledger.answers.fail(COMPANY, agent_id, asked.token or "", "away")
        unanswered = ledger.answers.unanswered(COMPANY, "system:")
    assert unanswered is not None
    assert datetime.now(UTC) - unanswered[2] < timedelta(minutes=1)

    found = checks([CheckResult(**each) for each in memtend("doctor", "--json").value])

    said = f"2 about memories of 2 agents since {unanswered[2]:%Y-%m-%d %H:%M} UTC; runs ask again"
    assert found["unanswered questions"].seen == said
    assert found["unanswered questions"].ok
    lines_of(memtend("doctor"))


def test_the_doctor_says_what_a_model_would_add_and_that_is_no_defect(memtend: CommandLine, settings: Settings) -> None:
    [line] = [line for line in lines_of(memtend("doctor")) if line.startswith("advice")]
    assert line == "advice       ok     dedupe asks no model; llm would merge old talk in writing"
    policy = settings.home / "policy.yaml"
    policy.write_text("memory:\n  consolidation:\n    strategy: llm\n  llm:\n    model: m\n", encoding="utf-8")
    assert not list(what_a_model_adds(settings.model_copy(update={"policy_path": policy})))


def _same(now: datetime) -> datetime:
    return now


def test_a_failed_run_is_made_good_by_the_next_one(urls: LedgerUrls) -> None:
    at = datetime.now(UTC) - timedelta(hours=3)
    seen: list[int] = []
    for hours, state in enumerate((WorkState.FAILED, WorkState.FAILED, WorkState.DONE)):
        now = at + timedelta(hours=hours)
        ledger = Ledger.open(urls, clock=partial(_same, now))
        run = present(ledger.runs.create(NewRun(company=COMPANY, agent_id="a", planned_at=now)))
        taken = present(ledger.runs.claim(run.company, run.run_id, lease=timedelta(minutes=1)))
        ledger.runs.finish(run.company, run.run_id, present(taken.token), state=state, counts={}, reason="why")
        seen.append(len(ledger.runs.failed(COMPANY, limit=10)))
        ledger.close()
    assert seen == [1, 1, 0]


def test_messages_that_no_worker_can_read_are_a_finding(settings: Settings, tmp_path: Path) -> None:
    with valkey_server(tmp_path / "valkey") as server:
        asked = settings.model_copy(update={"broker_url": server.url})
        found = checks(list(broker(asked)))
        assert found["broker"].ok
        assert found["unreadable messages"].ok
        assert found["queue memory.store"].seen == "0 waiting"
        with server.client() as client:
            client.lpush("unreadable", b"\x00\xff")
        found = checks(list(broker(asked)))
    assert (found["unreadable messages"].ok, found["unreadable messages"].seen) == (
        False,
        "1 wait to become dead letters",
    )


def test_of_a_well_stack_each_group_is_one_line_and_nothing_says_what_to_do(stack: StackAddress) -> None:
    memtend = CommandLine(home=stack.home)

    def wrong() -> set[str]:
        # Other tests leave runs that are held, failed or waiting, and turns that wait for a model.
        others = {"held runs", "language model"}
        return {each["check"] for each in memtend("doctor", "--json").value if not each["ok"]} - others

    wait_until(lambda: wrong() == set(), what="a well stack")
    lines = lines_of(memtend("doctor"))
    groups = ["parts", "files", "broker", "queues", "workers", "store", "ledger", "limits", "advice"]
    of_others = ("maintenance", "models")
    assert [line.split()[0] for line in lines if " ok " in line and not line.startswith(of_others)] == groups
    assert "->" not in "".join(line for line in lines if not line.startswith(" "))
    assert all(each["mend"] == "" for each in memtend("doctor", "--json").value if each["ok"])


def test_a_finding_names_its_group_only_where_its_look_has_another(settings: Settings) -> None:
    health_check = HealthCheck(name="x", group="store", take=lambda _: [found, replace(found, group="queues")])
    found = CheckResult(check="x", ok=True, seen="y")
    assert [each.group for each in take_all([health_check], settings)] == ["store", "queues"]
