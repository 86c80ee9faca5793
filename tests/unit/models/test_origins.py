"""Origins: nothing that is made of several has more authority than its least source, whatever the policy says."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.errors import MemoryChannelError
from memcore.models.origin import (
    AUTHORITIES,
    UNREADABLE,
    Authority,
    Channel,
    Origin,
    Raised,
    Writer,
    authority,
    channels_below,
    current_writer,
    digest_of,
    least_shown,
    may_replace,
    showing_least,
    writing_as,
)

channels = st.sampled_from(Channel)
origins = st.builds(
    Origin,
    channels=st.lists(channels, min_size=1, max_size=3).map(tuple),
    principals=st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple),
)
policies = st.fixed_dictionaries({channel: st.sampled_from(Authority) for channel in Channel})


@given(st.lists(st.none() | origins, min_size=1, max_size=5), policies)
def test_what_is_made_of_several_has_the_least_authority_of_them(
    sources: list[Origin | None], policy: dict[Channel, Authority]
) -> None:
    least = min(authority(each, policy).rank for each in sources)

    assert authority(Origin.of(sources), policy).rank == least


@given(st.lists(origins, min_size=1, max_size=4), st.lists(origins, min_size=1, max_size=4))
def test_the_order_and_grouping_of_sources_change_nothing(first: list[Origin], second: list[Origin]) -> None:
    assert Origin.of([Origin.of(first), Origin.of(second)]) == Origin.of([*second, *first])


@given(origins)
def test_an_origin_is_read_as_it_was_stored(origin: Origin) -> None:
    assert Origin.read(origin.stored()) == origin


@pytest.mark.parametrize(
    "stored", [{"via": ["oracle"]}, {"via": []}, {"via": 3}, {"by": ["key"]}, {"via": ["agent"], "by": 7}]
)
def test_an_origin_of_another_form_is_never_trusted(stored: object) -> None:
    assert Origin.read(stored) == UNREADABLE
    assert authority(UNREADABLE, AUTHORITIES) is Authority.REFERENCE


@pytest.mark.parametrize("stored", [None, "web", 7, ["agent"], {"url": "of somebody else"}])
def test_what_is_no_origin_of_ours_is_none(stored: object) -> None:
    assert Origin.read(stored) is None


@given(channels, channels)
def test_a_writer_claims_at_most_its_limit(limit: Channel, claimed: Channel) -> None:
    order = list(Channel)
    writer = Writer(principal="key", limit=limit)

    if order.index(claimed) >= order.index(limit):
        assert writer.origin(claimed) == Origin(channels=(claimed,), principals=("key",))
        assert AUTHORITIES[limit].reaches(AUTHORITIES[claimed])
    else:
        with pytest.raises(MemoryChannelError, match=f"channel: is {claimed}; {limit} at most"):
            writer.origin(claimed)


def test_a_writer_that_claims_nothing_is_an_agent_or_less() -> None:
    written = {limit: Writer(limit=limit).origin().channels[0] for limit in Channel}

    assert {limit for limit, channel in written.items() if channel is Channel.AGENT} == {
        Channel.PERSON,
        Channel.OPERATOR,
        Channel.AGENT,
    }
    assert all(channel is limit for limit, channel in written.items() if channel is not Channel.AGENT)


@given(origins, channels)
def test_an_import_claims_only_what_its_writer_may(origin: Origin, limit: Channel) -> None:
    writer, key = Writer(limit=limit), Writer(principal="key", limit=limit)

    assert writer.imported(None) == writer.origin()
    if all(map(writer.may_claim, origin.channels)):
        # What is bounded proves no key.
        bounded = ("import",) if origin.principals and limit is not Channel.PERSON else ()
        assert writer.imported(origin) == Origin(channels=origin.channels, principals=(*origin.principals, *bounded))
        assert key.imported(origin).channels == origin.channels
        assert {*key.imported(origin).principals} == {*origin.principals, "key"}
    else:
        for each in (writer, key):
            with pytest.raises(MemoryChannelError, match=f"^origin: is .*; {limit} at most") as error:
                each.imported(origin)
            assert (error.value.field, error.value.limit) == ("origin", limit)


def test_the_channels_below_an_authority_are_those_that_do_not_reach_it() -> None:
    assert channels_below(Authority.INFORM, AUTHORITIES) == {
        Channel.TOOL,
        Channel.DOCUMENT,
        Channel.PEER,
        Channel.IMPORT,
        Channel.SUSPECT,
    }
    assert channels_below(Authority.QUARANTINED, AUTHORITIES) == set()


async def test_tasks_and_threads_of_a_block_write_as_its_writer() -> None:
    tool = Writer(principal="key", limit=Channel.TOOL)

    with writing_as(tool):
        seen = await asyncio.gather(asyncio.to_thread(current_writer), asyncio.create_task(_writer()))

    assert [*seen] == [tool, tool]
    assert current_writer() == Writer()


async def _writer() -> Writer:
    return current_writer()


@pytest.mark.parametrize("channel", list(Channel))
@pytest.mark.parametrize("to", [Authority.INFORM, Authority.INSTRUCT])
def test_a_raised_memory_has_at_least_what_was_decided_and_nothing_made_of_it_has(
    channel: Channel, to: Authority
) -> None:
    raised = Raised(to=to, approval_id="a", digest=digest_of("It rains."))
    origin = Origin(channels=(channel,))

    own, found = authority(origin, AUTHORITIES), authority(origin, AUTHORITIES, raised)

    assert found.rank == max(own.rank, to.rank)
    assert authority(Origin.of([origin, origin]), AUTHORITIES) is own
    # Nobody's words take its place that have less, and it takes no other's for being raised.
    for other in (Origin(channels=(each,)) for each in Channel):
        is_reference = not authority(other, AUTHORITIES).reaches(Authority.INFORM)
        assert may_replace(other, origin, AUTHORITIES, raised=raised) is not is_reference
        assert may_replace(origin, other, AUTHORITIES) is (
            own.reaches(Authority.INFORM) or own.reaches(authority(other, AUTHORITIES))
        )


def test_a_reader_is_shown_nothing_below_its_own_least() -> None:
    with writing_as(Writer(principal="key", least=Authority.INFORM)):
        assert least_shown() is least_shown(Authority.QUARANTINED) is Authority.INFORM
        assert least_shown(Authority.INSTRUCT) is Authority.INSTRUCT
        with showing_least(Authority.REFERENCE):
            assert least_shown() is Authority.INFORM
    with writing_as(Writer(principal="key", limit=Channel.OPERATOR, least=Authority.REFERENCE)):
        assert least_shown(Authority.QUARANTINED) is Authority.REFERENCE
