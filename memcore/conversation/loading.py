"""What is remembered of a person, before a reply: facts and sessions by meaning and by words, and all rules."""

import asyncio
import math
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from memcore import ids
from memcore.backends.fusion import weighted
from memcore.backends.protocol import MemoryBackend, vector_backend_of
from memcore.clock import Clock, utc_now
from memcore.config.conversation import ConversationConfig
from memcore.conversation.entries import LoadReason, TurnContext, searched_text
from memcore.embedding.bm25 import Tokenizer
from memcore.errors import MemoryConnectionError
from memcore.ledger.conversation.memory import Embedded, Searchable
from memcore.ledger.erasure.hidden import Hidden
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import Arc, Fact, Owner, ProfileRule
from memcore.models.memory import require_prompt
from memcore.models.origin import AUTHORITIES, Authority, Channel, least_shown
from memcore.retrieval.protocol import Failure, Source, degrade, noting_degraded

#: Share of a question's words that an entry must have to be found by words; or so many of them, where they are this
#: share of the entry's own. The reference's values.
LEAST_RECALL, LEAST_SHARED, LEAST_OF_RECORD = 0.33, 2, 0.4

#: Least cosine of what is found by meaning, the reference's value.
LEAST_COSINE = 0.5

#: Facts and sessions of all owners that are kept in the process; with vectors of 1,024 numbers about 150 MB when full.
MAX_CACHED_ENTRIES = 20_000

#: Sessions that are known to have begun, some 200 bytes each.
_MAX_SESSIONS = 10_000

#: Makes the connected backend whose embedder is asked.
BackendOpener = Callable[[], Awaitable[MemoryBackend]]


class Index:
    """The facts or the sessions of an owner, to be ranked; in the order in which they were written."""

    def __init__(self, found: Sequence[Searchable], tokenizer: Tokenizer) -> None:
        self._found = found
        self._tokenizer = tokenizer
        #: By term, the places of the entries that have it.
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        #: Of each entry, how many different words it has.
        self._sizes: list[int] = []
        vectors: defaultdict[tuple[str, int], list[tuple[int, NDArray[np.float32]]]] = defaultdict(list)
        for place, each in enumerate(found):
            plain, further = tokenizer.both_terms(searched_text(each.entry))
            self._sizes.append(len(set(plain)))
            for term in {*plain, *further}:
                self._places[term].append(place)
            if each.embedded is not None:
                vectors[each.embedded.space, each.embedded.vector.size].append((place, each.embedded.vector))
        #: By space and width, the places of the entries that have vectors there, and one row of unit length for each.
        self._vectors = {
            key: (np.array([place for place, _ in rows]), _unit(np.stack([vector for _, vector in rows])))
            for key, rows in vectors.items()
        }

    def __len__(self) -> int:
        return len(self._found)

    def best(
        self,
        question: str,
        embedded: Embedded | None,
        *,
        shown: int,
        dense_weight: float = 0.0,
        among: Collection[int] | None = None,
    ) -> list[int]:
        """Return the places of the entries that a question is about, best first, weighed as the store weighs memories.

        The reference fuses ranks instead: on LoCoMo that finds .436 where this finds .518 (NDCG@10,
        tests/benchmarks/talking.py).

        Args:
            question: what the person said.
            embedded: its vector; None for words alone.
            shown: the most places returned.
            dense_weight: the share of the vectors.
            among: the only places that may be found; None for all.
        """
        words, cosines = self._by_words(question), self._by_meaning(embedded)
        near = {place: cosine for place, cosine in cosines.items() if cosine >= LEAST_COSINE}
        known = {place: cosines[place] for place in words if place in cosines}
        scores = weighted({**near, **known}, words, dense_weight=dense_weight)
        allowed = (place for place in scores if among is None or place in among)
        return sorted(allowed, key=lambda place: (-scores[place], place))[:shown]

    def _by_words(self, question: str) -> dict[int, float]:
        """Return what an entry has of a question's words, where that is enough; rare words count more."""
        words = set(self._tokenizer.query_forms(question))
        shared, worth = Counter[int](), defaultdict[int, float](float)
        for forms in words:
            having = {place for form in forms for place in self._places.get(form, ())}
            shared.update(having)
            rarity = math.log1p((len(self) - len(having) + 0.5) / (len(having) + 0.5))
            for place in having:
                worth[place] += rarity
        return {
            place: worth[place]
            for place, count in shared.items()
            if count / len(words) >= LEAST_RECALL
            or (count >= LEAST_SHARED and count / self._sizes[place] >= LEAST_OF_RECORD)
        }

    def _by_meaning(self, embedded: Embedded | None) -> dict[int, float]:
        if embedded is None or (embedded.space, embedded.vector.size) not in self._vectors:
            return {}
        places, rows = self._vectors[embedded.space, embedded.vector.size]
        cosines = rows @ _unit(embedded.vector[np.newaxis])[0]
        return dict(zip(places.tolist(), cosines.tolist(), strict=True))


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    # A text without meaning to the model has the zero vector, which is near nothing.
    return (rows / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """An owner's memory at a version: facts and arcs in the order in which they were written."""

    version: int
    facts: tuple[Fact, ...]
    arcs: tuple[Arc, ...]
    rules: tuple[ProfileRule, ...]
    fact_index: Index
    arc_index: Index

    @property
    def size(self) -> int:
        return len(self.facts) + len(self.arcs) + len(self.rules)


def _reaches(kept: Fact | ProfileRule | Arc, least: Authority) -> bool:
    return kept.authority is not None and kept.authority.reaches(least)


class _Cache:
    """The memory of the owners that were asked for last; thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._loaded: OrderedDict[Owner, _Loaded] = OrderedDict()
        self._size = 0

    def get(self, owner: Owner, *, version: int) -> _Loaded | None:
        """Return what is known of an owner, if it is of this version."""
        with self._lock:
            loaded = self._loaded.get(owner)
            if loaded is None or loaded.version != version:
                return None
            self._loaded.move_to_end(owner)
            return loaded

    def put(self, owner: Owner, loaded: _Loaded) -> None:
        """Keep it instead of what was known of the owner, and as many of the others as there is space for."""
        with self._lock:
            # An owner of whom nothing is kept takes space too.
            self._drop(owner)
            self._loaded[owner] = loaded
            self._size += loaded.size + 1
            while self._size > self._most:
                self._drop(next(iter(self._loaded)))

    def _drop(self, owner: Owner) -> None:
        if (loaded := self._loaded.pop(owner, None)) is not None:
            self._size -= loaded.size + 1


class TurnLoader:
    """Loads what is remembered of the people that the agents of a company talk to. Thread-safe.

    What an owner's memory holds is kept in the process until it changes: a load then costs one short query.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        company: str,
        config: ConversationConfig,
        clock: Clock = utc_now,
        max_cached_entries: int = MAX_CACHED_ENTRIES,
        authorities: Mapping[Channel, Authority] = AUTHORITIES,
    ) -> None:
        self._ledger = ledger
        self._authorities = authorities
        self._company = company
        self._config = config
        self._clock = clock
        self._tokenizer = Tokenizer()
        self._cache = _Cache(max_cached_entries)
        self._begun: OrderedDict[str, None] = OrderedDict()

    async def load_turn(
        self,
        owner: Owner,
        text: str,
        *,
        session_id: str | None = None,
        token_budget: int = 1_000,
        is_first_turn: bool | None = None,
        open_backend: BackendOpener | None,
    ) -> TurnContext:
        """Return what is remembered of a person that a turn is about.

        Args:
            owner: whose memory.
            text: what the person says now.
            session_id: the session; with it, ``is_first_turn`` need not be given.
            token_budget: the most tokens of the context's text.
            is_first_turn: whether the session begins; None finds out whether a turn of it was recorded.
            open_backend: makes the backend that gives the text its vector, where there is something to rank; None
                compares words alone.

        Raises MemoryInputError for a negative budget, and MemoryConnectionError where the ledger cannot be reached. An
        embedder that fails is done without.
        """
        require_prompt(text, token_budget)
        loaded, is_first, hidden = await asyncio.to_thread(self._read, owner, session_id, is_first_turn)
        if loaded is None:
            return TurnContext(reasons=(LoadReason.RECALL_OFF,), token_budget=token_budget)
        since, least = self._clock() - timedelta(days=self._config.arc_days), least_shown()

        def is_shown(kept: Fact | Arc | ProfileRule) -> bool:
            return _reaches(kept, least) and not hidden.distrusts_origin(owner.agent_id, kept.origin)

        trusted = {place for place, fact in enumerate(loaded.facts) if is_shown(fact)}
        known = [place for place, arc in enumerate(loaded.arcs) if is_shown(arc)]
        recent = {place for place in known if loaded.arcs[place].ended_at >= since}
        embedded: Embedded | None = None
        dense_weight, reasons = 0.0, tuple[LoadReason, ...]()
        failed: list[Failure] = []
        has_any = bool(loaded.facts or (recent and self._config.arcs_shown))
        if open_backend is not None and text.strip() and has_any:
            with noting_degraded() as failed:
                embedded, dense_weight, reasons = await self._embedded(owner, text, open_backend)
        shown_arcs = [loaded.arcs[place] for place in known] if is_first else []
        latest = max(shown_arcs, key=lambda arc: arc.ended_at, default=None)
        recent -= {place for place, arc in enumerate(loaded.arcs) if arc is latest}
        facts = loaded.fact_index.best(
            text, embedded, shown=self._config.facts_shown, dense_weight=dense_weight, among=trusted
        )
        arcs = loaded.arc_index.best(
            text, embedded, shown=self._config.arcs_shown, dense_weight=dense_weight, among=recent
        )
        return TurnContext(
            facts=tuple(loaded.facts[place] for place in facts),
            rules=tuple(rule for rule in loaded.rules if is_shown(rule)),
            arcs=tuple(loaded.arcs[place] for place in arcs),
            latest_arc=latest,
            reasons=reasons,
            degraded=tuple(each.part for each in failed),
            token_budget=token_budget,
        )

    async def _embedded(
        self, owner: Owner, text: str, open_backend: BackendOpener
    ) -> tuple[Embedded | None, float, tuple[LoadReason, ...]]:
        """Return the text's vector and its weight, or else why there is none; to have no vectors is no failure."""
        try:
            backend = vector_backend_of(await open_backend())
        except MemoryConnectionError as error:
            degrade(error, source=Source.BACKEND, agent_id=owner.agent_id)
            return None, 0.0, (LoadReason.EMBED_FAILED,)
        if backend is None:
            return None, 0.0, ()
        before = backend.vector_space
        try:
            vector = (await backend.query_vectors([text]))[0]
        except Exception as error:  # noqa: BLE001  # whatever an embedder raises: a reply must not fail for it
            degrade(error, source=Source.BACKEND, agent_id=owner.agent_id)
            return None, 0.0, (LoadReason.EMBED_FAILED,)
        # Another embedder may have come to serve meanwhile: which one made the vector is not known then.
        is_known = before is not None and before == backend.vector_space
        return (Embedded(before, vector) if is_known and before else None), backend.dense_weight, ()

    def _read(
        self, owner: Owner, session_id: str | None, is_first_turn: bool | None
    ) -> tuple[_Loaded | None, bool, Hidden]:
        """Return an owner's memory, None where it is not to be shown; whether a session begins; and what is hidden."""
        state, hidden = self._ledger.conversation.state(self._company, owner), self._ledger.hidden.of(self._company)
        if not state.recall or hidden.hides(owner.agent_id, owner.subject):
            return None, False, hidden
        loaded = self._cache.get(owner, version=state.version)
        if loaded is None:
            # What is written between the two reads has a later version: the next load reads again.
            loaded = self._load(owner, state.version)
            self._cache.put(owner, loaded)
        if is_first_turn is None:
            is_first_turn = session_id is not None and self._is_new(owner, session_id)
        return loaded, is_first_turn, hidden

    def _load(self, owner: Owner, version: int) -> _Loaded:
        conversation, company, policy = self._ledger.conversation, self._company, self._authorities
        # Nothing was ever written at version 0.
        facts = conversation.searchable(company, owner) if version else ()
        # They come newest first.
        arcs = conversation.arcs(company, owner)[::-1] if version else ()
        rules = conversation.rules(company, owner) if version else ()
        return _Loaded(
            version=version,
            facts=tuple(each.entry.with_authority(policy) for each in facts if isinstance(each.entry, Fact)),
            arcs=tuple(each.entry.with_authority(policy) for each in arcs if isinstance(each.entry, Arc)),
            # The newest first: where not all fit into a prompt, they are what the person wants now.
            rules=tuple(
                rule.with_authority(policy)
                for rule in sorted(rules, key=lambda rule: rule.last_referenced_at, reverse=True)
            ),
            fact_index=Index(facts, self._tokenizer),
            arc_index=Index(arcs, self._tokenizer),
        )

    def _is_new(self, owner: Owner, session_id: str) -> bool:
        key = ids.session_key(company=self._company, session_id=session_id, **owner.model_dump())
        if key in self._begun:
            return False
        if self._ledger.sessions.get(self._company, key) is None:
            return True
        self._begun[key] = None
        while len(self._begun) > _MAX_SESSIONS:
            self._begun.popitem(last=False)
        return False
