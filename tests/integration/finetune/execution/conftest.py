"""The executors under test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stage_executors import InEngine, InStubEngine, OnThisMachine, Place, stub_place


@pytest.fixture(params=["process", "stub-engine", pytest.param("engine", marks=pytest.mark.service)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    match request.param:
        case "process":
            yield OnThisMachine(tmp_path)
        case "stub-engine":
            with stub_place(tmp_path) as found:
                yield found
        case _:
            if not os.environ.get("MEMTEND_TEST_DOCKER"):
                pytest.skip("MEMTEND_TEST_DOCKER is not set")
            yield InEngine(tmp_path)


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[InStubEngine]:
    with stub_place(tmp_path) as found:
        yield found
