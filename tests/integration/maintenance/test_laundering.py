"""The bench of laundering for a day: nothing wins with origins, and all that no door refuses wins without them."""

import pytest
from benchmarks.origins.run import ATTACKS, OFF, played
from benchmarks.origins.texts import ORDERS

from memcore.models.origin import AUTHORITIES


@pytest.mark.slow(because="twelve attacks of thirty texts each")
async def test_nothing_that_a_tool_said_is_shown_above_its_origin() -> None:
    found = await played(dict(AUTHORITIES), days=1)
    assert {name: each.above for name, each in found.items()} == {attack.name: 0 for attack in ATTACKS}
    assert {each.refused + each.for_reference >= len(ORDERS) for each in found.values()} == {True}
    merging = [attack.name for attack in ATTACKS if attack.merges != "dedupe"]
    assert all(found[name].merged for name in merging), "nothing was merged, and so nothing was tried"


@pytest.mark.slow(because="twelve attacks of thirty texts each")
async def test_without_origins_all_of_it_is() -> None:
    found = await played(OFF, days=1)
    assert {name: each.above for name, each in found.items() if not each.refused} == {
        attack.name: len(ORDERS) for attack in ATTACKS if not found[attack.name].refused
    }
