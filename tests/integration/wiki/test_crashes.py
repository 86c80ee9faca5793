"""An export that dies anywhere leaves the old wiki or the new one, and the next export clears up after it."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.experiences import experience
from support.fault_injection import AT_CALLS
from support.wiki_fixture import COMPANY, WikiFixture

from memcore.wiki import exporter as agent_export
from memcore.wiki import folders as atomic_replace
from memcore.wiki.folders import AgentFolder, WikiBusyError

#: Every call by which an export changes the disk.
CHANGES = ("open", "fsync", "mkdir", "rename", "replace", "unlink", "rmdir")

#: What a child that died says; no child that lives says it.
DIED = 77


def dying(at: int, *, when_done: bool) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what makes this process die at the n-th change of the disk, before it or after it."""
    left = [at]

    def patched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and not when_done:
                os._exit(DIED)
            is_last = left[0] == 0
            try:
                return real(*args, **kwargs)
            finally:
                if is_last:
                    os._exit(DIED)

        return call

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for name in CHANGES:
            monkeypatch.setattr(os, name, patched(getattr(os, name)))
        monkeypatch.setattr(atomic_replace, "_exchanged", patched(atomic_replace._exchanged))

    return patch


def in_a_child(work: Callable[[], object]) -> int:
    """Do it in a child and return the child's exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  # a child must not go on with the parent's tests
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "aside"])
@pytest.mark.parametrize("when_done", AT_CALLS)
async def test_whoever_looks_sees_the_old_wiki_or_the_new_one(
    library: WikiFixture, monkeypatch: pytest.MonkeyPatch, *, when_done: bool, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(atomic_replace, "_exchanged", lambda _new, _old: False)
    await library.fill(raw=1, lessons=1)
    await library.exporter().export(["ada"])
    old = library.files()
    saved = library.home.with_name("saved")
    shutil.copytree(library.root, saved)
    library.ledger.experiences.append(COMPANY, experience("ada-e9"))
    await library.exporter().export(["ada"])
    new = library.files()
    assert set(new) - set(old) == {"raw/ada-e9.md"}

    points = 0
    for at in range(1, 200):
        shutil.rmtree(library.root)
        shutil.copytree(saved, library.root)

        def work(at: int = at) -> None:
            with pytest.MonkeyPatch.context() as patch:
                dying(at, when_done=when_done)(patch)
                asyncio.run(library.exporter().export(["ada"]))

        code = await asyncio.to_thread(in_a_child, work)
        seen = library.files() if can_exchange or (library.root / "ada").exists() else None
        assert seen in ((old, new) if can_exchange else (old, new, None)), at
        await library.exporter().export(["ada"])
        assert library.files() == new
        assert library.leftovers() == set()
        if code == 0:
            break
        assert code == DIED
        points += 1
    assert points >= 15
    print(f"{points} points")  # noqa: T201  # how much was tried


async def test_a_file_that_cannot_be_written_leaves_the_old_wiki(
    library: WikiFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await library.fill(raw=3, lessons=1)
    await library.exporter().export(["ada"])
    old = library.files()
    library.ledger.experiences.append(COMPANY, experience("ada-e9"))
    real = AgentFolder.add

    def full(self: AgentFolder, place: str, content: bytes) -> None:
        if place == "raw/ada-e1.md":
            raise OSError(28, "No space left on device")
        real(self, place, content)

    monkeypatch.setattr(AgentFolder, "add", full)
    (done,) = await library.exporter().export(["ada"])
    assert (done.raw_count, done.failed_count, done.is_published) == (3, 1, False)
    assert done.reason == "1 files could not be written; the export before stays"
    assert library.files() == old
    assert library.leftovers() == set()
    assert "wiki.export.file_failed" in caplog.messages

    monkeypatch.setattr(AgentFolder, "add", real)
    (done,) = await library.exporter().export(["ada"])
    assert (done.raw_count, done.failed_count, done.is_published) == (4, 0, True)


async def test_a_disk_that_refuses_everything_is_not_tried_for_each_file(
    library: WikiFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await library.fill(raw=30, lessons=5)

    def full(_self: AgentFolder, _place: str, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(AgentFolder, "add", full)
    (done,) = await library.exporter().export(["ada"])
    assert agent_export.MAX_FAILURES <= done.failed_count < agent_export.MAX_FAILURES + agent_export.WRITERS
    assert not done.is_published
    assert not (library.root / "ada").exists()


async def test_two_exports_of_one_agent_do_not_meet(library: WikiFixture) -> None:
    await library.fill()
    await library.fill("bob")
    with AgentFolder(library.root, "ada"), pytest.raises(WikiBusyError), AgentFolder(library.root, "ada"):
        pass
    with AgentFolder(library.root, "ada"):
        ada, bob = await library.exporter().export(["ada", "bob"])
    assert (ada.is_published, bob.is_published) == (False, True)
    assert ada.reason is not None
    assert "another export of this agent is under way" in ada.reason
    (ada,) = await library.exporter().export(["ada"])
    assert ada.is_published


def test_a_reader_meets_no_moment_without_a_wiki(tmp_path: Path) -> None:
    """The exchange is one step: a child that looks all the time never misses the folder."""
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "index.md").write_text("there")
    if not atomic_replace._exchanged(new, old):
        pytest.skip("this file system cannot exchange two names")
    stop = tmp_path / "stop"

    def health_check() -> None:
        while not stop.exists():
            (old / "index.md").read_text()

    child = os.fork()
    if child == 0:
        try:
            health_check()
        except BaseException:  # noqa: BLE001  # as above
            os._exit(1)
        os._exit(0)
    for _ in range(2_000):
        atomic_replace.atomic_replace(new, old, aside=tmp_path / "aside")
    stop.touch()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
