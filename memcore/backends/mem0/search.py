"""What reads a collection: by id, by filter and in order; by meaning and by keywords in one round trip."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient
from qdrant_client.models import Condition, Direction, Filter, OrderBy, Record

from memcore.backends.evidence import (
    DEFAULT_MIN_EVIDENCE,
    MOST_JUDGED,
    absolute,
    best_of,
    showing,
    standings,
)
from memcore.backends.fusion import Hit, RankedLists
from memcore.backends.mem0.answer import Answer
from memcore.backends.mem0.filters import (
    SearchScope,
    archived,
    created,
    expired,
    has_expired,
    narrower,
    of_where,
    owned,
    with_ids,
)
from memcore.backends.mem0.points import (
    ENTRY_KEYS,
    SPARSE,
    Found,
    Key,
    as_json,
    ask,
    successor_of,
    text_of,
    to_entry,
    to_records,
    to_remark,
)
from memcore.backends.mem0.writer import Indexing, embedding, statement
from memcore.backends.protocol import MAX_PAGE
from memcore.backends.time_ranges import Hemisphere
from memcore.backends.when import AskedRange, asked_range, subject_of
from memcore.embedding.bm25 import SparseVector, Tokenizer, relevance_of
from memcore.embedding.calibration import noise_of
from memcore.embedding.spelling import doubtful, respelled, spellings
from memcore.errors import MemoryInputError
from memcore.models.answers import MemoryScores, Shown
from memcore.models.memory import MemoryEntry, MemoryQuery, memory_ids, zone_of
from memcore.records import ArchivedCopy, Facet, MemoryRecord, Page, Vectors, Where
from memcore.telemetry import tracing

# Qdrant's ordered scroll has no cursor and breaks ties as it likes; its scroll by id has a cursor and no order. So
# the pages follow the creation time, and a group of memories of one time that a page would cut is read by id.


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a scan: all memories before this time are read, and those of this time up to the id."""

    at: float
    memory_id: str | None = None

    def __str__(self) -> str:
        return f"{self.at!r} {self.memory_id or ''}".rstrip()

    @classmethod
    def parse(cls, cursor: str) -> "Position":
        """Read a cursor back; MemoryInputError when it is none of ours."""
        at, _, memory_id = cursor.partition(" ")
        try:
            return cls(float(at), memory_id or None)
        except ValueError:
            raise MemoryInputError("cursor", "must be one that a page of the same scan gave") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """Reads one page after another of what a filter finds."""

    client: QdrantClient
    collection: str
    narrowed: Filter
    direction: Direction = Direction.ASC
    with_vectors: bool = False

    def page(self, after: Position | None, limit: int) -> tuple[list[Record], Position | None]:
        """Return up to ``limit`` points that follow the position, and the position to go on from if there are more."""
        found: list[Record] = []
        if after is not None and after.memory_id is not None:
            found = self._of_one_time(after.at, after.memory_id, limit + 1)
        # One more than a page: it tells whether there is another page, and whether this one cuts a group of one time.
        while (wanted := limit + 1 - len(found)) > 0:
            rows = self._in_order(None if after is None else after.at, wanted)
            if len(rows) < wanted:
                return found + sorted(rows, key=self._rank), None
            cut = _time(rows[-1])
            found += sorted((row for row in rows if _time(row) != cut), key=self._rank)
            if len(found) == limit:
                return found, Position(_time(found[-1]))
            found += self._of_one_time(cut, None, limit + 1 - len(found))
            after = Position(cut)
        page, following = found[:limit], found[limit]
        last = page[-1]
        is_cut = _time(last) == _time(following)
        return page, Position(_time(last), str(last.id) if is_cut else None)

    def _in_order(self, after: float | None, limit: int) -> list[Record]:
        conditions: list[Condition] = []
        if after is not None:
            conditions = [created(after=after) if self.direction is Direction.ASC else created(before=after)]
        rows, _ = self.client.scroll(
            self.collection,
            scroll_filter=narrower(self.narrowed, *conditions),
            limit=limit,
            order_by=OrderBy(key=Key.CREATED_TS.value, direction=self.direction),
            with_payload=True,
            with_vectors=self.with_vectors,
        )
        return rows

    def _of_one_time(self, at: float, after_id: str | None, limit: int) -> list[Record]:
        rows, _ = self.client.scroll(
            self.collection,
            scroll_filter=narrower(self.narrowed, created(exactly=at)),
            limit=limit + 1,
            offset=after_id,
            with_payload=True,
            with_vectors=self.with_vectors,
        )
        # The offset is the first id to return, and it was returned before.
        return [row for row in rows if row.id != after_id][:limit]

    def _rank(self, row: Record) -> tuple[float, str]:
        at = _time(row)
        return at if self.direction is Direction.ASC else -at, str(row.id)


def _time(row: Record) -> float:
    return float((row.payload or {})[Key.CREATED_TS.value])


#: Values asked for at once when a key's values are listed: more than nearly every agent has sessions.
_VALUES = 1_000


#: Fewest candidates of a list that is to be fused; 100 measured no better (docs/benchmarks/2026-11.md).
_CANDIDATES = 50

#: Memories that are looked at for the spelling of a word, and the share of a question's words below which they are.
_SPELLED, _LOST = 10, 0.25

#: Successors of successors that are looked for.
_MOST_SUCCESSIONS = 4

#: How long an agent's searches use the expiry filter at once, after one had to be repeated: until the next maintenance
#: run removes what has expired, nearly every search would be made twice.
_FILTER_FOR = timedelta(minutes=5)

#: Agents for which that is remembered: a megabyte of ids.
_MOST_FILTERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """The way in which text queries are answered: by vectors and keywords (hybrid), or the vectors alone.

    Attributes:
        has_keywords: False finds nothing by keywords, whoever asks for them.
        has_words_of_dense: ask for the BM25 scores of what meaning found too: one more query of the same trip. It gains
            0.002 NDCG@10 with a transformer, and nothing with the static embedder (docs/benchmarks/2026-11.md).
        min_evidence: from what evidence of the best on memories are strong, where a query does not say it.
        shown: which memories are shown, where a query does not say it.
        time_zone: of questions that name a time and do not say their own.
        hemisphere: of the seasons that questions name.
    """

    is_hybrid: bool = True
    dense_weight: float = 0.4
    has_keywords: bool = True
    has_words_of_dense: bool = False
    min_evidence: float = DEFAULT_MIN_EVIDENCE
    shown: Shown = Shown.WEAK
    time_zone: str = "UTC"
    hemisphere: Hemisphere = "north"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The vectors of a text query, None for a list that is not asked, and the range of time that it names."""

    text: str
    dense: NDArray[np.float32] | None
    sparse: dict[str, Any] | None
    asked: AskedRange | None = None

    @property
    def subject(self) -> str:
        """The text without the time that it asks for."""
        return subject_of(self.text, self.asked)


@dataclass(slots=True)
class _Lists:
    """The lists of one search scope, and the scores of their hits in the other list: similarities, and BM25."""

    dense: list[Found] = field(default_factory=list)
    sparse: list[Found] = field(default_factory=list)
    cosines: list[Found] = field(default_factory=list)
    words: list[Found] = field(default_factory=list)

    def drop_expired(self, now: datetime) -> None:
        """Leave out what has expired."""
        self.dense = [one for one in self.dense if not has_expired(one.payload, now)]
        self.sparse = [one for one in self.sparse if not has_expired(one.payload, now)]

    def put_beside(self, payloads: Mapping[str, dict[str, Any]]) -> None:
        """Put these memories, which replaced others, right behind them, with their scores."""
        near = _scores(self.cosines)
        similar = [one._replace(score=near[one.memory_id]) for one in self.sparse if one.memory_id in near]
        self.cosines += [each for each in _followed(similar, payloads) if each.memory_id in payloads]
        self.dense, self.sparse = _followed(self.dense, payloads), _followed(self.sparse, payloads)

    def add(self, others: "_Lists") -> None:
        """Add what stands in other lists of the same question, by score."""
        for mine, theirs in (
            (self.dense, others.dense),
            (self.sparse, others.sparse),
            (self.cosines, others.cosines),
            (self.words, others.words),
        ):
            known = {one.memory_id for one in mine}
            mine += [one for one in theirs if one.memory_id not in known]
            mine.sort(key=lambda one: one.score, reverse=True)

    def ids(self) -> frozenset[str]:
        """Return what stands in the lists."""
        return frozenset(one.memory_id for one in (*self.dense, *self.sparse))

    def similarities(self) -> dict[str, float]:
        """Return every cosine that is known of what stands in the lists."""
        worded = _scores(self.sparse)
        return {key: score for key, score in _scores(self.cosines).items() if key in worded} | _scores(self.dense)

    def bm25(self) -> dict[str, float]:
        """Return every BM25 score that is known of what stands in the lists."""
        near = _scores(self.dense)
        return {key: score for key, score in _scores(self.words).items() if key in near} | _scores(self.sparse)


class Reader:
    """Reads one collection with a sync client: by id, by filter, by text. No search finds what has expired.

    A filter on the expiry costs the store two thirds more time for an agent of 20,000. So the first query of a search
    goes without it, and expired memories are dropped here. Only when a list may have lost places by that, the query is
    repeated with the filter.
    """

    def __init__(self, client: QdrantClient, collection: str, *, indexing: Indexing, plan: SearchPlan) -> None:
        self._client = client
        self._collection = collection
        self._indexing = indexing
        self._embedder = indexing.embedder
        self._encoder = indexing.encoder
        self._tokenizer = Tokenizer()
        self._space = indexing.identity.label
        self._plan = plan
        self._filtered_until: dict[str, datetime] = {}
        self._noise: float | None = None

    def planned(self, plan: SearchPlan) -> "Reader":
        """Return a reader of the same collection that answers text queries by another plan."""
        made = copy(self)
        made._plan = plan  # noqa: SLF001  # one of its own kind
        return made

    def document_vectors(self, entries: Sequence[MemoryEntry]) -> list[Vectors]:
        return self._indexing.vectors(entries) if entries else []

    def query_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [self._embedder.embed_query(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self._embedder.dims), dtype=np.float32)

    def exists(self) -> bool:
        return self._client.collection_exists(self._collection)

    def get(self, agent_id: str, memory_id: str, *, now: datetime) -> MemoryEntry | None:
        found = self._with_ids(
            owned(agent_id, with_ids(memory_ids([memory_id])), but_not=expired(now)), 1, with_vectors=False
        )
        return found[0].entry if found else None

    def get_many(self, agent_id: str, ids: Sequence[str], *, with_vectors: bool) -> tuple[MemoryRecord, ...]:
        wanted = memory_ids(ids)
        found: dict[str, MemoryRecord] = {}
        for at in range(0, len(wanted), MAX_PAGE):
            chunk = wanted[at : at + MAX_PAGE]
            records = self._with_ids(owned(agent_id, with_ids(chunk)), len(chunk), with_vectors=with_vectors)
            found.update((record.entry.id, record) for record in records)
        return tuple(found[memory_id] for memory_id in wanted if memory_id in found)

    def count(self, where: Where, *, apart: Sequence[Condition] = ()) -> int:
        return self._client.count(self._collection, count_filter=of_where(where, apart=apart), exact=True).count

    def scopes(self, where: Where, scope: Facet, *, apart: Sequence[Condition] = ()) -> frozenset[str]:
        limit, narrowed = _VALUES, of_where(where, apart=apart)
        while True:
            found = self._client.facet(self._collection, key=scope, facet_filter=narrowed, limit=limit, exact=True).hits
            # The store has no cursor here: a full answer may have been cut, so more are asked for.
            if len(found) < limit:
                return frozenset(str(hit.value) for hit in found)
            limit *= 8

    def scan(
        self,
        where: Where,
        *,
        cursor: str | None,
        limit: int,
        with_vectors: bool,
        apart: Sequence[Condition] = (),
    ) -> Page:
        narrowed = of_where(where, apart=apart)
        pager = Pager(client=self._client, collection=self._collection, narrowed=narrowed, with_vectors=with_vectors)
        after = None if cursor is None else Position.parse(cursor)
        rows, following = pager.page(after, max(1, min(limit, MAX_PAGE)))
        records = tuple(to_records(rows, space=self._space))
        return Page(records=records, cursor=None if following is None else str(following))

    def _with_ids(self, narrowed: Filter, limit: int, *, with_vectors: bool) -> list[MemoryRecord]:
        # A scroll, not a retrieve by id: only a scroll takes the owner's filter.
        rows, _ = self._client.scroll(
            self._collection, scroll_filter=narrowed, limit=limit, with_payload=True, with_vectors=with_vectors
        )
        return to_records(rows, space=self._space)

    def by_text(self, scope: SearchScope, query: MemoryQuery, *, now: datetime) -> tuple[MemoryEntry, ...]:
        """Return the best entries first, each with its standing, or the newest when the query has no text.

        Relevance is the evidence of the best, less for what ranks behind it, or of vectors alone their similarity.
        """
        if query.text is None:
            narrowed = scope.narrowed(now=now)
            pager = Pager(client=self._client, collection=self._collection, narrowed=narrowed, direction=Direction.DESC)
            rows, _ = pager.page(None, query.limit)
            return tuple(record.entry.known_at(query.as_of) for record in to_records(rows))
        # Nearly no more by meaning than are wanted: what is behind these, and not among the keywords' hits, whose
        # similarity is known without this list, is behind them in the sum too. Not so when its words count as well.
        dense = _least(query) if self._plan.has_words_of_dense else max(query.limit, MOST_JUDGED)
        question, (found,) = self._found(
            [scope],
            query.text,
            query.time_zone,
            has_sparse=self._plan.is_hybrid,
            now=now,
            dense=dense,
            sparse=_least(query),
        )
        near, words = found.similarities(), found.bm25()
        answer = Answer([*found.dense, *found.sparse], near, asked=question.asked)
        if self._plan.is_hybrid:
            answer.fuse(question.subject, words, dense_weight=self._plan.dense_weight)
        answer.put_in_time(question.text, noise=self._noised())
        if self._plan.is_hybrid:
            answer.put_newer_first(question.text)
        evidence = answer.evidence(question.text, noise=self._noised())
        best = best_of([*evidence.values()])
        least = self._plan.min_evidence if query.min_evidence is None else query.min_evidence
        final = answer.final
        relevance = {key: absolute(score, best) for key, score in final.items()} if self._plan.is_hybrid else final

        def scores_of(key: str) -> MemoryScores:
            return MemoryScores(semantic=near.get(key), keyword=_keyword(words.get(key)), final=final[key])

        found_standings = standings(final, evidence, least=least)
        shown = self._plan.shown if query.standing is None else query.standing
        found_entries = answer.best(
            query, relevance, scores_of, standings=found_standings, shown=showing(found_standings.values(), shown)
        )
        if not query.explain or not found_entries:
            return found_entries
        read_as = None if question.text == query.text else question.text
        why_of = answer.why(question.text, evidence, least=least, read_as=read_as)
        return tuple(each.model_copy(update={"why": why_of(each.id)}) for each in found_entries)

    def by_words(self, scope: SearchScope, query: MemoryQuery, *, now: datetime) -> tuple[MemoryEntry, ...]:
        """Return the best keyword hits first, none without a text; relevance is s / (1 + s) of the BM25 score s."""
        if query.text is None:
            return ()
        sparse = self._words(query.text) if self._plan.has_keywords else None
        question = _Question(text=query.text, dense=None, sparse=sparse)
        (found,), _ = self._asked([scope], question, now=now, dense=0, sparse=_least(query))
        relevance = {key: relevance_of(max(0.0, score)) for key, score in _scores(found.sparse).items()}

        def scores_of(key: str) -> MemoryScores:
            return MemoryScores(keyword=relevance[key], final=relevance[key])

        return Answer(found.sparse, relevance).best(query, relevance, scores_of)

    def rankings(
        self,
        own: SearchScope,
        others: SearchScope | None,
        query: MemoryQuery,
        *,
        now: datetime,
        archive: SearchScope | None = None,
    ) -> RankedLists:
        """Return the lists themselves: an agent's own memories, the shared, the archived; empty without a text."""
        if query.text is None:
            return RankedLists()
        least = _least(query)
        scopes = [scope for scope in (own, others, archive) if scope is not None]
        question, found = self._found(
            scopes, query.text, query.time_zone, has_sparse=self._plan.has_keywords, now=now, dense=least, sparse=least
        )
        if archive is not None:
            self._drop_abandoned(found[-1], own.owner, known=found[0].ids(), now=now)
        lists = [_hits(one, as_of=query.as_of) for one in found]
        shared_dense, shared_sparse = ((), ()) if others is None else lists[1]
        archived_dense, archived_sparse = ((), ()) if archive is None else lists[-1]
        return RankedLists(
            dense=lists[0][0],
            sparse=lists[0][1],
            shared_dense=shared_dense,
            shared_sparse=shared_sparse,
            archived_dense=archived_dense,
            archived_sparse=archived_sparse,
            dense_weight=self._plan.dense_weight,
            noise=self._noised(),
            asked=question.asked,
            question=question.text,
        )

    def _noised(self) -> float:
        # With the first question: a process that only writes asks none.
        if self._noise is None:
            self._noise = noise_of(self._embedder)
        return self._noise

    def _drop_abandoned(self, found: _Lists, agent_id: str, *, known: Collection[str], now: datetime) -> None:
        """Leave out the archived memories whose summary is not in the store any more, or has expired."""
        under = {str(one.payload.get(Key.ARCHIVED_UNDER)) for one in (*found.dense, *found.sparse)}
        there = set(known)
        # Most stand in the agent's own lists, so this is asked for few of them, and by their ids.
        if missing := sorted(under - there):
            rows, _ = self._client.scroll(
                self._collection,
                scroll_filter=owned(agent_id, with_ids(memory_ids(missing)), but_not=expired(now)),
                limit=len(missing),
                with_payload=False,
            )
            there |= {str(row.id) for row in rows}
        found.dense = [one for one in found.dense if one.payload.get(Key.ARCHIVED_UNDER) in there]
        found.sparse = [one for one in found.sparse if one.payload.get(Key.ARCHIVED_UNDER) in there]

    def archived(self, agent_id: str) -> tuple[ArchivedCopy, ...]:
        """Return every copy of an agent's, without vectors, by its archival id."""
        found, offset = list[Record](), None
        while True:
            rows, offset = self._client.scroll(
                self._collection, scroll_filter=archived(agent_id), limit=MAX_PAGE, offset=offset, with_payload=True
            )
            found += rows
            if offset is None:
                break
        return tuple(
            ArchivedCopy(
                archival_id=str(row.id), summary_id=str((row.payload or {})[Key.ARCHIVED_UNDER]), record=record
            )
            for row in sorted(found, key=lambda row: str(row.id))
            for record in to_records([row])
        )

    def _question(
        self, text: str, time_zone: str | None, *, has_sparse: bool, now: datetime, is_whole: bool = False
    ) -> _Question:
        zone, hemisphere = zone_of(time_zone or self._plan.time_zone), self._plan.hemisphere
        asked = asked_range(text, now, zone=zone, hemisphere=hemisphere)
        if is_whole and asked is not None:
            asked = replace(asked, rest=None)
        subject = subject_of(text, asked)
        with tracing.span(f"embeddings {self._embedder.name}", embedding(self._embedder, texts=1)):
            vector = self._embedder.embed_query(subject if any(map(str.isalnum, subject)) else text)
        # A zero vector is as near to everything as to nothing: its list would be noise.
        return _Question(
            text=text,
            dense=vector if np.any(vector) else None,
            sparse=self._words(subject) if has_sparse else None,
            asked=asked,
        )

    def _words(self, text: str) -> dict[str, Any] | None:
        return _as_query(self._encoder.encode_query(text))

    def _found(
        self,
        scopes: Sequence[SearchScope],
        text: str,
        time_zone: str | None,
        *,
        has_sparse: bool,
        now: datetime,
        dense: int,
        sparse: int,
    ) -> tuple[_Question, list[_Lists]]:
        """Ask a question, and once more where memories spell a word of it otherwise: as they do."""
        question = self._question(text, time_zone, has_sparse=has_sparse, now=now)
        lists, is_there = self._asked(scopes, question, now=now, dense=dense, sparse=sparse)
        if question.subject != text and not is_there:
            # Nothing is of that time, so its words may be those of an answer.
            question = self._question(text, time_zone, has_sparse=has_sparse, now=now, is_whole=True)
            lists, _ = self._asked(scopes, question, now=now, dense=dense, sparse=sparse)
        if question.sparse is None or (meant := self._respelled(question, scopes, lists, now=now)) == text:
            return question, lists
        is_whole = question.asked is not None and question.asked.rest is None
        question = self._question(meant, time_zone, has_sparse=has_sparse, now=now, is_whole=is_whole)
        return question, self._asked(scopes, question, now=now, dense=dense, sparse=sparse)[0]

    def _respelled(
        self, question: _Question, scopes: Sequence[SearchScope], lists: Sequence[_Lists], *, now: datetime
    ) -> str:
        text, said = question.text, [text_of(one) for each in lists for one in each.sparse]
        words, share = doubtful(question.subject, said, tokenizer=self._tokenizer)
        if not words:
            return text
        near = [text_of(one) for each in lists for one in each.dense]
        if (meant := respelled(text, words, [*said, *near])) != text or share >= _LOST:
            return meant
        # Nearly nothing of the question is found: only then its cost, another query, is worth while.
        vector = self._encoder.encode_words(each for word in words for each in spellings(word))
        query = {"query": _as_query(vector), "using": SPARSE, "limit": _SPELLED, "with_payload": [Key.DATA.value]}
        queries = [{**query, "filter": as_json(scope.narrowed(now=now))} for scope in scopes]
        found = [text_of(one) for each in ask(self._client, self._collection, queries) for one in each]
        return respelled(text, words, found)

    def _asked(
        self, scopes: Sequence[SearchScope], question: _Question, *, now: datetime, dense: int, sparse: int
    ) -> tuple[list[_Lists], bool]:
        """Query every scope at once; return the lists, and whether a memory of the asked time is there.

        Where expired memories took places, the query is repeated with the expiry filter. A question that names a
        range of time is asked within it too, or what fits by its time alone is not found.
        """
        own, asked = len(scopes), question.asked
        if asked is not None:
            scopes = [*scopes, *(scope.within(asked.start, asked.end) for scope in scopes)]
        known = [now if self._filtered_until.get(scope.owner, now) > now else None for scope in scopes]
        lists = self._run_queries(scopes, question, known, dense=dense, sparse=sparse)
        short = [at for at, one in enumerate(lists) if _lost(one.dense, dense, now) or _lost(one.sparse, sparse, now)]
        if short:
            for at in short:
                if len(self._filtered_until) >= _MOST_FILTERED:
                    self._filtered_until.clear()
                self._filtered_until[scopes[at].owner] = now + _FILTER_FOR
            again = self._run_queries(
                [scopes[at] for at in short], question, [now] * len(short), dense=dense, sparse=sparse
            )
            for at, one in zip(short, again, strict=True):
                lists[at] = one
        for one in lists:
            one.drop_expired(now)
        for one, within in zip(lists, lists[own:], strict=False):
            one.add(within)
        for one, scope in zip(lists[:own], scopes, strict=False):
            self._add_successors(one, scope, now=now)
        return lists[:own], any(one.ids() for one in lists[own:])

    def _add_successors(self, found: _Lists, scope: SearchScope, *, now: datetime) -> None:
        """Put what replaced a memory that was found beside it: its own words may be none of the question's."""
        for _ in range(_MOST_SUCCESSIONS):
            known = found.ids()
            named = {successor_of(one) for one in (*found.dense, *found.sparse)}
            missing = memory_ids(each for each in named if each is not None and each not in known)
            # Most questions find nothing that was replaced, and wait for nothing here.
            if not missing:
                return
            rows, _ = self._client.scroll(
                self._collection,
                scroll_filter=narrower(scope.narrowed(now=now), with_ids(missing)),
                limit=len(missing),
                with_payload=[*ENTRY_KEYS],
            )
            if not rows:
                return
            found.put_beside({str(row.id): row.payload or {} for row in rows})

    def _run_queries(
        self,
        scopes: Sequence[SearchScope],
        question: _Question,
        known: Sequence[datetime | None],
        *,
        dense: int,
        sparse: int,
    ) -> list[_Lists]:
        """Make one round trip; ``known`` holds for each scope the time of its expiry filter, or None."""
        lists = [_Lists() for _ in scopes]
        queries: list[dict[str, Any]] = []
        takers: list[list[Found]] = []
        for one, scope, by in zip(lists, scopes, known, strict=True):
            narrowed = as_json(scope.narrowed(now=by))
            if question.dense is not None and dense:
                queries.append(
                    {"query": question.dense, "limit": dense, "filter": narrowed, "with_payload": ENTRY_KEYS}
                )
                takers.append(one.dense)
            if question.sparse is None:
                continue
            words = {
                "query": question.sparse,
                "using": SPARSE,
                "limit": sparse,
                "filter": narrowed,
                "params": {"idf": {"corpus": as_json(scope.everything)}},
            }
            queries.append({**words, "with_payload": ENTRY_KEYS})
            takers.append(one.sparse)
            if question.dense is not None and dense:
                queries.append({"query": question.dense, "prefetch": [words], "limit": sparse})
                takers.append(one.cosines)
                if self._plan.has_words_of_dense:
                    near = {"query": question.dense, "limit": dense, "filter": narrowed}
                    asked = {key: words[key] for key in ("query", "using", "params")}
                    queries.append({**asked, "prefetch": [near], "limit": dense})
                    takers.append(one.words)
        with tracing.span(f"query {self._collection}", statement("query", self._collection), kind="client"):
            answers = ask(self._client, self._collection, queries) if queries else []
        for take, points in zip(takers, answers, strict=True):
            take.extend(points)
        return lists


def _as_query(vector: SparseVector) -> dict[str, Any] | None:
    return {"indices": vector.indices, "values": vector.values} if vector else None


def _least(query: MemoryQuery) -> int:
    return max(_CANDIDATES, query.limit)


def _lost(points: Sequence[Found], limit: int, now: datetime) -> bool:
    """Return whether expired memories may have kept others out of a list."""
    return len(points) >= limit > 0 and any(has_expired(one.payload, now) for one in points)


def _followed(points: Sequence[Found], payloads: Mapping[str, dict[str, Any]]) -> list[Found]:
    """Return the points, each memory that was replaced with its successor behind it, of those that are given."""
    found: list[Found] = []
    seen: set[str] = set()
    for one in points:
        found.append(one)
        successor = successor_of(one)
        if successor is not None and successor in payloads and successor not in seen:
            seen.add(successor)
            found.append(Found(successor, one.score, payloads[successor]))
    return found


def _scores(points: Iterable[Found]) -> dict[str, float]:
    return {one.memory_id: one.score for one in points}


def _hits(lists: _Lists, *, as_of: datetime | None) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    # Many stand in both lists, and reading a payload is dear.
    read = {one.memory_id: one for one in (*lists.dense, *lists.sparse)}
    entries = {key: entry.known_at(as_of) for key, one in read.items() if (entry := to_entry(one)) is not None}
    remarks = {key: to_remark(read[key], agent_id=entry.agent_id) for key, entry in entries.items()}
    cosines, words = lists.similarities(), lists.bm25()

    def hits(points: Iterable[Found]) -> tuple[Hit, ...]:
        return tuple(
            Hit(
                entry=entries[one.memory_id],
                score=one.score,
                cosine=cosines.get(one.memory_id),
                bm25=words.get(one.memory_id),
                summary_id=one.payload.get(Key.ARCHIVED_UNDER),
                remark=remarks[one.memory_id],
            )
            for one in points
            if one.memory_id in entries
        )

    return hits(lists.dense), hits(lists.sparse)


def _keyword(score: float | None) -> float | None:
    return None if score is None else relevance_of(max(0.0, score))
