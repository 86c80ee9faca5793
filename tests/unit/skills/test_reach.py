"""The evolver's dependencies: none writes, except the filing of proposals."""

import typing

import pytest
from pydantic import ValidationError

from memcore.config.learning import EvolverConfig
from memcore.skills import candidates as sources
from memcore.skills.evolver import SkillEvolver

#: All that the evolver may call, by what it is handed.
READS = {
    "PatternSource": {"tally", "surest"},
    "TrajectorySource": {"stream", "count"},
    "LessonSource": {"of_failures", "of_successes"},
    "SkillSource": {"stream", "count"},
    "ApprovalSource": {"get", "page"},
    "Sources": {"patterns", "trajectories", "lessons", "skills", "approvals", "shared_log"},
    "Proposals": {"propose"},
    "PublicationLog": {"history"},
}


def _calls(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_it_is_handed_reads_and_one_way_to_propose() -> None:
    protocols = {
        name: kind
        for name, kind in vars(sources).items()
        if getattr(kind, "_is_protocol", False) and kind is not typing.Protocol
    }
    assert {name: _calls(kind) for name, kind in protocols.items()} == READS
    given = typing.get_type_hints(SkillEvolver.__init__)
    assert (given["ledger"], given["approvals"]) == (sources.Sources, sources.Proposals)
    assert set(given) == {"ledger", "approvals", "config", "company", "clock", "return"}


@pytest.mark.parametrize("said", [False, None, "no", 0])
def test_a_persons_word_cannot_be_configured_away(said: object) -> None:
    with pytest.raises(ValidationError, match="requires_human_approval"):
        EvolverConfig.model_validate({"requires_human_approval": said})
