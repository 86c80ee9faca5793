import sys
from pathlib import Path

import pytest
from support.memories import NOW
from support.store_items import item

from memcore import AsyncMemoryClient, MemoryClient
from memcore.client.envelopes import REMEMBERED_SECONDS, LevelChecker, Scope, build_payload
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError
from memcore.jobs import StoreItem
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.models.memory import MemoryCategory, MemoryLevel, MemoryStoreRequest

WORKING = MemoryStoreRequest(category=MemoryCategory.WORKING, content="x")


class Seconds:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "policy.yaml"


@pytest.fixture
def settings(policy: Path, sqlite_ledger: LedgerUrls) -> Settings:
    return Settings(
        broker_url="redis://127.0.0.1:1/0",
        qdrant_url="http://127.0.0.1:1",
        database_url=sqlite_ledger.ledger,
        journal_url=sqlite_ledger.journal,
        policy_path=policy,
        home=policy.parent,
        company="acme",
    )


def say(policy: Path, level: MemoryLevel) -> None:
    policy.write_text(f"memory: {{level: {level}}}")


def scoped(**scope: str) -> StoreItem:
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="x")
    return build_payload("ada", request, company="acme", sent_at=NOW, scope=Scope(**scope))


@pytest.mark.parametrize(("level", "field"), [(MemoryLevel.SESSION, "session_id"), (MemoryLevel.PROJECT, "project_id")])
def test_a_memory_without_the_id_of_its_level_is_refused(
    policy: Path, settings: Settings, level: MemoryLevel, field: str
) -> None:
    say(policy, level)
    levels = LevelChecker(settings)

    with pytest.raises(MemoryInputError) as caught:
        levels.check(item())

    assert caught.value.field == field
    assert f"level {level}" in caught.value.problem
    levels.check(scoped(**{field: "one"}))


@pytest.mark.parametrize("level", [MemoryLevel.PERSISTENT, MemoryLevel.NONE])
def test_other_levels_need_no_id(policy: Path, settings: Settings, level: MemoryLevel) -> None:
    say(policy, level)
    LevelChecker(settings).check(item())


def test_working_memory_ends_with_its_task_and_needs_no_session(policy: Path, settings: Settings) -> None:
    say(policy, MemoryLevel.SESSION)
    LevelChecker(settings).check(build_payload("ada", WORKING, company="acme", sent_at=NOW))


def test_an_agents_own_level_wins_and_a_change_is_heard_within_a_minute(
    policy: Path, settings: Settings, sqlite_ledger: LedgerUrls
) -> None:
    say(policy, MemoryLevel.SESSION)
    seconds = Seconds()
    levels = LevelChecker(settings, monotonic=seconds)
    ledger = Ledger.open(sqlite_ledger)
    ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PERSISTENT))

    levels.check(item())
    with pytest.raises(MemoryInputError):
        levels.check(item(agent_id="bob"))

    ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PROJECT))
    ledger.close()
    seconds.at = REMEMBERED_SECONDS + 1
    with pytest.raises(MemoryInputError, match="project_id"):
        levels.check(item())


def test_what_cannot_be_read_refuses_nothing(policy: Path, settings: Settings) -> None:
    LevelChecker(settings).check(item())  # there is no such file here
    say(policy, MemoryLevel.SESSION)
    lost = settings.model_copy(update={"database_url": "sqlite:////nowhere/at/all.db"})
    LevelChecker(lost).check(item())


def test_where_no_policy_is_named_the_first_memory_needs_no_session(settings: Settings) -> None:
    unnamed = LevelChecker(settings.model_copy(update={"policy_path": None}))
    unnamed.check(item())
    unnamed.check_experience("ada")


@pytest.mark.parametrize("module", ["memcore.config.loader", "memcore.ledger.ledger"])
def test_an_engine_without_the_libraries_that_would_tell_leaves_it_to_the_worker(
    policy: Path, settings: Settings, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(policy, MemoryLevel.SESSION)
    monkeypatch.setitem(sys.modules, module, None)  # importing it fails, as where YAML or SQLAlchemy is missing
    LevelChecker(settings).check(item())


async def test_a_client_of_either_kind_refuses_before_it_sends_and_says_what_to_do(
    policy: Path, settings: Settings
) -> None:
    say(policy, MemoryLevel.SESSION)
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="x")
    # Nothing listens at this broker: what is sent would be a MemoryConnectionError.
    with MemoryClient.from_settings(settings) as client, pytest.raises(MemoryInputError) as caught:
        client.store("ada", request)
    async with AsyncMemoryClient.from_settings(settings) as waiting:
        with pytest.raises(MemoryInputError) as too:
            await waiting.store_many("ada", [request, request])
    assert str(caught.value) == str(too.value)
    for said in ("session_id: is missing", "level session", "Scope(session_id=...)", "`memtend agents set --level`"):
        assert said in str(caught.value)


@pytest.mark.parametrize("level", [MemoryLevel.SESSION, MemoryLevel.PROJECT])
def test_experience_is_refused_where_it_would_outlive_what_ends_memories(
    policy: Path, settings: Settings, sqlite_ledger: LedgerUrls, level: MemoryLevel
) -> None:
    LevelChecker(settings).check_experience("ada")  # there is no policy file
    say(policy, level)
    with pytest.raises(MemoryInputError, match=f"^agent_id: is of level {level}"):
        LevelChecker(settings).check_experience("ada")
    ledger = Ledger.open(sqlite_ledger)
    ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PERSISTENT))
    ledger.close()
    LevelChecker(settings).check_experience("ada")
