import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memcore.config import home_folder, settings
from memcore.config.settings import Settings, stack_path
from memcore.config.urls import masked
from memcore.errors import MemoryConfigError

SERVERS = {
    "MEMTEND_BROKER_URL": "redis://:hunter2@queue:6379/0",
    "MEMTEND_DATABASE_URL": "postgresql+psycopg://me:hunter2@ledger/memtend",
    "MEMTEND_QDRANT_URL": "http://vectors:6333/",
}

SECRETS = {"MEMTEND_QDRANT_API_KEY": "hunter2", "MEMTEND_APPROVALS_WEBHOOK": "https://hooks/hunter2/"}


def refused(environ: dict[str, str], home: Path) -> str:
    with pytest.raises(MemoryConfigError) as caught:
        Settings.load(environ, home)
    return str(caught.value)


def test_the_environment_says_where_things_run(tmp_path: Path) -> None:
    settings = Settings.load({**SERVERS, "MEMTEND_LOG_FORMAT": "json", "PATH": "/bin"}, tmp_path)

    assert settings.broker_url == SERVERS["MEMTEND_BROKER_URL"]
    assert settings.result_url == settings.broker_url
    assert settings.history_url == settings.database_url
    assert settings.ledger_urls.ledger == settings.ledger_urls.journal == settings.database_url
    assert (settings.tick_seconds, settings.sweep_seconds, settings.send_events) == (15.0, 15.0, False)
    assert settings.qdrant_url == "http://vectors:6333"
    assert (settings.company, settings.embedder, settings.policy_path) == ("default", "static", None)
    assert (settings.log_format, settings.log_level) == ("json", "INFO")
    assert settings.home == tmp_path


@pytest.mark.parametrize("broker", ["amqp://me:hunter2@queue/", "amqps://queue//", "pyamqp://queue", "rpc://"])
def test_a_broker_that_keeps_no_results_asks_for_a_place_for_them(broker: str, tmp_path: Path) -> None:
    reported = "MEMTEND_RESULT_URL: RabbitMQ keeps no results: should be redis://HOST or db+postgresql://USER@HOST/NAME"
    assert refused({**SERVERS, "MEMTEND_BROKER_URL": broker}, tmp_path) == reported
    assert refused({**SERVERS, "MEMTEND_RESULT_URL": broker}, tmp_path) == reported
    kept = Settings.load({**SERVERS, "MEMTEND_BROKER_URL": broker, "MEMTEND_RESULT_URL": "redis://results"}, tmp_path)
    assert (kept.broker_url, kept.result_url) == (broker, "redis://results")


def test_sentinels_are_asked_for_the_name_of_their_master(tmp_path: Path) -> None:
    assert refused({**SERVERS, "MEMTEND_BROKER_URL": "sentinel://a:26379;sentinel://b:26379/0"}, tmp_path) == (
        "MEMTEND_BROKER_URL: should name the master of its sentinels: sentinel://HOST:26379/0?master_name=NAME"
    )
    url = "sentinel://:hunter2@a:26379;sentinel://b:26379/0?master_name=queue"
    settings = Settings.load({**SERVERS, "MEMTEND_BROKER_URL": url}, tmp_path)
    assert settings.result_url == url
    assert "hunter2" not in repr(settings)


def test_without_servers_and_without_a_stack_the_way_on_is_told(tmp_path: Path) -> None:
    assert refused({}, tmp_path) == (
        f"nothing runs at {tmp_path}: start it with `memtend up`, "
        "or set MEMTEND_BROKER_URL, MEMTEND_DATABASE_URL, MEMTEND_QDRANT_URL to servers of your own"
    )


def test_an_address_alone_asks_for_the_others_and_never_mixes_with_a_stack(tmp_path: Path) -> None:
    Settings.load(SERVERS, tmp_path).save_stack()

    assert refused({"MEMTEND_QDRANT_URL": "http://elsewhere:6333"}, tmp_path) == (
        "MEMTEND_BROKER_URL and MEMTEND_DATABASE_URL must be set too, for MEMTEND_QDRANT_URL is set"
    )


def test_an_address_that_the_stack_uses_too_is_no_second_installation(tmp_path: Path) -> None:
    saved = Settings.load(SERVERS, tmp_path)
    saved.save_stack()

    assert Settings.load({"MEMTEND_QDRANT_URL": SERVERS["MEMTEND_QDRANT_URL"] + "/"}, tmp_path) == saved


def test_the_stack_of_the_data_folder_is_found_and_single_variables_override_it(tmp_path: Path) -> None:
    saved = Settings.load({**SERVERS, **SECRETS, "MEMTEND_COMPANY": "acme"}, tmp_path)
    path = saved.save_stack()

    assert path == stack_path(tmp_path)
    assert Settings.load({}, tmp_path) == saved
    assert Settings.load({"MEMTEND_HOME": str(tmp_path)}) == saved
    assert Settings.load({"MEMTEND_LOG_LEVEL": "DEBUG", "MEMTEND_COMPANY": ""}, tmp_path) == saved.model_copy(
        update={"log_level": "DEBUG"}
    )


def test_the_file_of_a_stack_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = Settings.load(SERVERS, tmp_path).save_stack()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["stack.json"]  # noqa: PTH208  # names are all that is asked

    path.chmod(0o640)

    assert refused({}, tmp_path) == f"{path}: must be readable by its owner alone; set its mode to 600"


@pytest.mark.parametrize("content", ["{", "[]", "\xff", '{"a": "' + "x" * 70_000 + '"}'])
def test_a_damaged_stack_file_is_named(tmp_path: Path, content: str) -> None:
    path = stack_path(tmp_path)
    path.parent.mkdir()
    path.touch(mode=0o600)
    path.write_text(content, encoding="latin-1")

    assert refused({}, tmp_path) == f"{path}: should be one JSON object; stop the stack and start it again"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"broker_ur": "redis://x"}, "broker_ur: unknown key; did you mean broker_url?"),
        ({"broker_url": "hunter2"}, "broker_url: should be a URL such as redis://127.0.0.1:6379/0"),
        ({"qdrant_url": None}, "qdrant_url: should be a valid string"),
    ],
)
def test_a_stack_file_of_another_make_is_refused_by_its_key(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    path = Settings.load(SERVERS, tmp_path).save_stack()
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    assert refused({}, tmp_path) == f"{path}: {sentence}"


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("MEMTEND_APPROVALS_WEBHOOK", "hunter2", "should be an http or https URL"),
        ("MEMTEND_BROKER_URL", "hunter2", "should be a URL such as redis://127.0.0.1:6379/0"),
        ("MEMTEND_QDRANT_URL", "redis://hunter2", "should be an http or https URL"),
        ("MEMTEND_LOG_LEVEL", "hunter2", "should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("MEMTEND_TICK_SECONDS", "0", "should be greater than 0"),
        ("MEMTEND_SWEEP_SECONDS", "3601", "should be less than or equal to 3600"),
        ("MEMTEND_TICK_SECONDS", "hunter2", "should be a valid number, unable to parse string as a number"),
        ("MEMTEND_LOG_FORMAT", "xml", "should be 'text' or 'json'"),
        ("MEMTEND_COMPANY", "a/b", "should be 1 to 63 letters, digits, - or _, beginning with a letter or digit"),
        ("MEMTEND_COMPANY", "a" * 64, "should be 1 to 63 letters, digits, - or _, beginning with a letter or digit"),
    ],
)
def test_a_wrong_variable_is_named_and_its_value_is_not(
    tmp_path: Path, variable: str, value: str, problem: str
) -> None:
    assert refused({**SERVERS, variable: value}, tmp_path) == f"{variable}: {problem}"


def test_a_wrong_variable_beside_a_stack_is_not_blamed_on_its_file(tmp_path: Path) -> None:
    Settings.load(SERVERS, tmp_path).save_stack()

    assert refused({"MEMTEND_EMBEDDER_HAS_GPU": "maybe"}, tmp_path) == (
        "MEMTEND_EMBEDDER_HAS_GPU: should be a valid boolean, unable to interpret input"
    )


def test_an_unknown_variable_is_warned_of_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings._warn_once.cache_clear()  # other tests of this process may have warned of the same
    unknown = {"MEMTEND_BROKER": "redis://hunter2", "MEMTEND_ZZZ": "hunter2"}
    loaded = [Settings.load({**SERVERS, **unknown}, tmp_path) for _ in range(3)]
    loaded[0].with_models(unknown)

    assert loaded[0] == Settings.load(SERVERS, tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        "memory.settings.unknown_variable: MEMTEND_BROKER: unknown variable; did you mean MEMTEND_BROKER_URL?",
        "memory.settings.unknown_variable: MEMTEND_ZZZ: unknown variable",
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


@pytest.mark.parametrize(
    "variable", ["MEMTEND_LOCOMO_DIR", "MEMTEND_KEY", "MEMTEND_TEST_QDRANT_URL", "MEMTEND_FINE_TUNE_HEALTH_PORT"]
)
def test_variables_of_benchmarks_and_tests_are_let_pass(tmp_path: Path, variable: str) -> None:
    assert Settings.load({**SERVERS, variable: "x"}, tmp_path) == Settings.load(SERVERS, tmp_path)


def test_no_password_shows(tmp_path: Path) -> None:
    secrets = {**SECRETS, "MEMTEND_FLOWER_URL": "http://memtend:hunter2@127.0.0.1:5555"}
    settings = Settings.load({**SERVERS, **secrets}, tmp_path)

    assert settings.send_events
    assert "hunter2" not in f"{settings!r} {settings}"
    assert "redis://***@queue:6379/0" in repr(settings)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:p@ss/w?rd@host/0", "redis://***@host/0"),
        ("sqlite:////srv/ledger.db", "sqlite:////srv/ledger.db"),
        ("amqps://host/v?password=hunter2&x=1", "amqps://host/v?password=***&x=1"),
        ("http://host/?api_key=hunter2", "http://host/?api_key=***"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_the_data_folder_is_the_one_given_or_named_or_the_users_own(tmp_path: Path) -> None:
    named = {"MEMTEND_HOME": str(tmp_path / "named"), "HOME": str(tmp_path)}

    assert home_folder(named, tmp_path / "given") == tmp_path / "given"
    assert home_folder(named) == tmp_path / "named"
    assert home_folder({"HOME": str(tmp_path)}) == tmp_path / ".memtend"
    assert home_folder({}, Path("relative")).is_absolute()


def test_settings_alone_load_neither_the_policy_nor_yaml() -> None:
    code = "import sys, memcore.config.settings; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert "memcore.config.settings" in loaded
    assert not {"yaml", "memcore.config.policy", "memcore.config.memory"} & set(loaded)
