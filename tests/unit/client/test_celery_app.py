import sys

import pytest

from memcore.client.publisher import JobResults, OwnCelery

#: What the shell of somebody who develops with Celery and Django has set.
THEIRS = {
    "APP": "theirs",
    "BROKER_URL": "redis://theirs:6379/0",
    "CELERY_BROKER_READ_URL": "redis://theirs:6379/0",
    "CELERY_BROKER_URL": "redis://theirs:6379/0",
    "CELERY_BROKER_WRITE_URL": "redis://theirs:6379/0",
    "CELERY_CONFIG_MODULE": "theirs",
    "CELERY_LOADER": "theirs:Loader",
    "CELERY_RESULT_BACKEND": "redis://theirs:6379/0",
    "CONFIG_MODULE": "theirs",
    "DJANGO_SETTINGS_MODULE": "theirs",
    "LOADER": "theirs:Loader",
    "RESULT_BACKEND": "redis://theirs:6379/0",
}

OURS, RESULTS = "redis://ours:6379/0", "redis://ours:6379/1"


@pytest.fixture(autouse=True)
def _in_a_project_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in THEIRS.items():
        monkeypatch.setenv(name, value)


def test_the_client_speaks_to_the_broker_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.path)
    sender = JobResults(OURS, RESULTS)
    assert sender._app.connection_for_write().hostname == "ours"
    assert sender._outcomes.backend.url == RESULTS
    assert sys.path == before
    monkeypatch.delenv("CELERY_RESULT_BACKEND")
    assert JobResults(OURS, None)._outcomes.conf.result_backend is None


@pytest.mark.parametrize("is_set_later", [True, False])
def test_an_app_is_what_its_caller_says(is_set_later: bool) -> None:
    app = OwnCelery("ours") if is_set_later else OwnCelery("ours", broker=OURS, backend=RESULTS)
    app.conf.update(**({"broker_url": OURS, "result_backend": RESULTS} if is_set_later else {}), task_acks_late=True)
    assert {app.connection_for_read().hostname, app.connection_for_write().hostname} == {"ours"}
    assert app.backend.url == RESULTS
    assert (app.conf.task_acks_late, app.conf.broker_url, app.conf.result_backend) == (True, OURS, RESULTS)


def test_a_command_runs_for_the_app_and_not_for_one_of_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert not OwnCelery("ours", broker=OURS, backend=RESULTS).start(["report"])
    said = capsys.readouterr().out
    assert "@ours:6379/0" in said
    assert "theirs" not in said
