"""What the running stack promises to the machine it runs on."""

import base64
import http.client
import subprocess
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from support.command_line import CommandLine
from support.running_stack import MEMTEND, StackAddress, clean_environ, running_stack, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

#: Writes a line for every process that asks for torch, whether it is installed or not.
SPY = """
import os, sys
class Spy:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            with open(os.environ["TORCH_SPY"], "a") as out:
                print(sys.argv, name, file=out)
        return None
sys.meta_path.insert(0, Spy())
with open(os.environ["TORCH_SPY"] + ".seen", "a") as out:
    print(os.getpid(), file=out)
"""

SECRET_TEXT = "zyzzyva whispers at midnight"


@pytest.fixture(scope="module")
def spy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spy")
    (folder / "sitecustomize.py").write_text(SPY)
    return folder / "torch"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, spy: Path) -> Generator[StackAddress]:
    """A stack that has done each kind of its work once."""
    home = tmp_path_factory.mktemp("stack") / "home"
    with running_stack(home, PYTHONPATH=str(spy.parent), TORCH_SPY=str(spy)) as address:
        memtend = CommandLine(home=home)
        memtend.ok("store", "keeper", SECRET_TEXT)
        run_id = memtend.ok("maintain", "keeper", "--json").value["run_id"]
        memtend.ok("runs", "undo", run_id)
        yield address


def test_no_process_of_the_stack_imports_torch(stack: StackAddress, spy: Path) -> None:
    family = stack.family()
    watched = set(map(int, Path(f"{spy}.seen").read_text().split()))
    python = {process.pid for process in family if "python" in process.name()}
    assert len(python & watched) >= 6
    assert not spy.exists(), spy.read_text()
    for process in family:
        assert "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text()


def test_nothing_of_the_stack_listens_beyond_loopback(stack: StackAddress) -> None:
    listening = [
        each
        for process in stack.family()
        for each in process.net_connections(kind="inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert len({each.laddr.port for each in listening}) == 3
    assert {each.laddr.ip for each in listening} == {"127.0.0.1"}


def test_a_second_stack_on_the_same_folder_is_refused_in_one_sentence(stack: StackAddress) -> None:
    before = {(part.name, part.pid) for part in stack.state.parts}
    second = subprocess.run(
        [MEMTEND, "up", "--home", stack.home],
        env=clean_environ(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert second.returncode == 2
    assert second.stderr == (
        f"memtend: a stack runs at {stack.home} already: stop it first, or choose another --home\n"
    )
    assert {(part.name, part.pid) for part in stack.state.parts} == before
    assert stack.process.poll() is None


def test_flower_asks_for_its_password_and_shows_no_word_of_a_memory(stack: StackAddress) -> None:
    url = urlsplit(stack.settings.flower_url or "")
    assert url.hostname is not None

    def get(path: str, credentials: str | None) -> tuple[int, str]:
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)
        try:
            headers = (
                {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"} if credentials else {}
            )
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    own = f"{url.username}:{url.password}"
    for path in ("/", "/api/tasks", "/api/workers", "/tasks"):
        assert get(path, None)[0] == 401
        assert get(path, "memtend:guess")[0] == 401
        assert get(path, own)[0] == 200
    memtend = CommandLine(home=stack.home)
    for number in range(3):
        memtend.ok("store", "keeper", f"{SECRET_TEXT} {number}")
    wait_until(lambda: "memory.store.write" in get("/api/tasks", own)[1], what="Flower to hear of a job")
    shown = get("/api/tasks", own)[1]
    assert "1 memories" in shown
    assert "zyzzyva" not in shown
    assert "zyzzyva" not in get("/tasks", own)[1]
