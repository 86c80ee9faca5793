"""A crash at every single call of a compression: one memory an experience, one bill a question, nothing left raw."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.experiences import experience
from support.fake_teacher import FakeTeacher
from support.fault_injection import AT_CALLS, Crash, Faults
from support.ledger_records import copied_urls
from support.memories import NOW
from support.wiki_fixture import COMPANY, WikiFixture

from memcore.config.maintenance import ConsolidationConfig
from memcore.experience import CompressionService
from memcore.jobs import Done
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.learning.experiences import ExperienceCounts
from memcore.models.memory import MemoryLevel
from memcore.records import Where

POLICY = ConsolidationConfig.model_validate({"experience_compressor": {"enabled": True}})

#: A wave of several, then a wave of one.
EXPERIENCES = 5


def service(library: WikiFixture, model: FakeTeacher, faults: Faults) -> CompressionService:
    return CompressionService(
        faults.backend(library.backend),
        faults.ledger(library.ledger),
        POLICY,
        company=COMPANY,
        level=MemoryLevel.PERSISTENT,
        model=faults.watched(model, "model"),
        clock=library.clock,
    )


#: Between the two an answer is on its way into the ledger: the question is put again, under its key, and a provider
#: that knows the key sends no second bill.
ON_ITS_WAY = {"model.ask", "answers.finish"}


@pytest.mark.parametrize("is_after", AT_CALLS)
async def test_after_a_crash_anywhere_the_next_attempt_ends_it(
    folder: Path, ledger_template: Path, record_property: Callable[[str, object], None], *, is_after: bool
) -> None:
    points, is_over = 0, False
    while not is_over:
        library = WikiFixture(copied_urls(ledger_template, folder / str(points)), folder)
        await library.backend.connect()
        for i in range(EXPERIENCES):
            library.ledger.experiences.append(COMPANY, experience(f"e{i}", prompt="The import failed. " * 40))
        library.ledger.compressions.request_for(COMPANY, "ada")
        # One experience gets no answer that can be read, so that both ways to be marked are on the way.
        model = FakeTeacher(script=[None, "no JSON", None, None, "none again"])
        faults = Faults(points, is_after=is_after)
        try:
            await service(library, model, faults).run("ada")
            is_over = True
        except Crash:
            points += 1
        # The dead worker's question is free again; its message comes back long after.
        library.clock.now = NOW + LEASE_LENGTH
        library.ledger.compressions.request_for(COMPANY, "ada")
        assert isinstance((await service(library, model, Faults()).run("ada")).outcome, Done)

        kept = (await library.backend.scan(Where(agent_id="ada"))).records
        counts = library.ledger.experiences.count(COMPANY, "ada")
        library.ledger.close()
        where = faults.calls[points - 1] if points else ""
        sources = Counter(each.entry.metadata.source for each in kept)
        assert set(sources.values()) == {1}, f"more than one memory of an experience after {where}"
        assert counts == ExperienceCounts(total=EXPERIENCES, raw=0, compressed=len(kept)), where
        assert len(kept) in {EXPERIENCES - 1, EXPERIENCES}
        assert len(model.paid) == len(model.keys), "each key is billed once by a provider that knows it"
        assert set(model.keys.values()) == {1} or where in ON_ITS_WAY, f"asked twice after {where}"
    assert points >= 30
    record_property("points", points)
    print(f"{points} points")  # noqa: T201  # how much was tried
