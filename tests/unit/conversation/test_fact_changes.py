"""What a small model's recorded answers make of facts of people, when what replaces them is said in other words."""

from support.fact_changes import replayed


async def test_a_small_model_takes_nothing_that_holds() -> None:
    found = [*await replayed("seen"), *await replayed("unseen")]
    assert len(found) >= 88
    assert [each for each in found if each.wrong] == []


async def test_more_than_half_of_the_changes_are_superseded_or_wait_for_a_person() -> None:
    """4 and 22 of 44: the target, four of five, is missed. Of the 41 pairs that are listed, 19 hold."""
    found = [*await replayed("seen"), *await replayed("unseen")]
    changes = [each for each in found if each.is_change]
    assert len(changes) >= 44
    assert sum(each.replaced for each in changes) >= 0.09 * len(changes)
    assert sum(each.is_noticed for each in changes) >= 0.59 * len(changes)
    # A list of everything would have all changes too.
    assert sum(len(each.idle) for each in found) < sum(each.listed for each in changes)
