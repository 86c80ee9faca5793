"""The effect of each policy key: one scene under two policies that differ in that key alone.

A new key needs one line in the table of its scene: ``"memory.x.y": Effect(scene, value)``. A scene is a function from a
place and a policy to something that compares, made by the code that workers and engines run; it must give the same
result twice.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from memcore.backends.inmemory import InMemoryBackend
from memcore.company import SharedConnections
from memcore.config.loader import load_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.ledger.ledger import Ledger
from memcore.records import MemoryRecord
from support.job_contexts import RecordingDispatcher
from support.ledger_records import copied_urls
from support.maintenance_fixture import TurnedClock
from workers.context import WorkerContext, WorkerContexts

COMPANY = "acme"
AGENT = "ada"


@dataclass(frozen=True, kw_only=True)
class Place:
    """An unused folder with a migrated, empty ledger."""

    folder: Path
    template: Path

    def settings(self, **more: object) -> Settings:
        urls = copied_urls(self.template, self.folder)
        given = {
            "broker_url": "redis://127.0.0.1:1/0",
            "database_url": urls.ledger,
            "journal_url": urls.journal,
            "qdrant_url": "http://127.0.0.1:1",
            "home": self.folder,
            "company": COMPANY,
        }
        return Settings.model_validate({**given, **more})


#: Returns what happens under a policy.
Scene = Callable[[Place, Policy], object]


@dataclass(frozen=True)
class Effect:
    """How the effect of a key is observed.

    Attributes:
        see: the scene.
        value: what the key is changed to.
        given: other keys that both policies have, by their dotted names.
        also: keys that a valid policy must change together with this one.
        at: the key that is written, where it holds the one in question, as a list of rules does.
    """

    see: Scene
    value: object
    given: Mapping[str, object] = field(default_factory=dict)
    also: Mapping[str, object] = field(default_factory=dict)
    at: str | None = None

    def changes(self, key: str) -> Mapping[str, object]:
        return {**self.given, **self.also, self.at or key: self.value}


def policy_of(values: Mapping[str, object]) -> Policy:
    """Load the policy of a file with these keys, by their dotted names."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        section = tree
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return load_policy(yaml.safe_dump(tree))


def read(policy: Policy, key: str) -> object:
    """Return the value of a dotted key; None where a section on the way is left out."""
    value: object = policy
    for name in key.split("."):
        value = getattr(value, name, None)
    return value


@dataclass(kw_only=True)
class ContextFixture:
    """The context of a worker as production makes it, but for a store in memory and the model of a test."""

    job_context: WorkerContext
    backend: InMemoryBackend
    clock: TurnedClock
    dispatcher: RecordingDispatcher
    folder: Path

    @property
    def ledger(self) -> Ledger:
        return self.job_context.ledger

    async def keep(self, *records: MemoryRecord) -> None:
        await self.backend.store_many(records)


@contextmanager
def context_fixture(
    place: Place, policy: Policy, *, model: object = None, store: type[InMemoryBackend] = InMemoryBackend
) -> Iterator[ContextFixture]:
    """Open a worker's context for a policy."""
    settings, clock, dispatcher = place.settings(), TurnedClock(), RecordingDispatcher()
    backend = store(company=COMPANY, clock=clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memcore.company.create_worker_backend", lambda *_args, **_given: backend)
        patch.setattr("memcore.company.create_model", lambda *_args, **_given: model)
        shared = SharedConnections.open(settings, policy, dispatcher, clock=clock)
        with closing(WorkerContexts(lambda: shared)) as contexts, contexts.of(settings.company) as job_context:
            yield ContextFixture(
                job_context=job_context, backend=backend, clock=clock, dispatcher=dispatcher, folder=place.folder
            )
