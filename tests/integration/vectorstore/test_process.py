"""The store server as a process: killed, stopped, started twice, started wrongly."""

import shutil
import signal
import threading
import uuid
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from qdrant_client import models as m
from qdrant_client.http.exceptions import ResponseHandlingException
from support.command_line import CommandLine
from support.store_servers import StoreAddress, start_store, stop, store_server

from memcore.config.settings import Settings
from memcore.vectorstore.server import main
from ops.cli.running.health_checks import collections

NAME = "memories"


def _create(address: StoreAddress) -> None:
    client = address.client()
    client.create_collection(
        NAME,
        vectors_config=m.VectorParams(size=8, distance=m.Distance.COSINE),
        sparse_vectors_config={"bm25": m.SparseVectorParams(modifier=m.Modifier.IDF)},
    )
    client.create_payload_index(NAME, "agent_id", m.PayloadSchemaType.KEYWORD)
    client.close()


def _point(number: int) -> m.PointStruct:
    words = m.SparseVector(indices=[number % 40], values=[1.0])
    vector = {"": [1.0, number / 1000, *[0.5] * 6], "bm25": words}
    return m.PointStruct(id=str(uuid.UUID(int=number)), vector=vector, payload={"agent_id": "a", "n": number})


def test_kill_minus_nine_loses_no_answered_write(tmp_path: Path) -> None:
    address = start_store(tmp_path)
    _create(address)
    answered: set[int] = set()
    enough = threading.Event()

    def write(first: int) -> None:
        client = address.client()
        for number in range(first, 5000, 4):
            try:
                # Of four writers two ask to wait.
                client.upsert(NAME, [_point(number)], wait=first < 2)
            except ResponseHandlingException:
                break
            answered.add(number)
            if len(answered) >= 200:
                enough.set()
        client.close()

    writers = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for writer in writers:
        writer.start()
    assert enough.wait(60)
    address.process.kill()
    for writer in writers:
        writer.join()
    assert stop(address.process) == -signal.SIGKILL
    with store_server(tmp_path) as again:
        client = again.client()
        found = {record.payload["n"] for record in client.scroll(NAME, limit=10_000)[0] if record.payload}
        assert answered <= found
        assert len(found) <= len(answered) + len(writers)
        assert client.get_collection(NAME).payload_schema["agent_id"].points == len(found)
        client.close()


def test_sigterm_ends_cleanly_keeps_everything_and_answers_a_request_under_way(tmp_path: Path) -> None:
    with store_server(tmp_path) as address:
        _create(address)
        client = address.client()
        client.upsert(NAME, [_point(number) for number in range(700)], wait=False)
        stopper = threading.Timer(0, address.process.terminate)
        points = [_point(number) for number in range(700, 2200)]
        # the body is on its way when the signal comes, or it never was: what is answered must be there
        stopper.start()
        answered = True
        try:
            client.upsert(NAME, points, wait=True)
        except ResponseHandlingException:
            answered = False
        client.close()
        assert address.process.wait(60) == 0
    with store_server(tmp_path) as again:
        client = again.client()
        assert client.count(NAME).count in ({2200} if answered else {700, 2200})
        client.close()


def test_a_second_owner_is_refused_in_one_sentence(shared_store: StoreAddress) -> None:
    code, said = _refused("--data", str(shared_store.data), "--api-key-file", "any")
    assert code == 2
    assert said.count("\n") == 1
    assert f"is owned by another store server (pid {shared_store.pid})" in said
    assert httpx.get(f"{shared_store.url}/readyz", timeout=600).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--api-key-file", "{tmp}/none"], "cannot be read"),
        (["--api-key-file", "{tmp}/empty"], "is empty"),
    ],
)
def test_a_server_that_cannot_start_says_why(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    (tmp_path / "empty").touch()
    code, said = _refused("--data", str(tmp_path / "data"), *(one.format(tmp=tmp_path) for one in arguments))
    assert code == 2
    assert sentence in said
    assert said.count("\n") == 1


def test_a_taken_port_is_told(tmp_path: Path, shared_store: StoreAddress) -> None:
    port = shared_store.url.rpartition(":")[2]
    code, said = _refused("--data", str(tmp_path), "--api-key-file", "any", "--port", port)
    assert code == 2
    assert f"port {port}" in said


def test_a_collection_that_cannot_be_opened_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    (tmp_path / "data" / "collections" / "odd").mkdir(parents=True)
    with store_server(tmp_path) as address, httpx.Client(base_url=address.url, timeout=600) as asking:
        _create(address)
        refused = asking.get("/readyz")
        assert (refused.status_code, "odd" in refused.text) == (200, False)
        assert "1 collections are refused" in refused.text
        asking.headers["api-key"] = address.api_key
        (issue,) = asking.get("/issues").json()["result"]["issues"]
        assert issue["related_collection"] == "odd"
        assert "`memtend vectors restore odd --from BACKUP`" in issue["description"]
        for answer in (asking.get("/collections/odd"), asking.post("/collections/odd/points/count", json={})):
            assert (answer.status_code, answer.json()["status"]["error"]) == (503, issue["description"])
        assert asking.put("/collections/odd", json={"vectors": {"size": 4, "distance": "Dot"}}).status_code == 503
        assert asking.get("/collections/odd/exists").json()["result"] == {"exists": True}
        assert asking.get(f"/collections/{NAME}").status_code == 200
        # it may be thrown away, by its name and nothing else
        assert asking.delete("/collections/odd").json()["result"] is True
        assert "odd" not in asking.get("/collections").text


def test_a_person_sees_a_refused_collection_and_brings_it_back(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    (home / "data").mkdir(parents=True)
    (home / "data" / "vectors").symlink_to(tmp_path / "data")
    with store_server(tmp_path) as address:
        _create(address)
        client = address.client()
        client.upsert(NAME, [_point(number) for number in range(300)], wait=True)
        client.close()
    shutil.copytree(tmp_path / "data", backup / "data" / "vectors")
    memtend = CommandLine(home=home)
    assert "not refused" in memtend("vectors", "accept", NAME).err
    (state,) = (tmp_path / "data").rglob("segment.json")
    for way in (("restore", NAME, "--from", str(backup)), ("accept", NAME)):
        state.write_text("{")
        # nobody knows how much it held, so that its log cannot prove that it has all
        (tmp_path / "data" / "collections" / NAME / "points.count").unlink()
        with store_server(tmp_path) as address:
            settings = Settings(
                broker_url="redis://127.0.0.1:1/0",
                database_url="sqlite:///none",
                qdrant_url=address.url,
                qdrant_api_key=SecretStr(address.api_key),
                home=home,
            )
            (seen,) = collections(settings)
            assert (seen.check, seen.ok) == (f"collection {NAME}", False)
            assert f"`memtend vectors {way[0]} {NAME}" in seen.seen
            assert "is owned by another store server" in memtend("vectors", *way).err
        assert "300" in memtend.ok("vectors", *way).out
        with store_server(tmp_path) as address:
            client = address.client()
            assert client.count(NAME).count == 300
            assert list(collections(settings.model_copy(update={"qdrant_url": address.url}))) == []
            client.close()
        (state,) = (tmp_path / "data" / "collections" / NAME / "shard").rglob("segment.json")


def _refused(*arguments: str) -> tuple[int, str]:
    """Return the exit code and what is said of a server that cannot start, in this process: imports take seconds."""
    errors = StringIO()
    with redirect_stderr(errors):
        return main(arguments), errors.getvalue()
