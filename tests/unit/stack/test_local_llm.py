"""The file of weights is checked before anything starts; its model's settings are those that a policy leaves open."""

from pathlib import Path

import pytest

from memcore.config.loader import load_policy
from memcore.config.settings import Settings
from memcore.errors import MemoryInputError
from memcore.extras import EXTRAS
from workers.stack.home import create_folders, reserve_addresses
from workers.stack.local_llm import checked_weights, local_llm


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were installed."""
    monkeypatch.setitem(EXTRAS, "local-llm", ("json",))


@pytest.mark.usefixtures("installed")
def test_a_file_that_can_be_served_is_named_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF\x03")
    monkeypatch.chdir(tmp_path)
    assert checked_weights(Path("small.gguf")) == tmp_path / "small.gguf"


@pytest.mark.usefixtures("installed")
def test_any_other_file_is_refused_by_the_name_of_the_option(tmp_path: Path) -> None:
    wrong, empty = tmp_path / "wrong.gguf", tmp_path / "empty.gguf"
    wrong.write_bytes(b"PK\x03\x04")
    empty.touch()
    for path, why in {
        wrong: "is no GGUF file",
        empty: "is no GGUF file",
        tmp_path: "is not a regular file",
        tmp_path / "none": "cannot be read (No such file or directory)",
    }.items():
        with pytest.raises(MemoryInputError) as raised:
            checked_weights(path)
        assert raised.value.field == "local-llm"
        assert str(path) in raised.value.problem
        assert why in raised.value.problem


def test_without_the_extra_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "local-llm", ("no_such_module",))
    with pytest.raises(MemoryInputError, match=r"^local-llm: .*pip install 'memtend\[local-llm\]'$"):
        checked_weights(tmp_path)


def test_what_the_policy_says_wins_over_what_the_stack_would_take(tmp_path: Path) -> None:
    create_folders(tmp_path)
    addresses = reserve_addresses(tmp_path)
    settings = addresses.settings(tmp_path, tick_seconds=1, sweep_seconds=1).moved(addresses.of_local_llm("small"))
    own = settings.llm(load_policy("memory: {}").memory.llm)
    assert (own.model, own.context_tokens, own.timeout_seconds) == ("small", 8_192, 300.0)
    said = load_policy("memory: {llm: {model: mine, context_tokens: 4096, timeout_seconds: 7}}").memory.llm
    assert settings.llm(said) == said
    part = local_llm(tmp_path, addresses, Path("/w/small.gguf"), said)
    assert "--context=4096" in part.argv
    assert not any(addresses.llm_key in word for word in part.argv)


def test_an_address_of_the_environment_is_of_another_model(tmp_path: Path) -> None:
    create_folders(tmp_path)
    addresses = reserve_addresses(tmp_path)
    addresses.settings(tmp_path, tick_seconds=1, sweep_seconds=1).moved(addresses.of_local_llm("small")).save_stack()
    assert Settings.load({}, tmp_path).llm_local == "small"
    assert Settings.load({"MEMTEND_LLM_URL": "http://127.0.0.1:9/v1"}, tmp_path).llm_local is None
