"""A receipt is signed with the installation's key, and any change of it is seen."""

import json
from pathlib import Path
from stat import S_IMODE

import pytest
from support.memories import NOW

from memcore.erasure.receipt import KEY_FILE, ErasureReceipt, PlaceReceipt, signed, signing_key, verified
from memcore.errors import MemoryConfigError, MemoryInputError


def receipt() -> ErasureReceipt:
    return ErasureReceipt(
        erasure_id="e-1",
        company="acme",
        agent_id="ada",
        subject=None,
        requested_by="grace",
        requested_at=NOW,
        finished_at=NOW,
        places={"store": PlaceReceipt(found=7, left=0)},
        rewritten=("store",),
        remains=("backups",),
        checkpoints=(),
    )


def test_what_was_signed_is_verified(tmp_path: Path) -> None:
    text = signed(receipt(), signing_key(tmp_path))
    assert verified(text, home=tmp_path) == receipt()
    assert S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


def test_the_key_is_made_once(tmp_path: Path) -> None:
    assert signing_key(tmp_path) == signing_key(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize("field", ["agent_id", "requested_by", "signature"])
def test_a_changed_receipt_is_refused(tmp_path: Path, field: str) -> None:
    content = json.loads(signed(receipt(), signing_key(tmp_path)))
    with pytest.raises(MemoryInputError, match="was not signed here"):
        verified(json.dumps({**content, field: "bob"}), home=tmp_path)


def test_a_changed_count_is_refused(tmp_path: Path) -> None:
    content = json.loads(signed(receipt(), signing_key(tmp_path)))
    content["places"]["store"]["found"] = 8
    with pytest.raises(MemoryInputError, match="was not signed here"):
        verified(json.dumps(content), home=tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "no receipt"])
def test_what_is_no_receipt_is_refused(tmp_path: Path, text: str) -> None:
    signing_key(tmp_path)
    with pytest.raises(MemoryInputError, match="is no receipt"):
        verified(text, home=tmp_path)


def test_without_a_key_nothing_is_verified(tmp_path: Path) -> None:
    with pytest.raises(MemoryConfigError, match=r"erasure\.key"):
        verified("{}", home=tmp_path)
