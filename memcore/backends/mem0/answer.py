"""The answer to one search: what was found, its scores, its evidence, and what of it is shown."""

from collections.abc import Callable, Iterable, Mapping

from memcore.backends.current import newer_first
from memcore.backends.evidence import (
    MOST_JUDGED,
    Candidate,
    Evidence,
    best_of,
    evidence_of,
    needed_share,
    weight_of_time,
    words_found,
)
from memcore.backends.fusion import led
from memcore.backends.mem0.points import Found, successor_of, to_entry, to_remark
from memcore.backends.neighbours import among_neighbours
from memcore.backends.when import AskedRange, in_time
from memcore.models.answers import MemoryScores, MemoryWhy, Shown, Standing
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.records import SUCCESSION_KEY


class Answer:
    """What was found for a query, best first by a score; each payload is read once, and only when it is asked for.

    ``final`` has the scores: the similarities, until they are fused with the words.
    """

    def __init__(self, points: Iterable[Found], near: Mapping[str, float], *, asked: AskedRange | None = None) -> None:
        self._asked = asked
        self._points = {one.memory_id: one for one in points}
        self._near = near
        self._read: dict[str, MemoryEntry | None] = {}
        self._candidates: dict[str, Candidate | None] = {}
        self._rank({key: min(1.0, max(0.0, near.get(key, 0.0))) for key in self._points})

    def _rank(self, scores: Mapping[str, float]) -> None:
        self.final = dict(scores)
        self._keys = sorted(self._points, key=self.final.__getitem__, reverse=True)

    def fuse(self, question: str, words: Mapping[str, float], *, dense_weight: float) -> None:
        """Score by meaning and by words, with what neighbours and names add."""
        remarks = {key: to_remark(one) for key, one in self._points.items()}
        fused = led(question, self._near, words, self._first_of, dense_weight=dense_weight)
        self._rank(among_neighbours(question, fused, remarks))

    def put_in_time(self, question: str, *, noise: float) -> None:
        """Raise the scores of the memories of the asked time."""
        if (asked := self._asked) is not None:
            read = ((key, self._entry(key)) for key in self._keys)
            nearness = {key: asked.nearness(entry) for key, entry in read if entry is not None}
            weight = weight_of_time(question, asked, self._first_of(self.final), noise=noise)
            self._rank(in_time(self.final, nearness, weight, own_gain=asked.gain, soon_gain=asked.soon_gain))

    def put_newer_first(self, question: str) -> None:
        """Change the scores so that no outdated memory is before the one that replaced it."""
        replaced = (key for key, one in self._points.items() if one.payload.get(SUCCESSION_KEY))
        first = dict.fromkeys((*self._keys[:MOST_JUDGED], *replaced, *self._successors()))
        judged = {key: entry for key in first if (entry := self._entry(key)) is not None}
        raised = newer_first(question, {key: self.final[key] for key in judged}, judged, asked=self._asked)
        self._rank({**self.final, **raised})

    def _successors(self) -> Iterable[str]:
        named = (successor_of(one) for one in self._points.values())
        return (key for key in named if key in self._points)

    def evidence(self, question: str, *, noise: float) -> dict[str, Evidence]:
        """Return the evidence of the first memories."""
        judged = {key: candidate for key in self._keys[:MOST_JUDGED] if (candidate := self._candidate(key)) is not None}
        found = evidence_of(question, [*judged.values()], noise=noise, asked=self._asked)
        return dict(zip(judged, found, strict=True))

    def why(
        self, question: str, evidence: Mapping[str, Evidence], *, least: float, read_as: str | None
    ) -> Callable[[str], MemoryWhy]:
        """Return what says why a memory stands as it does."""
        best, needed, best_evidence = self.final[self._keys[0]], needed_share(self.final), best_of([*evidence.values()])
        place_of = {key: place for place, key in enumerate(self._keys, start=1)}

        def why_of(key: str) -> MemoryWhy:
            candidate, own = self._candidate(key), evidence.get(key)
            return MemoryWhy(
                words=() if candidate is None else words_found(question, candidate),
                word_share=0.0 if own is None else own.words,
                meaning=0.0 if own is None else own.meaning,
                alone=0.0 if own is None else own.alone,
                is_of_time=candidate is not None and candidate.is_in_time,
                place=place_of[key],
                share=self.final[key] / best if best else 0.0,
                needed=needed,
                evidence=best_evidence,
                needed_evidence=least,
                read_as=read_as,
            )

        return why_of

    def _first_of(self, scores: Mapping[str, float]) -> list[Candidate]:
        first = sorted(scores, key=scores.__getitem__, reverse=True)[:MOST_JUDGED]
        return [candidate for key in first if (candidate := self._candidate(key)) is not None]

    def _candidate(self, key: str) -> Candidate | None:
        if key not in self._candidates:
            near, entry = self._near.get(key), self._entry(key)
            self._candidates[key] = None if entry is None else Candidate.of(entry, near, self._asked)
        return self._candidates[key]

    def best(
        self,
        query: MemoryQuery,
        relevance: Mapping[str, float],
        scores_of: Callable[[str], MemoryScores],
        *,
        standings: Mapping[str, Standing] | None = None,
        shown: Shown = Shown.ANY,
    ) -> tuple[MemoryEntry, ...]:
        """Return so many entries as the query asks for, with relevance and scores, which are made for these alone."""
        found: list[MemoryEntry] = []
        for key in self._keys:
            # Reading a payload is dear, and most candidates are read for nothing; equals of the last one may still win.
            is_full = len(found) >= query.limit and self.final[key] < self.final[found[-1].id]
            if is_full or relevance[key] < query.min_relevance:
                break
            standing = None if standings is None else standings[key]
            if standing is not None and not shown.has(standing):
                continue
            scores = scores_of(key)
            if query.min_scores is not None and not scores.reach(query.min_scores):
                continue
            if (entry := self._entry(key)) is not None:
                more = {"relevance_score": relevance[key], "scores": scores, "standing": standing}
                found.append(entry.known_at(query.as_of).model_copy(update=more))
        # Not by the relevance: it is 0 for all where nothing speaks for any.
        found.sort(key=lambda each: (-self.final[each.id], -each.last_stated_at.timestamp(), each.id))
        return tuple(found[: query.limit])

    def _entry(self, key: str) -> MemoryEntry | None:
        if key not in self._read:
            self._read[key] = to_entry(self._points[key])
        return self._read[key]
