"""What a run of memory tests says: passed, failed with reasons, or an error where the memory gives no answer."""

from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Any
from unicodedata import normalize

import pytest
from support.memories import record

from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.memory_tests.report import MemoryTestReport
from memcore.memory_tests.running import AT_ONCE, MOST_ERRORS, run_memory_tests
from memcore.models.execution import ChatMessage, MessageRole, PreparedMessages
from memcore.models.memory import MAX_CONTENT_BYTES, MemoryEntry
from memcore.models.memory_test import MemoryTest, MemoryTestResult, NamedMemory, Outcome, failures
from memcore.models.origin import Authority
from memcore.remote.calls import LoadedTurn


def remembered(content: str, *, key: str | None = None, authority: Authority | None = Authority.INFORM) -> MemoryEntry:
    return record("oncall", content).entry.model_copy(update={"key": key, "authority": authority})


PAGE = remembered("The payment queue pages at 500 messages.", key="runbook")
FREEZE = remembered("Deploys are frozen on Fridays.", authority=Authority.REFERENCE)
SHOWN = (PAGE, FREEZE)


def asked(name: str = "page", **fields: Any) -> MemoryTest:
    return MemoryTest.model_validate({"name": name, "agent": "oncall", "question": "when does it page?", **fields})


class Memory:
    """Answers every question with the same memories, prompt and person; or fails, as a test says."""

    def __init__(
        self,
        shown: Sequence[MemoryEntry] = SHOWN,
        *,
        prompt: str = "",
        person: str = "",
        degraded: tuple[str, ...] = (),
    ) -> None:
        self.shown = shown
        self.prompt = PreparedMessages.of([ChatMessage(role=MessageRole.SYSTEM, content=prompt)] if prompt else ())
        messages = (ChatMessage(role=MessageRole.SYSTEM, content=person),) if person else ()
        self.person = LoadedTurn(prepared=messages, degraded=degraded)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.fails: Callable[[str], Exception | None] = lambda _question: None
        self._lock = Lock()

    def search(self, agent_id: str, text: str, **filters: Any) -> Sequence[MemoryEntry]:
        with self._lock:
            self.asked.append(("search", {"agent_id": agent_id, "text": text, **filters}))
        if (error := self.fails(text)) is not None:
            raise error
        return self.shown

    def prepare(self, agent_id: str, text: str, **how: Any) -> PreparedMessages:
        self.asked.append(("prepare", {"agent_id": agent_id, "text": text, **how}))
        return self.prompt

    def load_turn(self, agent_id: str, text: str, **about: Any) -> LoadedTurn:
        self.asked.append(("load_turn", {"agent_id": agent_id, "text": text, **about}))
        return self.person


def result(memory: Memory, **fields: Any) -> MemoryTestResult:
    (found,) = run_memory_tests(memory, [asked(**fields)]).results
    return found


@pytest.mark.parametrize(
    "fields",
    [
        {"finds": ["  payment QUEUE\n pages at 500"]},
        {"finds": [{"key": "runbook"}, {"id": FREEZE.id}]},
        {"shows_not": ["pages at 100", {"id": "a"}, {"key": "k"}]},
        {"order": [{"key": "runbook"}, "frozen"]},
        {"finds": [{"pattern": "PAGES  at [0-9]?0"}, {"pattern": "queue*500 m*."}, {"pattern": "at [!1]00"}]},
        {"shows_not": [{"pattern": "pages at ? m"}, {"pattern": "500*queue"}, {"pattern": "Fridays[?]"}]},
        {"order": [{"pattern": "page[a-z] at"}, {"pattern": "DEPLOY? are"}]},
        {"authority": "reference"},
    ],
)
def test_what_is_so_passes(fields: dict[str, Any]) -> None:
    assert list(failures(asked(**fields), SHOWN)) == []


def test_a_text_is_found_however_its_accents_are_coded() -> None:
    shown = (remembered(normalize("NFC", "The café closes.")),)
    (sentence,) = failures(asked(shows_not=[normalize("NFD", "CAFÉ closes")]), shown)
    assert sentence.endswith(f"is shown at place 1: {shown[0].id}")


def test_a_pattern_is_of_one_memory_and_not_of_several_together() -> None:
    pattern = NamedMemory(pattern="pages*friday?")
    assert pattern.is_among((), "frozen\nit pages on fridays")
    assert not pattern.is_among((), "it pages\nfrozen on fridays")
    odd = NamedMemory(pattern="[[]A[]!][!]a]?")
    assert [odd.is_among((), said) for said in ("x[a!bc", "[a]xy", "[a!ab", "[a!]b", "a!bc")] == [True] * 2 + [
        False
    ] * 3


@pytest.mark.parametrize(
    "pattern", ["a" * 97 + "?b", "?a" * 49 + "b", "*a" * 49 + "b", "a*" * 49 + "b", "[ab]*" * 19 + "b?"]
)
def test_no_pattern_takes_long_for_the_longest_memory(pattern: str) -> None:
    longest = remembered("a" * MAX_CONTENT_BYTES)
    began = monotonic()
    (reason,) = failures(asked(finds=[{"pattern": pattern}]), [longest])
    assert (reason.startswith("finds: pattern"), monotonic() - began < 2) == (True, True)


IDS = f"{PAGE.id}, {FREEZE.id}"


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"finds": ["pages at 100"]}, [f"finds: text pages at 100 is not shown; shown: {IDS}"]),
        ({"finds": [{"key": "frozen"}]}, [f"finds: key frozen is not shown; shown: {IDS}"]),
        ({"shows_not": ["frozen"]}, [f"shows_not: text frozen is shown at place 2: {FREEZE.id}"]),
        ({"finds": [{"pattern": "5?1"}]}, [f"finds: pattern 5?1 is not shown; shown: {IDS}"]),
        ({"shows_not": [{"pattern": "fr?z*ri"}]}, [f"shows_not: pattern fr?z*ri is shown at place 2: {FREEZE.id}"]),
        ({"order": ["frozen", "pages"]}, ["order: text pages stands at place 1, and text frozen at place 2"]),
        ({"order": ["frozen", "tea"]}, [f"order: text tea is not shown; shown: {IDS}"]),
        ({"order": ["frozen", "tea", "pages"]}, [
            f"order: text tea is not shown; shown: {IDS}",
            "order: text pages stands at place 1, and text frozen at place 2",
        ]),
        ({"shows_nothing": True}, [f"shows_nothing: shown: {IDS}"]),
        ({"authority": "inform"}, [f"authority: less than inform have: {FREEZE.id}"]),
    ],
)  # fmt: skip
def test_what_is_not_so_fails_with_ids_and_no_text(fields: dict[str, Any], reasons: list[str]) -> None:
    assert list(failures(asked(**fields), SHOWN)) == reasons


def test_where_nothing_is_shown_a_search_finds_nothing_and_shows_nothing() -> None:
    assert list(failures(asked(finds=["x"]), ())) == ["finds: text x is not shown; shown: nothing"]
    assert list(failures(asked(shows_nothing=True), ())) == []
    many = [remembered(f"note {number}") for number in range(7)]
    (sentence,) = failures(asked(shows_nothing=True), many)
    assert sentence.endswith(f"{many[4].id} and 2 more")


def test_an_authority_that_is_not_known_is_too_little() -> None:
    unknown = remembered("x", authority=None)
    assert list(failures(asked(authority="reference"), [unknown])) == [
        f"authority: less than reference have: {unknown.id}"
    ]


def test_a_long_text_is_cut_in_a_reason() -> None:
    (sentence,) = failures(asked(finds=["x " * 500]), ())
    assert len(sentence) < 120


def test_the_question_is_asked_as_the_test_says() -> None:
    memory = Memory()
    found = result(memory, finds=["pages"], limit=3, standing="strong", as_of="2026-05-01T00:00:00Z")
    assert (found.outcome, found.shown) == (Outcome.PASSED, (PAGE.id, FREEZE.id))
    ((_, about),) = memory.asked
    assert about.pop("as_of").isoformat() == "2026-05-01T00:00:00+00:00"
    assert about == {"agent_id": "oncall", "text": "when does it page?", "limit": 3, "standing": "strong"}


def test_a_prompt_has_at_most_so_many_tokens() -> None:
    memory = Memory(prompt="x" * 400)
    assert result(memory, tokens=100).outcome is Outcome.PASSED
    assert result(memory, tokens=99, min_authority="inform").reasons == ("the prompt has 100 tokens, more than 99",)
    assert [name for name, _ in memory.asked] == ["prepare", "prepare"]
    # A part that is missing is no short prompt.
    assert memory.asked[0][1]["require_all"]
    assert memory.asked[1][1]["min_authority"] == "inform"


def test_a_fact_of_a_person_is_remembered() -> None:
    memory = Memory(
        person='<person-memory kind="fact">[identity] User LIVES_IN Porto &lt;3 — "I moved"</person-memory>'
    )
    facts = [{"predicate": "LIVES_IN", "value": "porto <3"}]
    assert result(memory, person="ada", facts=facts).outcome is Outcome.PASSED
    assert memory.asked == [("load_turn", {"agent_id": "oncall", "text": "when does it page?", "user_id": "ada"})]
    for predicate, value in (("LIVES_IN", "Lisbon"), ("LIVES_IN", "Port"), ("IN", "Porto <3"), ("LIVES_IN", "Porto")):
        wrong = result(memory, person="ada", facts=[{"predicate": predicate, "value": value}])
        assert wrong.reasons == (f"facts: {predicate} {value} is not remembered of ada for this question",)


def test_a_memory_that_is_away_is_no_failed_test() -> None:
    memory = Memory()
    memory.fails = lambda _question: MemoryConnectionError("the store does not answer")
    found = result(memory, finds=["pages"])
    assert (found.outcome, found.shown) == (Outcome.ERROR, ())
    assert found.reasons == ("MemoryConnectionError: the store does not answer",)
    facts = [{"predicate": "LIVES_IN", "value": "Porto"}]
    assert result(Memory(degraded=("store",)), person="ada", facts=facts).outcome is Outcome.ERROR


def test_tests_in_a_row_without_an_answer_end_the_asking() -> None:
    memory = Memory()
    memory.fails = lambda _question: MemoryConnectionError("away")
    report = run_memory_tests(memory, [asked(f"{n}", finds=["x"]) for n in range(200)])
    assert report.errors == 200
    assert MOST_ERRORS <= len(memory.asked) <= MOST_ERRORS + AT_ONCE
    assert report.results[-1].reasons == ("not asked, since others had no answer",)


def test_one_wrong_question_ends_nothing() -> None:
    memory = Memory()
    memory.fails = lambda question: MemoryInputError("text", "is odd") if int(question) % 2 else None
    report = run_memory_tests(memory, [asked(f"{n}", question=f"{n}", finds=["pages"]) for n in range(100)], at_once=1)
    assert (report.passed, report.failed, report.errors) == (50, 0, 50)


def test_results_come_in_the_order_of_the_tests_and_as_they_are_known() -> None:
    seen: list[str] = []
    tests = [asked(f"{n}", finds=["pages" if n % 3 else "tea"]) for n in range(30)]
    report = run_memory_tests(Memory(), tests, on_result=lambda each: seen.append(each.name))
    assert seen == [each.name for each in report.results] == [test.name for test in tests]
    assert (report.passed, report.failed, report.errors) == (20, 10, 0)
    assert MemoryTestReport.model_validate_json(report.model_dump_json()) == report
