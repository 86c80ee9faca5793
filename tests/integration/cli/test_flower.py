"""Flower asks for its password everywhere, and `memtend up` says where it is without saying what it is."""

import asyncio
import base64
import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flower.urls import handlers
from flower.utils.broker import Broker, RedisBase
from support.running_stack import StackAddress
from support.valkey_servers import valkey_server

from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import Publisher
from memcore.jobs import Queue, StorePayload
from ops.flower import count_sorted
from workers.broker import broker_app

#: What anybody may see: that it is there, its style sheets, and that a page is not.
OPEN = {"/healthcheck", "/login/?", "/logout", "/static/(.*)", ".*"}


def paths() -> list[str]:
    """Return a path for every page of Flower that is not open."""
    patterns = [each[0] if isinstance(each, tuple) else each.regex.pattern.removesuffix("$") for each in handlers]
    return [each.replace("(.+)", "x").replace("(.*)", "x") for each in patterns if each not in OPEN]


def status(stack: StackAddress, path: str, *, method: str = "GET", password: str | None = None) -> tuple[int, bytes]:
    url = urlsplit(stack.settings.flower_url or "")
    headers = {}
    if password is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"memtend:{password}".encode()).decode()
    line = http.client.HTTPConnection(url.hostname or "", url.port, timeout=600)
    try:
        line.request(method, path, headers=headers)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


@pytest.mark.parametrize("path", paths())
def test_no_page_of_flower_answers_without_its_password(stack: StackAddress, path: str) -> None:
    for method in ("GET", "POST"):
        code, body = status(stack, path, method=method)
        assert code in {401, 405}, (method, code)
        assert b"memory." not in body
    assert status(stack, path, password="wrong")[0] in {401, 405}


def test_its_metrics_answer_to_its_password_and_its_health_to_anybody(stack: StackAddress) -> None:
    code, body = status(stack, "/metrics", password=urlsplit(stack.settings.flower_url or "").password)
    assert code == 200
    assert b"flower_" in body
    assert status(stack, "/healthcheck") == (200, b"OK")


def test_up_prints_an_address_to_click_on_the_user_and_the_place_of_the_password(stack: StackAddress) -> None:
    url = urlsplit(stack.settings.flower_url or "")
    said = (stack.home.parent / f"{stack.home.name}.up.log").read_text()
    addresses = stack.home / "run" / "doors.json"
    assert f"Flower: http://{url.hostname}:{url.port}/ " in said
    assert f"user memtend, password: flower_password in {addresses}" in said
    assert json.loads(addresses.read_bytes())["flower_password"] == url.password


def test_its_queues_have_what_workers_sorted_too(
    stack: StackAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RedisBase, "queues", RedisBase.queues)
    name = str(Queue.STORE_BULK)
    with valkey_server(tmp_path) as broker:
        settings = stack.settings.model_copy(update={"broker_url": broker.url})
        job = OutgoingJob(job_id="job-1", queue=name, payload="{}", summary="1 memories")
        app = broker_app(settings)
        Publisher(app).publish(StorePayload.task, [job] * 3, track=False)
        app.connection().default_channel.basic_get(name)
        count_sorted(settings)
        counted = asyncio.run(Broker(broker.url).queues([name]))
        app.close()
    assert counted == [{"name": name, "messages": 2}]


def test_no_log_holds_a_password(stack: StackAddress) -> None:
    addresses = json.loads((stack.home / "run" / "doors.json").read_bytes())
    secrets = [str(value).encode() for name, value in addresses.items() if not name.endswith("_port")]
    logs = [*(stack.home / "logs").iterdir(), stack.home.parent / f"{stack.home.name}.up.log"]
    assert len(logs) > 7
    for log in logs:
        assert not any(secret in log.read_bytes() for secret in secrets), log
