"""A receipt is signed with the installation's key, and any change of it is seen."""

import json
from pathlib import Path

import pytest
from support.memories import NOW

from memcore.erasure.receipt import KEY_FILE, ErasureReceipt, PlaceReceipt, older_key, signed, verified
from memcore.errors import MemoryConfigError, MemoryInputError

KEY, OTHER = b"k" * 32, b"o" * 32


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


def test_what_was_signed_is_verified() -> None:
    text = signed(receipt(), KEY)
    assert verified(text, [OTHER, KEY], ErasureReceipt) == receipt()
    with pytest.raises(MemoryInputError, match="was not signed here"):
        verified(text, [OTHER], ErasureReceipt)


@pytest.mark.parametrize(("content", "key"), [(KEY.hex(), KEY), ("no key", None), (None, None)])
def test_the_key_of_an_earlier_release_is_read(tmp_path: Path, content: str | None, key: bytes | None) -> None:
    if content is not None:
        (tmp_path / KEY_FILE).write_text(content)
    assert older_key(tmp_path) == key


@pytest.mark.parametrize("field", ["agent_id", "requested_by", "signature"])
def test_a_changed_receipt_is_refused(field: str) -> None:
    content = json.loads(signed(receipt(), KEY))
    with pytest.raises(MemoryInputError, match="was not signed here"):
        verified(json.dumps({**content, field: "bob"}), [OTHER, KEY], ErasureReceipt)


def test_a_changed_count_is_refused() -> None:
    content = json.loads(signed(receipt(), KEY))
    content["places"]["store"]["found"] = 8
    with pytest.raises(MemoryInputError, match="was not signed here"):
        verified(json.dumps(content), [OTHER, KEY], ErasureReceipt)


@pytest.mark.parametrize("text", ["", "[]", "{}", "no receipt"])
def test_what_is_no_receipt_is_refused(text: str) -> None:
    with pytest.raises(MemoryInputError, match="is no receipt"):
        verified(text, [KEY], ErasureReceipt)


def test_without_a_key_nothing_is_verified() -> None:
    with pytest.raises(MemoryConfigError, match="no key"):
        verified("{}", [], ErasureReceipt)
