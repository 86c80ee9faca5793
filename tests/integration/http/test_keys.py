"""`memtend keys` and the API that `memtend up` runs: a key that a person makes opens it, a revoked one does not."""

import os
import signal
from ipaddress import IPv4Address

import httpx
from support.command_line import CommandLine
from support.running_stack import StackAddress, wait_until

from memcore.config.settings import Settings
from ops.http.serve import Listen, is_loopback
from workers.health import Heartbeat

#: Every address of this machine.
ANYWHERE = str(IPv4Address(0))


def _url(settings: Settings) -> str:
    text = (settings.home / "run" / "doors.json").read_text()
    return f"http://127.0.0.1:{httpx.Response(200, text=text).json()['serve_port']}"


def test_a_key_opens_the_door_of_the_stack_until_it_is_revoked(stack: StackAddress, memtend: CommandLine) -> None:
    url = _url(stack.settings)
    made = ("keys", "create", "engine", "--by", "Ada", "--agent", "oncall", "--min-authority", "inform")
    token = memtend.ok(*made).out.strip()
    again = memtend("keys", "create", "engine", "--by", "Ada")
    assert (again.code, f"name: is that of key {token.split('_')[1]}: revoke it first" in again.err) == (2, True)
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=600) as client:
        assert client.post("/v1/agents/oncall/search", json={"text": "pages"}).json() == {"memories": []}
        assert client.post("/v1/agents/other/search", json={"text": "pages"}).status_code == 403

        (shown,) = [each for each in memtend.ok("keys", "list", "--json").value if each["key_id"] in token]
        assert (shown["agents"], shown["verbs"]) == (["oncall"], ["read", "write"])
        assert shown["min_authority"] == "inform"
        assert token.split("_")[2] not in memtend.ok("keys", "list", "--json").out

        memtend.ok("keys", "revoke", shown["key_id"], "--by", "Ada")
        wait_until(lambda: client.post("/v1/agents/oncall/search", json={}).status_code == 401)
    lines = memtend.ok("audit", "--actor", "Ada", "--json").value
    assert [line["action"] for line in lines] == ["keys.revoke", "keys.create"]


def test_without_a_key_only_health_and_the_document_are_open(stack: StackAddress) -> None:
    with httpx.Client(base_url=_url(stack.settings), timeout=600) as client:
        assert client.get("/health").json() == {"status": "ok"}
        parts = {"ledger": True, "broker": True, "store": True}
        assert client.get("/ready").json() == {"is_ready": True, **parts, "waiting": []}
        assert "/v1/agents/{agent_id}/search" in client.get("/openapi.json", timeout=600).json()["paths"]
        assert "/openapi.json" in client.get("/docs").text
        for token in ("", "Bearer", "Bearer mt_0_0", "Basic YTpi"):
            answer = client.post("/v1/agents/a/search", json={}, headers={"Authorization": token})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="memtend"')


def test_ready_names_the_worker_that_takes_no_jobs(stack: StackAddress) -> None:
    pid = stack.pid("worker-night")
    assert pid is not None
    with httpx.Client(base_url=_url(stack.settings), timeout=600) as client:
        os.kill(pid, signal.SIGSTOP)
        try:
            # As half a minute later.
            os.utime(Heartbeat.of(stack.home, "worker-night").path, (0, 0))
            wait_until(lambda: client.get("/ready").status_code == 503)
            answer = client.get("/ready").json()
            assert (answer["is_ready"], answer["ledger"], answer["waiting"]) == (False, True, ["worker-night"])
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: client.get("/ready").status_code == 200)


def test_a_wrong_key_command_makes_nothing(memtend: CommandLine) -> None:
    before = memtend.ok("keys", "list", "--json").value
    assert memtend("keys", "create", "x", "--by", "Ada", "--verb", "everything").code == 2
    assert "min_authority: " in memtend("keys", "create", "x", "--by", "Ada", "--min-authority", "most").err
    assert memtend("keys", "revoke", "none", "--by", "Ada").code == 1
    assert memtend.ok("keys", "list", "--json").value == before


def test_no_auth_is_refused_off_loopback(memtend: CommandLine) -> None:
    refused = memtend("serve", "--no-auth", "--host", ANYWHERE, "--port", "0")
    assert (refused.code, "no_auth" in refused.err) == (2, True)
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback(ANYWHERE)
    assert not is_loopback("localhost.example.org")
    assert Listen().options.requires_key
