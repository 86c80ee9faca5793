"""Qdrant filters of Where and MemoryQuery; only this module decides which points are an agent's."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from qdrant_client.models import (
    Condition,
    FieldCondition,
    Filter,
    HasIdCondition,
    IsEmptyCondition,
    MatchAny,
    MatchValue,
    PayloadField,
    Range,
)

from memcore.backends.mem0.points import (
    CHANNELS,
    COMPARED_BY,
    HOLDS_FROM,
    HOLDS_UNTIL,
    LESSON,
    NOTED_BY,
    PRINCIPALS,
    REPLACED_AT,
    Key,
    archive_owner,
)
from memcore.models.distrust import DistrustRule
from memcore.models.memory import (
    SHARED_OWNER,
    Excluded,
    MemoryQuery,
    excluded_agents,
    memory_ids,
    require_agent_id,
    require_owner_id,
)
from memcore.models.origin import Channel
from memcore.records import ATTRIBUTES_KEY, CALLER_KEY, SUPERSEDES_KEY, Where

#: In seconds. Times are whole microseconds, and every bound is put between two of them: a store that reads the last
#: digit of a float differently in a payload and in a filter would otherwise lose a memory at the edge of a range.
_HALF_A_MICROSECOND = 5e-7

#: Most values of one condition of an erasure.
_MOST_VALUES = 1_000


def owned(agent_id: str, *conditions: Condition, but_not: Sequence[Condition] = ()) -> Filter:
    """Return the filter for this agent's points that meet all conditions; every filter of an agent is made of it."""
    return _of_owner(require_owner_id(agent_id), conditions, but_not)


def shared(*conditions: Condition, but_not: Sequence[Condition] = ()) -> Filter:
    """Return the filter for shared knowledge of any version and publisher."""
    return _of_owner(SHARED_OWNER, conditions, but_not)


def archived(agent_id: str, *conditions: Condition, but_not: Sequence[Condition] = ()) -> Filter:
    """Return the filter for the copies of this agent's archived memories that meet all conditions."""
    return _of_owner(archive_owner(require_agent_id(agent_id)), conditions, but_not)


def of_copies(*, summaries: Collection[str] = (), originals: Collection[str] = ()) -> list[Condition]:
    """Return a condition for the copies under these summaries, and one for those of these memories."""
    under = _any_of(Key.ARCHIVED_UNDER, summaries or None)
    return under + _any_of(Key.ARCHIVED_ORIGINAL, originals or None)


def of_owners(owners: Sequence[str]) -> Filter:
    """Return the filter for all points of these owners, archived copies too, for copying to another collection."""
    return _of_owner((*owners, *map(archive_owner, owners)), (), ())


def narrower(wide: Filter, *conditions: Condition, but_not: Sequence[Condition] = ()) -> Filter:
    """Return one of these filters, with its owner, narrowed by further conditions."""
    must: Any = wide.must
    must_not: Any = wide.must_not or ()
    return wide.model_copy(update={"must": [*must, *conditions], "must_not": [*must_not, *but_not] or None})


def of_where(where: Where, *, apart: Sequence[Condition] = ()) -> Filter:
    """Return the filter for what a Where means, without what meets any of the conditions ``apart``."""
    must = [
        *_any_of(Key.CATEGORY, where.categories),
        *_any_of(Key.NAMESPACE, where.namespaces),
        *(_equal(Key.TAGS, tag) for tag in where.tags),
        *_range(Key.CREATED_TS, at_least=where.created_since, below=where.created_before),
        *_range(Key.EXPIRES_TS, at_most=where.expires_by),
        *([] if where.ids is None else [with_ids(memory_ids(where.ids))]),
        *_present(Key.SESSION_ID, where.session_id),
        *_present(Key.PROJECT_ID, where.project_id),
        *_present(Key.TASK_ID, where.task_id),
        *([] if where.outside is None else [without(Key(where.outside))]),
        *([] if where.lessons is not False else [without(LESSON)]),
        *_present(Key.CLAIM, where.token),
        *_any_of(CALLER_KEY, where.keys),
        *_any_of(SUPERSEDES_KEY, where.supersedes),
        *_with_attributes(where.attributes),
    ]
    must_not: list[Condition] = [*apart, *([without(LESSON)] if where.lessons else [])]
    if where.unnoted_by is not None:
        must_not.append(_with_attribute(NOTED_BY, where.unnoted_by))
    if where.uncompared_by is not None:
        must_not.append(_with_attribute(COMPARED_BY, where.uncompared_by))
    if where.without_tags:
        must_not.append(FieldCondition(key=Key.TAGS.value, match=MatchAny(any=list(where.without_tags))))
    if where.without_ids:
        must_not.append(with_ids(memory_ids(where.without_ids)))
    return owned(where.agent_id, *must, but_not=must_not)


def of_erased(agent_id: str, *, published: Collection[str], tag: str, peers: Collection[str]) -> list[Filter]:
    """Return the filters for all that an erasure of an agent removes.

    Its memories and the copies of archived ones; what it has published, by its name or under these ids; and copies of
    its lessons, by their tag, that these peers have.
    """
    found = [
        _of_owner((agent_id, archive_owner(agent_id)), (), ()),
        _of_owner(SHARED_OWNER, (_equal(Key.SHARED_BY, agent_id),), ()),
    ]
    if published:
        found.append(_of_owner(SHARED_OWNER, (with_ids(published),), ()))
    if peers:
        owners = tuple(sorted({*peers, *map(archive_owner, peers)}))
        found.append(_of_owner(owners, (_equal(Key.TAGS, tag),), ()))
    return found


def of_erased_person(
    agent_id: str, *, subject: str, user_id: str | None, archived_ids: Collection[str]
) -> list[Filter]:
    """Return the filters for an agent's memories of one person, and the copies of archived ones.

    They are those of the person's namespace, and those that mem0 filed under the person's ``user_id``; a copy does not
    say the latter, and is found by the ids of what was archived.
    """
    owners = (agent_id, archive_owner(agent_id))
    found = [_of_owner(owners, (_equal(Key.NAMESPACE, subject),), ())]
    if user_id is not None:
        found.append(_of_owner(owners, (_with_attribute(f"{ATTRIBUTES_KEY}.mem0.user_id", user_id),), ()))
        if user_id not in owners:
            # Under its own name an agent has all of its memories, whoever they are about.
            found.append(_of_owner(owners, (_equal(Key.USER_ID, user_id),), ()))
    ordered = sorted(archived_ids)
    parts = (ordered[at : at + _MOST_VALUES] for at in range(0, len(ordered), _MOST_VALUES))
    return found + [archived(agent_id, *of_copies(originals=part)) for part in parts]


def expired(now: datetime) -> list[Condition]:
    """Return the condition that an entry's expiry has come."""
    return _range(Key.EXPIRES_TS, at_most=now)


def has_expired(payload: Mapping[str, Any] | None, now: datetime) -> bool:
    """Return whether a point has expired, as the condition of :func:`expired` does in the store."""
    at = (payload or {}).get(Key.EXPIRES_TS)
    if at is None:  # most have none, and what follows is dear
        return False
    return isinstance(at, int | float) and not isinstance(at, bool) and at <= now.timestamp() + _HALF_A_MICROSECOND


def with_ids(ids: Collection[str]) -> Condition:
    """Return the condition that a point has one of these ids, each a UUID; with none of them, nothing meets it."""
    return HasIdCondition(has_id=sorted(ids))


def without(key: str) -> Condition:
    """Return the condition that a point lacks the key, or has it empty."""
    return IsEmptyCondition(is_empty=PayloadField(key=str(key)))


def created(*, after: float | None = None, exactly: float | None = None, before: float | None = None) -> Condition:
    """Return the condition on the creation time, in epoch seconds as the payload holds them."""
    low = _later(after) if after is not None else _sooner(exactly)
    high = _sooner(before) if before is not None else _later(exactly)
    return FieldCondition(key=Key.CREATED_TS.value, range=Range(gt=low, lt=high))


def _of_owner(owner: str | tuple[str, ...], conditions: Sequence[Condition], but_not: Sequence[Condition]) -> Filter:
    owned_by = _equal(Key.AGENT_ID, owner) if isinstance(owner, str) else _any_of(Key.AGENT_ID, owner)[0]
    return Filter(must=[owned_by, *conditions], must_not=list(but_not) or None)


def _asked(query: MemoryQuery) -> tuple[Condition, ...]:
    return (
        *_any_of(Key.CATEGORY, query.categories),
        *_any_of(Key.NAMESPACE, query.namespaces),
        *(_equal(Key.TAGS, tag) for tag in query.tags),
        *_range(Key.CREATED_TS, at_least=query.since, below=query.until),
        *_range(Key.CREATED_TS, at_most=query.as_of),
        *_with_attributes(query.attributes),
    )


def _held(query: MemoryQuery, standing: Collection[str] = ()) -> tuple[Condition, ...]:
    """Return the conditions of what did not hold at the time of the query; the standing are not superseded."""
    if query.as_of is None:
        return ()
    at = _later(query.as_of.timestamp())
    return (
        FieldCondition(key=HOLDS_FROM, range=Range(gt=at)),
        FieldCondition(key=HOLDS_UNTIL, range=Range(lte=at)),
        Filter(
            must=[FieldCondition(key=REPLACED_AT, range=Range(lte=at))],
            must_not=[with_ids(standing)] if standing else None,
        ),
    )


def _hidden(query: MemoryQuery, raised: Collection[str] = ()) -> list[Condition]:
    """Return the conditions of what came through the channels that a query hides, but for what is raised."""
    through = _through(query.hidden_channels)
    if not through or not raised:
        return through
    return [Filter(should=through, must_not=[with_ids(memory_ids(raised)), *of_copies(originals=raised)])]


def _through(channels: Collection[Channel]) -> list[Condition]:
    if not channels:
        return []
    older = [without(CHANNELS)] if Channel.UNKNOWN in channels else []
    return [*_any_of(CHANNELS, channels), *older]


def of_distrusted(rules: Sequence[DistrustRule], ids: Collection[str]) -> list[Condition]:
    """Return the conditions of what an agent's rules take, and of memories with these ids, or copies of them."""
    return [*map(_taken, rules), *([with_ids(memory_ids(ids)), *of_copies(originals=ids)] if ids else [])]


def of_published(rules: Sequence[DistrustRule]) -> list[Condition]:
    """Return the conditions of what these rules take of shared knowledge, which is its publisher's."""
    return [narrower(_taken(each), *_present(Key.SHARED_BY, each.agent_id)) for each in rules]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedView:
    """How searches see shared knowledge.

    Attributes:
        apart: the conditions of what they do not find.
        returned: the ids of what was retracted, and they find again.
    """

    apart: Sequence[Condition] = ()
    returned: Collection[str] = ()


WHOLE = SharedView()


def _taken(rule: DistrustRule) -> Filter:
    channel = () if rule.channel is None else (Filter(should=_through([rule.channel])),)
    return Filter(
        must=[
            *channel,
            *([] if rule.principal is None else _any_of(PRINCIPALS, [rule.principal])),
            *_present(Key.SOURCE, rule.source),
            *_present(Key.SESSION_ID, rule.session_id),
            *([] if rule.memory_id is None else [with_ids(memory_ids([rule.memory_id]))]),
            *_range(Key.CREATED_TS, at_least=rule.since, below=rule.until),
        ]
    )


def _with_attributes(wanted: Mapping[str, Any]) -> list[Condition]:
    """Return the conditions on attributes; a number is a range, because a store matches whole ones alone."""
    return [_with_attribute(f"{ATTRIBUTES_KEY}.{path}", value) for path, value in sorted(wanted.items())]


def _with_attribute(key: str, value: Any) -> Condition:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return FieldCondition(key=key, range=Range(gte=value, lte=value))
    return FieldCondition(key=key, match=MatchValue(value=value))


def _up_to(key: Key, version: int) -> Condition:
    return FieldCondition(key=key.value, range=Range(lte=version))


def _equal(key: Key, value: str) -> Condition:
    return FieldCondition(key=key.value, match=MatchValue(value=value))


def _present(key: Key, value: str | None) -> list[Condition]:
    return [] if value is None else [_equal(key, value)]


def _any_of(key: str, values: Collection[str] | None) -> list[Condition]:
    if values is None:
        return []
    if not values:
        # "Any of none" is nothing; an empty list of values is not sure to mean that to every store.
        return [with_ids(())]
    return [FieldCondition(key=str(key), match=MatchAny(any=sorted(map(str, values))))]


def _range(
    key: Key, *, at_least: datetime | None = None, below: datetime | None = None, at_most: datetime | None = None
) -> list[Condition]:
    if at_least is None and below is None and at_most is None:
        return []
    return [
        FieldCondition(
            key=key.value,
            range=Range(gt=_sooner(_seconds(at_least)), lt=_sooner(_seconds(below)), lte=_later(_seconds(at_most))),
        )
    ]


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _sooner(seconds: float | None) -> float | None:
    return None if seconds is None else seconds - _HALF_A_MICROSECOND


def _later(seconds: float | None) -> float | None:
    return None if seconds is None else seconds + _HALF_A_MICROSECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    """The filters of one owner's memories, and of those that a query may find, expired or not (``asked``).

    How rare a word is, is counted over ``everything``: other agents' texts neither change a ranking nor show in it.
    Lists that are ranked together count over the same.
    """

    owner: str
    everything: Filter
    asked: Filter

    @classmethod
    def of_agent(
        cls,
        agent_id: str,
        query: MemoryQuery,
        *,
        beside_archived: bool = False,
        standing: Collection[str] = (),
        apart: Sequence[Condition] = (),
        raised: Collection[str] = (),
    ) -> Self:
        """Return the scope of one agent's own memories, to be ranked alone or with its archived ones.

        Without those that meet any of the conditions ``apart``; what is ``raised`` hides no channel.
        """
        everything = of_owners([agent_id]) if beside_archived else owned(agent_id)
        asked = owned(agent_id, *_asked(query), but_not=(*_held(query, standing), *_hidden(query, raised), *apart))
        return cls(owner=agent_id, everything=everything, asked=asked)

    @classmethod
    def of_archived(
        cls, agent_id: str, query: MemoryQuery, *, apart: Sequence[Condition] = (), raised: Collection[str] = ()
    ) -> Self:
        """Return the scope of the copies of an agent's archived memories; the rest as of an agent's own."""
        asked = archived(agent_id, *_asked(query), but_not=(*_held(query), *_hidden(query, raised), *apart))
        return cls(owner=archive_owner(agent_id), everything=of_owners([agent_id]), asked=asked)

    @classmethod
    def of_shared(
        cls,
        query: MemoryQuery,
        *,
        version: int,
        exclude_agent: Excluded = None,
        publisher: str | None = None,
        view: SharedView = WHOLE,
    ) -> Self:
        """Return the scope of shared knowledge as it was at a version: what was published and not retracted by then.

        It is without what an agent published itself, or has what one name published alone.
        """
        ended: Condition = _up_to(Key.SHARED_UNTIL, version)
        if view.returned:
            ended = Filter(must=[ended], must_not=[with_ids(view.returned)])
        everything = shared(_up_to(Key.SHARED_SINCE, version), but_not=[ended])
        unasked = tuple(_equal(Key.SHARED_BY, agent_id) for agent_id in sorted(excluded_agents(exclude_agent)))
        asked = narrower(
            everything,
            *_asked(query),
            *_present(Key.SHARED_BY, publisher),
            but_not=(*unasked, *_held(query), *_hidden(query), *view.apart),
        )
        return cls(owner=SHARED_OWNER, everything=everything, asked=asked)

    def within(self, since: datetime, until: datetime) -> Self:
        """Return the scope of what was created from ``since`` up to before ``until``."""
        return replace(self, asked=narrower(self.asked, *_range(Key.CREATED_TS, at_least=since, below=until)))

    def narrowed(self, *, now: datetime | None) -> Filter:
        """Return the filter of what the query may find; without a time also of what has expired (has_expired)."""
        return self.asked if now is None else narrower(self.asked, but_not=expired(now))
