"""A running stack tells a real receiver of a held run and a dead job, whatever the receiver does at first."""

import json
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from redis import Redis
from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import StackAddress, running_stack, wait_until
from support.webhook_server import Listener, listening

from examples.webhooks.verify import verify
from memcore.clock import utc_now
from memcore.jobs import Queue
from memcore.ledger.ledger import Ledger


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    environ = {"MEMTEND_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1", "MEMTEND_SWEEP_SECONDS": "1"}
    with running_stack(tmp_path_factory.mktemp("webhooks") / "home", **environ) as address:
        yield address


@pytest.fixture
def ledger(stack: StackAddress) -> Iterator[Ledger]:
    opened = Ledger.open(stack.settings.ledger_urls)
    yield opened
    opened.close()


def _added(memtend: CommandLine, url: str, name: str, *events: str) -> str:
    """Add a webhook, and return its secret."""
    options = [word for event in events for word in ("--event", event)]
    return memtend.ok("webhooks", "add", url, *options, "--by", "Ada", "--name", name).out.strip()


def _deliveries(memtend: CommandLine, name: str, *options: str) -> list[dict[str, Any]]:
    return list(memtend.ok("webhooks", "deliveries", "--webhook", name, *options, "--json").value)


def _hold_a_run(memtend: CommandLine) -> str:
    """Let a run be held that would remove most of an agent's memories, and return its id."""
    agent = new_agent()
    memtend.ok("agents", "add", agent, "--interval", "never", "--max-memories", "10")
    lines = [{"agent_id": agent, "category": "semantic", "content": f"{agent} hunter2 {n}"} for n in range(40)]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    held = memtend("maintain", agent, "--json").value
    assert held["state"] == "held"
    return str(held["run_id"])


@pytest.mark.slow(because="a stack's workers hold a run and try three times, a second's sweep apart")
def test_a_held_run_and_a_dead_job_reach_a_receiver_that_fails_twice(
    memtend: CommandLine, stack: StackAddress, ledger: Ledger, listener: Listener
) -> None:
    listener.script = [500, 503]
    secret = _added(memtend, listener.url, "pager", "run.held", "job.dead")
    run_id = _hold_a_run(memtend)
    with Redis.from_url(stack.settings.broker_url) as broker:
        broker.lpush(str(Queue.STORE_0), "no message but hunter2")

    def states() -> dict[str, str]:
        # The pauses behind a failure are those that `resume` cuts short.
        ledger.work.hasten(stack.settings.company)
        return {each["event"]: each["state"] for each in _deliveries(memtend, "pager")}

    wait_until(lambda: states() == {"run.held": "done", "job.dead": "done"}, what=states)
    assert len(listener.requests) == 4
    assert len({headers["webhook-id"] for headers, _ in listener.requests}) == 2
    now = utc_now().timestamp()
    assert all(verify(headers, body, secret, now=now) for headers, body in listener.requests)
    assert not any(b"hunter2" in body for _, body in listener.requests)
    bodies = {each["type"]: each["data"] for each in listener.heard}
    assert bodies["run.held"]["run_id"] == run_id
    assert bodies["job.dead"]["job_id"] in {each["job_id"] for each in memtend.ok("dead", "list", "--json").value}
    log = (stack.home / "logs" / "worker-store.log").read_text(errors="replace")
    assert "hunter2" not in log


@pytest.mark.slow(because="three held runs, and a try that hangs for its ten seconds")
def test_a_receiver_that_hangs_holds_up_no_other_and_what_failed_is_sent_again(
    memtend: CommandLine, ledger: Ledger, listener: Listener
) -> None:
    with listening() as hanging:
        hanging.goes_on.clear()
        _added(memtend, hanging.url, "hanging", "run.held")
        _added(memtend, listener.url, "well", "run.held")
        for _ in range(3):
            _hold_a_run(memtend)
        wait_until(lambda: len({h["webhook-id"] for h, _ in listener.requests}) == 3, what="the receiver that is well")
        assert not any(each["state"] == "done" for each in _deliveries(memtend, "hanging"))
        memtend.ok("webhooks", "disable", "hanging", "--by", "Ada")
        hanging.goes_on.set()

        def ended() -> bool:
            ledger.work.hasten("default")
            return all(each["state"] in {"failed", "done"} for each in _deliveries(memtend, "hanging"))

        wait_until(ended, what="the deliveries to the disabled webhook")
        failed = _deliveries(memtend, "hanging", "--failed")
        assert failed
        memtend.ok("webhooks", "enable", "hanging", "--by", "Ada")
        sent = memtend.ok("webhooks", "replay", "--failed", "--webhook", "hanging", "--by", "Ada", "--json").value
        assert sent == {"replayed": len(failed)}
        wait_until(lambda: not _deliveries(memtend, "hanging", "--failed") and ended(), what="the replay")


def test_a_person_tries_a_webhook_and_sees_what_is_wrong(memtend: CommandLine, listener: Listener) -> None:
    _added(memtend, listener.url, "tried", "run.failed")
    tried = memtend.ok("webhooks", "test", "tried", "--by", "Ada", "--json").value
    assert (tried["event"], tried["state"], tried["status"]) == ("ping", "done", 204)
    again = memtend.ok("webhooks", "replay", tried["delivery_id"], "--by", "Ada", "--json").value
    assert again == {"replayed": 1}
    wait_until(lambda: len(listener.requests) == 2 and _deliveries(memtend, "tried")[0]["state"] == "done", what="it")
    assert len({headers["webhook-id"] for headers, _ in listener.requests}) == 1
    listener.status = 410
    gone = memtend("webhooks", "test", "tried", "--by", "Ada", "--json")
    assert (gone.code, gone.value["state"], gone.value["status"]) == (1, "failed", 410)
    (hook,) = [each for each in memtend.ok("webhooks", "list", "--json").value if each["name"] == "tried"]
    assert hook["state"] == "disabled"
    findings = {each["check"]: each for each in memtend("doctor", "--json").value}
    assert findings["webhook tried"]["ok"] is False
    assert "410" in findings["webhook tried"]["seen"]
    assert memtend("webhooks", "test", "tried", "--by", "Ada").code == 2
    memtend.ok("webhooks", "remove", "tried", "--by", "Ada")
    assert "webhook tried" not in {each["check"] for each in memtend("doctor", "--json").value}
    for wrong in (("https://169.254.169.254/",), ("http://example.com/",), ("https://example.com/", "--name", "a b")):
        assert memtend("webhooks", "add", *wrong, "--event", "run.held", "--by", "Ada").code == 2
    assert memtend("webhooks", "replay", "--by", "Ada").code == 2
    assert memtend("webhooks", "rotate", "nobody", "--by", "Ada").code == 1
