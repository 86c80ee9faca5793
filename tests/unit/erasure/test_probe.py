"""A text is found in any file, in the forms in which files hold texts."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from memcore.erasure import probe as module
from memcore.erasure.probe import search_files
from memcore.errors import MemoryInputError

SECRET = "the vault's code is 7319, said Zoë"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (SECRET.encode(), "utf-8"),
        (json.dumps({"text": SECRET}).encode(), "json"),
        (SECRET.encode("utf-16-le"), "utf-16"),
        *((b64encode(b"x" * skip + SECRET.encode() + b"more"), "base64") for skip in range(5)),
    ],
)
def test_each_form_is_found(tmp_path: Path, content: bytes, encoding: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / ".hidden").write_bytes(b"\0\1" * 99 + content + b"\2")
    (hit,) = search_files(tmp_path, ["nothing like it", SECRET])
    assert (hit.file, hit.probe, hit.encoding) == ("deep/.hidden", 2, encoding)


def test_a_text_across_two_pieces_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", 24)
    (tmp_path / "file").write_bytes(b"." * 9 + SECRET.encode())
    assert [hit.encoding for hit in search_files(tmp_path, [SECRET])] == ["utf-8"]


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(SECRET[:-1].encode())
    assert search_files(tmp_path, [SECRET]) == []


@pytest.mark.parametrize("probes", [[], ["short"], [SECRET] * 1_001])
def test_what_would_say_nothing_is_refused(tmp_path: Path, probes: list[str]) -> None:
    with pytest.raises(MemoryInputError, match="probe"):
        search_files(tmp_path, probes)


def test_each_file_that_was_read_is_counted(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"text")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    seen: list[tuple[int, int]] = []
    search_files(tmp_path, [SECRET], lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
