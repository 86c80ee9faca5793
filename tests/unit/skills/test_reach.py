"""The evolver's dependencies: none writes, except the filing of proposals."""

import typing

import pytest
from pydantic import ValidationError

from memcore.config.learning import EvolverConfig
from memcore.ledger.ledger import Ledger
from memcore.skills.evolver import Proposals, SkillEvolver


def test_it_is_given_no_store_and_one_way_to_propose() -> None:
    given = typing.get_type_hints(SkillEvolver.__init__)
    # What it calls of the ledger is held by every cycle of the tests: support.skill_cycles.ReadOnlyLedger.
    assert (given["ledger"], given["approvals"]) == (Ledger, Proposals)
    assert {name for name in vars(Proposals) if not name.startswith("_")} == {"propose"}
    assert set(given) == {"ledger", "approvals", "config", "company", "clock", "return"}


@pytest.mark.parametrize("said", [False, None, "no", 0])
def test_a_persons_word_cannot_be_configured_away(said: object) -> None:
    with pytest.raises(ValidationError, match="requires_human_approval"):
        EvolverConfig.model_validate({"requires_human_approval": said})
